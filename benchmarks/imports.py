"""Import models of timm, torchvision and transformers with random weights, and print the result of each.

    python benchmarks/imports.py [NAME ...] [--rows rows.jsonl] [-o docs/imported.md]

A row is a model: its parameters, how many of them archir stores unchanged (the others were transformed at import), the
largest difference from the source, relative to its output, the lines of Python that define it and of the program,
whether `archir check` is clean, and whether archir's own ONNX file of it is imported as the same network. With --rows,
finished rows are kept in a file and not computed again.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir import backends  # noqa: E402
from archir.api import analysis  # noqa: E402
from archir.backends.imports import Program, program_of  # noqa: E402
from archir.equivalence.canonical import canonical_hash  # noqa: E402
from archir_torch.importing import proof  # noqa: E402
from benchmarks.python_lines import with_line_count  # noqa: E402

HEAD = """# Imported models

This page shows how well `archir import` works on models of timm {timm}, torchvision {torchvision} and transformers
{transformers}. Each model, with random weights, is imported, written as a program, and compared with its source on
random inputs. If random statistics of norms amplify a network's rounding errors to more than 0.002%, the norms
get the statistics of random images instead. The columns are:

- *Parameters*: the number of parameters of the source.
- *Unchanged*: how many of these parameters archir stores unchanged. The other parameters do not affect the result, or
  the model computes with them before it combines them with an input (position biases that are looked up, weights that
  are standardised), and archir stores the results of these computations.
- *Difference*: the largest difference between outputs of import and source, relative to the largest output.
- *Python lines*: lines that define the model in its library, without comments, docstrings and blank lines. From the
  files that define a class of its modules, these classes count, and the functions that run while the model is created
  and called.
- *Program lines*: lines of the program; *share* is their number as a percentage of the Python lines.
- *Check*: `clean` if `archir check --strict` reports nothing about the program.
- *Round trip*: `yes` if the network has the same canonical hash after archir exports it to ONNX and imports it again.

`python benchmarks/imports.py -o docs/imported.md` generates this page.

<!-- generated -->
{summary}

