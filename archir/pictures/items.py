"""What a graph has to draw: its nodes, outputs and alternatives, each with a place among the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from archir.diagrams.cases import Choice, Value, support, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import needs
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import Types
from archir.ir.verify import typed
from archir.passes.cost import Cost, cost_of
from archir.pictures import labels
from archir.pictures.labels import Kind

Path = tuple[str, ...]
"""Components of a scope, outermost first."""

Details = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A box without parts. It reads items, by position in the list of all of them, and stands in the box at `place`."""

    place: Path
    name: str
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    details: Details = ()
    reads: tuple[int, ...] = ()
    cost: Cost | None = None
    """None where it depends on choices."""
    shape: str = ""
    varied: bool = False
    """Whether it is another one in other architectures."""
    alternative: str = ""
    """The alternative it is all of, if it is one."""
    needed: Value = True
    """The condition under which an output depends on it."""
    heat: Fraction = Fraction(0)
    """What it has of the cost that boxes are coloured by."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything there is to draw: items, the boxes of choices by place, and what the boxes of blocks are called."""

    items: list[Item]
    choices: dict[Path, Choice]
    blocks: Mapping[str, str]
    alternatives: dict[Path, tuple[str, ...]]
    """What is in the boxes of choices, in the order of outcomes."""


def split(scope: str) -> Path:
    """The components of a scope."""
    return tuple(scope.split(".")) if scope else ()


def inventory(graph: Graph, heat: Mapping[NodeId, Fraction] | None = None) -> Inventory:
    """What there is to draw of a graph; `heat` is what nodes have of the cost that boxes are coloured by."""
    collector = _Collector(graph, heat or {})
    collector.collect()
    return Inventory(collector.items, collector.boxes, graph.blocks, collector.alternatives)


