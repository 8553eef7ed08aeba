"""A graph as nested boxes, with edges between the boxes of each box."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from archir.diagrams.cases import Choice
from archir.ir.graph import Graph
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import Details, Inventory, Item, inventory
from archir.pictures.labels import Kind
from archir.pictures.shading import Heat, figure, legend, step
from archir.pictures.tree import Links, Part, break_rings, cut, find, links_of, simplify, tree, walk, wires

Link = tuple[int | None, int | None, int]
"""From a part, to a part, what passes: positions among the parts, None for the box itself, number of the item made."""


@dataclass(frozen=True, slots=True)
class Box:
    """An operation, or a block, choice or alternative with parts. Boxes are numbered outside in, in drawing order."""

    number: int
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    scope: str = ""
    details: Details = ()
    varied: bool = False
    choice: bool = False
    parts: tuple[Box, ...] = ()
    links: tuple[Link, ...] = ()
    heat: int | None = None
    """The colour of its share of a cost, if boxes are coloured by one."""
    warmth: str = ""
    """That share in figures."""

    @property
    def style(self) -> str:
        """The classes that say how it is drawn."""
        heat = "" if self.heat is None else f" heat{self.heat}"
        return f"box {self.kind}{' varied' if self.varied else ''}{heat}"

    @property
    def header(self) -> str:
        """What stands beside the title while the parts are shown: the names of alternatives are theirs then."""
        return " · ".join(self.lines[:-1] if self.choice else self.lines)

    def walk(self) -> Iterator[Box]:
        """This box and all inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def opened(self, depth: int) -> frozenset[int]:
        """The boxes that show their parts when the outermost `depth` levels do. A choice is no level of its own."""
        found: set[int] = set()
        stack = [(self, 0)]
        while stack:
            box, level = stack.pop()
            if box.parts and level < depth:
                found.add(box.number)
                stack += [(part, level + (not part.choice)) for part in box.parts]
                stack += [(part, level) for part in box.parts if part.choice]
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Outline:
    """A picture before it is laid out. `wires` are the pairs of boxes without parts that an edge leads between."""

    title: str
    subtitle: str
    root: Box
    wires: tuple[tuple[int, int], ...]
    one_block: bool = False
    scale: tuple[tuple[str, str], ...] = ()
    """If boxes are coloured by a cost, the classes of colours and what they mean."""

    def opened(self, depth: int) -> frozenset[int]:
        """The boxes that show their parts when the outermost `depth` levels do, those of a block if it pictures one."""
        return self.root.opened(depth + self.one_block)


def outline(graph: Graph, block: str | None = None, heat: Heat | None = None) -> Outline:
    """The boxes of a graph; with `block`, of the block of this scope or name. Raises ArchError (A1301).

    With `heat`, boxes are coloured by their share of a cost: of what the picture has of it.
    """
    have = inventory(graph, heat.of if heat else None)
    root = tree(have)
    if block is not None:
        path = find(root, have, block).path
        cut(have, path)
        root = tree(have)
        for _ in path[1:]:
            root.adopt([one for part in root.parts for one in ([part] if part.item is not None else part.parts)])
    simplify(root, have)
    break_rings(root, have)
    maker = _Maker(have, links_of(root, have), heat)
    box = maker.box(root)
    edges = tuple((maker.numbers[source], maker.numbers[target]) for source, target in wires(have))
    title, facts = graph.name if block is None else block, _subtitle(graph, have, block)
    if heat is not None:
        facts += f" · colours: share of {heat.title}, {labels.amount(round(maker.total))} in all"
        return Outline(title, facts, box, edges, block is not None, tuple(legend(maker.total)))
    return Outline(title, facts, box, edges, block is not None)


def _subtitle(graph: Graph, have: Inventory, block: str | None) -> str:
    operations = sum(map(_operates, have.items))
    facts = [f"block of {graph.name}"] if block is not None else []
    facts.append(labels.counted(operations, "operation"))
    if graph.decisions and block is None:
        facts.append(labels.counted(len(graph.decisions), "choice"))
    return " · ".join([*facts, *_costs(have.items)])


def _operates(item: Item) -> bool:
    return item.kind not in ("io", "through", "choice")


