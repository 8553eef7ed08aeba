"""Freezing: fixes some choices of a space and keeps the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archir.diagrams.diagram import Choice, Value, fix_choice, support, varies
from archir.ir.graph import Decision, Graph, Node, NodeId, rebuild
from archir.ir.structure import Select
from archir.passes.prune import prune


def freeze(graph: Graph, outcomes: Mapping[str, int]) -> Graph:
    """Fix choices, by path, to outcomes, and return the remaining space. To fix all, `specialize` is faster.

    Choices that become inactive are removed. A condition that mentions the outcome of a removed choice holds either for
    all of the choice's outcomes or for none. Conditions and constraints are reduced to the remaining choices.
    """
    fixed: dict[Choice, int] = {}

    def substitute(value: Value) -> Value:
        for choice in support(value) if varies(value) else ():
            if choice in fixed:
                value = fix_choice(value, choice, fixed[choice])
        return value

    decisions: dict[str, Decision] = {}
    for path, decision in graph.decisions.items():
        active = substitute(decision.active)
        if path in outcomes or active is False:
            fixed[decision.choice] = outcomes.get(path, 0)
        else:
            decisions[path] = Decision(decision.choice, active)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        op = node.op
        if isinstance(op, Select) and (choice := graph.decisions[op.choice].choice) in fixed:
            return operands[op.cases[fixed[choice]]]
        varied = op.varying_attributes
        if varied:
            op = replace(op, **{name: substitute(value) for name, value in varied.items()})
        return out.add(Node(op, node.span, node.scope), *operands)

    result = rebuild(graph, step)
    result.decisions = decisions
    result.constraints = [
        replace(c, condition=substitute(c.condition), limit=substitute(c.limit))
        for c in graph.constraints
        if c.cost is not None or substitute(c.condition) is not True
    ]
    return prune(result)
