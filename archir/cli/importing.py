"""Command `archir import`: convert an ONNX file or a torch module to an .arch program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import analysis, importing, loading
from archir.backends.imports import Saved, require_import_replaceable, save
from archir.cli.options import force_option, json_option, parse_parameters, seed_option
from archir.cli.output import emit, say
from archir.cli.param_types import OutputFile, PathParam
from archir.language.decompiler.imported import Imported
from archir.utils.counts import count_noun


@click.command("import")
@click.argument("model", metavar="[MODEL.onnx]", required=False, type=PathParam(dir_okay=False, path_type=Path))
@click.option(
    "--torch", "torch_name", metavar="MODULE:CALLABLE", help="Function or class that returns the torch module."
)
@click.option(
    "-p",
    "--param",
    "arguments",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_parameters,
    help="Keyword argument for CALLABLE; may be repeated.",
)
@click.option(
    "--input", "inputs", metavar="[NAME=][TYPE:]SIZES", multiple=True,
    help="Shape of an input without the batch axis, such as 3x224x224 or i64:128; may be repeated. An ONNX file needs "
    "it only for axes of open size.",
)  # fmt: skip
@click.option("--weights", type=PathParam(dir_okay=False, path_type=Path), help="State dict to load into the module.")
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="The .arch file.")
@click.option(
    "--partial",
    is_flag=True,
    help="Import the largest supported subgraph and list what was skipped.",
)
@seed_option
@json_option
def import_command(
    model: Path | None, torch_name: str | None, arguments: dict[str, Any], inputs: tuple[str, ...],
    weights: Path | None, output: Path, partial: bool, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Convert an ONNX file or a torch module to an .arch program, its weights, and a map of the weights' names.

    MODULE:CALLABLE is called with the arguments of -p, which executes its code; MODULE may be in the current folder.
    The program, OUTPUT, is verified on random inputs against the module, or against onnxruntime for a file. Next to it
    are written its weights (.safetensors), a map to the source's tensor names (.import.json), and tensors that the
    program holds only in part (.import.safetensors); `archir export --to source` uses them to restore the original
    state dict.

    \b
    archir import model.onnx -o net.arch
    archir import ocr.onnx --input 3x48x320 -o net.arch
    archir import detector.onnx --partial -o body.arch
    archir import --torch torchvision.models:resnet18 --input 3x224x224 -o net.arch
    archir import --torch mine:model -p width=32 --weights model.pt --input 3x32x32 -o net.arch
    archir import --torch mine:bert --input input_ids=i64:128 -o net.arch
    archir import --torch ranked:Ranked --input 3x32x32 --partial -o body.arch
    """
    if output.suffix != ".arch":
        raise click.UsageError(f"the output {output} must end in .arch")
    if model is None and torch_name is None:
        raise click.UsageError("give an ONNX file (MODEL.onnx) or a torch module (--torch)")
    require_import_replaceable(output)
    if torch_name is None:
        assert model is not None
        if arguments or weights is not None:
            raise click.UsageError("-p and --weights are only for torch modules")
        imported = importing.from_onnx(model, shapes=_parse_shapes(inputs), partial=partial, seed=seed)
        saved = save(imported, output, model.name)
        if imported.problems:
            _report_part(imported, saved, output, as_json)
            return
        _report(saved, output, None, as_json)
        return
    if model is not None:
        raise click.UsageError("give an ONNX file or a torch module, not both")
    if not inputs:
        raise click.UsageError("give the shape of the module's input, such as --input 3x224x224")
    torch = backends.get("torch")
    module, example = torch.load_module(torch_name, arguments, inputs, weights)
    imported = torch.import_module(module, example, partial=partial, seed=seed)
    saved = save(imported, output, torch_name)
    if imported.problems:
        _report_part(imported, saved, output, as_json)
        return
    graph = loading.loads(saved.text, name=str(output)).graph
    _report(saved, output, torch.compare(module, graph, saved.weights, example, seed=seed), as_json)


def _report_part(imported: Imported, saved: Saved, output: Path, as_json: bool) -> None:
    """Print the result of a partial import: files, inputs and outputs of the imported part, and what was left out."""
    graph = loading.loads(saved.text, name=str(output)).graph
    params = analysis.cost(graph).params
    left_out = [problem.message for problem in imported.problems]
    if as_json:
        files = [str(file) for file in saved.files]
        interface = {"inputs": [*graph.inputs], "outputs": [*graph.outputs]}
        emit({"files": files, "lines": saved.lines, "params": params, "left_out": left_out, **interface})
        return
    names = ", ".join(str(file) for file in saved.files)
    say(f"wrote a part of the model to {names}: {count_noun(saved.lines, 'line')}, {count_noun(params, 'parameter')}")
    say(f"from {', '.join(graph.inputs)} to {', '.join(graph.outputs)}; skipped:")
    for message in left_out:
        say(f"  {message}")


def _parse_shapes(inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse `3x48x320` or `image=3x48x320` into shapes by input name; the key "" stands for all inputs."""
    shapes = {}
    for text in inputs:
        name, _, sizes = text.rpartition("=")
        if not re.fullmatch(r"\d{1,9}(x\d{1,9})*", sizes):
            raise click.UsageError(f"`{text}` is not an input shape; write 3x224x224 or name=3x224x224")
        shapes[name] = tuple(map(int, sizes.split("x")))
    return shapes


def _report(saved: Saved, output: Path, error: float | None, as_json: bool) -> None:
    """Print the result of a complete import."""
    params = analysis.cost(loading.loads(saved.text, name=str(output)).graph).params
    if as_json:
        files = [str(file) for file in saved.files]
        emit({"files": files, "lines": saved.lines, "params": params, "difference": error})
        return
    names = ", ".join(str(file) for file in saved.files)
    compared = "compared with onnxruntime" if error is None else f"differs by {error:.1e}"
    say(f"wrote {names}: {count_noun(saved.lines, 'line')}, {count_noun(params, 'parameter')}; {compared}")
