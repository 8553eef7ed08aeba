"""The tree of boxes behind a picture: scopes become boxes, and edges run between the boxes of each box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import fail, suggest
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import Inventory, Item, Path


@dataclass(eq=False)
class Part:
    """A box in the making: an item, or a scope with parts."""

    path: Path
    title: str
    item: int | None = None
    parts: list[Part] = field(default_factory=list)
    parent: Part | None = None

    def around(self) -> list[Part]:
        """The part and those around it, innermost first."""
        found, part = [self], self.parent
        while part is not None:
            found.append(part)
            part = part.parent
        return found

    def adopt(self, parts: list[Part]) -> None:
        """Have these parts, and be what is around them."""
        self.parts = parts
        for part in parts:
            part.parent = self


PartLink = tuple["Part | None", "Part | None", int]
"""From a part, to a part, what passes; None is the box around them."""
Links = dict[Part, dict[PartLink, None]]
"""The edges in each box, in the order they were met."""


def wires(have: Inventory) -> Iterator[tuple[int, int]]:
    """The edges between items: who is read, and who reads."""
    for target, item in enumerate(have.items):
        for source in item.reads:
            yield source, target


def tree(have: Inventory) -> Part:
    """The outermost part, with all others inside it."""
    root = Part((), "")
    boxes: dict[Path, Part] = {(): root}
    for number, item in enumerate(have.items):
        around = root
        for i in range(1, len(item.place) + 1):
            path = item.place[:i]
            if path not in boxes:
                boxes[path] = Part(path, path[-1], parent=around)
                around.parts.append(boxes[path])
            around = boxes[path]
        around.parts.append(Part((*item.place, item.name), item.title, number, parent=around))
    for path, names in have.alternatives.items():
        if path in boxes:
            boxes[path].parts.sort(key=lambda part: (*names, part.path[-1]).index(part.path[-1]))
    return root


def find(root: Part, have: Inventory, wanted: str) -> Part:
    """The box of a scope, or of the first call of a block. Raises ArchError (A1301)."""
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


def _order(part: Part) -> Iterator[int]:
    yield id(part)
    for inner in part.parts:
        yield from _order(inner)


def cut(have: Inventory, path: Path) -> None:
    """Leave the items of the box at `path`; what it reads becomes inputs, what is read of it outputs."""
    items = have.items
    inside = [number for number, item in enumerate(items) if item.place[: len(path)] == path]
    members = set(inside)
    sources = dict.fromkeys(source for number in inside for source in items[number].reads if source not in members)
    results = dict.fromkeys(source for source, target in wires(have) if source in members and target not in members)
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


def simplify(part: Part, have: Inventory) -> None:
    """A scope that is nothing but the way to another one is no box of its own."""
    for inner in part.parts:
        simplify(inner, have)
    parts = []
    for inner in part.parts:
        while _is_way(inner, have):
            only = inner.parts[0]
            only.title = only.title if only.item is not None else f"{inner.title}.{only.title}"
            inner = only
        parts.append(inner)
    part.adopt(parts)


def _is_way(part: Part, have: Inventory) -> bool:
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


def links_of(root: Part, have: Inventory) -> Links:
    """The edges between the parts of every box, and from and to the box itself; all of a leaf's edges are one."""
    leaves = {part.item: part for part in walk(root) if part.item is not None}
    links: Links = {}
    for source, target in wires(have):
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


def walk(part: Part) -> Iterator[Part]:
    """A part and all inside it."""
    yield part
    for inner in part.parts:
        yield from walk(inner)


def break_rings(root: Part, have: Inventory) -> None:
    """Open boxes for good that edges leave and enter again: what is merged across blocks belongs to none of them."""
    import networkx as nx

    gone: set[Part] = {root}
    while gone:
        gone = set()
        for part, links in links_of(root, have).items():
            flow: nx.DiGraph[Part] = nx.DiGraph()
            flow.add_edges_from((a, b) for a, b, _ in links if a is not None and b is not None)
            if part in gone or nx.is_directed_acyclic_graph(flow):
                continue
            rings = {member for ring in nx.strongly_connected_components(flow) if len(ring) > 1 for member in ring}
            gone |= {member for member in rings if member.parts}
            part.adopt([one for inner in part.parts for one in (inner.parts if inner in gone else [inner])])
