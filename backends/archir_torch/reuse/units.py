"""Which channels of a network may change places: units that move as one, and bundles of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input
from archir.ir.typing import infer
from archir_torch.reuse.asked import Asked, Claim, Group, Member, form

Place = tuple[NodeId, int]
"""A channel of a node's result."""
Chunk = tuple[NodeId, int]
"""One of the equal parts into which a node splits channels, such as a head."""


@dataclass
class Unit:
    """Channels that move as one: all that must be equal of two units that change places."""

    places: dict[NodeId, list[int]] = field(default_factory=lambda: defaultdict(list))
    labels: set[Hashable] = field(default_factory=set)
    chunks: set[Chunk] = field(default_factory=set)

    @property
    def shape(self) -> Hashable:
        """How many channels of which nodes it has, and what it is held by."""
        return frozenset((node, len(at)) for node, at in self.places.items()), frozenset(self.labels)


class Units:
    """The units of a graph without choices whose composites are expanded."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.types = graph, infer(graph)
        self.claims: dict[NodeId, Claim] = {}
        self._joined: nx.utils.UnionFind[Place] = nx.utils.UnionFind()
        self._labels: list[tuple[Place, Hashable]] = []
        self._chunks: list[tuple[Place, Chunk]] = []
        self._asked: dict[Hashable, tuple[list[Group] | None, Claim | None]] = {}
        for number in graph:
            self._look(number)
        for number in graph.outputs.values():
            self._pin(number)
        self._join_weights()
        self.units = self._made()

    def width(self, number: NodeId) -> int:
        """The channels of a node."""
        x = self.types[number]
        return x.channels if x.rank and x.numeric else 0

    def _pin(self, number: NodeId) -> None:
        self._labels += [((number, i), (number, i)) for i in range(self.width(number))]

    def _look(self, number: NodeId) -> None:
        node, operands = self.graph[number], self.graph.operands(number)
        if isinstance(node.op, Input) or node.scope in self.graph.together:
            for one in (number, *operands):
                self._pin(one)
            return
        types = [self.types[operand] for operand in operands]
        key = node.op, tuple(types)
        if key not in self._asked:
            self._asked[key] = _answer(Asked(node.op, types, self.types[number]))
        groups, claim = self._asked[key]
        if groups is not None:
            self._move(number, groups)
        elif claim is not None:
            self._hold(number, claim)
        else:
            for one in (number, *operands):
                self._pin(one)

    def _move(self, number: NodeId, groups: Sequence[Group]) -> None:
        members = [*self.graph.operands(number), number]
        for group in groups:
            places = [(members[member], channel) for member, channel in group]
            self._joined.union(*places)
            self._labels.append((places[0], (number, "form", form(group))))

    def _hold(self, number: NodeId, claim: Claim) -> None:
        self.claims[number] = claim
        operands = self.graph.operands(number)
        held: set[Member] = set()
        for one in claim.tied:
            nodes = [number if member is None else operands[member] for member in one]
            held |= {*one}
            for i in range(self.width(nodes[-1])):
                for node in nodes[1:]:
                    self._joined.union((nodes[0], i), (node, i))
                chunk, inner = divmod(i, self.width(nodes[-1]) // claim.chunks)
                if claim.chunks > 1:
                    self._chunks.append(((nodes[0], i), (number, chunk)))
                if not claim.inside:
                    self._labels.append(((nodes[0], i), (number, one, "inside", inner)))
                if not claim.across:
                    self._labels.append(((nodes[0], i), (number, one, "chunk", chunk)))
        for position, operand in enumerate(operands):
            if position not in held and self.width(operand) > 1:
                self._pin(operand)
        if None not in held:
            self._pin(number)

    def _join_weights(self) -> None:
        """Axes of weights that several nodes share are of the same channels."""
        first: dict[tuple[str, str, int], NodeId] = {}
        for number in self.graph:
            node, operands = self.graph[number], self.graph.operands(number)
            types = [self.types[operand] for operand in operands]
            weights = node.op.weights(*types)
            for name, roles in node.op.roles(*types).items() if weights else ():
                for axis, role in enumerate(roles):
                    of = {"result": number, "operand": operands[0] if operands else None}.get(role)
                    if of is None:
                        continue
                    known = first.setdefault((node.scope, name, axis), of)
                    if self.width(known) != self.width(of) or weights[name].shape[axis] != self.width(of):
                        self._pin(known)
                        self._pin(of)
                    elif known != of:
                        for i in range(self.width(of)):
                            self._joined.union((known, i), (of, i))

    def _made(self) -> list[Unit]:
        found: dict[Place, Unit] = defaultdict(Unit)
        for number in self.graph:
            for i in range(self.width(number)):
                found[self._joined[number, i]].places[number].append(i)
        for place, label in self._labels:
            found[self._joined[place]].labels.add(label)
        for place, chunk in self._chunks:
            found[self._joined[place]].chunks.add(chunk)
        return list(found.values())

    # who changes places with whom

    def ordered(self, scores: Mapping[NodeId, NDArray[np.float64]]) -> dict[NodeId, NDArray[np.int64]]:
        """By node, the channels that come to stand at 0, 1, ...: what is most important first, as far as that leaves
        what the network computes as it is. Nodes without scores go with the others."""
        weighed = {id(unit): _score(unit, scores) for unit in self.units}
        taken = {id(unit): unit for unit in self.units}
        """By the unit whose places they are, the one that comes there."""
        for alike in self._bundles():
            ranked = sorted(alike, key=lambda bundle: -sum(weighed[id(unit)] for unit in bundle))
            for to, source in zip(alike, ranked, strict=True):
                taken |= {id(one): other for one, other in zip(to, source, strict=True)}
        classes: dict[Hashable, list[Unit]] = defaultdict(list)
        for unit in self.units:
            classes[unit.shape, frozenset(unit.chunks)].append(unit)
        for units in classes.values():
            sources = sorted((taken[id(unit)] for unit in units), key=lambda unit: -weighed[id(unit)])
            taken |= {id(unit): source for unit, source in zip(units, sources, strict=True)}
        found = {number: np.arange(self.width(number)) for number in self.graph if self.width(number)}
        for unit in self.units:
            for number, places in unit.places.items():
                found[number][places] = taken[id(unit)].places[number]
        return found

    def _bundles(self) -> list[list[list[Unit]]]:
        """Bundles of units that chunks hold together, those together that may change places. The units of one are in
        the order of those of the others that they change places with."""
        links: nx.Graph[Chunk] = nx.Graph()
        for unit in self.units:
            links.add_nodes_from(unit.chunks)
            nx.add_path(links, sorted(unit.chunks))
        homes = {chunk: i for i, chunks in enumerate(nx.connected_components(links)) for chunk in chunks}
        held: dict[int, list[Unit]] = defaultdict(list)
        of: dict[int, set[Chunk]] = defaultdict(set)
        for unit in self.units:
            if unit.chunks:
                home = homes[min(unit.chunks)]
                held[home].append(unit)
                of[home] |= unit.chunks
        classes: list[tuple[Hashable, list[list[Unit]]]] = []
        for home, units in held.items():
            nodes = sorted(number for number, _ in of[home])
            if len({*nodes}) < len(nodes):
                continue
            for key, known in classes:
                matched = _matched(known[0], units) if key == tuple(nodes) else None
                if matched is not None:
                    known.append(matched)
                    break
            else:
                classes.append((tuple(nodes), [units]))
        return [known for _, known in classes if len(known) > 1]


def _answer(asked: Asked) -> tuple[list[Group] | None, Claim | None]:
    if (groups := asked.moves()) is not None:
        return groups, None
    return None, next((claim for claim in asked.claims() if asked.holds(claim)), None)


def _matched(one: Sequence[Unit], other: Sequence[Unit]) -> list[Unit] | None:
    """The units of another bundle in the order of this one's, place by place; None if the two are not alike."""
    if len(one) != len(other):
        return None
    pairs: dict[int, Unit] = {}
    sides = [_placed(one), _placed(other)]
    if sides[0].keys() != sides[1].keys():
        return None
    for number, mine in sides[0].items():
        if len(mine) != len(sides[1][number]):
            return None
        for (_, unit), (_, twin) in zip(mine, sides[1][number], strict=True):
            if pairs.setdefault(id(unit), twin) is not twin or unit.shape != twin.shape:
                return None
    found = [pairs[id(unit)] for unit in one]
    return found if len({id(unit) for unit in found}) == len(found) else None


def _placed(units: Sequence[Unit]) -> dict[NodeId, list[tuple[int, Unit]]]:
    found: dict[NodeId, list[tuple[int, Unit]]] = defaultdict(list)
    for unit in units:
        for number, places in unit.places.items():
            found[number] += [(place, unit) for place in places]
    return {number: sorted(places, key=lambda one: one[0]) for number, places in found.items()}


def _score(unit: Unit, scores: Mapping[NodeId, NDArray[np.float64]]) -> float:
    """The mean over its channels that have a score."""
    found = [float(scores[number][i]) for number, places in unit.places.items() if number in scores for i in places]
    return sum(found) / len(found) if found else 0.0
