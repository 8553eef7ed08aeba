"""Families that the table of imports lacks: each is imported, compared, and comes back from archir's own file."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import archir
from archir.backends.imports import program_of
from benchmarks.imports import (
    GPT,
    IMAGES,
    SMALL,
    importable,
    of_timm,
    of_transformers,
    picture,
    randomise_statistics,
    round_trip,
)
from tests.torch_backend.importing.test_known_models import MISSING

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

FEW_KEYS = {"num_key_value_heads": 2}
LAYERS = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
TEXTS: dict[str, dict[str, Any]] = {
    "BloomForCausalLM": {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "ConvBertModel": SMALL | {"embedding_size": 32},
    "DebertaModel": SMALL,
    "FalconForCausalLM": SMALL | {"alibi": False},
    "Gemma2ForCausalLM": SMALL | FEW_KEYS | {"head_dim": 8},
    "GPTJForCausalLM": GPT | {"rotary_dim": 4},
    "GPTNeoForCausalLM": {
        "vocab_size": 100, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]],
    },
    "CLIPTextModel": SMALL,
    "GptOssModel": SMALL | FEW_KEYS | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "HeliumForCausalLM": SMALL | {"num_key_value_heads": 4, "head_dim": 8},
    "MambaForCausalLM": {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "MiniMaxM2Model": SMALL | FEW_KEYS | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "MixtralForCausalLM": SMALL | FEW_KEYS | {"num_local_experts": 4},
    "ModernBertModel": SMALL,
    "ModernBertDecoderModel": SMALL,
    "MPNetModel": SMALL,
    "MptForCausalLM": {"vocab_size": 100, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    "OlmoeModel": SMALL | {"num_experts": 4, "num_experts_per_tok": 2},
    "OlmoForCausalLM": SMALL,
    "OPTForCausalLM": {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 64, "num_attention_heads": 4,
        "max_position_embeddings": 64, "word_embed_proj_dim": 32,
    },
    "Phi3ForCausalLM": SMALL,
    "Qwen2MoeForCausalLM": SMALL | FEW_KEYS | {
        "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 32,
    },
    "Qwen3ForCausalLM": SMALL | FEW_KEYS | {"head_dim": 8},
    "T5EncoderModel": {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
}  # fmt: skip
PICTURES: dict[str, tuple[int, dict[str, Any]]] = {
    "BeitForImageClassification": (32, IMAGES),
    "ConvNextV2ForImageClassification": (64, LAYERS),
    "DINOv3ConvNextModel": (64, LAYERS),
    "CvtForImageClassification": (64, {}),
    "HieraModel": (64, {"image_size": [64, 64], "embed_dim": 16, "depths": [1] * 4, "num_heads": [1, 2, 4, 8]}),
    "MobileViTModel": (64, {"image_size": 64}),
    "SegformerForImageClassification": (64, LAYERS | {"decoder_hidden_size": 16}),
    "SwinForImageClassification": (
        64, {"image_size": 64, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    ),
}  # fmt: skip
TIMM = {
    "botnet26t_256": 256, "coatnet_nano_rw_224": 224, "efficientvit_b1": 64, "hiera_tiny_224": 224, "mobileone_s0": 64,
    "nest_tiny": 224, "resnetblur50": 64, "twins_svt_small": 224, "vovnet39a": 64, "xcit_nano_12_p16_224": 224,
}  # fmt: skip
FEW = ("GptOssModel", "T5EncoderModel")


@pytest.mark.parametrize(
    "name",
    [one if one in FEW else pytest.param(one, marks=pytest.mark.soak) for one in (*TEXTS, *PICTURES, *TIMM)],
)
def test_other_model_families_import_and_round_trip(name: str) -> None:
    torch.manual_seed(0)
    example: Any
    if name in TIMM:
        module, example = of_timm(name, {}), picture(TIMM[name])
    elif name in PICTURES:
        module, example = of_transformers(name, PICTURES[name][1]), {"pixel_values": picture(PICTURES[name][0])}
    else:
        module, example = of_transformers(name, TEXTS[name]), {"input_ids": torch.zeros(1, 12, dtype=torch.int64)}
    randomise_statistics(module)
    program = program_of(archir.from_torch(module.eval(), example))  # which compares them
    assert program.lines < 120
    assert round_trip(program) == "yes"


BARE: dict[str, Any] = {"weights": None, "weights_backbone": None}
BODIES = {
    "fasterrcnn_resnet50_fpn": 64, "fasterrcnn_resnet50_fpn_v2": 64, "fasterrcnn_mobilenet_v3_large_fpn": 64,
    "retinanet_resnet50_fpn": 64, "retinanet_resnet50_fpn_v2": 128, "fcos_resnet50_fpn": 64, "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
}  # fmt: skip
SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
VIDEO = {"r3d_18": (32, 8), "mc3_18": (32, 8), "r2plus1d_18": (32, 8), "s3d": (224, 16)}


@pytest.mark.soak
@pytest.mark.parametrize("name", [*BODIES, *SEGMENTATION, *VIDEO])
def test_other_torchvision_models_import_and_round_trip(name: str) -> None:
    """Bodies of detectors, of which boxes are found outside; maps of classes; films."""
    importable()
    from torchvision.models import detection, segmentation, video

    torch.manual_seed(0)
    if name in BODIES:
        module, example = getattr(detection, name)(**BARE).backbone, picture(BODIES[name])
    elif name in VIDEO:
        size, frames = VIDEO[name]
        module, example = getattr(video, name)(), torch.zeros(1, 3, frames, size, size)
    else:
        module, example = getattr(segmentation, name)(**BARE), picture(64)
    randomise_statistics(module)
    program = program_of(archir.from_torch(module.eval(), example))
    assert program.lines < 70
    assert round_trip(program) == "yes"