| model | parameters | unchanged | difference | Python lines | program lines | share | check | round trip |
|---|---:|---:|---:|---:|---:|---:|---|---|
"""
"""Template of the page docs/imported.md."""
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet18": (64, {}), "resnet50": (64, {}), "resnext50_32x4d": (64, {}), "seresnet50": (64, {}),
    "resnetv2_50": (64, {}), "resnest14d": (64, {}), "skresnet18": (64, {}), "ecaresnet26t": (64, {}),
    "res2net50_26w_4s": (64, {}), "regnetx_002": (64, {}), "regnety_002": (64, {}), "mobilenetv1_100": (64, {}),
    "mobilenetv2_050": (64, {}), "mobilenetv3_small_050": (64, {}), "mobilenetv3_large_100": (64, {}),
    "mobilenetv4_conv_small": (64, {}), "mobilenetv4_hybrid_medium": (64, {}), "efficientnet_b0": (64, {}),
    "tf_efficientnet_b0": (64, {}), "efficientnetv2_rw_t": (64, {}), "mnasnet_050": (64, {}), "fbnetc_100": (64, {}),
    "spnasnet_100": (64, {}), "hardcorenas_a": (64, {}), "lcnet_050": (64, {}), "tinynet_e": (64, {}),
    "mixnet_s": (64, {}), "ghostnet_050": (64, {}), "ghostnetv2_100": (64, {}), "convnext_atto": (64, {}),
    "convnextv2_atto": (64, {}), "densenet121": (64, {}), "inception_v4": (128, {}), "xception41": (64, {}),
    "dpn48b": (64, {}), "ese_vovnet19b_slim": (64, {}), "cspresnet50": (64, {}), "dla34": (64, {}),
    "hrnet_w18_small": (64, {}), "selecsls42": (64, {}), "rexnet_100": (64, {}), "hgnetv2_b0": (64, {}),
    "repvgg_a0": (64, {}), "repvit_m1": (64, {}), "starnet_s1": (64, {}), "fastvit_t8": (64, {}),
    "nf_regnet_b0": (64, {}), "mobilevit_xxs": (64, {}), "mobilevitv2_050": (64, {}), "edgenext_xx_small": (64, {}),
    "vit_tiny_patch16_224": (32, {"img_size": 32}), "deit_tiny_distilled_patch16_224": (32, {"img_size": 32}),
    "deit3_small_patch16_224": (32, {"img_size": 32, "depth": 2}), "cait_xxs24_224": (64, {"img_size": 64, "depth": 2}),
    "beit_base_patch16_224": (64, {"img_size": 64, "depth": 2}), "pit_ti_224": (224, {}), "levit_128s": (224, {}),
    "swin_tiny_patch4_window7_224": (224, {"depths": (2, 2, 2, 2)}), "mixer_s32_224": (64, {"img_size": 64}),
    "resmlp_12_224": (64, {"img_size": 64}), "gmlp_ti16_224": (64, {"img_size": 64}), "poolformer_s12": (64, {}),
    "pvt_v2_b0": (64, {}), "focalnet_tiny_srf": (64, {}), "davit_tiny": (64, {}), "efficientvit_b0": (64, {}),
    "volo_d1_224": (224, {}), "visformer_tiny": (224, {}),
}  # fmt: skip
"""Models of timm: image size, and options."""
TORCHVISION: dict[str, int] = {
    "alexnet": 224, "resnet18": 64, "googlenet": 128, "inception_v3": 128, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "mnasnet0_5": 64, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "efficientnet_b0": 64, "regnet_y_400mf": 64,
    "convnext_tiny": 64, "vgg11": 224,
}  # fmt: skip
"""Models of torchvision: image size."""
SMALL = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
}  # fmt: skip
"""Small sizes of language models."""
MAX_ROUNDING = 2e-5
"""Maximum rounding error of a network in 32 bits; beyond it, differences say nothing about the import."""
SHARED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
"""Sizes of `SMALL` that image models have as well."""
IMAGES = {key: SMALL[key] for key in SHARED} | {"image_size": 32, "patch_size": 8}
GPT = {
    "vocab_size": 100,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
TEXTS: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": GPT, "BertModel": SMALL, "BertForMaskedLM": SMALL, "AlbertModel": SMALL | {"embedding_size": 16},
    "DistilBertModel": {"vocab_size": 100, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "ElectraModel": SMALL, "DebertaV2Model": SMALL, "RobertaModel": SMALL, "GPTNeoXForCausalLM": SMALL,
    "LlamaForCausalLM": SMALL | {"num_key_value_heads": 2}, "MistralForCausalLM": SMALL | {"num_key_value_heads": 2},
    "Qwen2ForCausalLM": SMALL | {"num_key_value_heads": 2}, "PhiForCausalLM": SMALL,
    "GemmaForCausalLM": SMALL | {"num_key_value_heads": 2, "head_dim": 8},
}  # fmt: skip
"""Language models of transformers: configuration."""
PICTURES: dict[str, tuple[int, dict[str, Any]]] = {
    "ViTForImageClassification": (32, IMAGES), "DeiTForImageClassification": (32, IMAGES), "Dinov2Model": (32, IMAGES),
    "CLIPVisionModel": (32, IMAGES), "ResNetForImageClassification": (64, {}),
}  # fmt: skip
"""Image models of transformers: image size, and configuration."""


@dataclass(frozen=True)
class Case:
    """A model and an example of its inputs."""

    name: str
    make: Callable[[], nn.Module]
    example: Any


def importable() -> None:
    """Declare operators that torchvision and timm look up at import, for a torch that they were not compiled for."""
    if hasattr(importable, "kept"):
        return
    library = torch.library.Library("torchvision", "DEF")
    importable.kept = library  # type: ignore[attr-defined]  # kept for the lifetime of the process
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def names() -> list[str]:
    """Return the names of all models, without importing the libraries."""
    libraries = {"timm": TIMM, "torchvision": TORCHVISION, "transformers": {**TEXTS, **PICTURES}}
    return [f"{library} {name}" for library, models in libraries.items() for name in models]


def cases() -> Iterator[Case]:
    """Yield all models. A library is imported when a model of it is created."""
    for name, (size, options) in TIMM.items():
        yield Case(f"timm {name}", lambda n=name, o=options: of_timm(n, o), picture(size))
    for name, size in TORCHVISION.items():
        options_of_model = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
        yield Case(f"torchvision {name}", lambda n=name, o=options_of_model: of_torchvision(n, o), picture(size))
    ids = torch.zeros(1, 12, dtype=torch.int64)
    for name, options in TEXTS.items():
        yield Case(f"transformers {name}", lambda n=name, o=options: of_transformers(n, o), {"input_ids": ids})
    for name, (size, options) in PICTURES.items():
        example = {"pixel_values": picture(size)}
        yield Case(f"transformers {name}", lambda n=name, o=options: of_transformers(n, o), example)


def of_timm(name: str, options: dict[str, Any]) -> nn.Module:
    """Create a model of timm."""
    importable()
    import timm

    return timm.create_model(name, **options)


def of_torchvision(name: str, options: dict[str, Any]) -> nn.Module:
    """Create a model of torchvision."""
    importable()
    import torchvision

    return getattr(torchvision.models, name)(**options)


def picture(size: int) -> Tensor:
    """Return an image of zeros [1, 3, size, size]."""
    return torch.zeros(1, 3, size, size)


def of_transformers(name: str, options: dict[str, Any]) -> nn.Module:
    """Create a model of transformers."""
    importable()
    import transformers

    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, name)
    config = kind.config_class(**options)
    config.use_cache = False
    return kind(config)


def randomise_statistics(module: nn.Module) -> None:
    """Set statistics and biases to random values, as after training, so that none is 0 or 1.

    Matrices of zeros get random values too, because otherwise all experts would be equal.
    """
    generator = torch.Generator().manual_seed(0)
    for name, tensor in module.state_dict().items():
        if tensor.dim() > 1 and tensor.is_floating_point() and not tensor.any():
            tensor.normal_(0, 0.02, generator=generator)
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith(("running_mean", "bias")):
            tensor.normal_(0, 0.1, generator=generator)


def rounding_error(module: nn.Module, images: Tensor) -> float:
    """Return the largest difference between a module in 32 and in 64 bits, relative to its largest output."""
    reference = copy.deepcopy(module).double()(images.double())
    return float((module(images) - reference).abs().max() / reference.abs().max())


def random_images(example: Tensor) -> Tensor:
    """Return 64 random images of an example's shape, as a source of statistics for norms."""
    return torch.randn(64, *example.shape[1:], generator=torch.Generator().manual_seed(1))


