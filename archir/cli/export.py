"""Command `archir export`: export a trained network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.backends.imports import leftover_path, map_path, read_map, save, to_source_tensors
from archir.backends.suffixes import COMPILE_FORMATS, EXPORT_FORMATS
from archir.backends.tensors import write_tensors
from archir.cli import export, onnx_files, torch_files, train_folder
from archir.cli.options import force_option, json_option, resolve_output_format
from archir.cli.output import emit, say
from archir.cli.param_types import OutputFile, PathParam
from archir.language.decompiler.imported import Imported, Source
from archir.runs.folder import WEIGHTS
from archir.utils.counts import count_noun


@click.command("export")
@click.argument("run", type=PathParam(path_type=Path))
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="File to write.")
@click.option(
    "--to",
    type=click.Choice(["onnx", "python", "exported", "aot", "program", "source"]),
    help="Format to write [from the suffix: .onnx, .py, .pt2 (exported) or .arch].",
)
@click.option("--block", metavar="NAME[@SCOPE]", help="Export only this block, as Python.")
@click.option(
    "--map",
    "names",
    type=PathParam(dir_okay=False, path_type=Path),
    help="With --to source: the .import.json [next to RUN].",
)
@click.option("--as-trained", is_flag=True, help="Do not fold batch norms or simplify the network for deployment.")
@click.option("--preprocess", is_flag=True, help=f"{onnx_files.PREPROCESS}.")
@onnx_files.options
@json_option
def export_command(
    run: Path, output: Path, to: str | None, block: str | None, names: Path | None, as_trained: bool, as_json: bool,
    **onnx_options: Any,
) -> None:  # fmt: skip
    """Export the trained network of RUN, a folder written by `archir train` or `archir search`, to ONNX or PyTorch.

    Batch norms are folded into convolutions, and operations without effect are removed, unless --as-trained is given.
    The ONNX model is checked by onnx.checker and compared with PyTorch in onnxruntime: at several batch sizes, on
    held-out images if they are still available, and on every available device. For PyTorch, a Python file with a
    weights file next to it (.py) is written, or a package of torch.export or AOTInductor (.pt2). A program (.arch) can
    be edited, opened and shrunk again; its trained weights are written next to it, under their names in the program.

    \b
    archir export run -o net.onnx                   accepts batches of any size
    archir export run -o net.onnx --preprocess      accepts raw inputs and normalises them
    archir export run -o net.onnx --fp16 --batch 1  smaller, one image at a time
    archir export run -o net.py                     PyTorch code, with net.safetensors
    archir export run -o trained.arch               a program, with trained.safetensors
    archir export net.safetensors --to source -o model.safetensors   by the names of the import
    """
    if to == "source":
        onnx_files.refuse_onnx_options(onnx_options, to)
        say(f"wrote {output}: {count_noun(export.export_weights(run, names, output), 'tensor')}")
        return
    if names is not None:
        raise click.UsageError("--map is only for --to source")
    if run.is_file():
        raise click.UsageError(
            f"{run} is a file; RUN must be a folder written by `archir train` or `archir "
            f"search`{_compile_hint(run, output)}"
        )
    form = resolve_output_format(to, output, EXPORT_FORMATS)
    if form == "program":
        onnx_files.refuse_onnx_options(onnx_options, "program")
        if block is not None or as_trained:
            raise click.UsageError(
                f"{'--block' if block is not None else '--as-trained'} cannot be used with --to program"
            )
        export.export_program(run, output, as_json)
        return
    if form == "onnx":
        if block is not None:
            raise click.UsageError("--block is for --to python")
        onnx_files.export_run(run, output, as_trained, as_json, onnx_options)
    else:
        onnx_files.refuse_onnx_options(onnx_options, form)
        torch_files.export_run(run, output, form, block, as_trained, as_json)


def _compile_hint(file: Path, output: Path) -> str:
    """Return a hint with the command that exports the network belonging to the given file; "" if there is none."""
    net = file.with_suffix(".arch")
    if file.suffix == ".onnx":
        return f"; to export an ONNX model: archir import {file} -o net.arch, then archir compile net.arch"
    if file.suffix not in (".arch", ".safetensors"):
        return ""
    if file != net and not net.is_file():
        return f"; to export a weights file: archir compile NET.arch --to onnx --weights {file} -o {output}"
    to, weights = COMPILE_FORMATS.get(output.suffix, ("onnx",))[0], "" if file == net else f" --weights {file}"
    return f"; to export a net: archir compile {net} --to {to}{weights} -o {output}"


def export_weights(source: Path, map_file: Path | None, output: Path) -> int:
    """Write the weights of a file or run with the tensor names and shapes of the imported source model.

    Returns the number of tensors.
    """
    if output.suffix != ".safetensors":
        raise click.UsageError(f"the output {output} must end in .safetensors")
    if source.is_dir() and map_file is None:
        raise click.UsageError("--to source needs --map: the .import.json of the network")
    weights = backends.get("torch").read_arrays(source / WEIGHTS if source.is_dir() else source)
    map_file = map_file or map_path(source)
    sources, remaining_names = read_map(map_file)
    remaining = backends.get("torch").read_arrays(leftover_path(map_file)) if leftover_path(map_file).exists() else {}
    restored = to_source_tensors(weights, sources, {name: remaining.get(name) for name in remaining_names})
    write_tensors(output, restored)
    return len(restored)


def export_program(run: Path, output: Path, as_json: bool) -> None:
    """Write a run's network as an .arch program, with its weights and a map of the weights' names beside it.

    In the weights file, the weights have the names that they have in the program.
    """
    if output.suffix != ".arch":
        raise click.UsageError(f"the output {output} must end in .arch")
    trained = train_folder.open_run(run)
    weights = backends.get("torch").read_arrays(run / WEIGHTS)
    sources = {name: Source(name, tensor.shape) for name, tensor in weights.items()}
    saved = save(Imported(trained.graph, weights=weights, sources=sources), output, str(run))
    if as_json:
        emit({"form": "program", "files": saved.files, "lines": saved.lines})
    else:
        say(f"wrote {' and '.join(map(str, saved.files[:2]))}: {count_noun(saved.lines, 'line')}")
