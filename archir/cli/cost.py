"""`archir cost`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api
from archir.cli import space_cost
from archir.cli.kinds import DRAWS
from archir.cli.options import (
    SEED,
    arch_options,
    file_argument,
    json_option,
    names,
    net_options,
    proxy_options,
    refuse,
    where_option,
)
from archir.cli.output import emit, table
from archir.cli.subject import picked, space_of
from archir.costs.scopes import prefix
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.costs import unit
from archir.language.elaboration.locals import latency_name
from archir.passes.cost import SUMMED, Cost, costs


@click.command("cost")
@file_argument
@click.option(
    "--by", type=click.Choice(["scope"]), help="Costs of the parts of a net, or of all architectures of a space."
)
@click.option("--depth", type=click.IntRange(1), default=1, show_default=True, help="Levels of scopes to tell apart.")
@click.option(
    "--latency", "tables", metavar="TABLE.json", multiple=True,
    help="Nanoseconds, too, by a table of `archir bench`; may be repeated.",
)  # fmt: skip
@click.option(
    "--cost", "further", metavar="COST", multiple=True,
    help="A further cost, such as 'kv_bytes(context=4096)' or flops; may be repeated.",
)  # fmt: skip
@click.option(
    "--proxy", "proxies", metavar="NAME,...", callback=names,
    help="Scores of the untrained network, too: naswot, synflow, ...; `archir doctor` lists them.",
)  # fmt: skip
@click.option(
    "--init-seed", type=SEED, default=0, show_default=True, help="Seed of weights and minibatch, for proxies."
)
@proxy_options
@click.option("-n", "count", type=DRAWS, help="Costs of so many architectures, drawn by --seed.")
@click.option("--distribution", metavar="COST", help="Quantiles and a histogram of a cost over the whole space.")
@click.option("--alternatives", metavar="COST", help="Least and greatest cost with each alternative of each choice.")
@where_option
@arch_options
@net_options
@json_option
def cost_command(
    file: str, by: str | None, depth: int, tables: tuple[str, ...], further: tuple[str, ...], proxies: list[str],
    init_seed: int, data: str, batch: int, count: int | None, distribution: str | None, alternatives: str | None,
    where: str | None, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Parameters and multiply-accumulates of a net, of one architecture of a space (--arch, --seed), or of all of it.

    A space without an architecture: the least and the greatest of each cost, exactly; with --by scope, of each of its
    parts the least, the mean and the greatest over all architectures. COST is params, macs, activation_bytes, kernels,
    or such as 'latency("cpu.json")', flops, 'weight_bytes("int8")' or 'kv_bytes(batch=1, context=4096)'. With --proxy,
    scores that need weights but no training, on a minibatch; more is better.
    """
    if not proxies:
        refuse({"data", "batch", "init_seed"}, "is for proxies: add --proxy NAME")
    if by is None:
        refuse({"depth"}, "is for parts of a net: add --by scope")
    if arch is not None:
        refuse({"where"}, "is for spaces, and --arch names one architecture")
    asked = {"distribution": distribution, "alternatives": alternatives, "count": count}
    if first := next((name for name, given in asked.items() if given is not None), None):
        others = {*asked, "by", "proxies", "arch", *(() if first == "count" else ("seed",))} - {first}
        refuse(others, f"does not go with {'-n' if first == 'count' else f'--{first}'}")
    wanted = tuple(dict.fromkeys((*map(latency_name, tables), *further)))
    if arch is None:
        of = space_of(file, parameters, root, limits, where)
        for name in wanted:
            of.account.known(name)
            of.account.include(name)
        if of.bounded:
            of.prove()
        if distribution is not None:
            space_cost.distribution(of, distribution, as_json)
            return
        if alternatives is not None:
            space_cost.alternatives(of, alternatives, as_json)
            return
        if count is not None:
            space_cost.samples(of, count, seed or 0, as_json)
            return
        if of.choices and seed is None and by is not None:
            space_cost.scopes(of, depth, as_json)
            return
        if of.choices and seed is None:
            space_cost.extremes(of, as_json)
            return
    graph, architecture, space = picked(file, arch, seed, parameters, root, limits, where)
    more = {name: int(space.cost([architecture], [name])[name][0]) for name in wanted}
    parts = by_scope(graph, depth)
    total = sum(parts.values(), Cost(0, 0, 0))
    scores = api.scorer(proxies, data=data, batch=batch, seed=init_seed)(graph) if proxies else {}
    if as_json:
        scopes = {"scopes": {scope: _summed(part) for scope, part in parts.items()}} if by else {}
        facts = _summed(total) | {"peak_bytes": total.peak_bytes} | more
        emit({"net": space.name, **facts} | scopes | ({"scores": scores} if scores else {}))
        return
    rows = [(scope, *_cells(part)) for scope, part in parts.items()]
    heads = ["scope", "params", "MACs", "activations", "kernels"]
    table("", heads, [*rows, ("total", *_cells(total))], right=(1, 2, 3, 4))
    if more:
        rows = [(name, f"{value:,}", unit(name)) for name, value in more.items()]
        table("", ["cost", "value", "unit"], rows, right=(1,))
    if scores:
        table("", ["proxy", "score"], [(name, f"{score:.6g}") for name, score in scores.items()], right=(1,))


def by_scope(graph: Graph, depth: int) -> dict[str, Cost]:
    """Costs added up over the first components of scopes."""
    parts: dict[str, Cost] = {}
    for number, part in costs(graph).items():
        scope = prefix(graph[number].scope, depth)
        parts[scope] = parts.get(scope, Cost(0, 0, 0)) + part
    return parts


def _summed(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in SUMMED}


def _cells(cost: Cost) -> tuple[str, ...]:
    return f"{cost.params:,}", f"{cost.macs:,}", _size(cost.activation_bytes), f"{cost.kernels:,}"


def _size(count: int) -> str:
    for name, size in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{count:,} B"
