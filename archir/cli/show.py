"""Command `archir show`: print or draw a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api import analysis, loading
from archir.api.drawing import render
from archir.cli.net_arguments import select_network
from archir.cli.options import (
    ARCH_PARAMETERS,
    NET_PARAMETERS,
    arch_options,
    file_argument,
    force_option,
    net_options,
    refuse,
)
from archir.cli.output import write_text
from archir.cli.param_types import Integer, OutputFile
from archir.diagnostics.escaping import escape_to_line, escape_unprintable
from archir.ir.serial import to_json
from archir.language.elaboration.context import Limits
from archir.passes import PASSES, run
from archir.pictures import FORMATS

OTHER_PICTURES = {"jpg", "jpeg", "gif", "webp", "pdf"}
"""Suffixes of pictures that `archir show` does not write."""
HEAT_FORMATS = ("svg", "png", "html")
"""Picture formats in which `--heat` can colour boxes by cost."""


@click.command("show")
@file_argument
@click.option(
    "-P", "--pass", "passes", metavar="NAME,...", default="", help=f"Passes to run first: {', '.join(PASSES)}."
)
@click.option("--verify", is_flag=True, help="With --pass: verify the graph after every pass.")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as JSON.")
@click.option(
    "--format",
    "format",
    type=click.Choice(["text", "json", *FORMATS]),
    help="Output format: the graph as text or JSON, or a picture [from the suffix of --output, or text].",
)
@click.option(
    "--depth",
    type=Integer(1),
    default=1,
    show_default=True,
    help="Levels of nested blocks to expand in a picture.",
)
@click.option(
    "--block", metavar="PATH", help="Draw only this block, given by its scope or its name (then its first call)."
)
@click.option(
    "--heat",
    metavar="COST",
    help="Colour boxes by their share of a cost, such as macs (svg, png, html); for a space, of the mean cost.",
)
@force_option
@click.option("-o", "--output", type=OutputFile(), help="File to write [standard output].")
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
    archir show space.arch -o space.html                        a page with blocks that fold
    archir show space.arch --block layer -o layer.png           a picture of one block
    archir show space.arch --heat macs -o macs.html             coloured by the cost of each part
    archir show net.onnx                                        inputs, outputs and origin of a model
    """
    if as_json and format not in (None, "text", "json"):
        raise click.UsageError(f"--json and --format {format} exclude each other")
    format = "json" if as_json else format or _format(output)
    if file.endswith(".onnx"):
        if format in FORMATS:
            hint = f"archir show NET.arch --format {format}"
            raise click.UsageError(f"ONNX models cannot be drawn; draw the net that the model was made from: {hint}")
        refuse(
            NET_PARAMETERS | ARCH_PARAMETERS | {"passes", "verify", "depth", "block", "heat"},
            "only applies to nets, not to ONNX models",
        )
        write_text(_describe_model(Path(file), format == "json"), output, f"{file} as {format}")
        return
    if format not in FORMATS:
        refuse({"depth", "block"}, f"only applies to pictures: add --format {', '.join(FORMATS)}")
    if format not in HEAT_FORMATS:
        refuse({"heat"}, f"only applies to coloured pictures: add --format {' or '.join(HEAT_FORMATS)}")
    if not passes.strip():
        refuse({"verify"}, "checks the graph after passes: add --pass")
    if arch is None and seed is None:
        graph = loading.graph(file, root=root, limits=limits, parameters=parameters)
    else:
        graph, _, _ = select_network(file, arch, seed, parameters, root, limits)
    graph = run(graph, [name.strip() for name in passes.split(",") if name.strip()], verify=verify)
    content: str | bytes
    match format:
        case "text":
            content = analysis.print_graph(graph)
        case "json":
            content = json.dumps(to_json(graph), indent=1) + "\n"
        case "png":
            if output is None:
                raise click.UsageError("PNG is not text: add -o FILE.png")
            content = render(graph, format, depth, block, heat)
        case _:
            content = render(graph, format, depth, block, heat).decode()
    write_text(content, output, f"net {graph.name} as {format}")


def _format(output: Path | None) -> str:
    """Return the format that the suffix of the output file implies; text by default. Raises a usage error for the
    suffixes of other kinds of pictures."""
    suffix = output.suffix[1:] if output is not None else ""
    if suffix in OTHER_PICTURES:
        raise click.UsageError(f"pictures are written as {', '.join(FORMATS)}, not as {suffix}")
    return suffix if suffix in ("json", *FORMATS) else "text"


def _describe_model(path: Path, as_json: bool) -> str:
    description: dict[str, Any] = backends.get("onnx").describe(path)
    if as_json:
        return json.dumps(description, indent=2, default=str) + "\n"
    lines = []
    for name, value in description.items():
        if name == "metadata":
            for key, text in ((escape_to_line(key), text) for key, text in value.items()):
                lines.append(f"{key}: {text.strip()}" if "\n" not in text.strip() else f"{key}:\n{text.rstrip()}")
        else:
            lines.append(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return escape_unprintable("\n".join(lines)) + "\n"
