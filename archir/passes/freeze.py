"""Some choices of a space, made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archir.cases import Value, fix, support, varies
from archir.ir.graph import Decision, Graph, Node, NodeId, rebuild
from archir.ir.structure import Select
from archir.passes.prune import prune


def freeze(graph: Graph, outcomes: Mapping[str, int]) -> Graph:
    """The space that is left when choices have these outcomes, by path. `specialize` is for all of them, and faster.

    Choices that this makes inactive are gone; conditions and constraints keep what they say of the others.
    """
    made = {graph.decisions[path].choice: outcome for path, outcome in outcomes.items() if path in graph.decisions}

    def known(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(known(item) for item in value)
        for choice in support(value) if varies(value) else ():
            if choice in made:
                value = fix(value, choice, made[choice])
        return value

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        op = node.op
        if isinstance(op, Select) and op.choice in outcomes:
            return operands[op.cases[outcomes[op.choice]]]
        varied = op.varied
        if varied:
            op = replace(op, **{name: known(value) for name, value in varied.items()})
        return out.add(Node(op, node.span, node.scope), *operands)

    result = rebuild(graph, step)
    decisions = {
        path: Decision(d.choice, known(d.active)) for path, d in graph.decisions.items() if d.choice not in made
    }
    result.decisions = {path: decision for path, decision in decisions.items() if decision.active is not False}
    result.constraints = [
        replace(c, condition=known(c.condition), limit=known(c.limit))
        for c in graph.constraints
        if c.cost is not None or known(c.condition) is not True
    ]
    return prune(result)
