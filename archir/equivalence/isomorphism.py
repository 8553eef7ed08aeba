"""Canonical texts of labelled directed acyclic graphs: equal if and only if the graphs are isomorphic.

Colours are digests. Bottom-up, a vertex is coloured by its label and the colours of the vertices it reads. Vertices
whose colours are still equal are refined repeatedly by the colours of their readers (Weisfeiler and Leman 1968).
Vertices whose colours remain equal are divided into connected parts, and each part is described separately. If a part
contains several vertices of one colour, each of these vertices in turn is individualised (gets a colour of its own),
and the smallest of the resulting descriptions is used (McKay and Piperno 2014, section 2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

MAX_STEPS = 500_000
"""Maximum number of visits to neighbours; after that, vertices of equal colours are ordered by their numbers.

The texts of isomorphic graphs may then differ, but those of other graphs are still never equal.
"""

Colour = bytes
"""A digest; vertices with different colours are distinguishable."""
Colours = Mapping[int, Colour]
"""Colours by vertex number."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex: its label, the vertices that it reads in a fixed order, and those that it reads in any order.

    Each vertex that is read in any order has a multiplicity.
    """

    label: bytes
    ordered: tuple[int, ...] = ()
    unordered: tuple[tuple[int, int | Fraction], ...] = ()


def canonical_text(vertices: Sequence[Vertex], roots: Mapping[str, int]) -> str:
    """Return the canonical text of the vertices reachable from the named roots.

    Each vertex must come after the vertices it reads.
    """
    live = reachable(vertices, roots.values())
    colours: dict[int, Colour] = {}
    for number in live:
        vertex = vertices[number]
        colours[number] = _digest(
            vertex.label,
            *[colours[neighbour] for neighbour in vertex.ordered],
            *sorted([b"%b*%b" % (_multiplicity(count), colours[neighbour]) for neighbour, count in vertex.unordered]),
        )
    lines = [f"{name} = {colours[number].hex()}" for name, number in sorted(roots.items())]
    ambiguous = _ambiguous(live, colours)
    if ambiguous:
        lines.append(_Labelling(vertices, live, roots).describe(ambiguous, colours))
    return "\n".join(lines)


def reachable(vertices: Sequence[Vertex], roots: Iterable[int]) -> list[int]:
    """Return the vertices that are reachable from the roots; a vertex comes after those it reads."""
    visited: set[int] = set()
    stack = list(roots)
    while stack:
        number = stack.pop()
        if number not in visited:
            visited.add(number)
            stack.extend(vertices[number].ordered)
            stack.extend([neighbour for neighbour, _ in vertices[number].unordered])
    return sorted(visited)


def _multiplicity(count: int | Fraction) -> bytes:
    """Return a multiplicity as bytes."""
    return b"%x" % count if isinstance(count, int) else b"%x/%x" % (count.numerator, count.denominator)


def _digest(*parts: bytes) -> Colour:
    """Return one digest of several byte strings."""
    return sha256(b"|".join(parts)).digest()


def _ambiguous(part: Iterable[int], colours: Colours) -> list[int]:
    """Return the vertices whose colour is not unique within the part."""
    part = list(part)
    sizes = Counter([colours[number] for number in part])
    return [number for number in part if sizes[colours[number]] > 1]


def _individualised(numbers: Sequence[int], colours: Colours) -> Colours:
    """Return colours in which each of these vertices has a unique colour."""
    return {**colours, **{vertex: _digest(b"%d!" % i, colours[vertex]) for i, vertex in enumerate(numbers)}}


class _Labelling:
    """One run of the canonical labelling: edges in both directions, and the number of steps left."""

    def __init__(self, vertices: Sequence[Vertex], live: Sequence[int], roots: Mapping[str, int]) -> None:
        self.names: dict[int, list[bytes]] = defaultdict(list)
        for name, number in roots.items():
            self.names[number].append(b"root " + name.encode())
        self.edges: dict[int, list[tuple[bytes, int]]] = {number: [] for number in live}
        for number in live:
            reads = [(b"%d" % position, neighbour) for position, neighbour in enumerate(vertices[number].ordered)]
            reads += [(b"%b*" % _multiplicity(count), neighbour) for neighbour, count in vertices[number].unordered]
            for role, neighbour in reads:
                self.edges[number].append((b"reads " + role, neighbour))
                self.edges[neighbour].append((b"read " + role, number))
        self.steps = MAX_STEPS

    def describe(self, part: Sequence[int], colours: Colours, first: bool = False) -> str:
        """Return the text of a part and its edges.

        Vertices outside of the part must have unique colours, or no edge to the part. With `first`, only the first
        candidate of each part is individualised; the text is then canonical only if all candidates are equivalent.
        """
        colours = self._refined(part, colours)
        lines = sorted(self._signature(number, colours).hex() for number in part)
        components = self._connected(_ambiguous(part, colours))
        return "\n".join([*lines, *sorted(f"({self._part(connected, colours, first)})" for connected in components)])

    def _part(self, part: Sequence[int], colours: Colours, first: bool) -> str:
        """Return the text of a connected part; if it has ambiguous vertices, one of them is individualised."""
        ambiguous = _ambiguous(part, colours)
        if not ambiguous:
            return self.describe(part, colours)
        if self.steps < 0:
            return self.describe(part, _individualised(part, colours))
        classes: dict[Colour, list[int]] = defaultdict(list)
        for number in ambiguous:
            classes[colours[number]].append(number)
        candidates = classes[min(classes, key=lambda colour: (len(classes[colour]), colour))]
        if first:
            return self.describe(part, _individualised(candidates[:1], colours), first)
        distinct: dict[str, int] = {}  # candidates whose first descents end in equal texts are equivalent: keep one
        for vertex in candidates:
            distinct.setdefault(self.describe(part, _individualised([vertex], colours), True), vertex)
            if self.steps < 0:
                break
        return min(self.describe(part, _individualised([vertex], colours)) for vertex in distinct.values())

    def _refined(self, part: Sequence[int], colours: Colours) -> Colours:
        """Refine colours until vertices with differently coloured neighbours have different colours.

        Each round visits the vertices top-down, then bottom-up, and uses changed colours immediately, so that a
        difference at one end of a chain reaches the other end within one round.
        """
        colours = dict(colours)
        count = 0
        while count < (count := len({colours[number] for number in part})) and self.steps >= 0:
            for numbers in (reversed(part), part):
                for number in numbers:
                    colours[number] = _digest(self._signature(number, colours))
        return colours

    def _signature(self, number: int, colours: Colours) -> bytes:
        """Return the colour, root names and coloured edges of a vertex as bytes; uses one step, plus one per edge."""
        edges = self.edges[number]
        self.steps -= 1 + len(edges)
        return b"|".join(
            [colours[number], *sorted(self.names[number]), *sorted([role + colours[other] for role, other in edges])]
        )

    def _connected(self, part: Sequence[int]) -> list[list[int]]:
        """Return the connected components of the subgraph of these vertices."""
        import networkx as nx

        inside = set(part)
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(part)
        graph.add_edges_from((vertex, other) for vertex in part for _, other in self.edges[vertex] if other in inside)
        return [sorted(connected) for connected in nx.connected_components(graph)]
