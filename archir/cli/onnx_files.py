"""ONNX output of `archir export` and `archir compile`: its options, and the model with its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import lowering
from archir.backends.certificates import PROVIDERS, certificate_path
from archir.backends.input_ranges import ranged_inputs
from archir.backends.samples import Arrays, Interface
from archir.cli.options import labels_option
from archir.cli.output import emit, say
from archir.cli.param_types import Integer
from archir.data.metadata import labels_metadata
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.passes.resize import trim_position_tables
from archir.runs.folder import WEIGHTS
from archir.utils.counts import count_noun


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds the options that apply only to ONNX models, apart from `--preprocess`.

    The command receives them as `onnx_options`.
    """
    listed = (
        click.option("--opset", type=Integer(), help="ONNX opset, 17 to 26 [the lowest that suits the network]."),
        click.option(
            "--for", "runtime", type=click.Choice(["cpu", "cuda", "openvino", "tensorrt", "web", "ncnn"]),
            help="Runtime for which the opset is chosen [all but ncnn].",
        ),
        click.option("--fp16", is_flag=True, help="Store weights and compute in float16."),
        click.option("--bf16", is_flag=True, help="Store weights and compute in bfloat16, for GPUs."),
        click.option("--dynamic", metavar="AXES", help="Open axes: batch,height,width,tokens, or none [batch]."),
        click.option("--batch", type=Integer(1), help="Fixed batch size, instead of an open batch axis."),
        click.option(
            "--attention", type=click.Choice(["auto", "decomposed", "standard", "fused"]),
            help="How to write attention; fused is onnxruntime's own operator [auto].",
        ),
        labels_option,
        click.option("--license", metavar="TEXT", help="Licence to store in the metadata."),
        click.option("--on", "devices", multiple=True, type=click.Choice(list(PROVIDERS)), help="Verify on [all]."),
        click.option("--no-verify", is_flag=True, help="Do not compare with PyTorch; the ONNX checker always runs."),
    )  # fmt: skip
    for option in reversed(listed):
        command = option(command)
    return command


_FLAGS = {"devices": "on", "runtime": "for"}
"""Flags of options whose parameters have other names."""


def refuse_onnx_options(options: dict[str, Any], form: str) -> None:
    """Raise UsageError if options that apply only to ONNX models are combined with another output format."""
    used = [_FLAGS.get(name, name.replace("_", "-")) for name, value in options.items() if value]
    if used:
        raise click.UsageError(f"--{used[0]} is only for ONNX models, not for --to {form}")


PREPROCESS = "Accept raw inputs (images: uint8 [batch, H, W, C]) and normalise them in the model"
"""Help of `--preprocess`."""
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet, by which most published networks normalise images."""


def export_run(run: Path, output: Path, as_trained: bool, as_json: bool, onnx_options: dict[str, Any]) -> None:
    """Write a run's network as ONNX and compare it with PyTorch, also on held-out samples if they are available."""
    scales: dict[str, Any] = {}
    preprocess = onnx_options.pop("preprocess")
    from archir.cli import train_folder  # `archir compile` reads no run

    trained = train_folder.open_run(run)
    torch, images = backends.get("torch"), trained.images
    graph = with_open_tokens(trained.graph, onnx_options)
    if preprocess:
        if not images:
            raise fail("A0933", f"{run} does not record how its images were normalised: an older archir wrote it")
        scales = {"scales": images["scales"]} if "scales" in images else {"pixels": (images["mean"], images["std"])}
    module = lowering.compile(graph)
    torch.load(module, run / WEIGHTS)
    real = _held_out_samples(graph, images) if images and not onnx_options["no_verify"] else None
    report = write_model(
        graph, output, module, trained.metadata, onnx_options, scales, real=real, deployed=not as_trained
    )
    certificate = certificate_path(output)
    if as_json:
        emit({**asdict(report), "certificate": certificate})
    else:
        say(f"wrote {', '.join(map(str, report.files))}: {report}")
        say(f"certificate: {certificate}; `archir verify {output}` checks the model against it")


