"""Canonical labeling: two graphs have equal texts exactly if they are isomorphic."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archir.equivalence import isomorphism as labelling
from archir.equivalence.canonical import canonical_hash
from archir.equivalence.isomorphism import Vertex, canonical_text
from archir.ir.graph import Graph, Node
from archir.ir.reader import parse_graph
from archir.ops.activation import Relu
from archir.ops.arithmetic import Mul
from archir.ops.conv import Linear
from tests.passes.test_canonical import X


@st.composite
def vertices(draw: Any) -> list[Vertex]:
    found = [Vertex(b"a")]
    for number in range(1, draw(st.integers(2, 9))):
        label = draw(st.sampled_from([b"a", b"a", b"b"]))
        before = st.integers(0, number - 1)
        if draw(st.booleans()):
            found.append(Vertex(label, tuple(draw(st.lists(before, max_size=2)))))
        else:
            counted = draw(st.dictionaries(before, st.integers(1, 2), max_size=3))
            found.append(Vertex(label, (), tuple(counted.items())))
    return found


def roots_of(found: list[Vertex]) -> dict[str, int]:
    """A last vertex that reads all others, so that all count."""
    found.append(Vertex(b"all", (), tuple((i, 1) for i in range(len(found)))))
    return {"y": len(found) - 1}


def as_networkx(found: list[Vertex]) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    for number, vertex in enumerate(found):
        graph.add_node(number, label=vertex.label)
        roles: dict[int, list[str]] = {}
        for position, one in enumerate(vertex.ordered):
            roles.setdefault(one, []).append(f"{position}")
        for one, times in vertex.unordered:
            roles.setdefault(one, []).append(f"{times}*")
        for one, role in roles.items():
            graph.add_edge(one, number, role=sorted(role))
    return graph


def isomorphic(one: list[Vertex], other: list[Vertex]) -> bool:
    return nx.is_isomorphic(
        as_networkx(one),
        as_networkx(other),
        node_match=lambda a, b: a["label"] == b["label"],
        edge_match=lambda a, b: a["role"] == b["role"],
    )


def shuffled(found: list[Vertex], rng: random.Random) -> list[Vertex]:
    moved: dict[int, int] = {}
    copy: list[Vertex] = []
    left = list(range(len(found)))
    while left:
        ready = [n for n in left if all(o in moved for o in (*found[n].ordered, *(o for o, _ in found[n].unordered)))]
        number = rng.choice(ready)
        left.remove(number)
        moved[number] = len(copy)
        vertex = found[number]
        counted = [(moved[o], k) for o, k in vertex.unordered]
        copy.append(Vertex(vertex.label, tuple(moved[o] for o in vertex.ordered), tuple(sorted(counted))))
    return copy


@settings(max_examples=300, deadline=None)
@given(vertices(), vertices(), st.randoms(use_true_random=False))
def test_texts_are_equal_for_isomorphic_graphs_only(one: list[Vertex], other: list[Vertex], rng: random.Random) -> None:
    text = canonical_text(one, roots_of(one))
    again = shuffled(one, rng)
    assert canonical_text(again, {"y": len(again) - 1}) == text
    roots = roots_of(other)
    assert (canonical_text(other, roots) == text) == isomorphic(one, other)
    near = list(one)
    target = rng.randrange(1, len(one) - 1)
    near[target] = Vertex(near[target].label, near[target].ordered[::-1], ((rng.randrange(target), 1),))
    assert (canonical_text(near, {"y": len(near) - 1}) == text) == isomorphic(one, near)


def pairs(edges: list[tuple[int, int]], size: int) -> list[Vertex]:
    """A graph without directions: a vertex per point, and one per edge, which reads its ends in any order."""
    return [Vertex(b"point") for _ in range(size)] + [Vertex(b"edge", (), ((a, 1), (b, 1))) for a, b in edges]


def cycles(*lengths: int) -> list[Vertex]:
    edges, start = [], 0
    for length in lengths:
        edges += [(start + i, start + (i + 1) % length) for i in range(length)]
        start += length
    return pairs(edges, start)


def text_of(found: list[Vertex]) -> str:
    return canonical_text(found, roots_of(found))


def test_regular_graphs_need_more_than_refinement() -> None:
    rng = random.Random(0)
    assert text_of(cycles(6)) != text_of(cycles(3, 3))
    assert text_of(cycles(3, 3)) != text_of(cycles(3, 3, 3))
    for graph in (
        nx.petersen_graph(),
        nx.complete_graph(9),
        nx.hypercube_graph(4),
        nx.circulant_graph(12, [1, 5]),
        nx.frucht_graph(),  # regular, and no two of its points are alike
    ):
        graph = nx.convert_node_labels_to_integers(graph)
        texts = set()
        for _ in range(4):
            names = rng.sample(range(len(graph)), len(graph))
            texts.add(text_of(pairs([(names[a], names[b]) for a, b in graph.edges], len(graph))))
        assert len(texts) == 1


def test_rook_and_shrikhande_graphs_are_distinguished() -> None:
    """The 4 x 4 rook's graph and Shrikhande's have the same parameters (16, 6, 2, 2), and are not isomorphic."""
    points = [(i, j) for i in range(4) for j in range(4)]
    steps = [(0, 1), (1, 0), (1, 1), (0, 3), (3, 0), (3, 3)]
    number = {point: i for i, point in enumerate(points)}
    rook = [(number[p], number[q]) for p in points for q in points if p < q and (p[0] == q[0]) != (p[1] == q[1])]
    shrikhande = {tuple(sorted((number[p], number[(p[0] + a) % 4, (p[1] + b) % 4]))) for p in points for a, b in steps}
    edges = [(a, b) for a, b in shrikhande]
    assert len(rook) == len(edges) == 48
    assert text_of(pairs(rook, 16)) != text_of(pairs(edges, 16))


def test_symmetric_branches_do_not_slow_labeling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred cells of two like branches each have 2^200 symmetries."""
    looks = []
    signature = labelling._Labelling._signature

    def counted(self: Any, number: int, colours: Any) -> bytes:
        looks.append(number)
        return signature(self, number, colours)

    monkeypatch.setattr(labelling._Labelling, "_signature", counted)
    graph = Graph()
    x = graph.add(parse_graph("net n {" + X + "output y = %0}")[0])
    for i in range(200):
        branches = [graph.add(Node(Relu()), graph.add(Node(Linear(8), scope=f"{i}{j}"), x)) for j in "ab"]
        x = graph.add(Node(Mul()), *branches)
    graph.outputs = {"y": x}
    canonical_hash(graph)
    assert len(looks) < 10_000


def test_step_limit_keeps_non_isomorphic_graphs_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "MAX_STEPS", 100)
    assert text_of(cycles(12)) == text_of(cycles(12))
    assert len({text_of(cycles(*lengths)) for lengths in [(12,), (6, 6), (4, 8), (3, 9), (4, 4, 4)]}) == 5