def stabilise_norms(module: nn.Module, example: Any) -> None:
    """Give norms the statistics of random images if their random statistics amplify rounding errors above
    MOST_ROUNDING."""
    if not isinstance(example, Tensor):
        return
    images = random_images(example)
    module.eval()
    with torch.no_grad():
        if rounding_error(module, images[:2]) <= MAX_ROUNDING:
            return
        norms = [norm for norm in module.modules() if isinstance(norm, nn.BatchNorm2d)]
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
            norm.train()
        module(images)
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
    module.eval()


@dataclass(frozen=True)
class Row:
    """The result of a model; `why` is the reason if it could not be imported."""

    name: str
    params: int
    kept: int = 0
    error: float = 0.0
    python: int = 0
    lines: int = 0
    check: str = ""
    back: str = ""
    why: str = ""

    @property
    def holds(self) -> bool:
        """True if the model meets every condition."""
        short = 3 * self.lines <= self.python
        return not self.why and self.error <= 1e-5 and short and (self.check, self.back) == ("clean", "yes")

    def __str__(self) -> str:
        if self.why:
            return f"| {self.name} | {self.params:,} | not imported: {self.why} | | {self.python} | | | | |"
        kept = "all" if self.kept == self.params else f"{self.kept:,}"
        share = f"{self.lines / self.python:.0%}"
        columns = (kept, f"{self.error:.0e}", self.python, self.lines, share, self.check, self.back)
        return f"| {self.name} | {self.params:,} | {' | '.join(map(str, columns))} |"


