"""Groups the nodes of a graph into regions, one per source module, nested as the scopes are.

Each region can become one call of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from archir.ir.graph import Graph, NodeId, enclosing_scopes
from archir.ir.structure import Input

CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", ""})
"""Names of generic container classes, which say nothing about the contents of a module; "" for no class."""
MIN_SPLIT_NODES = 24
"""Minimum number of nodes of a module without submodules that is split at bottlenecks."""
MIN_PART_NODES = 4
"""Minimum number of nodes in a part that is split off a module at a bottleneck."""


@dataclass
class Region:
    """Region for a module of the source: its input and output values, and its items, which are nodes and nested
    regions."""

    scope: str
    kind: str
    items: list[Region | NodeId] = field(default_factory=list)
    inputs: list[NodeId] = field(default_factory=list)
    outputs: list[NodeId] = field(default_factory=list)

    def nodes(self) -> list[NodeId]:
        """Return all nodes of the region, including those in nested regions."""
        return [n for item in self.items for n in (item.nodes() if isinstance(item, Region) else [item])]

    def regions(self) -> Iterator[Region]:
        """Yield the regions nested directly in this one."""
        return (item for item in self.items if isinstance(item, Region))

    def all_regions(self) -> list[Region]:
        """Return this region and all regions nested in it, innermost first."""
        return [*(deep for inner in self.regions() for deep in inner.all_regions()), self]


def region_tree(graph: Graph, classes: Mapping[str, str], shared: Mapping[NodeId, str]) -> Region:
    """Return the root region of a graph, which contains a region for each source module.

    A module cannot be one call if data leave it and enter it again, or if it shares weights with nodes outside. Such a
    module gets no region, and its nodes go to the enclosing region.
    """
    root = Region("", classes.get("", graph.name))
    regions = {"": root}
    for number in graph:
        if not isinstance(graph[number].op, Input):
            _region_of(graph[number].scope, classes, regions).items.append(number)
    _dissolve_and_sort(root, graph, shared)
    for region in root.all_regions():
        _split_at_bottlenecks(region, graph, shared)
    _connect(root, graph)
    return root


def _region_of(scope: str, classes: Mapping[str, str], regions: dict[str, Region]) -> Region:
    """Return the innermost region that contains a scope; regions not yet in `regions` are created."""
    region = regions[""]
    for prefix in enclosing_scopes(scope, indexed=True):
        if prefix in classes and prefix not in regions:
            regions[prefix] = Region(prefix, classes[prefix])
            region.items.append(regions[prefix])
        region = regions.get(prefix, region)
    return region


def _dissolve_and_sort(region: Region, graph: Graph, shared: Mapping[NodeId, str]) -> set[NodeId]:
    """Dissolve nested regions that cannot be one call, and sort the items topologically. Returns all nodes in the
    region."""
    inside: dict[int, set[NodeId]] = {}
    for inner in region.regions():
        inside[id(inner)] = _dissolve_and_sort(inner, graph, shared)
    nodes = {item for item in region.items if not isinstance(item, Region)}.union(*inside.values())
    split = {
        id(inner)
        for inner in region.regions()
        if not _is_closed(graph, inside[id(inner)]) or _shares_weights(inside[id(inner)], shared)
    }
    while True:
        items: list[Region | NodeId] = []
        for item in region.items:
            items += item.items if isinstance(item, Region) and id(item) in split else [item]
        for item in items:
            if isinstance(item, Region) and id(item) not in inside:
                inside[id(item)] = set(item.nodes())
        region.items = items
        ordered, stuck = _sorted_items(items, inside, graph)
        if not stuck:
            region.items = ordered
            return nodes
        split = stuck


def _is_closed(graph: Graph, nodes: set[NodeId]) -> bool:
    """Return True if no path of the graph leaves the set of nodes and enters it again."""
    first, last = min(nodes), max(nodes)
    if last - first + 1 == len(nodes):
        return True
    outside_path: set[NodeId] = set()
    for number in range(first, last + 1):
        if number not in graph:
            continue
        reenters = any(operand in outside_path for operand in graph.operands(number))
        if number in nodes:
            if reenters:
                return False
        elif reenters or any(operand in nodes for operand in graph.operands(number)):
            outside_path.add(number)
    return True


def _shares_weights(nodes: set[NodeId], shared: Mapping[NodeId, str]) -> bool:
    """Return True if a node in the set shares weights with a node outside of it."""
    names = {shared[number] for number in nodes if number in shared}
    return any(shared[number] in names for number in shared if number not in nodes) if names else False


def _sorted_items(
    items: list[Region | NodeId], inside: Mapping[int, set[NodeId]], graph: Graph
) -> tuple[list[Region | NodeId], set[int]]:
    """Sort items topologically; return them and the ids of the regions that are on or behind a cycle.

    Items that do not depend on each other are ordered by their last nodes.
    """
    owner: dict[NodeId, int] = {}
    for place, item in enumerate(items):
        owner |= dict.fromkeys(inside[id(item)] if isinstance(item, Region) else (item,), place)
    needs: list[set[int]] = [set() for _ in items]
    for number, place in owner.items():
        needs[place] |= {owner[o] for o in graph.operands(number) if o in owner and owner[o] != place}
    users: list[list[int]] = [[] for _ in items]
    for place, needed in enumerate(needs):
        for other in needed:
            users[other].append(place)
    last = [max(inside[id(item)]) if isinstance(item, Region) else item for item in items]
    missing = [len(needed) for needed in needs]
    ready = [(last[place], place) for place in range(len(items)) if not missing[place]]
    heapify(ready)
    ordered: list[Region | NodeId] = []
    while ready:
        _, place = heappop(ready)
        ordered.append(items[place])
        for user in users[place]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, (last[user], user))
    stuck = {id(item) for place, item in enumerate(items) if missing[place] and isinstance(item, Region)}
    return ordered, stuck


def _split_at_bottlenecks(region: Region, graph: Graph, shared: Mapping[NodeId, str]) -> None:
    """Split a long region at the values through which all paths pass, unless it has nested regions.

    Each part becomes a region of its own.
    """
    places = {item: place for place, item in enumerate(region.items) if not isinstance(item, Region)}
    if len(places) < len(region.items) or len(places) < MIN_SPLIT_NODES:
        return
    last = dict(places)
    for number, place in places.items():
        last |= {operand: place for operand in graph.operands(number) if operand in last}
    last |= {number: len(places) for number in graph.outputs.values() if number in last}
    outside = {n for number in places for n in graph.operands(number) if n not in places}
    nodes = [*places]
    items: list[Region | NodeId] = []
    start, needed = (
        0,
        max(place for number, place in places.items() if outside & {*graph.operands(number)} or not place),
    )
    for place in range(len(nodes)):
        if place:
            needed = max(needed, last[nodes[place - 1]])
        if needed > place:
            continue
        part = nodes[start : place + 1]
        if len(part) >= MIN_PART_NODES and not shared.keys() & {*part}:  # steps of a recurrent layer are not modules
            items.append(Region(f"{region.scope}.part[{start}]".lstrip("."), "Part", list(part)))
        else:
            items += part
        start = place + 1
    region.items = [*items, *nodes[start:]]


def _connect(root: Region, graph: Graph) -> None:
    """Fill in the inputs and outputs of all regions."""
    last: dict[NodeId, list[NodeId]] = {}
    for number in graph:
        for operand in graph.operands(number):
            last.setdefault(operand, []).append(number)
    results = set(graph.outputs.values())
    for region in root.all_regions():
        nodes = region.nodes()
        inside = set(nodes)
        read = [operand for number in sorted(nodes) for operand in graph.operands(number) if operand not in inside]
        region.inputs = list(dict.fromkeys(read))
        used = (n for n in nodes if n in results or any(user not in inside for user in last.get(n, ())))
        region.outputs = list(used)
    root.inputs = list(graph.inputs.values())
    root.outputs = list(dict.fromkeys(graph.outputs.values()))
