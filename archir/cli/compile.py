"""`archir compile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir import api, backends
from archir.backends.suffixes import COMPILED
from archir.cli import torch_files
from archir.cli.kinds import Output, Place
from archir.cli.options import SEED, arch_options, file_argument, force_option, named_form, net_options, refuse
from archir.cli.output import counted, say, write
from archir.cli.subject import picked
from archir.ir.serial import to_json
from archir.language.elaboration.context import Limits
from archir.passes import PASSES, run
from archir.utils.files import sha256, write_atomic


@click.command("compile")
@file_argument
@click.option(
    "--to",
    "target",
    help="ir, json, exported, aot, or a backend: torch, onnx, ... [as the suffix says: .onnx, .py (torch), .pt2 "
    "(exported), .json or .ir; without a file, ir]",
)
@click.option(
    "--emit", type=click.Choice(["python"]), default="python", show_default=True, help="What torch networks become."
)
@force_option
@click.option("-o", "--output", type=Output(), help="File to write [standard output].")
@click.option("--weights", type=Place(dir_okay=False, path_type=Path), help="safetensors of the network.")
@click.option("--init-seed", type=SEED, default=0, show_default=True, help="Seed of new weights, where none are given.")
@click.option("--block", metavar="NAME[@SCOPE]", help="Only this block of the network, or this call of it.")
@click.option("-P", "--pass", "passes", metavar="NAME,...", default="", help=f"Passes to run: {', '.join(PASSES)}.")
@arch_options
@net_options
def compile_command(
    file: str, target: str | None, emit: str, output: Path | None, weights: Path | None, init_seed: int,
    block: str | None, passes: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits,
) -> None:  # fmt: skip
    """Compile FILE: to the text of its graph, to a standalone torch file, to a package of torch, or to ONNX.

    A torch file reads its weights from one beside it, which is written, too, where --weights gives them. Packages are
    graphs of torch.export (exported), or compiled ahead of time by AOTInductor (aot).

    A space compiles to `ir` and `json` whole; backends need one architecture of it (--arch or --seed).

    \b
    archir compile space.arch                                   the graph, choices and all
    archir compile space.arch --seed 0 -o net.py                one network as a torch file
    archir compile net.arch -o net.onnx                         an ONNX model, verified
    archir compile net.arch -o net.pt2                          a package, verified
    archir compile net.arch --block cell -o cell.py             a block as a module for other networks
    """
    target = (target or "ir") if output is None else named_form(target, output, COMPILED)
    names = [name.strip() for name in passes.split(",") if name.strip()]
    if target in ("ir", "json"):
        refuse({"weights", "init_seed", "emit"}, f"is for networks with weights, not for --to {target}")
        graph = (
            api.graph(file, root=root, limits=limits, parameters=parameters)
            if arch is None and seed is None and block is None
            else picked(file, arch, seed, parameters, root, limits)[0]
        )
        graph = run(graph if block is None else api.block(graph, block), names)
        text = api.print_graph(graph) if target == "ir" else json.dumps(to_json(graph)) + "\n"
        _write(
            text, output, f"net {graph.name}: {counted(len(graph), 'node')}, {counted(len(graph.decisions), 'choice')}"
        )
        return
    graph, architecture, space = picked(file, arch, seed, parameters, root, limits)
    graph = run(graph, names)
    backend = backends.get("torch" if target in torch_files.PACKAGES else target)
    as_text = target not in torch_files.PACKAGES and hasattr(backend, "emit")
    if as_text and weights is None:
        text = backend.emit(graph) if block is None else backend.emit_block(graph, block)
        _write(text, output, f"net {graph.name} as {emit}" if block is None else f"block {block} as {emit}")
        return
    if output is None:
        raise click.UsageError(f"{'--weights' if as_text else f'--to {target}'} needs -o FILE")
    module = api.compile(graph, seed=init_seed)
    if weights is not None:
        from archir.runs.hashes import require_as_written

        require_as_written(weights)
        backends.get("torch").load(module, weights)
    if as_text:
        say(f"wrote {' and '.join(map(str, torch_files.write_python(graph, output, module, block)))}")
        return
    if block is not None:
        raise click.UsageError(f"--block is for --to torch, ir and json, not {target}")
    metadata = {"architecture": architecture.to_json(space.graph.parameters)}
    if target in torch_files.PACKAGES:
        report = torch_files.package(graph, output, module, target, metadata)
        report = f"{report}\nsha256: {sha256(output)}; `archir verify {output}` looks at it again"
    else:
        report = api.export(graph, output, module, metadata=metadata, certified=True)
    say(f"wrote {output}: {report}")


def _write(text: str, output: Path | None, what: str) -> None:
    if output is None:
        write(text)
    else:
        write_atomic(output, text.encode())
        say(f"wrote {output}: {what}")
