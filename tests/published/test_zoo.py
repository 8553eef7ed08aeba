"""The spaces of the zoo have the sizes that are published; their networks train, export, and cost what is counted."""

from __future__ import annotations

from itertools import permutations, product
from math import prod
from pathlib import Path

import networkx as nx
import pytest

from tests.architectures import assert_works
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated
from tests.portions import portion
from tests.published.test_zoo_of_text import TEXT

CELLS_OF_FIVE = prod(range(2, 7)) ** 2 * 8**10
"""Two of the results before and two of eight operations, for each of five blocks: about 5.6 * 10^14."""
ZOO = {
    "auto_deeplab": 28_657 * CELLS_OF_FIVE,  # 2.9 * 10^4 ways through the levels
    "enas_macro": 6**12 * 2**66,  # 1.6 * 10^29
    "fbnet": 9**22,  # 10^21
    "nas_bench_asr": 6**3 * 2**6,
    "nas_bench_macro": 3**8,
    "nats_size": 8**5,
    "pnas": CELLS_OF_FIVE,
    "spos": 4**20,
    "transnas_macro": 3_256,
    "transnas_micro": 4**6,
}
"""How many architectures the papers say there are."""
QUICK = {"nats_size", "nas_bench_asr", "transnas_macro"}
"""Spaces of which the suite tries a network: maps of chosen widths, series, chosen depths."""


def path_of(name: str) -> str:
    return f"zoo/{name}.arch:{name}"


def test_all_files_are_here() -> None:
    assert {path.stem for path in (EXAMPLES / "zoo").glob("*.arch")} == ZOO.keys() | TEXT.keys()


@pytest.mark.parametrize("name", ZOO)
def test_the_size_is_the_published_one(name: str) -> None:
    head = (EXAMPLES / "zoo" / f"{name}.arch").read_text("utf-8").partition("\n\n")[0]
    assert "Published size: " in head.replace("\n# ", " ")
    assert elaborated(path_of(name)).satisfying == ZOO[name]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
@pytest.mark.parametrize("name", portion(ZOO, QUICK))
def test_networks_work(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = path_of(name)
    space = elaborated(net, **NETS[net])
    assert_works(space.specialize(space.sample(seed)), tmp_path, monkeypatch)


def published_graph(ops: tuple[str, ...], skips: tuple[tuple[bool, ...], ...]) -> str:
    """A cell of NAS-Bench-ASR as its authors compare it: the input, the operations of nodes, the output. A zero is
    taken out with its edges, and so is what lies on no way from the input to the output. Equal for isomorphic ones."""
    edges = {(i, i + 1) for i in range(4)}
    edges |= {(i, node + 2) for node, added in enumerate(skips) for i, is_added in enumerate(added) if is_added}
    zeros = {node + 1 for node, op in enumerate(ops) if op == "zero"}
    graph = nx.DiGraph([edge for edge in edges if not zeros & {*edge}])
    graph.add_nodes_from((0, 4))
    kept = sorted((nx.descendants(graph, 0) | {0}) & (nx.ancestors(graph, 4) | {4}))
    inner = [node for node in kept if node not in (0, 4)]
    forms = []
    for order in permutations(range(len(inner))):
        at = {0: -1, 4: 3} | dict(zip(inner, order, strict=True))
        labels = sorted((at[node], ops[node - 1]) for node in inner)
        forms.append((labels, sorted((at[a], at[b]) for a, b in graph.subgraph(kept).edges)))
    return repr(min(forms))


@pytest.mark.soak
def test_what_nas_bench_asr_calls_unique() -> None:
    """The authors' 8,242 are graphs; more is computed, since a zero passes on what is added to it."""
    ops = product(("linear", "conv5", "conv5d2", "conv7", "conv7d2", "zero"), repeat=3)
    bits = (False, True)
    skips = list(product(*(list(product(bits, repeat=nodes)) for nodes in (1, 2, 3))))
    assert len({published_graph(*cell) for cell in product(ops, skips)}) == 8_242
    space = elaborated("zoo/nas_bench_asr.arch:nas_bench_asr", cells=(1, 1, 1, 1), frames=8)
    assert sum(1 for _ in space.unique(space.enumerate(20_000))) == 9_155
