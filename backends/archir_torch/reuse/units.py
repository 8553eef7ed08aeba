"""Exchangeable channels of a network: units of channels that move together, and bundles of units, such as heads."""

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
from archir_torch.reuse.channel_symmetry import Claim, Group, OperationProbe, Port, signature

Place = tuple[NodeId, int]
"""Channel of a node's result, as (node, channel)."""
Chunk = tuple[NodeId, int]
"""Equal part into which a node splits its channels, such as an attention head, as (node, index)."""


@dataclass
class Unit:
    """Set of channels that must move together. Two units can be exchanged if their `shape` is equal."""

    places: dict[NodeId, list[int]] = field(default_factory=lambda: defaultdict(list))
    labels: set[Hashable] = field(default_factory=set)
    chunks: set[Chunk] = field(default_factory=set)

    @property
    def shape(self) -> Hashable:
        """Key that is equal for exchangeable units: the number of channels at each node, and the labels."""
        return frozenset((node, len(at)) for node, at in self.places.items()), frozenset(self.labels)


class ChannelUnits:
    """Units of channels that move together, in a graph without choices whose composite operations are expanded."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.types = graph, infer(graph)
        self.claims: dict[NodeId, Claim] = {}
        self._union: nx.utils.UnionFind[Place] = nx.utils.UnionFind()
        self._labels: list[tuple[Place, Hashable]] = []
        self._chunks: list[tuple[Place, Chunk]] = []
        self._probed: dict[Hashable, tuple[list[Group] | None, Claim | None]] = {}
        for number in graph:
            self._add_node(number)
        for number in graph.outputs.values():
            self._pin(number)
        self._join_weights()
        self.units = self._collect()

    def width(self, number: NodeId) -> int:
        """Return the number of channels of a node; 0 if it has none."""
        x = self.types[number]
        return x.channels if x.rank and x.is_floating else 0

    def _pin(self, number: NodeId) -> None:
        """Keep the channels of a node in place, by giving each channel a label of its own."""
        self._labels += [((number, i), (number, i)) for i in range(self.width(number))]

    def _add_node(self, number: NodeId) -> None:
        """Join the channels that an operation moves together; pin the channels if the operation has no symmetry."""
        node, operands = self.graph[number], self.graph.operands(number)
        if isinstance(node.op, Input) or node.scope in self.graph.merged_scopes:
            for pinned in (number, *operands):
                self._pin(pinned)
            return
        types = [self.types[operand] for operand in operands]
        key = node.op, tuple(types)
        if key not in self._probed:
            self._probed[key] = _find_symmetry(OperationProbe(node.op, types, self.types[number]))
        groups, claim = self._probed[key]
        if groups is not None:
            self._add_groups(number, groups)
        elif claim is not None:
            self._add_claim(number, claim)
        else:
            for pinned in (number, *operands):
                self._pin(pinned)

    def _add_groups(self, number: NodeId, groups: Sequence[Group]) -> None:
        """Join the channels of each group, for an operation that only moves elements."""
        nodes = [*self.graph.operands(number), number]
        for group in groups:
            places = [(nodes[member], channel) for member, channel in group]
            self._union.union(*places)
            self._labels.append((places[0], (number, "form", signature(group))))

    def _add_claim(self, number: NodeId, claim: Claim) -> None:
        """Join the channels that an accepted claim permutes together.

        Channels that must stay in their chunk are labelled by chunk; channels that must keep their position within the
        chunk are labelled by position.
        """
        self.claims[number] = claim
        operands = self.graph.operands(number)
        moving_ports: set[Port] = set()
        for ports in claim.channel_sets:
            nodes = [number if member is None else operands[member] for member in ports]
            moving_ports |= {*ports}
            for i in range(self.width(nodes[-1])):
                for node in nodes[1:]:
                    self._union.union((nodes[0], i), (node, i))
                chunk, inner = divmod(i, self.width(nodes[-1]) // claim.chunks)
                if claim.chunks > 1:
                    self._chunks.append(((nodes[0], i), (number, chunk)))
                if not claim.inside:
                    self._labels.append(((nodes[0], i), (number, ports, "inside", inner)))
                if not claim.across:
                    self._labels.append(((nodes[0], i), (number, ports, "chunk", chunk)))
        for position, operand in enumerate(operands):
            if position not in moving_ports and self.width(operand) > 1:
                self._pin(operand)
        if None not in moving_ports:
            self._pin(number)

    def _join_weights(self) -> None:
        """Join the channels of nodes that share a weight, along each axis of the weight."""
        first: dict[tuple[str, str, int], NodeId] = {}
        for number in self.graph:
            node, operands = self.graph[number], self.graph.operands(number)
            types = [self.types[operand] for operand in operands]
            weights = node.op.weights(*types)
            for name, roles in node.op.roles(*types).items() if weights else ():
                for axis, role in enumerate(roles):
                    channel_node = {"result": number, "operand": operands[0] if operands else None}.get(role)
                    if channel_node is None:
                        continue
                    first_node = first.setdefault((node.scope, name, axis), channel_node)
                    if self.width(first_node) != self.width(channel_node) or weights[name].shape[axis] != self.width(
                        channel_node
                    ):
                        self._pin(first_node)
                        self._pin(channel_node)
                    elif first_node != channel_node:
                        for i in range(self.width(channel_node)):
                            self._union.union((first_node, i), (channel_node, i))

    def _collect(self) -> list[Unit]:
        """Return the units, each with its channels, labels and chunks."""
        units: dict[Place, Unit] = defaultdict(Unit)
        for number in self.graph:
            for i in range(self.width(number)):
                units[self._union[number, i]].places[number].append(i)
        for place, label in self._labels:
            units[self._union[place]].labels.add(label)
        for place, chunk in self._chunks:
            units[self._union[place]].chunks.add(chunk)
        return list(units.values())

    # which units are exchanged

    def channel_order(self, scores: Mapping[NodeId, NDArray[np.float64]]) -> dict[NodeId, NDArray[np.int64]]:
        """Return the new channel order of each node, as old positions: the most important channel first.

        Channels are moved only as far as the network still computes the same. Nodes without scores follow the order of
        the nodes with scores.
        """
        scores_by_unit = {id(unit): _score(unit, scores) for unit in self.units}
        moved_to = {id(unit): unit for unit in self.units}
        """Unit that moves to the place of another unit, keyed by the id of the unit whose place is taken."""
        for bundles in self._bundles():
            ranked = sorted(bundles, key=lambda bundle: -sum(scores_by_unit[id(unit)] for unit in bundle))
            for to, source in zip(bundles, ranked, strict=True):
                moved_to |= {id(place_unit): source_unit for place_unit, source_unit in zip(to, source, strict=True)}
        classes: dict[Hashable, list[Unit]] = defaultdict(list)
        for unit in self.units:
            classes[unit.shape, frozenset(unit.chunks)].append(unit)
        for units in classes.values():
            sources = sorted((moved_to[id(unit)] for unit in units), key=lambda unit: -scores_by_unit[id(unit)])
            moved_to |= {id(unit): source for unit, source in zip(units, sources, strict=True)}
        orders = {number: np.arange(self.width(number)) for number in self.graph if self.width(number)}
        for unit in self.units:
            for number, places in unit.places.items():
                orders[number][places] = moved_to[id(unit)].places[number]
        return orders

    def _bundles(self) -> list[list[list[Unit]]]:
        """Return classes of interchangeable bundles.

        A bundle holds the units that chunks tie together, such as those of a head. Within a class, the units of all
        bundles are in corresponding order.
        """
        links: nx.Graph[Chunk] = nx.Graph()
        for unit in self.units:
            links.add_nodes_from(unit.chunks)
            nx.add_path(links, sorted(unit.chunks))
        component_of = {chunk: i for i, chunks in enumerate(nx.connected_components(links)) for chunk in chunks}
        units_of: dict[int, list[Unit]] = defaultdict(list)
        chunks_of: dict[int, set[Chunk]] = defaultdict(set)
        for unit in self.units:
            if unit.chunks:
                component = component_of[min(unit.chunks)]
                units_of[component].append(unit)
                chunks_of[component] |= unit.chunks
        classes: list[tuple[Hashable, list[list[Unit]]]] = []
        for component, units in units_of.items():
            nodes = sorted(number for number, _ in chunks_of[component])
            if len({*nodes}) < len(nodes):
                continue
            for key, bundles in classes:
                matched = _match_units(bundles[0], units) if key == tuple(nodes) else None
                if matched is not None:
                    bundles.append(matched)
                    break
            else:
                classes.append((tuple(nodes), [units]))
        return [bundles for _, bundles in classes if len(bundles) > 1]


def _find_symmetry(probe: OperationProbe) -> tuple[list[Group] | None, Claim | None]:
    """Return the movement groups of an operation or, if it has none, the first of its claims that holds.

    Both are None if the operation has no symmetry.
    """
    if (groups := probe.movement_groups()) is not None:
        return groups, None
    return None, next((claim for claim in probe.claims() if probe.holds(claim)), None)


def _match_units(left: Sequence[Unit], right: Sequence[Unit]) -> list[Unit] | None:
    """Return the units of the bundle `right` in the order of `left`, channel by channel; None if the bundles differ."""
    if len(left) != len(right):
        return None
    pairs: dict[int, Unit] = {}
    sides = [_channels_by_node(left), _channels_by_node(right)]
    if sides[0].keys() != sides[1].keys():
        return None
    for number, channels in sides[0].items():
        if len(channels) != len(sides[1][number]):
            return None
        for (_, unit), (_, counterpart) in zip(channels, sides[1][number], strict=True):
            if pairs.setdefault(id(unit), counterpart) is not counterpart or unit.shape != counterpart.shape:
                return None
    ordered_units = [pairs[id(unit)] for unit in left]
    return ordered_units if len({id(unit) for unit in ordered_units}) == len(ordered_units) else None


def _channels_by_node(units: Sequence[Unit]) -> dict[NodeId, list[tuple[int, Unit]]]:
    """Return the channels of units by node, sorted; each channel comes with its unit."""
    channels_by_node: dict[NodeId, list[tuple[int, Unit]]] = defaultdict(list)
    for unit in units:
        for number, places in unit.places.items():
            channels_by_node[number] += [(place, unit) for place in places]
    return {number: sorted(places, key=lambda pair: pair[0]) for number, places in channels_by_node.items()}


def _score(unit: Unit, scores: Mapping[NodeId, NDArray[np.float64]]) -> float:
    """Return the mean score of a unit, over those of its channels that have a score; 0 if no channel has one."""
    channel_scores = [
        float(scores[number][i]) for number, places in unit.places.items() if number in scores for i in places
    ]
    return sum(channel_scores) / len(channel_scores) if channel_scores else 0.0
