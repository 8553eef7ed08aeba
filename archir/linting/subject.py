"""The graph that lint rules check, with cached analyses that several rules need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Literal

from archir.diagnostics.errors import Note
from archir.diagrams.conditions import conjoin, negate, possible_outcomes
from archir.diagrams.diagram import Choice, Value, outcome_in, support
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import Types, lift_rule
from archir.ir.verify import checked_types

Purpose = Literal["differentiable", "shared"]
"""How a space will be searched, if known: `differentiable` (by gradients of architecture parameters) or `shared`
(with a single-path supernet)."""
Owner = tuple[str, int]
"""Alternative of a choice: (path of the choice, index of the alternative)."""


class Subject:
    """Graph checked by lint rules, with lazily computed analyses, and the purpose of the space."""

    def __init__(self, graph: Graph, purpose: Purpose | None = None) -> None:
        self.graph, self.purpose = graph, purpose
        self._has_parameters: dict[tuple[Op, tuple[TensorType, ...]], bool] = {}

    @cached_property
    def needed(self) -> dict[NodeId, Value]:
        """Reachability condition of each node; unreachable nodes are missing."""
        return reachability_conditions(self.graph)

    @cached_property
    def types(self) -> Types:
        """Type of each reachable node."""
        return checked_types(self.graph)

    def operand_types(self, node_id: NodeId) -> tuple[TensorType, ...]:
        """Return the types of a node's operands."""
        return tuple([self.types[operand] for operand in self.graph.operands(node_id)])

    def has_parameters(self, node_id: NodeId) -> bool:
        """Return True if a node has trainable weights for some combination of choices."""
        key = self.graph[node_id].op, self.operand_types(node_id)
        if key not in self._has_parameters:
            trained = lift_rule(_has_trainable_weights, *key, self.needed[node_id], self.graph.assumptions)
            self._has_parameters[key] = trained is not False
        return self._has_parameters[key]

    @cached_property
    def owners(self) -> dict[int, list[Owner]]:
        """Maps the `id` of each reachability condition to the alternatives that it implies."""
        distinct = {id(condition): condition for condition in self.needed.values()}
        return {name: list(_implied(condition)) for name, condition in distinct.items()}

    @cached_property
    def owned_nodes(self) -> dict[Owner, set[NodeId]]:
        """Maps each alternative to the nodes that are reachable only if it is chosen."""
        nodes: dict[Owner, set[NodeId]] = defaultdict(set)
        for node_id, condition in self.needed.items():
            for owner in self.owners[id(condition)]:
                nodes[owner].add(node_id)
        return nodes

    @cached_property
    def selects(self) -> dict[str, list[NodeId]]:
        """Maps the path of each choice to its reachable `Select` nodes."""
        nodes: dict[str, list[NodeId]] = defaultdict(list)
        for node_id in self.graph:
            op = self.graph[node_id].op
            if isinstance(op, Select) and node_id in self.needed:
                nodes[op.choice].append(node_id)
        return nodes

    @cached_property
    def attribute_choices(self) -> set[str]:
        """Paths of the choices on which operation attributes depend."""
        return {path for node_id in self.needed for path in self.graph[node_id].op.choices}

    @cached_property
    def scopes(self) -> dict[str, set[NodeId]]:
        """Maps each scope to its reachable nodes; nodes with the same scope share weights."""
        nodes: dict[str, set[NodeId]] = defaultdict(set)
        for node_id in self.needed:
            nodes[self.graph[node_id].scope].add(node_id)
        return nodes

    @cached_property
    def choices_by_place(self) -> list[list[Choice]]:
        """Choices grouped by source position: a `choose` in a loop makes several choices."""
        choices: dict[str, list[Choice]] = defaultdict(list)
        for decision in self.graph.decisions.values():
            choices[str(decision.choice.span)].append(decision.choice)
        return list(choices.values())

    def searched(self, choice: Choice, purpose: Purpose) -> bool:
        """Return True if a choice is searched in the given way.

        This holds if the whole space is searched in this way, or if the choice has the tag of this name.
        """
        return self.purpose == purpose or purpose in choice.tags

    def holds_for(self, condition: Value, choice: Choice, alternative: int) -> bool:
        """Return True if `condition` holds whenever `choice` is active and selects the alternative."""
        chosen = outcome_in(choice, (outcome for outcome, subset in enumerate(choice.subsets) if alternative in subset))
        chosen_and_active = conjoin(self.graph.decisions[choice.path].active, chosen)
        return chosen_and_active is condition or conjoin(chosen_and_active, negate(condition)) is False


def _has_trainable_weights(op: Op, *types: TensorType) -> bool:
    """Return True if an operation has weights other than buffers."""
    return any(not weight.buffer for weight in op.weights(*types).values())


def _implied(condition: Value) -> Iterable[Owner]:
    """Yield the alternatives that a condition implies."""
    for choice in support(condition):
        possible = possible_outcomes(choice, condition)
        for alternative in set.intersection(*(set(choice.subsets[outcome]) for outcome in sorted(possible))):
            yield choice.path, alternative


def more_note(count: int) -> tuple[Note, ...]:
    """Return a note that the warning also applies to `count` more choices at the same position; () if `count` is 0."""
    return (Note(f"the same holds for {count} more at this place"),) if count else ()
