"""ONNX output of `archir export`: its options, and the model with its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import lowering
from archir.backends.certificates import PROVIDERS, certificate_path
from archir.backends.input_ranges import ranged_inputs
from archir.backends.samples import Arrays, Interface
from archir.cli.output import emit, say
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Graph
from archir.passes.resize import trim_position_tables


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds the options that apply only to ONNX models; the command receives them as `onnx_options`."""
    listed = (
        click.option("--opset", type=int, help="ONNX opset version, 17 to 26 [the lowest that suits the network]."),
        click.option(
            "--for", "runtime", type=click.Choice(["cpu", "cuda", "openvino", "tensorrt", "web", "ncnn"]),
            help="Runtime for which the opset is chosen [all but ncnn].",
        ),
        click.option("--fp16", is_flag=True, help="Store weights and compute in float16."),
        click.option("--bf16", is_flag=True, help="Store weights and compute in bfloat16, for GPUs."),
        click.option("--dynamic", metavar="AXES", help="Open axes: batch,height,width,tokens, or none [batch]."),
        click.option("--batch", type=click.IntRange(1), help="Fixed batch size, instead of an open batch axis."),
        click.option("--preprocess", is_flag=True, help="Accept raw inputs (images: uint8 [batch, H, W, C]) and "
                     "normalise them in the model."),
        click.option(
            "--attention", type=click.Choice(["auto", "decomposed", "standard", "fused"]),
            help="How to write attention; fused is onnxruntime's own operator [auto].",
        ),
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


def export_run(run: Path, output: Path, as_trained: bool, as_json: bool, onnx_options: dict[str, Any]) -> None:
    """Write a run's network as ONNX and compare it with PyTorch, also on held-out samples if they are available."""
    export_options = _export_options(onnx_options)
    from archir.cli import train_folder  # `archir compile` reads no run

    trained = train_folder.open_run(run)
    torch, images = backends.get("torch"), trained.images
    graph = trim_position_tables(trained.graph) if "tokens" in export_options.get("dynamic", ()) else trained.graph
    if onnx_options["preprocess"]:
        if not images:
            raise fail("A0933", f"{run} does not record how its images were normalised: an older archir wrote it")
        export_options |= (
            {"scales": images["scales"]} if "scales" in images else {"pixels": (images["mean"], images["std"])}
        )
    module = lowering.compile(graph)
    torch.load(module, run / train_folder.WEIGHTS)
    metadata = trained.metadata | ({"license": onnx_options["license"]} if onnx_options["license"] else {})
    is_compared = not onnx_options["no_verify"]
    report = backends.get("onnx").write(
        graph,
        output,
        torch.arrays(module),
        reference=torch.runner(module) if is_compared else None,
        real=_held_out_samples(graph, images) if is_compared and images else None,
        metadata=metadata,
        deployed=not as_trained,
        certified=True,
        providers=tuple(PROVIDERS[name] for name in onnx_options["devices"]) or None,
        **export_options,
    )
    certificate = certificate_path(output)
    if as_json:
        emit({**asdict(report), "certificate": certificate})
    else:
        say(f"wrote {', '.join(map(str, report.files))}: {report}")
        say(f"certificate: {certificate}; `archir verify {output}` checks the model against it")


def _export_options(cli_options: dict[str, Any]) -> dict[str, Any]:
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
    interface = Interface(graph.name, ranged_inputs(graph), {})
    try:
        samples = backends.get("torch").samples(
            images["source"], interface, training=1, seed=images["seed"], judged=False
        )
    except ArchError:
        return None
    return dict(samples.held_out)
