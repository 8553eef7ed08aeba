"""`archir import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api, backends
from archir.backends.imports import save
from archir.cli.kinds import Place
from archir.cli.options import _parameters, json_option, seed_option
from archir.cli.output import counted, emit, say


@click.command("import")
@click.option("--torch", "torch_name", metavar="MODULE:CALLABLE", required=True, help="What gives a torch module.")
@click.option(
    "-p", "--param", "arguments", metavar="NAME=VALUE", multiple=True, callback=_parameters, help="An argument of it."
)
@click.option(
    "--input", "inputs", metavar="[NAME=][TYPE:]SIZES", multiple=True, required=True,
    help="An input without the axis of samples: 3x224x224, i64:128.",
)  # fmt: skip
@click.option("--weights", type=Place(dir_okay=False, path_type=Path), help="A state dict for the module.")
@click.option("-o", "--output", type=Place(dir_okay=False, path_type=Path), required=True, help="The .arch file.")
@seed_option
@json_option
def import_command(
    torch_name: str, arguments: dict[str, Any], inputs: tuple[str, ...], weights: Path | None, output: Path, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Write a torch module as a program, its weights, and a map of their names.

    MODULE:CALLABLE is called with the arguments of -p, which runs its code; it may lie in the current folder. The
    program, OUTPUT, is compared with the module on random inputs. Beside it lie its weights (.safetensors) and where
    each comes from (.import.json), by which `archir export --to source` gives the source's names back.

    \b
    archir import --torch torchvision.models:resnet18 --input 3x224x224 -o net.arch
    archir import --torch mine:model -p width=32 --weights model.pt --input 3x32x32 -o net.arch
    archir import --torch mine:bert --input input_ids=i64:128 -o net.arch
    """
    if output.suffix != ".arch":
        raise click.UsageError(f"{output} is no name of a program, which ends in .arch")
    torch = backends.get("torch")
    module, example = torch.called(torch_name, arguments, inputs, weights)
    imported = torch.imported(module, example, seed=seed)
    saved = save(imported, output, torch_name)
    graph = api.loads(saved.text, name=str(output)).graph
    error = torch.compare(module, graph, saved.weights, example, seed=seed)
    params = api.cost(graph).params
    if as_json:
        emit(
            {"files": [str(file) for file in saved.files], "lines": saved.lines, "params": params, "difference": error}
        )
        return
    names = ", ".join(str(file) for file in saved.files)
    say(f"wrote {names}: {counted(saved.lines, 'line')}, {counted(params, 'parameter')}; differs by {error:.1e}")
