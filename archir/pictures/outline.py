"""A graph as nested boxes, with edges between the boxes of each box."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import networkx as nx

from archir.errors import fail, suggest
from archir.ir.graph import Graph
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import Details, Inventory, Item, Path, inventory
from archir.pictures.labels import Kind

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

    def opened(self, depth: int) -> frozenset[int]:
        """The boxes that show their parts when the outermost `depth` levels do, those of a block if it pictures one."""
        return self.root.opened(depth + self.one_block)


@dataclass(eq=False)
class _Part:
    """A box in the making."""

    path: Path
    title: str
    item: int | None = None
    parts: list[_Part] = field(default_factory=list)
    parent: _Part | None = None

    def around(self) -> list[_Part]:
        """The part and those around it, innermost first."""
        found, part = [self], self.parent
        while part is not None:
            found.append(part)
            part = part.parent
        return found

    def adopt(self, parts: list[_Part]) -> None:
        self.parts = parts
        for part in parts:
            part.parent = self


def outline(graph: Graph, block: str | None = None) -> Outline:
    """The boxes of a graph; with `block`, of the block of this scope or name. Raises ArchError (A1301)."""
    have = inventory(graph)
    root = _tree(have)
    if block is not None:
        path = _find(root, have, block).path
        _cut(have, path)
        root = _tree(have)
        for _ in path[1:]:
            root.adopt([one for part in root.parts for one in ([part] if part.item is not None else part.parts)])
    _simplify(root, have)
    _break_rings(root, have)
    maker = _Maker(have, _links(root, have))
    box = maker.box(root)
    wires = tuple((maker.numbers[source], maker.numbers[target]) for source, target in _wires(have))
    return Outline(graph.name if block is None else block, _subtitle(graph, have, block), box, wires, block is not None)


def _subtitle(graph: Graph, have: Inventory, block: str | None) -> str:
    operations = sum(item.kind not in ("io", "through", "choice") for item in have.items)
    facts = [f"block of {graph.name}"] if block is not None else []
    facts.append(labels.counted(operations, "operation"))
    if graph.decisions and block is None:
        facts.append(labels.counted(len(graph.decisions), "choice"))
    return " · ".join([*facts, *_costs(have.items)])


def _costs(items: list[Item]) -> list[str]:
    """The cost of items of which none or all are needed; of others it depends on choices."""
    costs = [item.cost for item in items if item.cost is not None]
    conditions = {id(item.needed) for item in items if item.cost is not None and (item.cost.params or item.cost.macs)}
    if len(costs) < len(items) or len(conditions) > 1:
        return []
    total = sum(costs, Cost(0, 0, 0))
    return [f"{labels.amount(total.params)} params"] * bool(total.params) + [
        f"{labels.amount(total.macs)} MACs"
    ] * bool(total.macs)


def _wires(have: Inventory) -> Iterator[tuple[int, int]]:
    for target, item in enumerate(have.items):
        for source in item.reads:
            yield source, target


def _tree(have: Inventory) -> _Part:
    root = _Part((), "")
    boxes: dict[Path, _Part] = {(): root}
    for number, item in enumerate(have.items):
        around = root
        for i in range(1, len(item.place) + 1):
            path = item.place[:i]
            if path not in boxes:
                boxes[path] = _Part(path, path[-1], parent=around)
                around.parts.append(boxes[path])
            around = boxes[path]
        around.parts.append(_Part((*item.place, item.name), item.title, number, parent=around))
    return root


def _find(root: _Part, have: Inventory, wanted: str) -> _Part:
    parts = [root]
    for part in parts:
        parts += part.parts
    boxes = [part for part in parts if part.item is None and part.path]
    for part in boxes:
        if ".".join(part.path) == wanted:
            return part
    order = {number: i for i, number in enumerate(_order(root))}
    named = [part for part in boxes if have.blocks.get(".".join(part.path)) == wanted]
    if named:
        return min(named, key=lambda part: order[id(part)])
    known = [".".join(part.path) for part in boxes] + sorted(set(have.blocks.values()))
    raise fail("A1301", f"there is no block `{wanted}`", None, suggest(wanted, known))


def _order(part: _Part) -> Iterator[int]:
    yield id(part)
    for inner in part.parts:
        yield from _order(inner)


def _cut(have: Inventory, path: Path) -> None:
    """Leave the items of the box at `path`; what it reads becomes inputs, what is read of it outputs."""
    items = have.items
    inside = [number for number, item in enumerate(items) if item.place[: len(path)] == path]
    members = set(inside)
    sources = dict.fromkeys(source for number in inside for source in items[number].reads if source not in members)
    results = dict.fromkeys(source for source, target in _wires(have) if source in members and target not in members)
    moved: dict[int, int] = {}
    kept: list[Item] = []
    for number in sources:
        made = ".".join((*items[number].place, items[number].name))
        details = (("from", made), ("shape", items[number].shape))
        moved[number] = len(kept)
        kept.append(Item((), made, "io", "input", (items[number].shape,), details, (), Cost(0, 0, 0)))
    for number in inside:
        moved[number] = len(kept)
        kept.append(items[number])
    kept = [replace(item, reads=tuple(moved[source] for source in item.reads)) if item.reads else item for item in kept]
    for number in results:
        kept.append(Item((), "output", "io", "output", (items[number].shape,), (), (moved[number],), Cost(0, 0, 0)))
    have.items[:] = kept


def _simplify(part: _Part, have: Inventory) -> None:
    """A scope that is nothing but the way to another one is no box of its own."""
    for inner in part.parts:
        _simplify(inner, have)
    parts = []
    for inner in part.parts:
        while _is_way(inner, have):
            only = inner.parts[0]
            only.title = only.title if only.item is not None else f"{inner.title}.{only.title}"
            inner = only
        parts.append(inner)
    part.adopt(parts)


def _is_way(part: _Part, have: Inventory) -> bool:
    if part.item is not None or len(part.parts) != 1 or part.path in have.choices:
        return False
    only = part.parts[0]
    if part.path[:-1] in have.choices:
        if only.item is None or have.items[only.item].kind == "choice":
            return False
        item = have.items[only.item]
        name = part.path[-1]
        lines = item.lines if item.title == name else (item.title, *item.lines)
        have.items[only.item] = replace(item, title=labels.shortened(name), lines=lines, alternative=name)
        return True
    return ".".join(part.path) not in have.blocks


def _links(root: _Part, have: Inventory) -> dict[_Part, dict[tuple[_Part | None, _Part | None, int], None]]:
    """The edges between the parts of every box, and from and to the box itself; all of a leaf's edges are one."""
    leaves = {part.item: part for part in _walk(root) if part.item is not None}
    links: dict[_Part, dict[tuple[_Part | None, _Part | None, int], None]] = {}
    for source, target in _wires(have):
        outwards, inwards = leaves[source].around(), leaves[target].around()
        shared = 1
        while outwards[-shared - 1] is inwards[-shared - 1]:
            shared += 1
        for i in range(len(outwards) - shared - 1):
            links.setdefault(outwards[i + 1], {})[outwards[i], None, source] = None
        links.setdefault(outwards[-shared], {})[outwards[-shared - 1], inwards[-shared - 1], source] = None
        for i in range(len(inwards) - shared - 1):
            links.setdefault(inwards[i + 1], {})[None, inwards[i], source] = None
    return links