def attempt(case: Case) -> Row:
    """Import a model, and return its row."""
    torch.manual_seed(0)
    with torch.no_grad():
        module, python = with_line_count(case.make, case.example)
    randomise_statistics(module)
    stabilise_norms(module, case.example)
    params = sum(parameter.numel() for parameter in module.parameters())
    try:
        imported = archir.from_torch(module, case.example)
        program = program_of(imported)
        graph = archir.loads(program.text).graph
        error = backends.get("torch").compare(module, graph, program.weights, case.example)
    except archir.ArchError as failure:
        return Row(case.name, params, python=python, why=first_message(failure))
    trained = {name for name, _ in module.named_parameters()}
    kept = {source.name: prod(source.shape) for source in imported.sources.values() if source.name in trained}
    check, back = check_result(program), round_trip(program)
    return Row(case.name, params, sum(kept.values()), error, python, program.lines, check, back)


def first_message(failure: archir.ArchError) -> str:
    """Return the first message of an error, for a cell of a table."""
    return failure.diagnostics[0].message.replace("|", "/").replace("\n", " ")[:120]


def check_result(program: Program) -> str:
    """Return the first finding of `archir check --strict` about a program, or "clean"."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.arch")
        path.write_text(program.text, "utf-8")
        try:
            _, warnings = analysis.linted(str(path))
        except archir.ArchError as failure:
            return first_message(failure)
    return f"{warnings[0].code}: {warnings[0].message[:80]}" if warnings else "clean"


def round_trip(program: Program) -> str:
    """Return "yes" if archir's ONNX file of a program is imported as the same network, else the reason."""
    graph = archir.loads(program.text).graph
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        try:
            archir.export(graph, path, proof.network(graph, program.weights), deployed=False)
            imported = archir.from_onnx(path).graph
        except archir.ArchError as failure:
            return first_message(failure)
    return "yes" if canonical_hash(imported) == canonical_hash(graph) else "another hash"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names [all models]")
    parser.add_argument("--rows", type=Path, help="file of finished rows, as JSON lines; they are not computed again")
    parser.add_argument("-o", "--output", type=Path, help="the page to write")
    options = parser.parse_args()
    finished: dict[str, Row] = {}
    if options.rows and options.rows.exists():
        old_rows = [Row(**json.loads(line)) for line in options.rows.read_text("utf-8").splitlines()]
        finished = {row.name: row for row in old_rows}
    rows = []
    for case in cases():
        if not options.names or any(name in case.name for name in options.names):
            start = time.process_time()
            if case.name not in finished:
                row = finished[case.name] = attempt(case)
                if options.rows:
                    with options.rows.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(row)) + "\n")
                gc.collect()
            rows.append(finished[case.name])
            print(rows[-1], f"{time.process_time() - start:.1f} s", flush=True)
    done = [row for row in rows if not row.why]
    unchanged, holding = sum(row.kept == row.params for row in done), sum(row.holds for row in rows)
    summary = (
        f"{len(done)} of {len(rows)} models were imported, {unchanged} with all parameters unchanged. {holding} meet "
        "every condition: equal to 1e-5, at most a third of the lines, clean, and the same network from archir's own "
        "file."
    )
    print(summary)
    if options.output:
        versions = {name: version(name).partition("+")[0] for name in ("timm", "torchvision", "transformers")}
        text = HEAD.format(summary=summary, **versions) + "\n".join(map(str, rows)) + "\n"
        options.output.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
