"""Command `archir cost`: show costs of a network or a space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir.api import searching
from archir.cli import space_cost
from archir.cli.net_arguments import select_network, space_of
from archir.cli.options import (
    SEED,
    arch_options,
    file_argument,
    json_option,
    net_options,
    proxy_options,
    refuse,
    split_names,
    where_option,
)
from archir.cli.output import emit, table
from archir.cli.param_types import SAMPLE_COUNT, Integer
from archir.costs.scopes import scope_prefix
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.cost_names import latency_name, unit
from archir.passes.cost import ADDITIVE_COSTS, Cost, costs


@click.command("cost")
@file_argument
@click.option(
    "--by", type=click.Choice(["scope"]), help="Costs per part of a net; for a space, over all architectures."
)
@click.option("--depth", type=Integer(1), default=1, show_default=True, help="With --by scope: number of scope levels.")
@click.option(
    "--latency", "tables", metavar="TABLE.json", multiple=True,
    help="Also estimate the latency in nanoseconds, with a file of `archir latency`; may be repeated.",
)  # fmt: skip
@click.option(
    "--cost", "further", metavar="COST", multiple=True,
    help="Another cost to compute, such as 'kv_bytes(context=4096)' or flops; may be repeated.",
)  # fmt: skip
@click.option(
    "--proxy", "proxies", metavar="NAME,...", callback=split_names,
    help="Also compute zero-cost proxies of the untrained net: naswot, synflow, ...; `archir doctor --all` lists them.",
)  # fmt: skip
@click.option(
    "--init-seed", type=SEED, default=0, show_default=True, help="With --proxy: seed of the weights and the minibatch."
)
@proxy_options
@click.option("-n", "count", type=SAMPLE_COUNT, help="Costs of this many architectures, sampled with --seed.")
@click.option("--distribution", metavar="COST", help="Quantiles and a histogram of this cost over the whole space.")
@click.option(
    "--alternatives", metavar="COST", help="Minimum and maximum of this cost for each alternative of each choice."
)
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
    """Show parameters, multiply-accumulates and other costs of a net, an architecture or a whole space.

    \b
    archir cost space.arch                      minimum and maximum over all architectures
    archir cost space.arch --arch best.json     one architecture
    archir cost space.arch --by scope           per part of the net
    archir cost net.arch --latency cpu.json --cost 'weight_bytes("int8")'

    --arch or --seed selects one architecture of a space. Without them, the exact minimum and maximum of each cost over
    all architectures are printed; with --by scope, the minimum, mean and maximum for each part of the net. COST is
    params, macs, activation_bytes, kernels, flops, or a call such as 'latency("cpu.json")', 'weight_bytes("int8")' or
    'kv_bytes(batch=1, context=4096)'. --proxy computes scores that need weights but no training, on one minibatch; a
    higher score is better.
    """
    if not proxies:
        refuse({"data", "batch", "init_seed"}, "only applies to proxies: add --proxy NAME")
    if by is None:
        refuse({"depth"}, "only applies to parts of a net: add --by scope")
    if arch is not None:
        refuse({"where"}, "only applies to spaces, but --arch names one architecture")
    modes = {"distribution": distribution, "alternatives": alternatives, "count": count}
    if first := next((name for name, argument in modes.items() if argument is not None), None):
        others = {*modes, "by", "proxies", "arch", *(() if first == "count" else ("seed",))} - {first}
        refuse(others, f"cannot be combined with {'-n' if first == 'count' else f'--{first}'}")
    named = (name.replace("'", '"') for name in further)  # in shells, single quotes go into double ones
    wanted = tuple(dict.fromkeys((*map(latency_name, tables), *named)))
    if arch is None:
        searched = space_of(file, parameters, root, limits, where)
        for name in wanted:
            searched.account.check_cost(name)
            searched.account.add_cost(name)
        if searched.has_cost_bounds:
            searched.check_bounds()
        if distribution is not None:
            space_cost.distribution(searched, distribution, as_json)
            return
        if alternatives is not None:
            space_cost.alternatives(searched, alternatives, as_json)
            return
        if count is not None:
            space_cost.samples(searched, count, seed or 0, as_json)
            return
        if searched.choices and seed is None and by is not None:
            space_cost.scopes(searched, depth, as_json)
            return
        if searched.choices and seed is None:
            space_cost.extremes(searched, as_json)
            return
    graph, architecture, space = select_network(file, arch, seed, parameters, root, limits, where)
    extra_costs = {name: int(space.cost([architecture], [name])[name][0]) for name in wanted}
    parts = costs_by_scope(graph, depth)
    total = sum(parts.values(), Cost(0, 0, 0))
    scores = searching.scorer(proxies, data=data, batch=batch, seed=init_seed)(graph) if proxies else {}
    if as_json:
        scopes = {"scopes": {scope: _summed_costs(part) for scope, part in parts.items()}} if by else {}
        facts = _summed_costs(total) | {"peak_bytes": total.peak_bytes} | extra_costs
        emit({"net": space.name, **facts} | scopes | ({"scores": scores} if scores else {}))
        return
    rows = [(scope, *_cells(part)) for scope, part in parts.items()]
    heads = ["scope", "params", "MACs", "activations", "kernels"]
    table("", heads, [*rows, ("total", *_cells(total))], right=(1, 2, 3, 4))
    if extra_costs:
        rows = [(name, f"{value:,}", unit(name)) for name, value in extra_costs.items()]
        table("", ["cost", "value", "unit"], rows, right=(1,))
    if scores:
        table("", ["proxy", "score"], [(name, f"{score:.6g}") for name, score in scores.items()], right=(1,))


def costs_by_scope(graph: Graph, depth: int) -> dict[str, Cost]:
    """Return the costs of a graph's nodes, summed by the first `depth` components of their scopes."""
    parts: dict[str, Cost] = {}
    for number, part in costs(graph).items():
        scope = scope_prefix(graph[number].scope, depth)
        parts[scope] = parts.get(scope, Cost(0, 0, 0)) + part
    return parts


def _summed_costs(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in ADDITIVE_COSTS}


def _cells(cost: Cost) -> tuple[str, ...]:
    return f"{cost.params:,}", f"{cost.macs:,}", _format_bytes(cost.activation_bytes), f"{cost.kernels:,}"


def _format_bytes(count: int) -> str:
    for name, size in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{count:,} B"
