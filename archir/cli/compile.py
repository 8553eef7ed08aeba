"""Command `archir compile`: compile a network to another representation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import loading, lowering
from archir.backends.certificates import certificate_path
from archir.backends.suffixes import COMPILE_FORMATS
from archir.cli import onnx_files, torch_files
from archir.cli.net_arguments import select_network
from archir.cli.options import (
    SEED,
    arch_options,
    file_argument,
    force_option,
    json_option,
    net_options,
    refuse,
    resolve_output_format,
)
from archir.cli.output import emit, say, write_text
from archir.cli.param_types import OutputFile, PathParam
from archir.data.metadata import training_data_entries
from archir.ir.printer import print_graph
from archir.ir.serial import to_json
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split_net
from archir.passes import PASSES, run
from archir.utils.counts import count_noun
from archir.utils.files import sha256, write_atomic


@click.command("compile")
@file_argument
@click.option(
    "--to",
    "target",
    metavar="FORMAT",
    help="Target: ir, json, exported, aot, or a backend such as torch or onnx [from the suffix: .onnx, .py (torch), "
    ".pt2 (exported), .json or .ir; without an output file, ir]",
)
@click.option(
    "--emit",
    "language",
    type=click.Choice(["python"]),
    default="python",
    show_default=True,
    help="Language of torch networks.",
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
    callback=onnx_files.parse_normalization,
    help=f"{onnx_files.PREPROCESS}: {onnx_files.NORMALIZATION}.",
)
@onnx_files.options
@arch_options
@net_options
@json_option
def compile_command(
    file: str, target: str | None, language: str, output: Path | None, weights: Path | None, init_seed: int,
    block: str | None, passes: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, preprocess: onnx_files.Normalization | None, as_json: bool, **onnx_options: Any,
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
    if as_json and output is None:
        raise click.UsageError("--json describes the files that -o writes: it needs -o FILE")
    target = (target or "ir") if output is None else resolve_output_format(target, output, COMPILE_FORMATS)
    if target != "onnx":
        onnx_files.refuse_onnx_options({**onnx_options, "preprocess": preprocess}, str(target))
    scales = {} if preprocess is None else {"pixels": preprocess}
    names = [name.strip() for name in passes.split(",") if name.strip()]
    if target in ("ir", "json"):
        refuse({"weights", "init_seed", "language"}, f"only applies to networks with weights, not to --to {target}")
        graph = (
            loading.graph(file, root=root, limits=limits, parameters=parameters)
            if arch is None and seed is None and block is None
            else select_network(file, arch, seed, parameters, root, limits)[0]
        )
        graph = run(graph if block is None else lowering.block(graph, block), names)
        text = print_graph(graph) if target == "ir" else json.dumps(to_json(graph)) + "\n"
        size = f"{count_noun(len(graph), 'node')}, {count_noun(len(graph.decisions), 'choice')}"
        _write_text(text, output, f"net {graph.name}: {size}", target, as_json)
        return
    graph, architecture, space = select_network(file, arch, seed, parameters, root, limits)
    graph = run(graph, names)
    backend = backends.get("torch" if target in torch_files.PACKAGES else target)
    as_text = target not in torch_files.PACKAGES and hasattr(backend, "emit")
    if as_text and weights is None:
        text = backend.emit(graph) if block is None else backend.emit_block(graph, block)
        what = f"net {graph.name}" if block is None else f"block {block}"
        _write_text(text, output, f"{what} as {language}", target, as_json)
        return
    if output is None:
        raise click.UsageError(f"{'--weights' if as_text else f'--to {target}'} needs -o FILE")
    graph = onnx_files.with_open_tokens(graph, onnx_options) if target == "onnx" else graph
    module = lowering.compile(graph, seed=init_seed)
    metadata = {"architecture": architecture.to_json(space.graph.parameters)}
    if weights is not None:
        from archir.runs.hashes import require_unchanged_file

        require_unchanged_file(weights)
        metadata |= training_data_entries(backends.get("torch").load(module, weights))
    if as_text:
        paths = torch_files.write_python(graph, output, module, block)
        _report({"form": target, "files": paths}, f"wrote {' and '.join(map(str, paths))}", as_json)
        return
    if block is not None:
        raise click.UsageError(f"--block only applies to --to torch, ir and json, not to {target}")
    if target in torch_files.PACKAGES:
        report = torch_files.write_package(graph, output, module, target, metadata)
        digest = sha256(output)
        result: dict[str, Any] = {"sha256": digest}
        note = f"\nsha256: {digest}; `archir verify {output}` verifies it again"
    else:
        report = onnx_files.write_model(graph, output, module, metadata, onnx_options, scales)
        result, note = {"certificate": certificate_path(output)}, ""
    result["weights"] = weights
    note += "" if weights is not None else f"\n{_random_weights_note(file, init_seed)}"
    _report({"form": target, **asdict(report), **result}, f"wrote {output}: {report}{note}", as_json)


def _random_weights_note(file: str, seed: int) -> str:
    """Return the note that a network has random weights, which names a weights file beside the program."""
    sibling = Path(split_net(file)[0]).with_suffix(".safetensors")
    if sibling.is_file():
        return f"random weights, seed {seed}: {sibling} is used only with --weights {sibling}"
    return f"random weights, seed {seed}: --weights FILE sets trained ones"


def _write_text(text: str, output: Path | None, description: str, target: str, as_json: bool) -> None:
    """Print a text, or write it to `output` and report that."""
    if as_json and output is not None:
        write_atomic(output, text.encode())
        emit({"form": target, "files": [output]})
    else:
        write_text(text, output, description)


def _report(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        emit(result)
    else:
        say(text)
