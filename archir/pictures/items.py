"""Items of a picture: nodes, outputs and choices of a graph, each with the path of the box that contains it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile
from typing import Literal

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
    choices: tuple[str, ...] = ()
    """Paths of the choices on which the attributes of the item depend."""
    shows: tuple[str, ...] = ()
    """Paths of the choices of which the item shows the alternatives."""
    is_beside: bool = False
    """True if the item stands beside the others: a list of alternatives, which reads nothing and is read by nothing."""
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
    moved: dict[Path, tuple[Path, str]]
    """Blocks that are alternatives of a choice but whose scope is beside it: path of the choice box, and name of the
    alternative, by path of the block."""
    decisions: Mapping[str, Choice]
    """Choices of the graph by path."""


def split(scope: str) -> Path:
    """Split a scope into components."""
    return tuple(scope.split(".")) if scope else ()


def stem(component: str) -> str:
    """Return a component of a scope without the number of the call and without indices: `normal` for `normal_2[3]`."""
    return re.sub(r"(_\d+)?(\[\d+\])*$", "", component)


def call_of(place: Path, wanted: Path) -> Path | None:
    """Return the innermost box around `place` that is a call in whose scope a choice is made; None if there is none.

    `wanted` is the scope of the choice. Choices in a cell are named by the cell, wherever it is called: the call
    `stage.normal[3]` makes the choices of the scope `normal`.
    """
    size = len(wanted)
    if place[:size] == wanted:
        return wanted
    for end in range(len(place), size - 1, -1):
        path = place[end - size : end]
        if path[1:] == wanted[1:] and stem(path[0]) == wanted[0]:
            return place[:end]
    return None


def inventory(graph: Graph, heat: Mapping[NodeId, Fraction] | None = None) -> Inventory:
    """Return the contents of the picture of a graph.

    `heat` gives each node's contribution to the cost by which boxes are coloured.
    """
    collector = _Collector(graph, heat or {})
    collector.collect()
    choices = {path: decision.choice for path, decision in graph.decisions.items()}
    return Inventory(collector.items, collector.boxes, graph.blocks, collector.alternatives, collector.moved, choices)


class _Collector:
    """Collects the items of a graph, for one call of `inventory`."""

    def __init__(self, graph: Graph, heat: Mapping[NodeId, Fraction]) -> None:
        self.graph, self.heat = graph, heat
        self.types: Types = checked_types(graph)
        self.needed = reachability_conditions(graph)
        self.items: list[Item] = []
        self.boxes: dict[Path, Choice] = {}
        self.alternatives: dict[Path, tuple[str, ...]] = {}
        self.moved: dict[Path, tuple[Path, str]] = {}
        self.item_of: dict[NodeId, int] = {}
        self.counted_scopes: set[str] = set()
        self.readers = self._readers()
        self.shown: set[str] = set()
        """Paths of those choices between tensors of which all alternatives are drawn."""

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
        self._join_picks()
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
                choices=tuple(choice.path for choice in support(*op.varying_attributes.values())),
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
        its index.

        If all alternatives are computed elsewhere, the choice is one item, which reads them.
        """
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
        unique = f"{op.choice} %{number}"
        if choice_scope is None:
            place = (*self._home(number, choice, sources.values()), unique)
        else:
            place = (
                choice_scope
                if choice_scope not in self.boxes
                else (*choice_scope[:-1], f"{choice_scope[-1]} %{number}")
            )
        is_named = all(isinstance(alternative, str) for alternative in choice.alternatives)
        roles = {
            position: self._role(sources[position], operands[position], place, name, is_named)
            for position, name in names.items()
        }
        shape = labels.shape(self.types[number])
        details = (*_choice_details(choice), ("shape", str(self.types[number])))
        reads = list(dict.fromkeys(sources.values()))
        if set(roles.values()) == {"through"}:
            self.shown.add(op.choice)
            pick = Item(
                place[:-1], unique, "choice", "", (shape,), (("shape", str(self.types[number])),), tuple(reads),
                Cost(0, 0, 0), shape, True, shows=(op.choice,), needed=self.needed.get(number, False),
            )  # fmt: skip
            return self._add(pick)
        self.boxes[place], self.alternatives[place] = choice, tuple(names.values())
        reads = []
        for position, name in names.items():
            source = sources[position]
            match roles[position]:
                case "operation":
                    self._make_alternative(source, place, name)
                case "block":
                    self.moved[self.items[source].place[: len(place)]] = (place, name)
                case "through":
                    item = self.items[source]
                    through = Item(
                        place, name, "through", labels.shortened(name), (item.shape,),
                        (("choice", op.choice), ("alternative", name), ("passes through", item.name)), (source,),
                        Cost(0, 0, 0), item.shape, alternative=name,
                    )  # fmt: skip
                    source = self._add(through)
            reads.append(source)
        if len(names) == len(choice.alternatives):
            self.shown.add(op.choice)
        reads = list(dict.fromkeys(reads))
        return self._add(
            Item(
                place,
                "one",
                "choice",
                f"one of {len(reads)}",
                (shape,),
                details,
                tuple(reads),
                None,
                shape,
                True,
                shows=(op.choice,),
            )
        )

    def _role(
        self, source: int, operand: NodeId, place: Path, name: str, is_named: bool
    ) -> Literal["inside", "operation", "block", "through"]:
        """Return how a choice box at `place` draws one alternative.

        "inside": its items are in the box already, by their scopes. "operation": its only operation, or "block": its
        only block, moves into the box. "through": it is computed elsewhere. Blocks are only moved if the alternatives
        are named, because numbers select from a sequence, such as the layers of a network of any depth.
        """
        item = self.items[source]
        has_one_reader = len(self.graph.consumers(operand)) == 1
        if item.place[: len(place)] == place and (*item.place, item.name)[len(place)] == name:
            return "operation" if item.place == place else "inside"
        if has_one_reader and item.place == place[:-1] and item.kind not in ("io", "choice"):
            return "operation"
        around, block = item.place[: len(place) - 1], item.place[len(place) - 1 : len(place)]
        if has_one_reader and is_named and around == place[:-1] and block and item.kind != "choice":
            return "block"
        return "through"

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

    def _home(self, number: NodeId, choice: Choice, sources: Iterable[int]) -> Path:
        """Return the path of the box for a select node: the call that makes the choice, or a box inside of it.

        That is the call which contains all operands, an operand and a reader, a reader, or an operand: the first of
        these that exists. Without such a call, and within it, it is the innermost box that contains an operand and a
        reader.
        """
        places = {self.items[source].place for source in sources}
        wanted = split(choice.path)[:-1]
        writing = {call_of(place, wanted) for place in places}
        reading = {call for reader in self.readers[number] if (call := call_of(reader, wanted)) is not None}
        calls = [call for call in writing if call is not None]
        if len(writing) > 1 or not calls:
            calls = sorted(reading.intersection(calls) or reading or calls)
        innermost = self._innermost_box(number, places)
        home = calls[0] if calls else innermost
        return innermost if innermost[: len(home)] == home else home

    def _innermost_box(self, number: NodeId, places: Iterable[Path]) -> Path:
        """Return the path of the innermost box that contains one of the places and a reader of a node."""
        best: Path = ()
        for place in places:
            for reader in self.readers[number]:
                pairs = takewhile(lambda pair: pair[0] == pair[1], zip(place, reader, strict=False))
                shared = tuple(component for component, _ in pairs)
                best = max(best, shared, key=lambda path: (len(path), path))
        while best in self.boxes:
            best = best[:-1]
        return best

    def _join_picks(self) -> None:
        """Join items that select among tensors: with the only item that selects among their results, and those of a
        choice of several tensors, such as 2 of 3 edges, with the only item that reads them."""
        readers: dict[int, list[int]] = {}
        for index, item in enumerate(self.items):
            for source in item.reads:
                readers.setdefault(source, []).append(index)
        into: dict[int, int] = {}
        picks = [index for index, item in enumerate(self.items) if item.kind == "choice" and item.name != "one"]
        for index in reversed(picks):
            targets = {into.get(reader, reader) for reader in readers.get(index, ())}
            if len(targets) == 1:
                (target,) = targets
                item, reader = self.items[index], self.items[target]
                several = self.graph.decisions[item.shows[0]].choice.k is not None and reader.kind == "data"
                if item.place == reader.place and (several or target in picks):
                    into[index] = target
        for index, item in enumerate(self.items):
            reads = list(item.reads)
            while joined := [source for source in reads if source in into]:
                reads = [other for read in reads for other in (self.items[read].reads if read in joined else [read])]
                shows = (path for source in joined for path in self.items[source].shows)
                item = replace(item, shows=tuple(dict.fromkeys((*item.shows, *shows))))
            if index in picks or (item.shows and item.name != "one"):
                self.items[index] = self._described(replace(item, reads=tuple(dict.fromkeys(reads))))
        kept = [index for index in range(len(self.items)) if index not in into]
        renumbered = {index: number for number, index in enumerate(kept)}
        self.items = [
            replace(self.items[index], reads=tuple(renumbered[source] for source in self.items[index].reads))
            for index in kept
        ]

    def _described(self, item: Item) -> Item:
        """Return an item that selects among tensors with texts about its choices."""
        choices = [self.graph.decisions[path].choice for path in item.shows]
        details = (*item.details, *(detail for choice in choices for detail in _choice_details(choice)))
        if item.kind != "choice":
            texts = (f"{taken(choice)} {stem(_name(choice))}" for choice in choices)
            return replace(item, lines=(*texts, *item.lines), details=details, is_varying=True)
        outermost = min(choice.path.count(".") for choice in choices)
        choices = [choice for choice in choices if choice.path.count(".") == outermost]
        if len(choices) == 1:
            title = f"choose {_name(choices[0])}"
            line = _alternatives(choices[0])
        else:
            title, line = f"one of {len(item.reads)}", f"by {', '.join(map(_name, choices))}"
        lines = (labels.shortened(line, 24), *item.lines)
        return replace(item, title=labels.shortened(title), lines=lines, details=details)

    def _add_value_choices(self) -> None:
        """Append items for each choice between values, and for each tensor choice of which not all alternatives are
        drawn: a list of the alternatives in each call that makes the choice."""
        changing = {
            choice for number in self.types for choice in support(*self.graph[number].op.varying_attributes.values())
        }
        boxes: dict[str, set[Path]] = {}
        for item in self.items:
            for end in range(1, len(item.place) + 1):
                if item.place[:end] not in self.boxes:
                    boxes.setdefault(stem(item.place[end - 1]), set()).add(item.place[:end])
        listed: list[tuple[Path, Choice]] = []
        for decision in self.graph.decisions.values():
            choice = decision.choice
            if choice.path not in self.shown or choice in changing:
                scope = split(choice.path)[:-1]
                near = boxes.get(stem(scope[-1]), set()) if scope else set()
                calls = sorted(box for box in near if call_of(box, scope) == box)
                listed += [(place, choice) for place in calls or [()]]
        for item in choice_lists(listed):
            self._add(item)