def _walk(part: _Part) -> Iterator[_Part]:
    yield part
    for inner in part.parts:
        yield from _walk(inner)


def _break_rings(root: _Part, have: Inventory) -> None:
    """Open boxes for good that edges leave and enter again: what is merged across blocks belongs to none of them."""
    gone: set[_Part] = {root}
    while gone:
        gone = set()
        for part, links in _links(root, have).items():
            flow: nx.DiGraph[_Part] = nx.DiGraph()
            flow.add_edges_from((a, b) for a, b, _ in links if a is not None and b is not None)
            if part in gone or nx.is_directed_acyclic_graph(flow):
                continue
            rings = {member for ring in nx.strongly_connected_components(flow) if len(ring) > 1 for member in ring}
            gone |= {member for member in rings if member.parts}
            part.adopt([one for inner in part.parts for one in (inner.parts if inner in gone else [inner])])


class _Maker:
    """Turns parts into boxes."""

    def __init__(self, have: Inventory, links: dict[_Part, dict[tuple[_Part | None, _Part | None, int], None]]) -> None:
        self.have, self.links = have, links
        self.numbers: dict[int, int] = {}
        """The box of each item."""
        self.next = 0

    def box(self, part: _Part) -> Box:
        number = self.next
        self.next += 1
        if part.item is not None:
            self.numbers[part.item] = number
            item = self.have.items[part.item]
            scope = ".".join(part.path)
            return Box(number, item.kind, item.title, item.lines, scope, item.details, item.varied)
        parts = tuple(self.box(inner) for inner in part.parts)
        place = {inner: i for i, inner in enumerate(part.parts)}
        links = tuple(
            (None if a is None else place[a], None if b is None else place[b], tensor)
            for a, b, tensor in self.links.get(part, {})
        )
        choice = self.have.choices.get(part.path)
        lines, details = self._text(part)
        title = part.title if choice is None else f"choose {choice.path.rpartition('.')[2]}"
        return Box(
            number, "block" if choice is None else "choice", labels.shortened(title), lines, ".".join(part.path),
            details, choice is not None, choice is not None, parts, links,
        )  # fmt: skip

    def _text(self, part: _Part) -> tuple[tuple[str, ...], Details]:
        items = [self.have.items[leaf.item] for leaf in _walk(part) if leaf.item is not None]
        results = dict.fromkeys(tensor for a, b, tensor in self.links.get(part, {}) if b is None)
        shape = ", ".join(dict.fromkeys(self.have.items[tensor].shape for tensor in results))
        scope, costs = ".".join(part.path), _costs(items)
        details: list[tuple[str, str]] = [("scope", scope)]
        lines: list[str] = []
        choice = self.have.choices.get(part.path)
        if choice is not None:
            details += [("choice", choice.path), ("tags", labels.tags(choice))]
            lines += [labels.tags(choice), labels.counted(len(choice.alternatives), "alternative")]
            lines += [labels.outcomes(choice, list(range(choice.outcomes)))]
            details += [("alternatives", ", ".join(map(str, choice.alternatives[:50])))]
        else:
            name = self.have.blocks.get(scope, "")
            details += [("block", name)]
            plain = re.sub(r"(_\d+)?(\[\d+\])*$", "", part.title)
            lines += [name if name != plain else ""]
            inner = sum(path[: len(part.path)] == part.path for path in self.have.choices)
            lines += [shape, labels.counted(inner, "choice") if inner else " · ".join(costs)]
        details += [("result", shape), ("operations", f"{len(items):,}"), ("cost", ", ".join(costs))]
        kept = tuple(labels.shortened(line) for line in lines if line)
        return kept, tuple((name, text) for name, text in details if text)
