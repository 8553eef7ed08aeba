"""Import random models of families that benchmarks/imports.py does not list, and print the result of each.

    python benchmarks/drawn_imports.py timm|torchvision|transformers [NAME ...] [--count 25] [--seed 7] [--rows FILE]

The sampled families are files of timm's models, names of torchvision, and configuration classes of transformers. Of a
file of timm, the model with the fewest parameters is imported; configurations of transformers get the same small sizes.
Given NAMEs are the families instead of a sample. A row is a row of benchmarks/imports.py.
"""

from __future__ import annotations

import argparse
import inspect
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

from benchmarks.imports import (  # noqa: E402
    PICTURES,
    TEXTS,
    TIMM,
    TORCHVISION,
    Case,
    Row,
    attempt,
    importable,
    of_timm,
    of_torchvision,
    picture,
)

SECONDS = 180
"""Limit of processor time for a model."""
NOT_CREATED = "not made: "
"""Prefix of the reason of models that could not be created: the library refuses the small sizes, or all tried
inputs."""
SMALL: dict[str, Any] = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32, "encoder_hidden_size": 32,
    "decoder_hidden_size": 32, "embedding_size": 32, "embedding_dim": 32, "num_hidden_layers": 2, "n_layer": 2,
    "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_encoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8,
    "intermediate_size": 64, "d_ff": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "ffn_dim": 64, "n_inner": 64,
    "hidden_dim": 64, "vocab_size": 100, "max_position_embeddings": 64, "n_positions": 64, "bos_token_id": 0,
    "eos_token_id": 1, "pad_token_id": 2, "decoder_start_token_id": 0, "projection_dim": 32, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "moe_num_experts": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "conv_dim": (32, 32, 32), "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
"""Small sizes, by the attribute names in configurations of transformers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=sorted(FAMILIES))
    parser.add_argument(
        "names", nargs="*", help="families [a sample of those that benchmarks/imports.py does not list]"
    )
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rows", type=Path, help="file to which rows are appended, as JSON lines")
    options = parser.parse_args()
    importable()
    cases = FAMILIES[options.library]()
    unlisted = sorted(name for name, case in cases.items() if case is not None)
    sampled = options.names or random.Random(options.seed).sample(unlisted, min(options.count, len(unlisted)))
    successes = uncreated = 0
    for name in sorted(sampled):
        start = time.process_time()
        row = _attempt_within_limit(name, cases[name] or _raise_listed)
        successes += row.holds
        uncreated += row.why.startswith(NOT_CREATED)
        print(row, f"{time.process_time() - start:.1f} s", "" if row.holds else "<--", flush=True)
        if options.rows:
            with options.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print(
        f"{successes} of {len(sampled) - uncreated} hold every condition; {uncreated} more were not made at small sizes"
    )


def _raise_listed() -> Case:
    """Raise LookupError: a stand-in for families that benchmarks/imports.py lists."""
    raise LookupError("benchmarks/imports.py lists this family")


def _attempt_within_limit(name: str, case: Callable[[], Case]) -> Row:
    """Return the row of a model, also if it cannot be created or takes too long."""

    def on_timeout(*_: object) -> None:
        raise TimeoutError(f"not finished within {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, on_timeout)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    created: Case | None = None
    try:
        created = case()
        return attempt(created)
    except Exception as error:  # of any library
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Row(name, 0, why=why if created is not None else f"{NOT_CREATED}{why}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# timm


def timm_families() -> dict[str, Callable[[], Case] | None]:
    """Return timm's families: by file, a function that creates a case, or None if benchmarks/imports.py lists a model
    of it."""
    import timm
    from timm.models import _registry

    files: dict[str, list[str]] = {}
    for name in timm.list_models():
        files.setdefault(_registry._model_to_module[name], []).append(name)
    listed = {_registry._model_to_module[name] for name in TIMM}
    return {
        file: None if file in listed else lambda names=names: _smallest(names)  # type: ignore[misc]
        for file, names in files.items()
    }


def _smallest(names: list[str]) -> Case:
    """Return the case of the model with the fewest parameters."""
    sizes = {name: count for name in names if (count := _parameters(name))}
    return _of_timm(min(sizes, key=lambda name: sizes[name]))


def _parameters(name: str) -> int:
    """Return the number of parameters of a timm model, 0 if it cannot be created without data."""
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in of_timm(name, {}).parameters())
    except Exception:  # computes with values while it is created
        return 0


def _of_timm(name: str) -> Case:
    """Return the case of a timm model, with the smallest images that it accepts."""
    import timm

    full_size = timm.get_pretrained_cfg(name).input_size[-1]
    options: dict[str, Any]
    for size, options in ((64, {"img_size": 64}), (64, {}), (128, {"img_size": 128}), (128, {}), (full_size, {})):
        try:
            with torch.no_grad():
                of_timm(name, options).eval()(picture(size))
        except Exception:  # sizes that do not suit the model raise errors of any class
            continue
        return Case(f"timm {name}", lambda chosen=options: of_timm(name, chosen), picture(size))
    raise LookupError(f"{name} takes no images of {full_size}")


# torchvision


def torchvision_families() -> dict[str, Callable[[], Case] | None]:
    """Return torchvision's families: by model name, without 8-bit models, a function that creates a case, or None if
    listed."""
    import torchvision

    return {
        name: None if name in TORCHVISION else lambda name=name: _of_torchvision(name)  # type: ignore[misc]
        for name in torchvision.models.list_models()
        if not name.startswith("quantized")
    }


def _of_torchvision(name: str) -> Case:
    """Return the case of a torchvision model, with the first example input that it accepts."""
    import torchvision

    make = torchvision.models.get_model_builder(name)
    options = {"weights_backbone": None} if "weights_backbone" in inspect.signature(make).parameters else {}
    shapes = ((1, 3, 64, 64), (1, 3, 16, 64, 64), (1, 3, 224, 224), (1, 3, 16, 112, 112), (1, 3, 16, 224, 224))
    for shape in shapes:
        try:
            with torch.no_grad():
                make(**options).eval()(torch.zeros(shape))
        except Exception:  # of any kind of input
            continue
        return Case(
            f"torchvision {name}",
            lambda: make(**options) if name not in vars(torchvision.models) else of_torchvision(name, options),
            torch.zeros(shape),
        )
    raise LookupError(f"{name} takes no image and no film of a usual size")


# transformers


def transformers_families() -> dict[str, Callable[[], Case] | None]:
    """Return the families of transformers: by model type, a function that creates a case, or None if listed."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    transformers.logging.set_verbosity_error()
    listed = {getattr(transformers, name).config_class.model_type for name in (*TEXTS, *PICTURES)}
    return {
        kind: None if kind in listed else lambda kind=kind: _of_transformers(kind)  # type: ignore[misc]
        for kind in MODEL_MAPPING_NAMES
    }


