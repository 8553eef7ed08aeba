"""Items of a picture: nodes, outputs and choices of a graph, each with the path of the box that contains it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile

from archir.diagrams.diagram import Choice, Value, support, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import Types
from archir.ir.verify import checked_types
from archir.passes.cost import Cost, cost_of
from archir.pictures import labels
from archir.pictures.labels import Kind

Path = tuple[str, ...]
"""Components of a scope, outermost first."""

Details = tuple[tuple[str, str], ...]
"""(name, value) pairs for the details view of a box."""


@dataclass(frozen=True, slots=True)
class Item:
    """Leaf box of a picture.

    `place` is the path of the box that contains the item; `reads` are the indices of its inputs in the list of items.
    """

    place: Path
    name: str
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    details: Details = ()
    reads: tuple[int, ...] = ()
    cost: Cost | None = None
    """Cost of the item; None if it depends on choices."""
    shape: str = ""
    is_varying: bool = False
    """True if the item differs between architectures."""
    alternative: str = ""
    """Name of the alternative that consists of this item only; "" if there is none."""
    needed: Value = True
    """Condition on choices under which an output depends on the item."""
    heat: Fraction = Fraction(0)
    """Contribution of the item to the cost by which boxes are coloured."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Contents of a picture: items, the choice shown by each choice box (by path), and block names by scope."""

    items: list[Item]
    choices: dict[Path, Choice]
    blocks: Mapping[str, str]
    alternatives: dict[Path, tuple[str, ...]]
    """Maps the path of each choice box to the names of its alternatives, in outcome order."""


def split(scope: str) -> Path:
    """Split a scope into components."""
    return tuple(scope.split(".")) if scope else ()


def inventory(graph: Graph, heat: Mapping[NodeId, Fraction] | None = None) -> Inventory:
    """Return the contents of the picture of a graph.

    `heat` gives each node's contribution to the cost by which boxes are coloured.
    """
    collector = _Collector(graph, heat or {})
    collector.collect()
    return Inventory(collector.items, collector.boxes, graph.blocks, collector.alternatives)