def _common(one: Path, other: Path) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class _Collector:
    def __init__(self, graph: Graph, heat: Mapping[NodeId, Fraction]) -> None:
        self.graph, self.heat = graph, heat
        self.types: Types = typed(graph)
        self.needed = needs(graph)
        self.items: list[Item] = []
        self.boxes: dict[Path, Choice] = {}
        self.alternatives: dict[Path, tuple[str, ...]] = {}
        self.made: dict[NodeId, int] = {}
        self.weighed: set[str] = set()
        self.readers = self._readers()
        self.shown: set[str] = set()
        """Choices among tensors all of whose alternatives have a box."""

    def collect(self) -> None:
        for number in self.graph:
            if number in self.types:
                op = self.graph[number].op
                self.made[number] = self._select(number, op) if isinstance(op, Select) else self._node(number)
        for name, number in self.graph.outputs.items():
            shape = labels.shape(self.types[number])
            details = (("output", name), ("shape", str(self.types[number])))
            self._add(Item((), name, "io", name, (shape,), details, (self.made[number],), Cost(0, 0, 0), shape))
        self._values()

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def _readers(self) -> dict[NodeId, frozenset[Path]]:
        """The places of the nodes that read each node, directly or by way of choices."""
        found: dict[NodeId, set[Path]] = {number: set() for number in self.graph}
        for number in self.graph.outputs.values():
            found[number].add(())
        for number in reversed(list(self.graph)):
            node = self.graph[number]
            places = found[number] if isinstance(node.op, Select) else {split(node.scope)[:-1]}
            for operand in self.graph.operands(number):
                found[operand] |= places
        return {number: frozenset(places) for number, places in found.items()}

    def _node(self, number: NodeId) -> int:
        node, type_ = self.graph[number], self.types[number]
        op, path = node.op, split(node.scope)
        operands = self.graph.operands(number)
        reads = tuple(dict.fromkeys(self.made[operand] for operand in operands))
        shape = labels.shape(type_)
        if isinstance(op, Input):
            details: Details = (("input", op.label), ("shape", str(type_)))
            item = Item((), op.label, "io", op.label, (shape,), details, (), Cost(0, 0, 0), shape)
            return self._add(replace(item, heat=self.heat.get(number, item.heat)))
        types = [self.types.get(operand, type_) for operand in operands]
        varied = bool(op.varied) or any(varies(dim) for x in (*types, type_) for dim in x.dims)
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
                bool(op.varied),
                needed=self.needed.get(number, False),
                heat=self.heat.get(number, Fraction(0)),
            )
        )

    def _cost(self, number: NodeId, types: list[TensorType]) -> Cost:
        node = self.graph[number]
        cost = cost_of(node.op, types, self.types[number])
        if cost.params and node.scope in self.weighed:
            return replace(cost, params=0)
        self.weighed.add(node.scope)
        return cost

    def _details(self, number: NodeId, types: list[TensorType], cost: Cost | None) -> Iterator[tuple[str, str]]:
        node = self.graph[number]
        yield "operation", node.op.name
        yield "scope", node.scope
        yield "shape", str(self.types[number])
        for name, value in node.op.attributes().items():
            yield name, labels.value(value)
        if support(*node.op.varied.values()):
            yield "depends on", ", ".join(choice.path for choice in support(*node.op.varied.values()))
        if cost is not None:
            for name, weight in node.op.weights(*types).items():
                kept = " (kept, not trained)" if weight.buffer else ""
                yield f"weight {name}", ("×".join(map(str, weight.shape)) or "scalar") + kept
            yield "params", f"{cost.params:,}"
            yield "MACs", f"{cost.macs:,}"

    def _select(self, number: NodeId, op: Select) -> int:
        """A choice among tensors: a box that holds its alternatives and the place where they come together."""
        choice = self.graph.decisions[op.choice].choice
        operands = self.graph.operands(number)
        by_position: dict[int, list[int]] = {}
        for outcome, position in enumerate(op.cases):
            by_position.setdefault(position, []).append(outcome)
        by_position = {position: which for position, which in by_position.items() if operands[position] in self.made}
        names = {position: labels.outcomes(choice, which) for position, which in by_position.items()}
        sources = {position: self.made[operands[position]] for position in by_position}
        home = self._home(choice, ((self.items[sources[position]], names[position]) for position in names))
        place = home if home is not None else (*self._between(number, sources.values()), f"{op.choice} %{number}")
        if place in self.boxes and home is not None:
            place = (*place[:-1], f"{place[-1]} %{number}")
        self.boxes[place], self.alternatives[place] = choice, tuple(names.values())
        shape = labels.shape(self.types[number])
        reads = []
        for position, name in names.items():
            source, once = sources[position], len(self.graph.consumers(operands[position])) == 1
            item = self.items[source]
            inside = item.place[: len(place)] == place
            if inside and (*item.place, item.name)[len(place)] == name:
                if item.place == place:
                    self._becomes(source, place, name)
            elif once and item.place == place[:-1] and item.kind not in ("io", "choice") and not inside:
                self._becomes(source, place, name)
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
        details = (*_described(choice), ("shape", str(self.types[number])))
        reads = list(dict.fromkeys(reads))
        return self._add(
            Item(place, "one", "choice", f"one of {len(reads)}", (shape,), details, tuple(reads), None, shape, True)
        )

    def _becomes(self, source: int, place: Path, name: str) -> None:
        """The only operation of an alternative stands for it."""
        item = self.items[source]
        lines = item.lines if item.title == name else (item.title, *item.lines)
        self.items[source] = replace(
            item, place=place, name=name, title=labels.shortened(name), lines=lines, alternative=name
        )

    def _home(self, choice: Choice, alternatives: Iterable[tuple[Item, str]]) -> Path | None:
        """The scope of the call that made the choice, as the scopes of the alternatives tell it."""
        last = split(choice.path)[-1:]
        for item, name in alternatives:
            path = (*item.place, item.name)
            for i in range(len(path) - 1, 0, -1):
                if path[i] == name and path[i - 1 : i] == last:
                    return path[:i]
        return None

    def _between(self, number: NodeId, sources: Iterable[int]) -> Path:
        """The innermost box with both an operand and a reader of a node."""
        best: Path = ()
        for place in {self.items[source].place for source in sources}:
            for reader in self.readers[number]:
                shared = place[: _common(place, reader)]
                best = max(best, shared, key=lambda path: (len(path), path))
        while best in self.boxes:
            best = best[:-1]
        return best

    def _values(self) -> None:
        """Choices among values, or whose alternatives have no box each: a box with their names."""
        changing = {choice for number in self.types for choice in support(*self.graph[number].op.varied.values())}
        for decision in self.graph.decisions.values():
            choice = decision.choice
            if choice.path not in self.shown or choice in changing:
                path = split(choice.path) or ("choice",)
                names = labels.outcomes(choice, list(range(choice.outcomes)))
                lines = tuple(labels.shortened(line) for line in (names, labels.tags(choice)) if line)
                title = labels.shortened(f"choose {path[-1]}")
                self._add(Item(path[:-1], path[-1], "choice", title, lines, _described(choice), varied=True))


def _described(choice: Choice) -> Details:
    take = "" if choice.take is None else f"{choice.take} of "
    alternatives = ", ".join(map(str, choice.alternatives[:50])) + (", …" if len(choice.alternatives) > 50 else "")
    tagged = (("tags", labels.tags(choice)),) if choice.tags else ()
    return (("choice", choice.path), ("alternatives", take + alternatives), *tagged)
