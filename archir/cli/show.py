"""`archir show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir import api, backends
from archir.cli.kinds import Output
from archir.cli.options import OF_ARCHITECTURES, OF_NETS, arch_options, file_argument, force_option, net_options, refuse
from archir.cli.output import say, write
from archir.cli.subject import picked
from archir.costs.means import means
from archir.diagnostics.visible import one_line, visible
from archir.ir.serial import to_json
from archir.language.elaboration.context import Limits
from archir.passes import PASSES, run
from archir.pictures import FORMATS, picture
from archir.pictures.shading import Heat
from archir.spaces.space import Space
from archir.utils.files import write_atomic

HEATED = ("svg", "html")


@click.command("show")
@file_argument
@click.option(
    "-P", "--pass", "passes", metavar="NAME,...", default="", help=f"Passes to run first: {', '.join(PASSES)}."
)
@click.option("--verify", is_flag=True, help="Check the graph after every pass.")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as JSON.")
@click.option(
    "--format",
    "format",
    type=click.Choice(["text", "json", *FORMATS]),
    help="What to show: the graph, or a picture of it [as the suffix of --output says, or text].",
)
@click.option("--depth", type=click.IntRange(1), default=1, show_default=True, help="Levels of blocks a picture opens.")
@click.option(
    "--block", metavar="PATH", help="Picture this block alone: its scope, or its name (the first call of it)."
)
@click.option(
    "--heat",
    metavar="COST",
    help="Colour boxes by their share of a cost, such as macs (svg, html): of a space, its mean.",
)
@force_option
@click.option("-o", "--output", type=Output(), help="File to write [standard output].")
@arch_options
@net_options
def show_command(
    file: str, passes: str, verify: bool, as_json: bool, format: str | None, depth: int, block: str | None,
    heat: str | None, output: Path | None, arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits,
) -> None:  # fmt: skip
    """Show the graph of a net, as text or as a picture: the whole space, or one architecture of it (--arch, --seed).

    \b
    archir show space.arch                                      the graph as text
    archir show space.arch -o space.html                        a page whose blocks open and close
    archir show space.arch --block layer -o layer.svg           a picture of one block
    archir show space.arch --heat macs -o macs.html             coloured by what parts cost
    archir show net.onnx                                        where a model comes from
    """
    if as_json and format not in (None, "text", "json"):
        raise click.UsageError(f"--json and --format {format} exclude each other")
    format = "json" if as_json else format or _format(output)
    if file.endswith(".onnx"):
        if format in FORMATS:
            hint = f"archir show NET.arch --format {format}"
            raise click.UsageError(
                f"pictures are of nets, not of ONNX models; of the net that this was made of: {hint}"
            )
        refuse(
            OF_NETS | OF_ARCHITECTURES | {"passes", "verify", "depth", "block", "heat"},
            "is for nets, not for ONNX models",
        )
        _shown(_model(Path(file), format == "json"), output, f"{file} as {format}")
        return
    if format not in FORMATS:
        refuse({"depth"}, f"is for pictures: add --format {', '.join(FORMATS)}")
    if not passes.strip():
        refuse({"verify"}, "checks the graph after passes: add --pass")
    if block is not None and format not in FORMATS:
        raise click.UsageError(f"--block is for pictures: add --format {', '.join(FORMATS)}")
    if heat is not None and format not in HEATED:
        raise click.UsageError(f"--heat is for pictures with colours: add --format {' or '.join(HEATED)}")
    if arch is None and seed is None:
        graph = api.graph(file, root=root, limits=limits, parameters=parameters)
    else:
        graph, _, _ = picked(file, arch, seed, parameters, root, limits)
    graph = run(graph, [name.strip() for name in passes.split(",") if name.strip()], verify=verify)
    match format:
        case "text":
            text = api.print_graph(graph)
        case "json":
            text = json.dumps(to_json(graph), indent=1) + "\n"
        case _:
            of = Heat(heat, means(Space(graph).account, heat), bool(graph.decisions)) if heat is not None else None
            text = picture(graph, format, depth, block, of)
    _shown(text, output, f"net {graph.name} as {format}")


def _format(output: Path | None) -> str:
    suffix = output.suffix[1:] if output is not None else ""
    return suffix if suffix in ("json", *FORMATS) else "text"


def _shown(text: str, output: Path | None, what: str) -> None:
    if output is None:
        write(text)
    else:
        write_atomic(output, text.encode())
        say(f"wrote {output}: {what}")


def _model(path: Path, as_json: bool) -> str:
    """What a model says of itself: inputs, outputs, and the net, architecture and recipe it came of."""
    found: dict[str, Any] = backends.get("onnx").describe(path)
    if as_json:
        return json.dumps(found, indent=2, default=str) + "\n"
    lines = []
    for name, value in found.items():
        if name == "metadata":
            for key, text in ((one_line(key), text) for key, text in value.items()):
                lines.append(f"{key}: {text.strip()}" if "\n" not in text.strip() else f"{key}:\n{text.rstrip()}")
        else:
            lines.append(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return visible("\n".join(lines)) + "\n"
