"""Canonical texts of labelled directed acyclic graphs: equal if and only if the graphs are isomorphic.

Colours are digests. Bottom-up, a vertex is coloured by its label and the colours of what it reads. Vertices that this
leaves alike are told apart by what reads them, again and again (Weisfeiler and Leman 1968). What is alike even then
falls into connected parts, each of which is described by itself; only in a part with vertices that are alike within it
is one of them singled out, each in turn, and the smallest description wins (McKay and Piperno 2014, section 2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

MOST_STEPS = 500_000
"""Looks at a neighbour, after which vertices that are still alike are told apart by their order in the graph: texts
may then differ where graphs are isomorphic; they are never equal where graphs are not."""

Colour = bytes
Colours = Mapping[int, Colour]


@dataclass(frozen=True, slots=True)
class Vertex:
    """A label, the vertices it reads in order, and those it reads in any order, with how often."""

    label: bytes
    ordered: tuple[int, ...] = ()
    counted: tuple[tuple[int, int | Fraction], ...] = ()


def canonical_text(vertices: Sequence[Vertex], roots: Mapping[str, int]) -> str:
    """The text of what can be reached from named roots. Vertices come after those they read."""
    live = reachable(vertices, roots.values())
    colours: dict[int, Colour] = {}
    for number in live:
        vertex = vertices[number]
        colours[number] = _digest(
            vertex.label,
            *[colours[one] for one in vertex.ordered],
            *sorted([b"%b*%b" % (_often(count), colours[one]) for one, count in vertex.counted]),
        )
    lines = [f"{name} = {colours[number].hex()}" for name, number in sorted(roots.items())]
    alike = _alike(live, colours)
    if alike:
        lines.append(_Labelling(vertices, live, roots).described(alike, colours))
    return "\n".join(lines)


def reachable(vertices: Sequence[Vertex], roots: Iterable[int]) -> list[int]:
    """The vertices that can be reached, readers last."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            stack.extend(vertices[number].ordered)
            stack.extend([one for one, _ in vertices[number].counted])
    return sorted(found)


def _often(count: int | Fraction) -> bytes:
    return b"%x" % count if isinstance(count, int) else b"%x/%x" % (count.numerator, count.denominator)


def _digest(*parts: bytes) -> Colour:
    return sha256(b"|".join(parts)).digest()


def _alike(part: Iterable[int], colours: Colours) -> list[int]:
    """The vertices of a part that do not have a colour of their own in it."""
    part = list(part)
    sizes = Counter([colours[number] for number in part])
    return [number for number in part if sizes[colours[number]] > 1]


def _singled_out(numbers: Sequence[int], colours: Colours) -> Colours:
    """Colours in which these vertices differ from all others."""
    return {**colours, **{one: _digest(b"%d!" % i, colours[one]) for i, one in enumerate(numbers)}}


class _Labelling:
    """One run: who touches whom, and the steps that are left."""

    def __init__(self, vertices: Sequence[Vertex], live: Sequence[int], roots: Mapping[str, int]) -> None:
        self.names: dict[int, list[bytes]] = defaultdict(list)
        for name, number in roots.items():
            self.names[number].append(b"root " + name.encode())
        self.edges: dict[int, list[tuple[bytes, int]]] = {number: [] for number in live}
        for number in live:
            reads = [(b"%d" % position, one) for position, one in enumerate(vertices[number].ordered)]
            reads += [(b"%b*" % _often(count), one) for one, count in vertices[number].counted]
            for role, one in reads:
                self.edges[number].append((b"reads " + role, one))
                self.edges[one].append((b"read " + role, number))
        self.steps = MOST_STEPS

    def described(self, part: Sequence[int], colours: Colours, first: bool = False) -> str:
        """The text of a part and of all edges at it; vertices outside have colours of their own, or do not touch it.

        With `first`, the first vertex that can be singled out is, which is canonical only if all of them are alike.
        """
        colours = self._refined(part, colours)
        lines = sorted(self._signature(number, colours).hex() for number in part)
        parts = self._connected(_alike(part, colours))
        return "\n".join([*lines, *sorted(f"({self._part(connected, colours, first)})" for connected in parts)])

    def _part(self, part: Sequence[int], colours: Colours, first: bool) -> str:
        alike = _alike(part, colours)
        if not alike:
            return self.described(part, colours)
        if self.steps < 0:
            return self.described(part, _singled_out(part, colours))
        classes: dict[Colour, list[int]] = defaultdict(list)
        for number in alike:
            classes[colours[number]].append(number)
        candidates = classes[min(classes, key=lambda colour: (len(classes[colour]), colour))]
        if first:
            return self.described(part, _singled_out(candidates[:1], colours), first)
        different: dict[str, int] = {}  # whose first way down ends in the same text are alike: one stands for all
        for one in candidates:
            different.setdefault(self.described(part, _singled_out([one], colours), True), one)
            if self.steps < 0:
                break
        return min(self.described(part, _singled_out([one], colours)) for one in different.values())

    def _refined(self, part: Sequence[int], colours: Colours) -> Colours:
        """Colours that tell apart what touches differently coloured vertices.

        Going down, the colours of readers are new already, and those of what is read still old; and the other way
        round going up: so what is told apart at one end is at once told apart all along.
        """
        colours = dict(colours)
        count = 0
        while count < (count := len({colours[number] for number in part})) and self.steps >= 0:
            for numbers in (reversed(part), part):
                for number in numbers:
                    colours[number] = _digest(self._signature(number, colours))
        return colours

    def _signature(self, number: int, colours: Colours) -> bytes:
        edges = self.edges[number]
        self.steps -= 1 + len(edges)
        return b"|".join(
            [colours[number], *sorted(self.names[number]), *sorted([role + colours[other] for role, other in edges])]
        )

    def _connected(self, part: Sequence[int]) -> list[list[int]]:
        import networkx as nx

        inside = set(part)
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(part)
        graph.add_edges_from((one, other) for one in part for _, other in self.edges[one] if other in inside)
        return [sorted(connected) for connected in nx.connected_components(graph)]
