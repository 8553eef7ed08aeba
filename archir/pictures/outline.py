"""Outline of a picture: the graph as nested boxes, with the edges between the parts of each box.

Each scope becomes a part of a tree, which is simplified and then made into boxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Choice
from archir.ir.graph import Graph
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import Details, Inventory, Item, Path, inventory
from archir.pictures.labels import Kind
from archir.pictures.style import Heat, colour_index, legend, share_text

Link = tuple[int | None, int | None, int]
"""Edge inside a box: (source part, target part, item whose tensor it carries). Parts are indices; None is the
box itself."""


@dataclass(frozen=True, slots=True)
class Box:
    """Box for an operation, or for a block, choice or alternative with parts inside. Numbered in drawing order,
    outer boxes first."""

    number: int
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    scope: str = ""
    details: Details = ()
    is_varying: bool = False
    is_choice: bool = False
    parts: tuple[Box, ...] = ()
    links: tuple[Link, ...] = ()
    heat: int | None = None
    """Colour index for the box's share of a cost; None if boxes are not coloured."""
    share: str = ""
    """Text of the box's share of a cost; "" if boxes are not coloured."""

    @property
    def style(self) -> str:
        """CSS classes of the box."""
        heat = "" if self.heat is None else f" heat{self.heat}"
        return f"box {self.kind}{' varied' if self.is_varying else ''}{heat}"

    @property
    def header(self) -> str:
        """Text next to the title when the box is expanded. It omits the alternatives of a choice, which are then
        visible."""
        return " · ".join(self.lines[:-1] if self.is_choice else self.lines)

    def walk(self) -> Iterator[Box]:
        """Yield this box and all boxes inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def visible(self, opened: frozenset[int]) -> Iterator[Box]:
        """Yield this box and all visible boxes inside it, if those in `opened` are expanded."""
        yield self
        if self.number in opened:
            for part in self.parts:
                yield from part.visible(opened)

    def opened(self, depth: int) -> frozenset[int]:
        """Return the numbers of the boxes to expand so that `depth` levels are visible; choices do not count as
        levels."""
        numbers: set[int] = set()
        stack = [(self, 0)]
        while stack:
            box, level = stack.pop()
            if box.parts and level < depth:
                numbers.add(box.number)
                stack += [(part, level + (not part.is_choice)) for part in box.parts]
                stack += [(part, level) for part in box.parts if part.is_choice]
        return frozenset(numbers)


@dataclass(frozen=True, slots=True)
class Outline:
    """Picture before layout. `leaf_edges` are (source, target) pairs of numbers of boxes without parts."""

    title: str
    subtitle: str
    root: Box
    leaf_edges: tuple[tuple[int, int], ...]
    is_block: bool = False
    scale: tuple[tuple[str, str], ...] = ()
    """Legend of the cost colours: (CSS class, meaning) pairs; empty if boxes are not coloured."""

    def opened(self, depth: int) -> frozenset[int]:
        """Return the numbers of the boxes to expand so that `depth` levels are visible.

        In the picture of a block, the box of the block itself does not count as a level.
        """
        return self.root.opened(depth + self.is_block)


def outline(graph: Graph, block: str | None = None, heat: Heat | None = None) -> Outline:
    """Return the outline of a graph, or of the block in it that `block` gives by scope or name.

    With `heat`, boxes are coloured by their share of the cost of everything in the picture. Raises ArchError
    (A1301) if there is no such block.
    """
    contents = inventory(graph, heat.contributions if heat else None)
    root = tree(contents)
    if block is not None:
        path = find(root, contents, block).path
        cut(contents, path)
        root = tree(contents)
        for _ in path[1:]:
            root.adopt([child for part in root.parts for child in ([part] if part.item is not None else part.parts)])
    simplify(root, contents)
    break_cycles(root, contents)
    builder = _BoxBuilder(contents, links_of(root, contents), heat)
    box = builder.box(root)
    edges = tuple((builder.numbers[source], builder.numbers[target]) for source, target in item_edges(contents))
    title, facts = graph.name if block is None else block, _subtitle(graph, contents, block)
    if heat is not None:
        facts += f" · colours: share of {heat.title}, {labels.amount(round(builder.total))} in all"
        return Outline(title, facts, box, edges, block is not None, tuple(legend(builder.total)))
    return Outline(title, facts, box, edges, block is not None)


def _subtitle(graph: Graph, contents: Inventory, block: str | None) -> str:
    operations = sum(map(_is_operation, contents.items))
    facts = [f"block of {graph.name}"] if block is not None else []
    facts.append(labels.counted(operations, "operation"))
    if graph.decisions and block is None:
        facts.append(labels.counted(len(graph.decisions), "choice"))
    return " · ".join([*facts, *_costs(contents.items)])


def _is_operation(item: Item) -> bool:
    return item.kind not in ("io", "through", "choice")


def _costs(items: list[Item]) -> list[str]:
    """Return texts for the total parameters and MACs of items; [] if these depend on choices."""
    costs = [item.cost for item in items if item.cost is not None]
    conditions = {id(item.needed) for item in items if item.kind not in ("io", "through")}
    if len(costs) < len(items) or len(conditions) > 1:
        return []
    total = sum(costs, Cost(0, 0, 0))
    return [f"{labels.amount(total.params)} params"] * bool(total.params) + [
        f"{labels.amount(total.macs)} MACs"
    ] * bool(total.macs)


class _BoxBuilder:
    """Builds the boxes of an outline from tree parts."""

    def __init__(self, contents: Inventory, links: Links, heat: Heat | None) -> None:
        self.contents, self.links, self.heat = contents, links, heat
        self.total = sum((item.heat for item in contents.items), Fraction(0))
        self.numbers: dict[int, int] = {}
        """Maps each item to the number of its box."""
        self.next = 0

    def box(self, part: Part) -> Box:
        """Build the box for a tree part, including the boxes inside it."""
        number = self.next
        self.next += 1
        if part.item is not None:
            self.numbers[part.item] = number
            item = self.contents.items[part.item]
            scope = dict(item.details).get("scope", "")
            box = Box(number, item.kind, item.title, item.lines, scope, item.details, item.is_varying)
            return self._coloured(box, item.heat)
        parts = tuple(self.box(inner) for inner in part.parts)
        place = {inner: i for i, inner in enumerate(part.parts)}
        links = tuple(
            (None if a is None else place[a], None if b is None else place[b], tensor)
            for a, b, tensor in self.links.get(part, {})
        )
        choice = self.contents.choices.get(part.path)
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
        leaves = (self.contents.items[leaf.item] for leaf in walk(part) if leaf.item is not None)
        return self._coloured(box, sum((item.heat for item in leaves), Fraction(0)))

    def _coloured(self, box: Box, own: Fraction) -> Box:
        """Colour a box by its share of the cost, and add the share to its details; no change if boxes are not
        coloured."""
        if self.heat is None:
            return box
        own_share = share_text(own, self.total)
        details = (*box.details, (f"share of {self.heat.title}", own_share))
        return replace(
            box, details=details, heat=colour_index(own, self.total), share=f"{self.heat.title}: {own_share}"
        )

    def _text(self, part: Part) -> tuple[tuple[str, ...], Details]:
        items = [self.contents.items[leaf.item] for leaf in walk(part) if leaf.item is not None]
        results = dict.fromkeys(tensor for a, b, tensor in self.links.get(part, {}) if b is None)
        shape = ", ".join(dict.fromkeys(self.contents.items[tensor].shape for tensor in results))
        choice = self.contents.choices.get(part.path)
        scope, costs = _scope(part, choice), _costs(items)
        details: list[tuple[str, str]] = [("scope", scope)]
        lines: list[str] = []
        if choice is not None:
            details += [("choice", choice.path), ("tags", labels.tags(choice))]
            lines += [labels.tags(choice), labels.taken(choice)]
            lines += [labels.outcomes(choice, list(range(choice.outcome_count)))]
            details += [("alternatives", ", ".join(map(str, choice.alternatives[:50])))]
        else:
            name = self.contents.blocks.get(scope, "")
            details += [("block", name)]
            plain = re.sub(r"(_\d+)?(\[\d+\])*$", "", part.title)
            lines += [name if name != plain else ""]
            inner = sum(path[: len(part.path)] == part.path for path in self.contents.choices)
            details += [("choices", f"{inner:,}" if inner else "")]
            lines += [shape, labels.counted(inner, "choice") if inner else " · ".join(costs)]
        operations = sum(map(_is_operation, items))
        details += [("result", shape), ("operations", f"{operations:,}"), ("cost", ", ".join(costs))]
        visible_lines = tuple(labels.shortened(line) for line in lines if line)
        return visible_lines, tuple((name, text) for name, text in details if text)


def _scope(part: Part, choice: Choice | None) -> str:
    """Return the scope of a part; for a choice box that corresponds to no scope, the path of the choice."""
    return ".".join(part.path) if choice is None or "%" not in part.path[-1] else choice.path


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
    boxes = {".".join(part.path): part for part in walk(root) if part.item is None and part.path}
    block = next((part for scope, part in boxes.items() if contents.blocks.get(scope) == wanted), None)
    if part := boxes.get(wanted, block):
        return part
    raise fail("A1301", f"there is no block `{wanted}`", None, suggest(wanted, [*boxes, *contents.blocks.values()]))


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