def _costs(items: list[Item]) -> list[str]:
    """The cost of items of which none or all are needed; of others it depends on choices."""
    costs = [item.cost for item in items if item.cost is not None]
    conditions = {id(item.needed) for item in items if item.kind not in ("io", "through")}
    if len(costs) < len(items) or len(conditions) > 1:
        return []
    total = sum(costs, Cost(0, 0, 0))
    return [f"{labels.amount(total.params)} params"] * bool(total.params) + [
        f"{labels.amount(total.macs)} MACs"
    ] * bool(total.macs)


class _Maker:
    """Turns parts into boxes."""

    def __init__(self, have: Inventory, links: Links, heat: Heat | None) -> None:
        self.have, self.links, self.heat = have, links, heat
        self.total = sum((item.heat for item in have.items), Fraction(0))
        self.numbers: dict[int, int] = {}
        """The box of each item."""
        self.next = 0

    def box(self, part: Part) -> Box:
        number = self.next
        self.next += 1
        if part.item is not None:
            self.numbers[part.item] = number
            item = self.have.items[part.item]
            scope = dict(item.details).get("scope", "")
            box = Box(number, item.kind, item.title, item.lines, scope, item.details, item.varied)
            return self._warmed(box, item.heat)
        parts = tuple(self.box(inner) for inner in part.parts)
        place = {inner: i for i, inner in enumerate(part.parts)}
        links = tuple(
            (None if a is None else place[a], None if b is None else place[b], tensor)
            for a, b, tensor in self.links.get(part, {})
        )
        choice = self.have.choices.get(part.path)
        lines, details = self._text(part)
        title = part.title if choice is None else f"choose {choice.path.rpartition('.')[2]}"
        box = Box(
            number,
            "block" if choice is None else "choice",
            labels.shortened(title),
            lines,
            _scope(part, choice),
            details,
            choice is not None,
            choice is not None,
            parts,
            links,
        )
        leaves = (self.have.items[leaf.item] for leaf in walk(part) if leaf.item is not None)
        return self._warmed(box, sum((item.heat for item in leaves), Fraction(0)))

    def _warmed(self, box: Box, own: Fraction) -> Box:
        """The box in the colour of its share, which is among its details."""
        if self.heat is None:
            return box
        share = figure(own, self.total)
        details = (*box.details, (f"share of {self.heat.title}", share))
        return replace(box, details=details, heat=step(own, self.total), warmth=f"{self.heat.title}: {share}")

    def _text(self, part: Part) -> tuple[tuple[str, ...], Details]:
        items = [self.have.items[leaf.item] for leaf in walk(part) if leaf.item is not None]
        results = dict.fromkeys(tensor for a, b, tensor in self.links.get(part, {}) if b is None)
        shape = ", ".join(dict.fromkeys(self.have.items[tensor].shape for tensor in results))
        choice = self.have.choices.get(part.path)
        scope, costs = _scope(part, choice), _costs(items)
        details: list[tuple[str, str]] = [("scope", scope)]
        lines: list[str] = []
        if choice is not None:
            details += [("choice", choice.path), ("tags", labels.tags(choice))]
            lines += [labels.tags(choice), labels.taken(choice)]
            lines += [labels.outcomes(choice, list(range(choice.outcomes)))]
            details += [("alternatives", ", ".join(map(str, choice.alternatives[:50])))]
        else:
            name = self.have.blocks.get(scope, "")
            details += [("block", name)]
            plain = re.sub(r"(_\d+)?(\[\d+\])*$", "", part.title)
            lines += [name if name != plain else ""]
            inner = sum(path[: len(part.path)] == part.path for path in self.have.choices)
            details += [("choices", f"{inner:,}" if inner else "")]
            lines += [shape, labels.counted(inner, "choice") if inner else " · ".join(costs)]
        operations = sum(map(_operates, items))
        details += [("result", shape), ("operations", f"{operations:,}"), ("cost", ", ".join(costs))]
        kept = tuple(labels.shortened(line) for line in lines if line)
        return kept, tuple((name, text) for name, text in details if text)


def _scope(part: Part, choice: Choice | None) -> str:
    """What a part is called; a choice that no call made by itself is called by its path."""
    return ".".join(part.path) if choice is None or "%" not in part.path[-1] else choice.path
