"""Reordering of a trained network's channels by importance, without changing what the network computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from archir.backends.comparison import random_inputs
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, state_name
from archir.passes.expand import expand
from archir_torch.lowering.module import lower
from archir_torch.reuse.channel_symmetry import reorder_weight
from archir_torch.reuse.measures import Trained, measure_of
from archir_torch.reuse.units import ChannelUnits

MAX_DIFFERENCE = 1e-5
"""Maximum difference between the outputs before and after reordering, relative to the largest output."""


def order_channels(trained: Trained, measure: str) -> dict[str, Tensor]:
    """Return the weights with channels reordered by importance, the most important first.

    Heads, groups and the channels within them are reordered as far as the network still computes the same, which is
    tested. Raises ArchError (A2221) if there is no such measure, if the measure needs samples and there are none, or
    if the reordered network computes something else.
    """
    score = measure_of(measure)
    graph = expand(trained.graph)
    units = ChannelUnits(graph)
    scores = score(replace(trained, graph=graph))
    orders = {
        number: torch.from_numpy(order)
        for number, order in units.channel_order(
            {n: score.double().cpu().numpy() for n, score in scores.items()}
        ).items()
    }
    weights_by_name = dict(trained.weights)
    finished_scopes: set[str] = set()
    for number in graph:
        node, operands = graph[number], graph.operands(number)
        types = [units.types[operand] for operand in operands]
        weights = node.op.weights(*types)
        if not weights or node.scope in finished_scopes:
            continue
        finished_scopes.add(node.scope)
        claim = units.claims.get(number)
        for name, roles in node.op.roles(*types).items():
            key, operand = state_name(node.scope, name), orders.get(operands[0]) if operands else None
            if claim is not None:
                chunks = claim.chunks
                weights_by_name[key] = reorder_weight(
                    weights_by_name[key], roles, operand, orders.get(number), chunks
                ).contiguous()
    _check_same_outputs(trained.graph, trained.weights, weights_by_name)
    return weights_by_name


def _check_same_outputs(graph: Graph, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """Check that a network computes the same with two sets of weights, on random inputs in double precision.

    Raises ArchError (A2221) if the outputs differ.
    """
    inputs = [torch.from_numpy(array) for array in random_inputs(ranged_inputs(graph), 2, seed=0).values()]
    results = []
    for weights in (before, after):
        module = lower(graph).double().eval()
        module.load_state_dict({name: weights[name].double() for name in module.state_dict()})
        with torch.no_grad():
            outputs = module(*(x.double() if x.is_floating_point() else x for x in inputs))
        results.append(outputs if isinstance(outputs, dict) else {"output": outputs})
    for name, result in results[0].items():
        left, right = result.double(), results[1][name].double()
        scale = max(1e-12, float(left.abs().nan_to_num().max()))
        difference = float((left - right).abs().nan_to_num().max()) / scale
        if difference > MAX_DIFFERENCE:
            text = f"reordering channels changed what `{graph.name}` computes: `{name}` differs by {difference:.1e}"
            raise fail("A2221", text, None, "this is a bug of archir, or an operation of a plugin is not a function")
