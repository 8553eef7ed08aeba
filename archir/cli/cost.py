"""`archir cost`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir.build.context import Limits
from archir.cli.options import arch_options, file_argument, json_option, net_options, picked
from archir.cli.output import emit, table
from archir.ir.graph import Graph
from archir.passes.cost import Cost, costs


@click.command("cost")
@file_argument
@click.option("--depth", type=click.IntRange(1), default=1, show_default=True, help="Levels of scopes to tell apart.")
@arch_options
@net_options
@json_option
def cost_command(
    file: str, depth: int, arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Parameters and multiply-accumulates of a net, or of one architecture of a space (--arch, --seed), at batch 1."""
    graph, _, space = picked(file, arch, seed, parameters, root, limits)
    parts = by_scope(graph, depth)
    total = sum(parts.values(), Cost(0, 0, 0))
    if as_json:
        emit(
            {"net": space.name, "params": total.params, "macs": total.macs, "activation_bytes": total.activation_bytes}
        )
        return
    rows = [(scope, *_cells(part)) for scope, part in parts.items()]
    table("", ["scope", "params", "MACs", "activations"], [*rows, ("total", *_cells(total))], right=(1, 2, 3))


def by_scope(graph: Graph, depth: int) -> dict[str, Cost]:
    """Costs added up over the first components of scopes."""
    parts: dict[str, Cost] = {}
    for number, part in costs(graph).items():
        scope = ".".join(graph[number].scope.split(".")[:depth])
        parts[scope] = parts.get(scope, Cost(0, 0, 0)) + part
    return parts


def _cells(cost: Cost) -> tuple[str, str, str]:
    return f"{cost.params:,}", f"{cost.macs:,}", f"{cost.activation_bytes / 2**20:,.1f} MiB"
