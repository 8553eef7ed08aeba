"""Costs of a space's nodes as functions of its choices.

Each node that some architecture needs contributes a value that depends on the few choices that its attributes, its
operands' types and its being needed depend on. Totals are sums of such values; the peak of the memory is the maximum,
over the nodes, of what is alive while each one runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from archir.costs.sums import Terms, expanded, only, told
from archir.diagrams.cases import Value, when
from archir.diagrams.conditions import both, either, if_else, negate
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import needs
from archir.ir.op import Op
from archir.ir.rough_needs import made
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, inferred, lifted
from archir.passes.cost import SUMMED, cost_of, stored


@dataclass(frozen=True)
class Rule:
    """A further cost that adds up: what an operation costs on operands of these types, and every network besides."""

    of: Callable[..., int]
    base: int = 0
    once: Callable[[Graph, NodeId], tuple[Hashable, tuple[NodeId, ...]]] | None = None
    """What nodes have in common that share what they cost, and operands that are the same ones, too: it counts at the
    first of them that an architecture has."""
    tokens: int | None = None
    """How many tokens the network is given; None for its own number."""


class Symbolic:
    """The costs of a graph: `summed` adds up to totals, `alive` to what is alive at each step.

    With `roughly`, where nodes are needed is what the program says of where they are made.
    """

    def __init__(self, graph: Graph, roughly: bool = False) -> None:
        self.graph = graph
        needed = made(graph) if roughly else needs(graph)
        self.loose = needed.loose - set(graph.inputs.values())
        """Nodes that may be needed where their condition holds; elsewhere they are not."""
        self.types = inferred(graph, needed) if roughly else infer(graph)
        self.needed = {number: condition for number, condition in needed.items() if number in self.types}
        self.needed |= dict.fromkeys(graph.inputs.values(), True)
        self._known: dict[tuple[Op, tuple[TensorType, ...], TensorType, Value], tuple[Terms, ...]] = {}

    def summed(self, sure: bool = False) -> Mapping[str, Terms]:
        """For each cost that adds up, the terms that it is the sum of; if some nodes are loose, at most, or where
        they are not, `sure`, at least."""
        found: dict[str, Terms] = {name: Counter() for name in SUMMED}
        for number, costs in self.contributions():
            if not sure or number not in self.loose:
                for name, terms in costs.items():
                    found[name].update(terms)
        return found

    def owns(self) -> dict[str, dict[NodeId, Terms]]:
        """For each cost that adds up, what each node costs where it is needed."""
        found: dict[str, dict[NodeId, Terms]] = {name: {} for name in SUMMED}
        for number in self._running():
            for name, terms in zip(SUMMED, self._costs(number), strict=True):
                if terms:
                    found[name][number] = terms
        return found

    def contributions(self) -> Iterator[tuple[NodeId, dict[str, Terms]]]:
        """What each node contributes to the costs that add up, where that is not nothing."""
        counted: dict[str, Value] = {}
        for number in self._running():
            scope, needed = self.graph[number].scope, self.needed[number]
            costs = dict(zip(SUMMED, self._costs(number), strict=True))
            if costs["params"]:
                before = counted.get(scope, False)
                counted[scope] = either(before, needed)
                if before is not False:
                    costs["params"] = only(costs["params"], both(needed, negate(before)))
            yield number, {name: terms for name, terms in costs.items() if terms}

    def contributed(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """What each node contributes to a further cost."""
        if rule.once is None:
            yield from self.owned(rule)
            return
        counted: dict[Hashable, Value] = {}
        for number, value in self.owned(rule):
            counts: Value = False
            for shared, condition in self._shared(*rule.once(self.graph, number)) if value != 0 else ():
                here, before = both(self.needed[number], condition), counted.get(shared, False)
                counts = either(counts, both(here, negate(before)))
                counted[shared] = either(before, here)
            yield number, if_else(counts, value, 0)

    def _shared(self, named: Hashable, operands: Sequence[NodeId]) -> Iterator[tuple[Hashable, Value]]:
        """What a node shares, by a name and what stands behind operands, each with its condition."""
        for several in product(*map(self._sources, operands)):
            condition: Value = True
            for _, under in several:
                condition = both(condition, under)
            yield (named, *(source for source, _ in several)), condition

    def owned(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """What each node costs by a rule where it is needed, whatever others share with it."""
        known: dict[tuple[Op, tuple[TensorType, ...], Value], Value] = {}
        for number in self._running():
            op, needed = self.graph[number].op, self.needed[number]
            if not isinstance(op, Input):
                operands = tuple([self.types[operand] for operand in self.graph.operands(number)])
                question = op, operands, needed
                if question not in known:
                    known[question] = if_else(needed, lifted(rule.of, op, operands, needed, self.graph.given), 0)
                yield number, known[question]

    def _running(self) -> Iterator[NodeId]:
        for number in self.graph:
            if number in self.needed and not isinstance(self.graph[number].op, Select):
                yield number

    def _costs(self, number: NodeId) -> tuple[Terms, ...]:
        """What a node contributes to each cost that adds up: nothing where it is not needed."""
        op, needed = self.graph[number].op, self.needed[number]
        operands = tuple([self.types[operand] for operand in self.graph.operands(number)])
        question = (op, operands, self.types[number], needed)
        if question not in self._known:

            def summed(op: Op, *types: TensorType) -> tuple[int, ...]:
                *operands, result = types
                own = cost_of(op, operands, result)
                return tuple([getattr(own, name) for name in SUMMED])

            types = (*operands, self.types[number])
            together = if_else(needed, lifted(summed, op, types, needed, self.graph.given, told, 0), _NOTHING)
            kinds: dict[Value, int] = {}
            kind = lift(lambda leaf: kinds.setdefault(leaf, len(kinds)), together)
            every = list(kinds)
            self._known[question] = tuple(
                expanded(lift(lambda kind, i=i: every[kind][i], kind)) for i in range(len(SUMMED))
            )
        return self._known[question]

    def alive(self, small: bool = False) -> Iterator[Terms]:
        """For each node, what is alive while it runs; where it does not, what is since the one before it.

        If `small`, results are in 8 bits, and take the place of what they are made of where nothing else reads it.
        """
        readers = self._readers()
        found: dict[NodeId, tuple[Value, Value]] = {}  # what a result takes up, and what it takes up now
        terms: Terms = Counter()

        def dropped(numbers: Iterable[NodeId], after: NodeId) -> None:
            for other in numbers:
                size, now = found[other]
                later = readers[other]
                while later and later[-1][0] <= after:
                    later.pop()
                then = if_else(later[-1][1] if later else False, size, 0)
                terms[now] -= 1
                terms[then] += 1
                found[other] = size, then

        for number in self._running():
            own = self._bytes(number, small)
            read = [x for operand in self.graph.operands(number) for x, _ in self._sources(operand)]
            if small and self.graph[number].op.in_place:
                dropped(dict.fromkeys(read), number)
            terms[own] += 1
            terms[0] = 0
            yield +terms
            found[number] = own, own
            dropped(dict.fromkeys([number, *read]), number)

    def _bytes(self, number: NodeId, small: bool = False) -> Value:
        x = self.types[number]
        size: Value = stored(x.dtype, small)
        for dim in x.dims:
            size = lift(_times, size, dim)
        return if_else(self.needed[number], size, 0)

    def _readers(self) -> dict[NodeId, list[tuple[NodeId, Value]]]:
        """For each node that runs, those that read it, through choices, the last one first; each with the condition
        that it, or one after it, does. The world outside reads outputs last."""
        found: dict[NodeId, list[tuple[NodeId, Value]]] = {number: [] for number in self._running()}
        end = max(self.graph, default=0) + 1
        reads = [(end, operand, True) for operand in self.graph.outputs.values()]
        for number in reversed(list(found)):
            reads += [(number, operand, self.needed[number]) for operand in self.graph.operands(number)]
        for number, operand, needed in reads:
            for source, condition in self._sources(operand):
                later = found[source][-1][1] if found[source] else False
                found[source].append((number, either(later, both(needed, condition))))
        return found

    def _sources(self, number: NodeId) -> list[tuple[NodeId, Value]]:
        """What stands behind a node once choices are made, each with the condition under which it does."""
        op = self.graph[number].op
        if not isinstance(op, Select):
            return [(number, True)]
        choice = self.graph.decisions[op.choice].choice
        found: dict[NodeId, Value] = {}
        for position, operand in enumerate(self.graph.operands(number)):
            outcomes = [outcome for outcome, case in enumerate(op.cases) if case == position]
            for source, condition in self._sources(operand) if outcomes else ():  # else nobody needs it
                found[source] = either(found.get(source, False), both(when(choice, outcomes), condition))
        return list(found.items())


_NOTHING = (0,) * len(SUMMED)


def _times(one: int, other: int) -> int:
    return one * other


def total(network: Graph, rule: Rule) -> int:
    """What a network without choices costs by a rule at its own length."""
    return rule.base + sum(int(value) for _, value in Symbolic(network).contributed(rule))
