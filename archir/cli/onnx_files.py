"""What `archir export` writes as ONNX: a model in the form that options say, with its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from archir import api, backends
from archir.backends.certificates import PROVIDERS, beside
from archir.backends.ranges import ranged_inputs
from archir.backends.samples import Arrays, Interface
from archir.cli import train_folder
from archir.cli.output import emit, say
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Graph
from archir.passes.resize import following


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that are for ONNX models alone; it has them as `onnx_options`."""
    listed = (
        click.option("--opset", type=int, help="17 to 26 [23]."),
        click.option("--fp16", is_flag=True, help="Weights and computations in float16."),
        click.option("--bf16", is_flag=True, help="In bfloat16, for GPUs."),
        click.option("--dynamic", metavar="AXES", help="Axes of any size: batch,height,width,tokens, or none [batch]."),
        click.option("--batch", type=click.IntRange(1), help="Samples in every batch, which is not dynamic then."),
        click.option("--preprocess", is_flag=True, help="Take inputs as they come, images as uint8 [batch, H, W, C]."),
        click.option(
            "--attention", type=click.Choice(["auto", "decomposed", "standard", "fused"]),
            help="fused: onnxruntime's own operator [auto].",
        ),
        click.option("--license", metavar="TEXT", help="The licence, for the metadata."),
        click.option("--on", "devices", multiple=True, type=click.Choice(list(PROVIDERS)), help="Compare there [all]."),
        click.option("--no-verify", is_flag=True, help="Do not compare with torch; the ONNX checker always runs."),
    )  # fmt: skip
    for option in reversed(listed):
        command = option(command)
    return command


def refuse(given: dict[str, Any], form: str) -> None:
    """Raise UsageError if options of ONNX models are given for another form."""
    used = ["on" if name == "devices" else name.replace("_", "-") for name, value in given.items() if value]
    if used:
        raise click.UsageError(f"--{used[0]} is for ONNX models, not for --to {form}")


def export_run(run: Path, output: Path, as_trained: bool, as_json: bool, given: dict[str, Any]) -> None:
    """Write the network of a run's folder, compared with torch, on held-out images where they are to be had."""
    form = _form(given)
    trained = train_folder.open_run(run)
    torch, images = backends.get("torch"), trained.images
    graph = following(trained.graph) if "tokens" in form.get("dynamic", ()) else trained.graph
    if given["preprocess"]:
        if not images:
            raise fail("A0933", f"{run} does not tell how its images were normalised: an older archir left it")
        form |= {"scales": images["scales"]} if "scales" in images else {"pixels": (images["mean"], images["std"])}
    module = api.compile(graph)
    torch.load(module, run / train_folder.WEIGHTS)
    metadata = trained.metadata | ({"license": given["license"]} if given["license"] else {})
    compared = not given["no_verify"]
    report = backends.get("onnx").write(
        graph,
        output,
        torch.arrays(module),
        reference=torch.runner(module) if compared else None,
        real=_real(graph, images) if compared and images else None,
        metadata=metadata,
        deployed=not as_trained,
        certified=True,
        providers=tuple(PROVIDERS[name] for name in given["devices"]) or None,
        **form,
    )
    certificate = beside(output)
    if as_json:
        emit({**asdict(report), "certificate": certificate})
    else:
        say(f"wrote {', '.join(map(str, report.files))}: {report}")
        say(f"certificate: {certificate}; `archir verify {output}` looks whether they still belong together")


def _form(given: dict[str, Any]) -> dict[str, Any]:
    """The form that options ask for; what they leave out is as it is by default."""
    form = {name: given[name] for name in ("opset", "attention", "batch") if given[name] is not None}
    if given["fp16"] and given["bf16"]:
        raise click.UsageError("--fp16 and --bf16 exclude each other")
    if given["fp16"] or given["bf16"]:
        form["precision"] = "float16" if given["fp16"] else "bfloat16"
    axes = given["dynamic"]
    if axes is not None:
        form["dynamic"] = () if axes.strip() == "none" else tuple(one.strip() for one in axes.split(","))
    elif given["batch"]:
        form["dynamic"] = ()
    if given["batch"] and "batch" in form.get("dynamic", ()):
        raise click.UsageError(
            f"--batch {given['batch']} fixes the batch, --dynamic batch leaves it open: give one of them"
        )
    if problems := backends.get("onnx").problems(**form):
        raise ArchError(*problems)
    return form


def _real(graph: Graph, images: Mapping[str, Any]) -> Arrays | None:
    """Some held-out samples, if their source is still there."""
    interface = Interface(graph.name, ranged_inputs(graph), {})
    try:
        found = backends.get("torch").samples(
            images["source"], interface, training=1, seed=images["seed"], judged=False
        )
    except ArchError:
        return None
    return dict(found.held_out)
