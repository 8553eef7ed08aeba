"""`archir cost`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api
from archir.build.context import Limits
from archir.cli.options import arch_options, file_argument, json_option, names, net_options, picked, proxy_options
from archir.cli.output import emit, finite, table
from archir.ir.graph import Graph
from archir.passes.cost import Cost, costs


@click.command("cost")
@file_argument
@click.option("--depth", type=click.IntRange(1), default=1, show_default=True, help="Levels of scopes to tell apart.")
@click.option(
    "--proxy", "proxies", metavar="NAME,...", callback=names,
    help="Scores of the untrained network, too: naswot, synflow, ...; `archir doctor` lists them.",
)  # fmt: skip
@click.option("--init-seed", type=int, default=0, show_default=True, help="Seed of weights and minibatch, for proxies.")
@proxy_options
@arch_options
@net_options
@json_option
def cost_command(
    file: str, depth: int, proxies: list[str], init_seed: int, data: str, batch: int,
    arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits,
    as_json: bool,
) -> None:  # fmt: skip
    """Parameters and multiply-accumulates of a net, or of one architecture of a space (--arch, --seed), at batch 1.

    With --proxy, scores that need weights but no training, on a minibatch; more is better.
    """
    graph, _, space = picked(file, arch, seed, parameters, root, limits)
    parts = by_scope(graph, depth)
    total = sum(parts.values(), Cost(0, 0, 0))
    scores = api.scorer(proxies, data=data, batch=batch, seed=init_seed)(graph) if proxies else {}
    if as_json:
        facts = {"params": total.params, "macs": total.macs, "activation_bytes": total.activation_bytes}
        emit({"net": space.name, **facts} | ({"scores": finite(scores)} if scores else {}))
        return
    rows = [(scope, *_cells(part)) for scope, part in parts.items()]
    table("", ["scope", "params", "MACs", "activations"], [*rows, ("total", *_cells(total))], right=(1, 2, 3))
    if scores:
        table("", ["proxy", "score"], [(name, f"{score:.6g}") for name, score in scores.items()], right=(1,))


def by_scope(graph: Graph, depth: int) -> dict[str, Cost]:
    """Costs added up over the first components of scopes."""
    parts: dict[str, Cost] = {}
    for number, part in costs(graph).items():
        scope = ".".join(graph[number].scope.split(".")[:depth])
        parts[scope] = parts.get(scope, Cost(0, 0, 0)) + part
    return parts


def _cells(cost: Cost) -> tuple[str, str, str]:
    return f"{cost.params:,}", f"{cost.macs:,}", f"{cost.activation_bytes / 2**20:,.1f} MiB"