class _Collector:
    """Collects the items of a graph, for one call of `inventory`."""

    def __init__(self, graph: Graph, heat: Mapping[NodeId, Fraction]) -> None:
        self.graph, self.heat = graph, heat
        self.types: Types = checked_types(graph)
        self.needed = reachability_conditions(graph)
        self.items: list[Item] = []
        self.boxes: dict[Path, Choice] = {}
        self.alternatives: dict[Path, tuple[str, ...]] = {}
        self.item_of: dict[NodeId, int] = {}
        self.counted_scopes: set[str] = set()
        self.readers = self._readers()
        self.shown: set[str] = set()
        """Paths of those choices between tensors for which every alternative has a box."""

    def collect(self) -> None:
        """Collect items for all nodes, outputs, and choices between values."""
        for number in self.graph:
            if number in self.types:
                op = self.graph[number].op
                self.item_of[number] = self._select(number, op) if isinstance(op, Select) else self._node(number)
        for name, number in self.graph.outputs.items():
            shape = labels.shape(self.types[number])
            details = (("output", name), ("shape", str(self.types[number])))
            self._add(Item((), name, "io", name, (shape,), details, (self.item_of[number],), Cost(0, 0, 0), shape))
        self._add_value_choices()

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def _readers(self) -> dict[NodeId, frozenset[Path]]:
        """For each node, return the paths of the boxes in which it is read.

        A select node does not count as a reader; its own readers count instead.
        """
        readers: dict[NodeId, set[Path]] = {number: set() for number in self.graph}
        for number in self.graph.outputs.values():
            readers[number].add(())
        for number in reversed(list(self.graph)):
            node = self.graph[number]
            places = readers[number] if isinstance(node.op, Select) else {split(node.scope)[:-1]}
            for operand in self.graph.operands(number):
                readers[operand] |= places
        return {number: frozenset(places) for number, places in readers.items()}

    def _node(self, number: NodeId) -> int:
        """Append the item for a node other than a select node; return its index."""
        node, type_ = self.graph[number], self.types[number]
        op, path = node.op, split(node.scope)
        operands = self.graph.operands(number)
        reads = tuple(dict.fromkeys(self.item_of[operand] for operand in operands))
        shape = labels.shape(type_)
        if isinstance(op, Input):
            details: Details = (("input", op.label), ("shape", str(type_)))
            item = Item((), op.label, "io", op.label, (shape,), details, (), Cost(0, 0, 0), shape)
            return self._add(replace(item, heat=self.heat.get(number, item.heat)))
        types = [self.types.get(operand, type_) for operand in operands]
        varied = bool(op.varying_attributes) or any(varies(dim) for x in (*types, type_) for dim in x.dims)
        cost = None if varied else self._cost(number, types)
        lines = [line for line in (labels.settings(op), shape) if line]
        return self._add(
            Item(
                path[:-1],
                path[-1] if path else op.name,
                labels.kind(op),
                labels.heading(op),
                tuple(map(labels.shortened, lines)),
                tuple(self._details(number, types, cost)),
                reads,
                cost,
                shape,
                bool(op.varying_attributes),
                needed=self.needed.get(number, False),
                heat=self.heat.get(number, Fraction(0)),
            )
        )

    def _cost(self, number: NodeId, types: list[TensorType]) -> Cost:
        """Return the cost of a node; parameters shared by several nodes count only for the first of them."""
        node = self.graph[number]
        cost = cost_of(node.op, types, self.types[number])
        if cost.params and node.scope in self.counted_scopes:
            return replace(cost, params=0)
        self.counted_scopes.add(node.scope)
        return cost

    def _details(self, number: NodeId, types: list[TensorType], cost: Cost | None) -> Iterator[tuple[str, str]]:
        node = self.graph[number]
        yield "operation", node.op.name
        yield "scope", node.scope
        yield "shape", str(self.types[number])
        for name, value in node.op.attributes().items():
            yield name, labels.value(value)
        if support(*node.op.varying_attributes.values()):
            yield "depends on", ", ".join(choice.path for choice in support(*node.op.varying_attributes.values()))
        if cost is not None:
            for name, weight in node.op.weights(*types).items():
                kept = " (kept, not trained)" if weight.buffer else ""
                yield f"weight {name}", ("×".join(map(str, weight.shape)) or "scalar") + kept
            yield "params", f"{cost.params:,}"
            yield "MACs", f"{cost.macs:,}"

    def _select(self, number: NodeId, op: Select) -> int:
        """Append the items of a select node: a choice box with the alternatives and an item that merges them; return
        its index."""
        choice = self.graph.decisions[op.choice].choice
        operands = self.graph.operands(number)
        by_position: dict[int, list[int]] = {}
        for outcome, position in enumerate(op.cases):
            by_position.setdefault(position, []).append(outcome)
        by_position = {
            position: outcomes for position, outcomes in by_position.items() if operands[position] in self.item_of
        }
        names = {position: labels.outcomes(choice, outcomes) for position, outcomes in by_position.items()}
        sources = {position: self.item_of[operands[position]] for position in by_position}
        choice_scope = self._choice_scope(
            choice, ((self.items[sources[position]], names[position]) for position in names)
        )
        place = (
            choice_scope
            if choice_scope is not None
            else (*self._innermost_box(number, sources.values()), f"{op.choice} %{number}")
        )
        if place in self.boxes and choice_scope is not None:
            place = (*place[:-1], f"{place[-1]} %{number}")
        self.boxes[place], self.alternatives[place] = choice, tuple(names.values())
        shape = labels.shape(self.types[number])
        reads = []
        for position, name in names.items():
            source, has_one_reader = sources[position], len(self.graph.consumers(operands[position])) == 1
            item = self.items[source]
            inside = item.place[: len(place)] == place
            if inside and (*item.place, item.name)[len(place)] == name:
                if item.place == place:
                    self._make_alternative(source, place, name)
            elif has_one_reader and item.place == place[:-1] and item.kind not in ("io", "choice") and not inside:
                self._make_alternative(source, place, name)
            else:
                details: Details = (("choice", op.choice), ("alternative", name), ("passes through", item.name))
                through = Item(
                    place, name, "through", labels.shortened(name), (item.shape,), details, (source,),
                    Cost(0, 0, 0), item.shape, alternative=name,
                )  # fmt: skip
                source = self._add(through)
            reads.append(source)
        if len(names) == len(choice.alternatives):
            self.shown.add(op.choice)
        details = (*_choice_details(choice), ("shape", str(self.types[number])))
        reads = list(dict.fromkeys(reads))
        return self._add(
            Item(place, "one", "choice", f"one of {len(reads)}", (shape,), details, tuple(reads), None, shape, True)
        )

    def _make_alternative(self, source: int, place: Path, name: str) -> None:
        """Turn an item, which is the only operation of an alternative, into the box of that alternative.

        The item is moved into the choice box.
        """
        item = self.items[source]
        lines = item.lines if item.title == name else (item.title, *item.lines)
        self.items[source] = replace(
            item, place=place, name=name, title=labels.shortened(name), lines=lines, alternative=name
        )

    def _choice_scope(self, choice: Choice, alternatives: Iterable[tuple[Item, str]]) -> Path | None:
        """Return the scope that contains all alternatives of a choice, derived from the scopes of the items.

        Returns None if no scope matches.
        """
        last = split(choice.path)[-1:]
        for item, name in alternatives:
            path = (*item.place, item.name)
            for i in range(len(path) - 1, 0, -1):
                if path[i] == name and path[i - 1 : i] == last:
                    return path[:i]
        return None

    def _innermost_box(self, number: NodeId, sources: Iterable[int]) -> Path:
        """Return the path of the innermost box that contains both an operand and a reader of a node."""
        best: Path = ()
        for place in {self.items[source].place for source in sources}:
            for reader in self.readers[number]:
                pairs = takewhile(lambda pair: pair[0] == pair[1], zip(place, reader, strict=False))
                shared = tuple(component for component, _ in pairs)
                best = max(best, shared, key=lambda path: (len(path), path))
        while best in self.boxes:
            best = best[:-1]
        return best

    def _add_value_choices(self) -> None:
        """Append one item that lists the alternatives for each choice between values, and for each tensor choice whose
        alternatives do not all have boxes."""
        changing = {
            choice for number in self.types for choice in support(*self.graph[number].op.varying_attributes.values())
        }
        for decision in self.graph.decisions.values():
            choice = decision.choice
            if choice.path not in self.shown or choice in changing:
                path = split(choice.path) or ("choice",)
                names = labels.outcomes(choice, list(range(choice.outcome_count)))
                lines = tuple(labels.shortened(line) for line in (names, labels.tags(choice)) if line)
                title = labels.shortened(f"choose {path[-1]}")
                self._add(Item(path[:-1], path[-1], "choice", title, lines, _choice_details(choice), is_varying=True))


def _choice_details(choice: Choice) -> Details:
    take = "" if choice.k is None else f"{choice.k} of "
    alternatives = ", ".join(map(str, choice.alternatives[:50])) + (", …" if len(choice.alternatives) > 50 else "")
    tagged = (("tags", labels.tags(choice)),) if choice.tags else ()
    return (("choice", choice.path), ("alternatives", take + alternatives), *tagged)
