"""`archir export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir.backends.suffixes import COMPILED, EXPORTED
from archir.cli import onnx_files, source_files, torch_files
from archir.cli.kinds import Output, Place
from archir.cli.options import force_option, json_option, named_form
from archir.cli.output import counted, say


@click.command("export")
@click.argument("run", type=Place(path_type=Path))
@force_option
@click.option("-o", "--output", type=Output(), required=True, help="File to write.")
@click.option(
    "--to",
    type=click.Choice(["onnx", "python", "exported", "aot", "program", "source"]),
    help="What to write [as the suffix says: .onnx, .py, .pt2 (exported) or .arch].",
)
@click.option("--block", metavar="NAME[@SCOPE]", help="Only this block, as Python.")
@click.option(
    "--map", "names", type=Place(dir_okay=False, path_type=Path), help="The .import.json, for --to source [beside RUN]."
)
@click.option("--as-trained", is_flag=True, help="Keep batch norms, and whatever else deployment would fold.")
@onnx_files.options
@json_option
def export_command(
    run: Path, output: Path, to: str | None, block: str | None, names: Path | None, as_trained: bool, as_json: bool,
    **onnx_options: Any,
) -> None:  # fmt: skip
    """Write the network of RUN, a folder that `archir train` or `archir search` left, as an ONNX model, or for torch.

    Batch norms are folded into convolutions, and what does nothing is left out, unless --as-trained is given. The model
    is checked by onnx.checker and compared with torch in onnxruntime: at several batch sizes, on held-out images where
    they are still to be had, on every device that is there. For torch, it becomes a Python file with its weights beside
    it (.py), or a package of torch.export or AOTInductor (.pt2). A program (.arch) can be read, opened and shrunk
    again: beside it lie the weights as they were trained, by their names in it.

    \b
    archir export run -o net.onnx                   batches of any size
    archir export run -o net.onnx --preprocess      takes inputs as they come
    archir export run -o net.onnx --fp16 --batch 1  smaller, one image at a time
    archir export run -o net.py                     torch, with net.safetensors
    archir export run -o net.arch                   a program, with net.safetensors
    archir export net.safetensors --to source -o model.safetensors    an import's weights, by the source's names
    """
    if to == "source":
        onnx_files.refuse(onnx_options, to)
        say(f"wrote {output}: {counted(source_files.export_weights(run, names, output), 'tensor')}")
        return
    if names is not None:
        raise click.UsageError("--map is for --to source")
    if run.is_file():
        raise click.UsageError(
            f"{run} is a file; RUN is a folder that `archir train` or `archir search` left{_instead(run, output)}"
        )
    form = named_form(to, output, EXPORTED)
    if form == "program":
        onnx_files.refuse(onnx_options, "program")
        if block is not None or as_trained:
            raise click.UsageError(f"{'--block' if block is not None else '--as-trained'} is not for --to program")
        source_files.export_program(run, output, as_json)
        return
    if form == "onnx":
        if block is not None:
            raise click.UsageError("--block is for --to python")
        onnx_files.export_run(run, output, as_trained, as_json, onnx_options)
    else:
        onnx_files.refuse(onnx_options, form)
        torch_files.export_run(run, output, form, block, as_trained, as_json)


def _instead(file: Path, output: Path) -> str:
    """What writes the network that a file belongs to."""
    net = file.with_suffix(".arch")
    if file.suffix not in (".arch", ".safetensors"):
        return ""
    if file != net and not net.is_file():
        return f"; for weights of a net: archir compile NET.arch --to onnx --weights {file} -o {output}"
    to, weights = COMPILED.get(output.suffix, ("onnx",))[0], "" if file == net else f" --weights {file}"
    return f"; for a net of a file: archir compile {net} --to {to}{weights} -o {output}"
