"""Command `archir compile`: compile a network to another representation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import loading, lowering
from archir.backends.suffixes import COMPILE_FORMATS
from archir.cli import onnx_files, torch_files
from archir.cli.net_arguments import select_network
from archir.cli.options import (
    SEED,
    arch_options,
    file_argument,
    force_option,
    net_options,
    refuse,
    resolve_output_format,
)
from archir.cli.output import count_noun, say, write_text
from archir.cli.param_types import OutputFile, PathParam
from archir.ir.printer import print_graph
from archir.ir.serial import to_json
from archir.language.elaboration.context import Limits
from archir.passes import PASSES, run
from archir.utils.files import sha256


@click.command("compile")
@file_argument
@click.option(
    "--to",
    "target",
    help="Target: ir, json, exported, aot, or a backend such as torch or onnx [from the suffix: .onnx, .py (torch), "
    ".pt2 (exported), .json or .ir; without an output file, ir]",
)
@click.option(
    "--emit", type=click.Choice(["python"]), default="python", show_default=True, help="Language of torch networks."
)
@force_option
@click.option("-o", "--output", type=OutputFile(), help="File to write [standard output].")
@click.option("--weights", type=PathParam(dir_okay=False, path_type=Path), help="Weights of the network (safetensors).")
@click.option("--init-seed", type=SEED, default=0, show_default=True, help="Seed of random weights, without --weights.")
@click.option("--block", metavar="NAME[@SCOPE]", help="Compile only this block, or the call of it in SCOPE.")
@click.option("-P", "--pass", "passes", metavar="NAME,...", default="", help=f"Passes to run: {', '.join(PASSES)}.")
@click.option(
    "--preprocess",
    metavar="MEAN/STD",
    help=f"{onnx_files.PREPROCESS}: imagenet, or numbers such as 0.5,0.5,0.5/0.2,0.2,0.2.",
)
@onnx_files.options
@arch_options
@net_options
def compile_command(
    file: str, target: str | None, emit: str, output: Path | None, weights: Path | None, init_seed: int,
    block: str | None, passes: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, preprocess: str | None, **onnx_options: Any,
) -> None:  # fmt: skip
    """Compile FILE to a textual graph, a standalone PyTorch file, a torch package or an ONNX model.

    A PyTorch file loads its weights from a file next to it, which is also written if --weights is given. Packages hold
    graphs of torch.export (exported), or code compiled ahead of time by AOTInductor (aot).

    `ir` and `json` can represent a whole space; backends need one architecture of it (--arch or --seed).

    \b
    archir compile space.arch                                   the graph, including choices
    archir compile space.arch --seed 0 -o net.py                one network as a PyTorch file
    archir compile net.arch -o net.onnx                         a verified ONNX model
    archir compile net.arch --weights net.safetensors -o net.onnx --fp16 --preprocess imagenet
    archir compile net.arch -o net.pt2                          a verified torch package
    archir compile net.arch --block cell -o cell.py             a block as a module for other networks
    """
    target = (target or "ir") if output is None else resolve_output_format(target, output, COMPILE_FORMATS)
    if target != "onnx":
        onnx_files.refuse_onnx_options({**onnx_options, "preprocess": preprocess}, str(target))
    scales = {} if preprocess is None else onnx_files.parse_normalization(preprocess)
    names = [name.strip() for name in passes.split(",") if name.strip()]
    if target in ("ir", "json"):
        refuse({"weights", "init_seed", "emit"}, f"only applies to networks with weights, not to --to {target}")
        graph = (
            loading.graph(file, root=root, limits=limits, parameters=parameters)
            if arch is None and seed is None and block is None
            else select_network(file, arch, seed, parameters, root, limits)[0]
        )
        graph = run(graph if block is None else lowering.block(graph, block), names)
        text = print_graph(graph) if target == "ir" else json.dumps(to_json(graph)) + "\n"
        write_text(
            text,
            output,
            f"net {graph.name}: {count_noun(len(graph), 'node')}, {count_noun(len(graph.decisions), 'choice')}",
        )
        return
    graph, architecture, space = select_network(file, arch, seed, parameters, root, limits)
    graph = run(graph, names)
    backend = backends.get("torch" if target in torch_files.PACKAGES else target)
    as_text = target not in torch_files.PACKAGES and hasattr(backend, "emit")
    if as_text and weights is None:
        text = backend.emit(graph) if block is None else backend.emit_block(graph, block)
        write_text(text, output, f"net {graph.name} as {emit}" if block is None else f"block {block} as {emit}")
        return
    if output is None:
        raise click.UsageError(f"{'--weights' if as_text else f'--to {target}'} needs -o FILE")
    graph = onnx_files.with_open_tokens(graph, onnx_options) if target == "onnx" else graph
    module = lowering.compile(graph, seed=init_seed)
    if weights is not None:
        from archir.runs.hashes import require_unchanged_file

        require_unchanged_file(weights)
        backends.get("torch").load(module, weights)
    if as_text:
        say(f"wrote {' and '.join(map(str, torch_files.write_python(graph, output, module, block)))}")
        return
    if block is not None:
        raise click.UsageError(f"--block only applies to --to torch, ir and json, not to {target}")
    metadata = {"architecture": architecture.to_json(space.graph.parameters)}
    if target in torch_files.PACKAGES:
        report = torch_files.write_package(graph, output, module, target, metadata)
        report = f"{report}\nsha256: {sha256(output)}; `archir verify {output}` verifies it again"
    else:
        report = onnx_files.write_model(graph, output, module, metadata, onnx_options, scales)
    say(f"wrote {output}: {report}")
