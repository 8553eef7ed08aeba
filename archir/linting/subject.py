"""What rules look at: a graph, and which of its nodes belong to which alternative."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Literal

from archir.diagnostics.errors import Note
from archir.diagrams.cases import Choice, Value, support, when
from archir.diagrams.conditions import both, negate, outcomes
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import needs
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import Types, lifted
from archir.ir.verify import typed

Purpose = Literal["differentiable", "shared"]
"""How a space is searched, where that matters: by gradients of architecture weights, by a supernet of single paths."""
Owner = tuple[str, int]
"""A choice by its path, and the position of one of its alternatives."""


class Subject:
    """A graph, what is known of it, and how it will be searched."""

    def __init__(self, graph: Graph, purpose: Purpose | None = None) -> None:
        self.graph, self.purpose = graph, purpose
        self._weighs: dict[tuple[Op, tuple[TensorType, ...]], bool] = {}

    @cached_property
    def needed(self) -> dict[NodeId, Value]:
        """The condition under which each node is needed; nodes that never are, are missing."""
        return needs(self.graph)

    @cached_property
    def types(self) -> Types:
        """The type of each node that is needed."""
        return typed(self.graph)

    def operand_types(self, number: NodeId) -> tuple[TensorType, ...]:
        """The types of what a node reads."""
        return tuple([self.types[operand] for operand in self.graph.operands(number)])

    def weighs(self, number: NodeId) -> bool:
        """Whether a node has trained weights, for some combination of choices."""
        question = self.graph[number].op, self.operand_types(number)
        if question not in self._weighs:
            trained = lifted(_trained, *question, self.needed[number], self.graph.given)
            self._weighs[question] = trained is not False
        return self._weighs[question]

    @cached_property
    def owners(self) -> dict[int, list[Owner]]:
        """For each condition of a node, by identity: the alternatives that it implies."""
        distinct = {id(condition): condition for condition in self.needed.values()}
        return {name: list(_implied(condition)) for name, condition in distinct.items()}

    @cached_property
    def owned(self) -> dict[Owner, set[NodeId]]:
        """The nodes that are needed only where an alternative is chosen."""
        found: dict[Owner, set[NodeId]] = defaultdict(set)
        for number, condition in self.needed.items():
            for owner in self.owners[id(condition)]:
                found[owner].add(number)
        return found

    @cached_property
    def selects(self) -> dict[str, list[NodeId]]:
        """The nodes that read one operand or another by a choice, by its path."""
        found: dict[str, list[NodeId]] = defaultdict(list)
        for number in self.graph:
            op = self.graph[number].op
            if isinstance(op, Select) and number in self.needed:
                found[op.choice].append(number)
        return found

    @cached_property
    def attributes(self) -> set[str]:
        """The choices that attributes of nodes depend on."""
        return {path for number in self.needed for path in self.graph[number].op.choices}

    @cached_property
    def scopes(self) -> dict[str, set[NodeId]]:
        """The nodes of each scope: those among them that have weights share these."""
        found: dict[str, set[NodeId]] = defaultdict(set)
        for number in self.needed:
            found[self.graph[number].scope].add(number)
        return found

    @cached_property
    def written(self) -> list[list[Choice]]:
        """The choices, those together that are written at one place."""
        found: dict[str, list[Choice]] = defaultdict(list)
        for decision in self.graph.decisions.values():
            found[str(decision.choice.span)].append(decision.choice)
        return list(found.values())

    def searched(self, choice: Choice, purpose: Purpose) -> bool:
        """Whether a choice is searched in a way: all of the space is, or it has that tag."""
        return self.purpose == purpose or purpose in choice.tags

    def always(self, condition: Value, choice: Choice, alternative: int) -> bool:
        """Whether a condition holds wherever a choice that is active has an alternative."""
        chosen = when(choice, (o for o, subset in enumerate(choice.subsets) if alternative in subset))
        here = both(self.graph.decisions[choice.path].active, chosen)
        return here is condition or both(here, negate(condition)) is False


def _trained(op: Op, *types: TensorType) -> bool:
    return any(not weight.buffer for weight in op.weights(*types).values())


def _implied(condition: Value) -> Iterable[Owner]:
    for choice in support(condition):
        possible = outcomes(choice, condition)
        for alternative in set.intersection(*(set(choice.subsets[outcome]) for outcome in sorted(possible))):
            yield choice.path, alternative


def others(count: int) -> tuple[Note, ...]:
    """The remark that more choices of one place are as the one that is shown."""
    return (Note(f"and so it is in {count} more of this place"),) if count else ()