def choice_lists(listed: Iterable[tuple[Path, Choice]]) -> Iterator[Item]:
    """Yield items that list the alternatives of choices, given with the paths of their boxes.

    Choices in one box that differ only in the indices of their names have one item.
    """
    groups: dict[tuple[Path, str, tuple[object, ...]], list[Choice]] = {}
    for place, choice in listed:
        key = (choice.alternatives, choice.k, choice.tags)
        groups.setdefault((place, stem(_name(choice)), key), []).append(choice)
    for (place, name, _), choices in groups.items():
        first = choices[0]
        title = f"choose {_name(first)}" if len(choices) == 1 else f"choose {name} × {len(choices)}"
        yield Item(
            place, f"{first.path} list", "choice", labels.shortened(title),
            (labels.shortened(_alternatives(first)),), _choice_details(first), is_varying=True,
            shows=tuple(choice.path for choice in choices), is_beside=True,
        )  # fmt: skip


def alternatives_list(place: Path, first: Choice) -> Item:
    """Return the item that lists the alternatives of several choices, given one of them."""
    names = [labels.shortened(str(name), 30) for name in first.alternatives[:_MAX_LISTED]]
    left_out = len(first.alternatives) - len(names)
    more = (f"… {left_out} more",) * bool(left_out)
    return Item(
        place, f"{first.path} alternatives", "choice", f"{stem(_name(first))}: {taken(first)}", (*names, *more),
        _choice_details(first), is_varying=True, is_beside=True,
    )  # fmt: skip


_MAX_LISTED = 16
"""Maximum number of alternatives in the list beside a cell."""


def _alternatives(choice: Choice) -> str:
    """Format the outcomes and the tags of a choice: `3 | 5 @kernel`."""
    return f"{labels.outcomes(choice, list(range(choice.outcome_count)))} {labels.tags(choice)}".rstrip()


def taken(choice: Choice) -> str:
    """Return how many of its alternatives a choice takes: `1 of 5`."""
    return f"{choice.k or 1} of {len(choice.alternatives)}"


def _name(choice: Choice) -> str:
    return choice.path.rpartition(".")[2] or "choice"


def _choice_details(choice: Choice) -> Details:
    take = "" if choice.k is None else f"{choice.k} of "
    alternatives = ", ".join(map(str, choice.alternatives[:50])) + (", …" if len(choice.alternatives) > 50 else "")
    tagged = (("tags", labels.tags(choice)),) if choice.tags else ()
    return (("choice", choice.path), ("alternatives", take + alternatives), *tagged)
