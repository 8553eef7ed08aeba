"""`archir import`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import api, backends
from archir.backends.imports import Saved, require_replaceable, save
from archir.cli.kinds import Output, Place
from archir.cli.options import _parameters, force_option, json_option, seed_option
from archir.cli.output import counted, emit, say
from archir.language.decompiler.imported import Imported


@click.command("import")
@click.argument("model", metavar="[MODEL.onnx]", required=False, type=Place(dir_okay=False, path_type=Path))
@click.option("--torch", "torch_name", metavar="MODULE:CALLABLE", help="What gives a torch module.")
@click.option(
    "-p", "--param", "arguments", metavar="NAME=VALUE", multiple=True, callback=_parameters, help="An argument of it."
)
@click.option(
    "--input", "inputs", metavar="[NAME=][TYPE:]SIZES", multiple=True,
    help="An input without the axis of samples: 3x224x224, i64:128. Files say it, unless they leave it open.",
)  # fmt: skip
@click.option("--weights", type=Place(dir_okay=False, path_type=Path), help="A state dict for the module.")
@force_option
@click.option("-o", "--output", type=Output(), required=True, help="The .arch file.")
@click.option(
    "--partial",
    is_flag=True,
    help="Take the largest part that can be had, and say what is left out.",
)
@seed_option
@json_option
def import_command(
    model: Path | None, torch_name: str | None, arguments: dict[str, Any], inputs: tuple[str, ...],
    weights: Path | None, output: Path, partial: bool, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Write an ONNX file or a torch module as a program, its weights, and a map of their names.

    MODULE:CALLABLE is called with the arguments of -p, which runs its code; it may lie in the current folder. The
    program, OUTPUT, is compared with the module on random inputs, or with onnxruntime on the file. Beside it lie its
    weights (.safetensors) and where each comes from (.import.json), by which `archir export --to source` gives the
    source's names back, with the tensors that the program does not hold whole (.import.safetensors).

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
        raise click.UsageError(f"{output} is no name of a program, which ends in .arch")
    if model is None and torch_name is None:
        raise click.UsageError("name a file, MODEL.onnx, or a torch module by --torch")
    require_replaceable(output)
    if torch_name is None:
        assert model is not None
        if arguments or weights is not None:
            raise click.UsageError("-p and --weights are for torch modules")
        imported = api.from_onnx(model, shapes=_shapes(inputs), partial=partial, seed=seed)
        saved = save(imported, output, model.name)
        if imported.problems:
            _report_part(imported, saved, output, as_json)
            return
        _report(saved, output, None, as_json)
        return
    if model is not None:
        raise click.UsageError("name a file or a torch module, not both")
    if not inputs:
        raise click.UsageError("say what the module takes: --input 3x224x224")
    torch = backends.get("torch")
    module, example = torch.called(torch_name, arguments, inputs, weights)
    imported = torch.imported(module, example, partial=partial, seed=seed)
    saved = save(imported, output, torch_name)
    if imported.problems:
        _report_part(imported, saved, output, as_json)
        return
    graph = api.loads(saved.text, name=str(output)).graph
    _report(saved, output, torch.compare(module, graph, saved.weights, example, seed=seed), as_json)


def _report_part(imported: Imported, saved: Saved, output: Path, as_json: bool) -> None:
    graph = api.loads(saved.text, name=str(output)).graph
    params = api.cost(graph).params
    left_out = [one.message for one in imported.problems]
    if as_json:
        files = [str(file) for file in saved.files]
        ends = {"inputs": [*graph.inputs], "outputs": [*graph.outputs]}
        emit({"files": files, "lines": saved.lines, "params": params, "left_out": left_out, **ends})
        return
    names = ", ".join(str(file) for file in saved.files)
    say(f"wrote a part to {names}: {counted(saved.lines, 'line')}, {counted(params, 'parameter')}")
    say(f"from {', '.join(graph.inputs)} to {', '.join(graph.outputs)}; left out:")
    for message in left_out:
        say(f"  {message}")


def _shapes(inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`3x48x320`, or `image=3x48x320`, as sizes by the name of an input; without one, of all."""
    found = {}
    for text in inputs:
        name, _, sizes = text.rpartition("=")
        if not re.fullmatch(r"\d{1,9}(x\d{1,9})*", sizes):
            raise click.UsageError(f"`{text}` is no input: inputs of files are 3x224x224 or name=3x224x224")
        found[name] = tuple(map(int, sizes.split("x")))
    return found


def _report(saved: Saved, output: Path, error: float | None, as_json: bool) -> None:
    params = api.cost(api.loads(saved.text, name=str(output)).graph).params
    if as_json:
        files = [str(file) for file in saved.files]
        emit({"files": files, "lines": saved.lines, "params": params, "difference": error})
        return
    names = ", ".join(str(file) for file in saved.files)
    compared = "compared with onnxruntime" if error is None else f"differs by {error:.1e}"
    say(f"wrote {names}: {counted(saved.lines, 'line')}, {counted(params, 'parameter')}; {compared}")
