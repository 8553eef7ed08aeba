"""Tree of boxes of a picture: each scope becomes a box, and the edges between the parts of each box are derived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import Inventory, Item, Path


@dataclass(eq=False)
class Part:
    """Tree node from which a box is built: an item (leaf), or a scope with parts."""

    path: Path
    title: str
    item: int | None = None
    parts: list[Part] = field(default_factory=list)
    parent: Part | None = None

    def ancestors(self) -> list[Part]:
        """Return this part and all parts that contain it, innermost first."""
        parts, part = [self], self.parent
        while part is not None:
            parts.append(part)
            part = part.parent
        return parts

    def adopt(self, parts: list[Part]) -> None:
        """Replace the children of this part."""
        self.parts = parts
        for part in parts:
            part.parent = self


PartLink = tuple["Part | None", "Part | None", int]
"""Edge inside a box: (source, target, item whose tensor it carries); None stands for the box itself."""
Links = dict[Part, dict[PartLink, None]]
"""Maps each part to the edges inside it, in discovery order."""


def item_edges(contents: Inventory) -> Iterator[tuple[int, int]]:
    """Yield the edges between items as (source, reader) indices."""
    for target, item in enumerate(contents.items):
        for source in item.reads:
            yield source, target


def tree(contents: Inventory) -> Part:
    """Build the tree of boxes from the items' paths; return its root."""
    root = Part((), "")
    boxes: dict[Path, Part] = {(): root}
    for number, item in enumerate(contents.items):
        parent = root
        for i in range(1, len(item.place) + 1):
            path = item.place[:i]
            if path not in boxes:
                boxes[path] = Part(path, path[-1], parent=parent)
                parent.parts.append(boxes[path])
            parent = boxes[path]
        parent.parts.append(Part((*item.place, item.name), item.title, number, parent=parent))
    for path, names in contents.alternatives.items():
        if path in boxes:
            boxes[path].parts.sort(key=lambda part: (*names, part.path[-1]).index(part.path[-1]))
    return root


def find(root: Part, contents: Inventory, wanted: str) -> Part:
    """Return the part of a scope, or of the first call of the block with that name. Raises ArchError (A1301) if
    there is none."""
    parts = [root]
    for part in parts:
        parts += part.parts
    boxes = [part for part in parts if part.item is None and part.path]
    for part in boxes:
        if ".".join(part.path) == wanted:
            return part
    order = {number: i for i, number in enumerate(_order(root))}
    named = [part for part in boxes if contents.blocks.get(".".join(part.path)) == wanted]
    if named:
        return min(named, key=lambda part: order[id(part)])
    names = [".".join(part.path) for part in boxes] + sorted(set(contents.blocks.values()))
    raise fail("A1301", f"there is no block `{wanted}`", None, suggest(wanted, names))


def _order(part: Part) -> Iterator[int]:
    """Yield the `id` of a part and of all parts inside it, in preorder."""
    yield id(part)
    for inner in part.parts:
        yield from _order(inner)


def cut(contents: Inventory, path: Path) -> None:
    """Reduce the contents to the box at `path`.

    Items outside the box that it reads become inputs; results of the box that are read outside become outputs.
    """
    items = contents.items
    inside = [number for number, item in enumerate(items) if item.place[: len(path)] == path]
    members = set(inside)
    sources = dict.fromkeys(source for number in inside for source in items[number].reads if source not in members)
    results = dict.fromkeys(
        source for source, target in item_edges(contents) if source in members and target not in members
    )
    new_numbers: dict[int, int] = {}
    remaining: list[Item] = []
    for number in sources:
        name = ".".join((*items[number].place, items[number].name))
        details = (("from", name), ("shape", items[number].shape))
        new_numbers[number] = len(remaining)
        remaining.append(Item((), name, "io", "input", (items[number].shape,), details, (), Cost(0, 0, 0)))
    for number in inside:
        new_numbers[number] = len(remaining)
        remaining.append(items[number])
    remaining = [
        replace(item, reads=tuple(new_numbers[source] for source in item.reads)) if item.reads else item
        for item in remaining
    ]
    for number in results:
        remaining.append(
            Item((), "output", "io", "output", (items[number].shape,), (), (new_numbers[number],), Cost(0, 0, 0))
        )
    contents.items[:] = remaining


def simplify(part: Part, contents: Inventory) -> None:
    """Remove each box that has only one part, unless the box represents a block or a choice."""
    for inner in part.parts:
        simplify(inner, contents)
    parts = []
    for inner in part.parts:
        while _is_trivial(inner, contents):
            child = inner.parts[0]
            child.title = child.title if child.item is not None else f"{inner.title}.{child.title}"
            inner = child
        parts.append(inner)
    part.adopt(parts)


def _is_trivial(part: Part, contents: Inventory) -> bool:
    """Return True if a box merely wraps its single part.

    Side effect: if the box is an alternative whose single part is an operation, the operation takes over its name.
    """
    if part.item is not None or len(part.parts) != 1 or part.path in contents.choices:
        return False
    child = part.parts[0]
    if part.path[:-1] in contents.choices:
        if child.item is None or contents.items[child.item].kind == "choice":
            return False
        item = contents.items[child.item]
        name = part.path[-1]
        lines = item.lines if item.title == name else (item.title, *item.lines)
        contents.items[child.item] = replace(item, title=labels.shortened(name), lines=lines, alternative=name)
        return True
    return ".".join(part.path) not in contents.blocks


def links_of(root: Part, contents: Inventory) -> Links:
    """Derive, for each box, the edges between its parts and those from and to the box itself, one per pair and
    tensor."""
    leaves = {part.item: part for part in walk(root) if part.item is not None}
    links: Links = {}
    for source, target in item_edges(contents):
        outwards, inwards = leaves[source].ancestors(), leaves[target].ancestors()
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
    """Yield a part and all parts inside it."""
    yield part
    for inner in part.parts:
        yield from walk(inner)


def break_cycles(root: Part, contents: Inventory) -> None:
    """Dissolve each box that lies on a cycle: a path of edges leaves the box and enters it again.

    Such cycles arise from nodes that were merged across blocks and belong to none of these blocks.
    """
    import networkx as nx

    dissolved: set[Part] = {root}
    while dissolved:
        dissolved = set()
        for part, links in links_of(root, contents).items():
            flow: nx.DiGraph[Part] = nx.DiGraph()
            flow.add_edges_from((a, b) for a, b, _ in links if a is not None and b is not None)
            if part in dissolved or nx.is_directed_acyclic_graph(flow):
                continue
            cyclic = {
                member
                for component in nx.strongly_connected_components(flow)
                if len(component) > 1
                for member in component
            }
            dissolved |= {member for member in cyclic if member.parts}
            part.adopt([child for inner in part.parts for child in (inner.parts if inner in dissolved else [inner])])
