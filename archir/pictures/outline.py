"""Outline of a picture: the graph as nested boxes, with the edges between the parts of each box.

Each scope becomes a part of a tree, which is simplified and then made into boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Choice
from archir.ir.graph import Graph
from archir.passes.cost import Cost
from archir.pictures import labels
from archir.pictures.items import (
    Details,
    Inventory,
    Item,
    Path,
    alternatives_list,
    choice_lists,
    inventory,
    stem,
    taken,
)
from archir.pictures.labels import Kind
from archir.pictures.style import Heat, colour_index, legend, share_text
from archir.utils.counts import count_noun

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
    """True if the box is expanded with the box that contains it, so that it does not count as a level."""
    is_beside: bool = False
    """True if the box stands beside the others: a list of alternatives."""
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
        return " · ".join(self.lines[:-1] if self.kind == "choice" else self.lines)

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
    scale: tuple[tuple[str, str], ...] = ()
    """Legend of the cost colours: (CSS class, meaning) pairs; empty if boxes are not coloured."""

    def opened(self, depth: int) -> frozenset[int]:
        """Return the numbers of the boxes to expand so that `depth` levels are visible."""
        return self.root.opened(depth)


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
        while (only := _only_box(root, contents, path)) is not None:
            root.adopt([child for part in root.parts for child in (part.parts if part is only else [part])])
    simplify(root, contents, _wrapped(root, contents))
    list_alternatives(root, contents)
    fold(root, contents, _readers(contents))
    break_cycles(root, contents)
    builder = _BoxBuilder(contents, links_of(root, contents), heat)
    box = builder.box(root)
    edges = tuple((builder.numbers[source], builder.numbers[target]) for source, target in item_edges(contents))
    title, facts = graph.name if block is None else block, _subtitle(graph, contents, block)
    if heat is not None:
        facts += f" · colours: share of {heat.title}, {labels.amount(round(builder.total))} in all"
        return Outline(title, facts, box, edges, tuple(legend(builder.total)))
    return Outline(title, facts, box, edges)


def _only_box(root: Part, contents: Inventory, path: Path) -> Part | None:
    """Return the box that contains all of the block at `path` but its inputs, its outputs and lists of alternatives;
    None if there is none, or if it is a choice in the block."""
    boxes = [part for part in root.parts if part.item is None]
    items = [contents.items[part.item] for part in root.parts if part.item is not None]
    is_only = len(boxes) == 1 and all(item.kind == "io" or item.is_beside for item in items)
    around = is_only and boxes[0].path == path[: len(boxes[0].path)]
    return boxes[0] if around or (is_only and not _is_choice(boxes[0], contents)) else None


def _subtitle(graph: Graph, contents: Inventory, block: str | None) -> str:
    operations = sum(map(_is_operation, contents.items))
    choices = len(graph.decisions) if block is None else len(_choices(contents.items))
    facts = [f"block of {graph.name}"] if block is not None else []
    facts.append(count_noun(operations, "operation"))
    facts += [count_noun(choices, "choice")] * bool(choices)
    return " · ".join([*facts, *_costs(contents.items)])


def _choices(items: Iterable[Item]) -> set[str]:
    """Return the paths of the choices that items show, or on which they depend."""
    return {path for item in items for path in (*item.choices, *item.shows)}


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
            box = Box(
                number, item.kind, item.title, item.lines, scope, item.details, item.is_varying,
                is_beside=item.is_beside,
            )  # fmt: skip
            return self._coloured(box, item.heat)
        parts = tuple(self.box(inner) for inner in part.parts)
        place = {inner: i for i, inner in enumerate(part.parts)}
        links = tuple(
            (None if a is None else place[a], None if b is None else place[b], tensor)
            for a, b, tensor in self.links.get(part, {})
        )
        choice = self.contents.choices.get(part.path)
        lines, details = self._text(part)
        title = part.title if choice is None or part.wrapper else f"choose {_last(choice)}"
        box = Box(
            number,
            "block" if choice is None else "choice",
            labels.shortened(title),
            lines,
            _scope(part, choice),
            details,
            choice is not None,
            choice is not None and not part.wrapper,
            parts=parts,
            links=links,
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
            if part.wrapper:
                lines += [f"{stem(_last(choice))}: {taken(choice)}", shape]
            else:
                lines += [labels.tags(choice), labels.taken(choice)]
                lines += [labels.outcomes(choice, list(range(choice.outcome_count)))]
            details += [("alternatives", ", ".join(map(str, choice.alternatives[:50])))]
        else:
            name = self.contents.blocks.get(scope, "")
            details += [("block", name)]
            lines += ["" if stem(part.title).startswith(name) else name]
            choices = len(_choices(items))
            details += [("choices", f"{choices:,}" if choices else "")]
            lines += [shape, *([count_noun(choices, "choice")] if choices else costs)]
        operations = sum(map(_is_operation, items))
        details += [("result", shape), ("operations", f"{operations:,}"), ("cost", ", ".join(costs))]
        visible_lines = tuple(labels.shortened(line) for line in lines if line)
        return visible_lines, tuple((name, text) for name, text in details if text)


def _scope(part: Part, choice: Choice | None) -> str:
    """Return the scope of a part; for a choice box that corresponds to no scope, the path of the choice."""
    return ".".join(part.path) if choice is None or "%" not in part.path[-1] else choice.path


def _last(choice: Choice) -> str:
    return choice.path.rpartition(".")[2]


@dataclass(eq=False)
class Part:
    """Tree node from which a box is built: an item (leaf), or a scope with parts."""

    path: Path
    title: str
    item: int | None = None
    wrapper: bool = False
    """True for a choice that is shown in place of a block, which consists of it."""
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
    for path, (place, name) in contents.moved.items():
        if path in boxes and place in boxes:
            part = boxes[path]
            boxes[path[:-1]].parts.remove(part)
            part.title, part.parent = name, boxes[place]
            boxes[place].parts.append(part)
    for path, names in contents.alternatives.items():
        if path in boxes:
            order = {name: number for number, name in enumerate(names)}
            boxes[path].parts.sort(
                key=lambda part: order.get(part.title if part.item is None else part.path[-1], len(order))
            )
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
    for number, title in zip(sources, _numbered("input", len(sources)), strict=True):
        name = ".".join((*items[number].place, items[number].name))
        details = (("from", name), ("shape", items[number].shape))
        new_numbers[number] = len(remaining)
        remaining.append(
            Item((), name, "io", title, (items[number].shape,), details, (), Cost(0, 0, 0), items[number].shape)
        )
    for number in inside:
        new_numbers[number] = len(remaining)
        remaining.append(items[number])
    remaining = [
        replace(item, reads=tuple(new_numbers[source] for source in item.reads)) if item.reads else item
        for item in remaining
    ]
    for number, title in zip(results, _numbered("output", len(results)), strict=True):
        remaining.append(
            Item((), title, "io", title, (items[number].shape,), (), (new_numbers[number],), Cost(0, 0, 0))
        )
    shown = {path for item in remaining for path in item.shows}
    outer = dict.fromkeys(path for item in remaining for path in item.choices if path not in shown)
    remaining += choice_lists(((), contents.decisions[path]) for path in outer)
    contents.items[:] = remaining


def _numbered(title: str, count: int) -> list[str]:
    return [title] if count == 1 else [f"{title} {i + 1}" for i in range(count)]


def _is_choice(part: Part, contents: Inventory) -> bool:
    return part.item is None and part.path in contents.choices


def _wrapped(root: Part, contents: Inventory) -> dict[str, set[str]]:
    """For the name of each block of which some calls have only one part, return the names of these parts."""
    names: dict[str, set[str]] = {}
    for part in walk(root):
        if len(part.parts) == 1 and (block := contents.blocks.get(".".join(part.path))) is not None:
            child = part.parts[0]
            while child.item is None and len(child.parts) == 1 and ".".join(child.path) not in contents.blocks:
                child = child.parts[0]
            names.setdefault(block, set()).add(stem(child.title))
    return names


def simplify(part: Part, contents: Inventory, wrapped: Mapping[str, set[str]]) -> None:
    """Replace each box that has only one part by this part, unless the box is a choice.

    The part takes over the title of an alternative. A box takes over that of a block that always consists of the same:
    of `normal`, but not of `edge`, if `normal` always consists of a call of `searched`, and `edge` of one of several
    blocks. `wrapped` has the names of the parts of these blocks.
    """
    for inner in part.parts:
        simplify(inner, contents, wrapped)
    parts = []
    for inner in part.parts:
        if inner.item is None and len(inner.parts) == 1 and not _is_choice(inner, contents):
            child = inner.parts[0]
            block = contents.blocks.get(".".join(inner.path))
            is_alternative = _is_choice(part, contents)
            if _is_choice(child, contents):
                if is_alternative:
                    parts.append(inner)
                    continue
                child.title, child.wrapper = inner.title, True
            elif is_alternative and child.item is not None:
                _name_alternative(child, inner.title, contents)
            elif child.item is None and (is_alternative or (block is not None and len(wrapped[block]) == 1)):
                child.title = inner.title
            inner = child
        parts.append(inner)
    part.adopt(parts)


def _name_alternative(part: Part, name: str, contents: Inventory) -> None:
    """Give an operation the name of the alternative that consists of it; its own title becomes its first line."""
    assert part.item is not None
    item = contents.items[part.item]
    if item.kind != "choice":
        lines = item.lines if item.title == name else (item.title, *item.lines)
        contents.items[part.item] = replace(item, title=labels.shortened(name), lines=lines, alternative=name)


def list_alternatives(part: Part, contents: Inventory) -> None:
    """Add the list of alternatives beside blocks that choose among the same ones, such as the edges of a cell."""
    sets: dict[tuple[object, ...], list[Choice]] = {}
    for inner in part.parts:
        list_alternatives(inner, contents)
        if inner.wrapper:
            choice = contents.choices[inner.path]
            sets.setdefault((stem(_last(choice)), choice.alternatives, choice.k), []).append(choice)
    for choices in sets.values():
        if len(choices) > 1:
            item = alternatives_list(part.path, choices[0])
            contents.items.append(item)
            part.adopt([*part.parts, Part((*part.path, item.name), item.title, len(contents.items) - 1)])


_MIN_REPETITIONS = 3
"""Minimum number of equal repetitions that are folded into one box."""
_MAX_PERIOD = 12
"""Maximum number of parts of one repetition."""


def _readers(contents: Inventory) -> dict[int, list[int]]:
    """Return the items that read each item."""
    readers: dict[int, list[int]] = {}
    for source, target in item_edges(contents):
        readers.setdefault(source, []).append(target)
    return readers


def fold(part: Part, contents: Inventory, readers: Mapping[int, list[int]]) -> None:
    """Put repetitions of equal parts, each of which reads the one before, into one box, titled `normal × 6`."""
    for inner in part.parts:
        fold(inner, contents, readers)
    if _is_choice(part, contents) or len(part.parts) < _MIN_REPETITIONS:
        return
    signatures = [_signature(inner, contents, readers) for inner in part.parts]
    owner = {leaf.item: i for i, inner in enumerate(part.parts) for leaf in walk(inner) if leaf.item is not None}
    reads = [set[int]() for _ in part.parts]
    last_reader = [0] * len(part.parts)
    for item, i in owner.items():
        reads[i] |= {owner[source] for source in contents.items[item].reads if owner.get(source, i) != i}
        for reader in readers.get(item, ()):
            is_pick = (
                owner.get(reader) is not None
                and part.parts[owner[reader]].item == reader
                and contents.items[reader].kind == "choice"
            )
            if not is_pick:
                last_reader[i] = max(last_reader[i], owner.get(reader, len(part.parts)))
    runs = [
        (count * period, _size(part.parts[start + period - 1]), -period, start)
        for start in range(len(part.parts))
        for period in range(1, min(_MAX_PERIOD, (len(part.parts) - start) // _MIN_REPETITIONS) + 1)
        if any(inner.parts for inner in part.parts[start : start + period])
        and (count := _repetitions(start, period, signatures, reads, last_reader))
    ]
    folded: dict[int, int] = {}
    boxes: dict[int, Part] = {}
    for length, _, negative, start in sorted(runs, key=lambda run: (run[:3], -run[3]), reverse=True):
        if not any(start < other + size and other < start + length for other, size in folded.items()):
            folded[start] = length
            boxes[start] = _folded(part, part.parts[start : start + length], length // -negative)
    inside = {start + i for start, length in folded.items() for i in range(length)}
    part.adopt([boxes.get(i, inner) for i, inner in enumerate(part.parts) if i in boxes or i not in inside])


def _size(part: Part) -> int:
    return sum(1 for _ in walk(part))


def _signature(part: Part, contents: Inventory, readers: Mapping[int, list[int]]) -> object:
    """Return a value that is equal for parts that look the same: with the same operations, which read each other
    alike, and results of the same shapes. Rates of dropout may differ."""
    leaves = [leaf.item for leaf in walk(part) if leaf.item is not None]
    index = {number: i for i, number in enumerate(leaves)}
    looks = []
    for number in leaves:
        item = contents.items[number]
        is_result = any(reader not in index for reader in readers.get(number, ()))
        settings = item.lines[:-1] if "drop" not in item.title else ()
        reads = tuple(index.get(source, -1) for source in item.reads)
        looks.append((stem(item.title), item.shape if is_result else "", settings, reads))
    return stem(part.title), tuple(looks)


def _repetitions(
    start: int, period: int, signatures: list[object], reads: list[set[int]], last_reader: list[int]
) -> int:
    """Return how many repetitions of `period` parts from part `start` on can be folded; 0 if too few.

    Each repetition reads earlier ones in the same way, the one before included, and what follows reads the last ones
    only.
    """
    count = 1
    while signatures[start : start + period] == signatures[start + count * period : start + (count + 1) * period]:
        count += 1
    if count < _MIN_REPETITIONS:
        return 0
    wiring = [
        {
            (offset, (source - start) % period, repetition - (source - start) // period)
            for offset in range(period)
            for source in reads[start + repetition * period + offset]
            if source >= start
        }
        for repetition in range(count)
    ]
    back = max((distance for _, _, distance in wiring[-1]), default=0)
    end = start + count * period
    is_chain = all(
        wires == {wire for wire in wiring[-1] if wire[2] <= repetition} and any(wire[2] == 1 for wire in wires)
        for repetition, wires in enumerate(wiring[1:], 1)
    )
    is_closed = all(reader < end for reader in last_reader[start : end - back * period])
    return count if is_chain and is_closed and wiring[0] == {wire for wire in wiring[-1] if not wire[2]} else 0


def _folded(parent: Part, parts: list[Part], count: int) -> Part:
    """Return a box that contains `count` repetitions."""
    main = max(parts[: len(parts) // count], key=_size)
    last = max(parts[-len(parts) // count :], key=_size)
    name = f"{main.path[-1]} … {last.path[-1]}"
    box = Part((*parent.path, name), f"{stem(main.title)} × {count}", parent=parent)
    box.adopt(parts)
    return box


def links_of(root: Part, contents: Inventory) -> Links:
    """Derive, for each box, the edges between its parts and those from and to the box itself, one per pair and
    tensor.

    The alternatives of a choice count as one tensor outside of its box: only one of them exists.
    """
    leaves = {part.item: part for part in walk(root) if part.item is not None}
    first: dict[Part, int] = {}
    links: Links = {}
    for source, target in item_edges(contents):
        outwards, inwards = leaves[source].ancestors(), leaves[target].ancestors()
        shared = 1
        while outwards[-shared - 1] is inwards[-shared - 1]:
            shared += 1
        for i in range(len(outwards) - shared - 1):
            links.setdefault(outwards[i + 1], {})[outwards[i], None, source] = None
            if _is_choice(outwards[i + 1], contents):
                source = first.setdefault(outwards[i + 1], source)
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
