"""A trained network whose channels stand in the order of their importance, and that computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from archir.backends.comparison import random_inputs
from archir.backends.ranges import ranged_inputs
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, state_name
from archir.passes.expand import expand
from archir_torch.lowering.module import lower
from archir_torch.reuse.asked import reordered
from archir_torch.reuse.measures import Trained, measure_of
from archir_torch.reuse.units import Units

MOST_DIFFERENCE = 1e-5
"""Of the largest output, between the network and what it is in another order."""


def ordered(trained: Trained, measure: str) -> dict[str, Tensor]:
    """The weights of a network whose channels stand in order, the most important first: heads, groups and channels of
    them, as far as that leaves what it computes as it is, which is tried.

    Raises ArchError: A2221 (there is no such measure, it needs samples, or the network computes something else).
    """
    score = measure_of(measure)
    graph = expand(trained.graph)
    units = Units(graph)
    scores = score(replace(trained, graph=graph))
    orders = {
        number: torch.from_numpy(order)
        for number, order in units.ordered({n: score.double().cpu().numpy() for n, score in scores.items()}).items()
    }
    found = dict(trained.weights)
    done: set[str] = set()
    for number in graph:
        node, operands = graph[number], graph.operands(number)
        types = [units.types[operand] for operand in operands]
        weights = node.op.weights(*types)
        if not weights or node.scope in done:
            continue
        done.add(node.scope)
        claim = units.claims.get(number)
        for name, roles in node.op.roles(*types).items():
            key, operand = state_name(node.scope, name), orders.get(operands[0]) if operands else None
            if claim is not None:
                chunks = claim.chunks
                found[key] = reordered(found[key], roles, operand, orders.get(number), chunks).contiguous()
    _prove(trained.graph, trained.weights, found)
    return found


def _prove(graph: Graph, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """Raise ArchError (A2221) if a network computes something else with other weights."""
    inputs = [torch.from_numpy(array) for array in random_inputs(ranged_inputs(graph), 2, seed=0).values()]
    results = []
    for weights in (before, after):
        module = lower(graph).double().eval()
        module.load_state_dict({name: weights[name].double() for name in module.state_dict()})
        with torch.no_grad():
            found = module(*(x.double() if x.is_floating_point() else x for x in inputs))
        results.append(found if isinstance(found, dict) else {"output": found})
    for name, result in results[0].items():
        one, other = result.double(), results[1][name].double()
        scale = max(1e-12, float(one.abs().nan_to_num().max()))
        difference = float((one - other).abs().nan_to_num().max()) / scale
        if difference > MOST_DIFFERENCE:
            text = f"`{graph.name}` computes something else in another order: `{name}` differs by {difference:.1e}"
            raise fail("A2221", text, None, "this is a bug of archir, or an operation of a plugin is not a function")