def _of_transformers(kind: str) -> Case:
    """Return the case of a model type of transformers, with the first example input that it accepts."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = _small(CONFIG_MAPPING[kind])

    def make() -> nn.Module:
        return transformers.AutoModel.from_config(config).eval()  # type: ignore[no-any-return]

    reasons: list[str] = []
    model = make()
    for example in _examples(model):
        try:
            with torch.no_grad():
                model(**example)
        except Exception as error:  # of any kind of input
            reasons.append(f"{', '.join(example)}: {' '.join(str(error).split())[:80]}")
            continue
        return Case(f"transformers {type(model).__name__}", make, example)
    raise LookupError("; ".join(reasons))


def _small(kind: Any) -> Any:
    """Return a configuration with small sizes, including its nested configurations."""
    default = kind()
    options: dict[str, Any] = {}
    for name, value in vars(default).items():
        if name in SMALL and value is not None and name not in kind.attribute_map:
            options[name] = type(value)(SMALL[name]) if isinstance(value, list | tuple) else SMALL[name]
        elif name == "image_size" and isinstance(value, int):
            options[name] = 2 * default.patch_size if hasattr(default, "patch_size") and default.patch_size > 16 else 32
        elif name == "patch_size" and isinstance(value, int) and value > 8 and hasattr(default, "image_size"):
            options[name], options["image_size"] = 8, 32
        elif hasattr(type(value), "model_type") and hasattr(value, "to_dict"):
            options[name] = _small(type(value)).to_dict()
    config = kind(**options)
    config.use_cache = False
    return config


def _examples(model: nn.Module) -> Iterator[dict[str, Any]]:
    """Yield inputs to try with a model, by parameter name."""
    ids = torch.randint(3, 90, (1, 12), generator=torch.Generator().manual_seed(0))
    main = str(model.main_input_name)  # type: ignore[attr-defined]
    parameters = inspect.signature(model.forward).parameters
    if main in ("input_values", "input_features"):
        bins = getattr(model.config, "num_mel_bins", 80)
        for shape in ((1, 2000), (1, bins, 128), (1, 128, bins), (1, bins, 3000), (1, 1024, bins)):
            yield {main: torch.zeros(shape)}
            if "decoder_input_ids" in parameters:
                yield {main: torch.zeros(shape), "decoder_input_ids": ids}
    pixels = [torch.zeros(1, 3, size, size) for size in (32, 64, 224)]
    if main == "pixel_values":
        yield from ({main: images} for images in pixels)
    if "input_ids" in parameters:
        yield {"input_ids": ids}
        yield {"input_ids": ids, "decoder_input_ids": ids}
    if "pixel_values" in parameters:
        yield from ({"input_ids": ids, "pixel_values": images} for images in pixels)


FAMILIES: dict[str, Callable[[], dict[str, Callable[[], Case] | None]]] = {
    "timm": timm_families,
    "torchvision": torchvision_families,
    "transformers": transformers_families,
}

if __name__ == "__main__":
    main()
