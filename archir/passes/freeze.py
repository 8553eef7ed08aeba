"""Some choices of a space, made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archir.diagrams.cases import Choice, Value, fix, support, varies
from archir.ir.graph import Decision, Graph, Node, NodeId, rebuild
from archir.ir.structure import Select
from archir.passes.prune import prune


def freeze(graph: Graph, outcomes: Mapping[str, int]) -> Graph:
    """The space that is left when choices have these outcomes, by path. `specialize` is for all of them, and faster.

    Choices that this makes inactive are gone: where one is asked, all answers are the same. Conditions and constraints
    keep what they say of the others.
    """
    made: dict[Choice, int] = {}

    def known(value: Value) -> Value:
        for choice in support(value) if varies(value) else ():
            if choice in made:
                value = fix(value, choice, made[choice])
        return value

    decisions: dict[str, Decision] = {}
    for path, decision in graph.decisions.items():
        active = known(decision.active)
        if path in outcomes or active is False:
            made[decision.choice] = outcomes.get(path, 0)
        else:
            decisions[path] = Decision(decision.choice, active)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        op = node.op
        if isinstance(op, Select) and (choice := graph.decisions[op.choice].choice) in made:
            return operands[op.cases[made[choice]]]
        varied = op.varied
        if varied:
            op = replace(op, **{name: known(value) for name, value in varied.items()})
        return out.add(Node(op, node.span, node.scope), *operands)

    result = rebuild(graph, step)
    result.decisions = decisions
    result.constraints = [
        replace(c, condition=known(c.condition), limit=known(c.limit))
        for c in graph.constraints
        if c.cost is not None or known(c.condition) is not True
    ]
    return prune(result)