def write_model(
    graph: Graph,
    output: Path,
    module: Any,
    metadata: Mapping[str, str],
    onnx_options: dict[str, Any],
    scales: Mapping[str, Any],
    *,
    real: Arrays | None = None,
    deployed: bool = True,
) -> Any:
    """Write a network with a module's weights as ONNX, as the command's options say; return the report.

    `scales` is the normalisation inside the model, a keyword of `archir.export`; the model is compared with the module
    on random inputs and on `real`, unless `--no-verify` is given.
    """
    torch, export_options = backends.get("torch"), _export_options(onnx_options)
    license_text = {"license": onnx_options["license"]} if onnx_options["license"] else {}
    labels = _labels_metadata(graph, onnx_options["labels"])
    return backends.get("onnx").write(
        graph,
        output,
        torch.arrays(module),
        reference=None if onnx_options["no_verify"] else torch.runner(module),
        real=real,
        metadata={**metadata, **labels, **license_text},
        deployed=deployed,
        certified=True,
        providers=tuple(PROVIDERS[name] for name in onnx_options["devices"]) or None,
        **export_options,
        **scales,
    )


def _labels_metadata(graph: Graph, labels: Sequence[str]) -> dict[str, str]:
    """Return the metadata with the names of the classes of `--labels`. Raises BadParameter if the first output has
    another size."""
    if labels:
        name, kind = next((name, infer(graph)[number]) for name, number in graph.outputs.items())
        if kind.shape != (len(labels),):
            text = f"there are {count_noun(len(labels), 'name')}, but the output `{name}` is {kind}"
            raise click.BadParameter(text, param_hint="--labels")
    return labels_metadata(labels)


Normalization = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of pixels scaled to 0..1: one number for each channel, or one for all."""
NORMALIZATION = "imagenet, or numbers for pixels scaled to 0..1, such as 0.5,0.5,0.5/0.2,0.2,0.2 or 0.5/0.2"
"""Help of options that `parse_normalization` parses."""


def parse_normalization(_: click.Context, __: click.Parameter, text: str | None) -> Normalization | None:
    """Option callback: parse the normalisation `imagenet` or `MEAN/STD`, such as `0.5,0.5,0.5/0.2,0.2,0.2`."""
    if text is None:
        return None
    if text == "imagenet":
        return IMAGENET
    try:
        mean, std = (tuple(float(number) for number in part.split(",")) for part in text.split("/"))
    except ValueError:
        problem = f"{text!r} is neither imagenet nor MEAN/STD, such as 0.5,0.5,0.5/0.2,0.2,0.2"
        raise click.BadParameter(problem) from None
    return mean, std


def with_open_tokens(graph: Graph, onnx_options: Mapping[str, Any]) -> Graph:
    """Return the graph for any number of tokens if the options leave it open: position tables are cut to the tokens."""
    return trim_position_tables(graph) if "tokens" in _export_options(onnx_options).get("dynamic", ()) else graph


def _export_options(cli_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the export options given on the command line; all others keep their defaults.

    Raises ArchError if invalid.
    """
    export_options = {
        name: cli_options[name] for name in ("opset", "runtime", "attention", "batch") if cli_options[name] is not None
    }
    if cli_options["fp16"] and cli_options["bf16"]:
        raise click.UsageError("--fp16 and --bf16 exclude each other")
    if cli_options["fp16"] or cli_options["bf16"]:
        export_options["precision"] = "float16" if cli_options["fp16"] else "bfloat16"
    axes = cli_options["dynamic"]
    if axes is not None:
        export_options["dynamic"] = () if axes.strip() == "none" else tuple(axis.strip() for axis in axes.split(","))
    elif cli_options["batch"]:
        export_options["dynamic"] = ()
    if cli_options["batch"] and "batch" in export_options.get("dynamic", ()):
        raise click.UsageError(
            f"--batch {cli_options['batch']} fixes the batch, --dynamic batch leaves it open: give one of them"
        )
    if problems := backends.get("onnx").problems(**export_options):
        raise ArchError(*problems)
    return export_options


def _held_out_samples(graph: Graph, images: Mapping[str, Any]) -> Arrays | None:
    """Return some held-out samples of the training data, or None if the data source is no longer available."""
    interface = Interface(graph.name, ranged_inputs(graph), {}, images.get("resizing") or {})
    try:
        samples = backends.get("torch").samples(
            images["source"], interface, training=1, seed=images["seed"], judged=False
        )
    except ArchError:
        return None
    return dict(samples.held_out)
