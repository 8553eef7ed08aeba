"""Which nodes belong to which module of the source: the tree of its scopes, where each module is one call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input

CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", ""})
"""Classes that say nothing of what is in them."""
LONG = 24
"""Nodes of a module that is looked into for modules that the source does not tell."""
FEWEST = 4
"""Nodes of such a module."""


@dataclass
class Region:
    """A module of the source: what it reads and gives, and what is in it: nodes and further modules."""

    scope: str
    kind: str
    items: list[Region | NodeId] = field(default_factory=list)
    inputs: list[NodeId] = field(default_factory=list)
    outputs: list[NodeId] = field(default_factory=list)

    def nodes(self) -> list[NodeId]:
        """All nodes inside."""
        return [n for item in self.items for n in (item.nodes() if isinstance(item, Region) else [item])]

    def regions(self) -> Iterator[Region]:
        """Those right in it."""
        return (item for item in self.items if isinstance(item, Region))

    def everything(self) -> list[Region]:
        """All below it, what is inside coming first, and itself."""
        return [*(deep for inner in self.regions() for deep in inner.everything()), self]


def tree(graph: Graph, classes: Mapping[str, str], shared: Mapping[NodeId, str]) -> Region:
    """The modules of a graph in the one that is all of it. Those that interleave, or that share weights with nodes
    outside, are taken apart."""
    root = Region("", classes.get("", graph.name))
    known = {"": root}
    for number in graph:
        if not isinstance(graph[number].op, Input):
            _home(graph[number].scope, classes, known).items.append(number)
    _arrange(root, graph, shared)
    for region in root.everything():
        _cut(region, graph, shared)
    _connect(root, graph)
    return root


def _home(scope: str, classes: Mapping[str, str], known: dict[str, Region]) -> Region:
    """The innermost module of a scope, made if it is new."""
    home = known[""]
    for part in re.finditer(r"[^.\[\]]+\]?", scope):
        prefix = scope[: part.end()]
        if prefix in classes and prefix not in known:
            known[prefix] = Region(prefix, classes[prefix])
            home.items.append(known[prefix])
        home = known.get(prefix, home)
    return home


def _arrange(region: Region, graph: Graph, shared: Mapping[NodeId, str]) -> set[NodeId]:
    """Take apart what cannot be one call, and put the rest in an order in which operands come first. Its nodes."""
    inside: dict[int, set[NodeId]] = {}
    for inner in region.regions():
        inside[id(inner)] = _arrange(inner, graph, shared)
    whole = {item for item in region.items if not isinstance(item, Region)}.union(*inside.values())
    split = {
        id(inner)
        for inner in region.regions()
        if not _closed(graph, inside[id(inner)]) or _shares(inside[id(inner)], shared)
    }
    while True:
        items: list[Region | NodeId] = []
        for item in region.items:
            items += item.items if isinstance(item, Region) and id(item) in split else [item]
        for item in items:
            if isinstance(item, Region) and id(item) not in inside:
                inside[id(item)] = set(item.nodes())
        region.items = items
        ordered, stuck = _ordered(items, inside, graph)
        if not stuck:
            region.items = ordered
            return whole
        split = stuck


def _closed(graph: Graph, nodes: set[NodeId]) -> bool:
    """Whether no path leaves the nodes and comes back."""
    first, last = min(nodes), max(nodes)
    if last - first + 1 == len(nodes):
        return True
    tainted: set[NodeId] = set()
    for number in range(first, last + 1):
        if number not in graph:
            continue
        behind = any(operand in tainted for operand in graph.operands(number))
        if number in nodes:
            if behind:
                return False
        elif behind or any(operand in nodes for operand in graph.operands(number)):
            tainted.add(number)
    return True


def _shares(nodes: set[NodeId], shared: Mapping[NodeId, str]) -> bool:
    """Whether some of the nodes share weights with others that are not among them."""
    names = {shared[number] for number in nodes if number in shared}
    return any(shared[number] in names for number in shared if number not in nodes) if names else False


def _ordered(
    items: list[Region | NodeId], inside: Mapping[int, set[NodeId]], graph: Graph
) -> tuple[list[Region | NodeId], set[int]]:
    """The items so that operands come first, in their order else; or the modules that stand in each other's way."""
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


def _cut(region: Region, graph: Graph, shared: Mapping[NodeId, str]) -> None:
    """Make modules of what lies between the values that all of a long list of nodes passes through, if it branches."""
    places = {item: place for place, item in enumerate(region.items) if not isinstance(item, Region)}
    if len(places) < len(region.items) or len(places) < LONG:
        return
    last = dict(places)
    for number, place in places.items():
        last |= {operand: place for operand in graph.operands(number) if operand in last}
    last |= {number: len(places) for number in graph.outputs.values() if number in last}
    outside = {n for number in places for n in graph.operands(number) if n not in places}
    nodes = [*places]
    items: list[Region | NodeId] = []
    begin, needed = (
        0,
        max(place for number, place in places.items() if outside & {*graph.operands(number)} or not place),
    )
    for place in range(len(nodes)):
        if place:
            needed = max(needed, last[nodes[place - 1]])
        if needed > place:
            continue
        part = nodes[begin : place + 1]
        if len(part) >= FEWEST and not shared.keys() & {*part}:  # steps of a recurrent layer are none
            items.append(Region(f"{region.scope}.part[{begin}]".lstrip("."), "Part", list(part)))
        else:
            items += part
        begin = place + 1
    region.items = [*items, *nodes[begin:]]


def _connect(root: Region, graph: Graph) -> None:
    """Find what each module reads, and what it gives to others."""
    last: dict[NodeId, list[NodeId]] = {}
    for number in graph:
        for operand in graph.operands(number):
            last.setdefault(operand, []).append(number)
    results = set(graph.outputs.values())
    for region in root.everything():
        nodes = region.nodes()
        inside = set(nodes)
        read = [operand for number in sorted(nodes) for operand in graph.operands(number) if operand not in inside]
        region.inputs = list(dict.fromkeys(read))
        used = (n for n in nodes if n in results or any(user not in inside for user in last.get(n, ())))
        region.outputs = list(used)
    root.inputs = list(graph.inputs.values())
    root.outputs = list(dict.fromkeys(graph.outputs.values()))
