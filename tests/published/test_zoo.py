"""The spaces of the zoo have the sizes that are published; their networks train, export, and cost what is counted."""

from __future__ import annotations

import json
from itertools import combinations, permutations, product
from math import log10, prod
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import archir
from archir.language.elaboration.context import Limits
from archir_torch.export.source.emit import emit
from docs import zoo
from tests.architectures import assert_works
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated
from tests.published.test_zoo_of_text import TEXT
from tests.soak import with_soak
from tests.torch_backend.export.test_emit import imported

PAIRS = prod(range(2, 7)) ** 2
"""Two of the results before, in order, for each of five blocks."""
CELLS_OF_FIVE = PAIRS * 8**10
"""Two of eight operations besides: about 5.6 * 10^14."""


def hytra(level: int = 0, layer: int = 0) -> int:
    """Ways through the layers of HyTra from one on that is at this level: 16 layers, of which each may be one level
    coarser than the one before, with one operation at the first two levels and two at the others."""
    if level > 3 or level < (0, 1, 2, 2)[layer // 4]:
        return 0
    further = 1 if layer == 15 else hytra(level, layer + 1) + hytra(level + 1, layer + 1)
    return (1 if level < 2 else 2) * further


def node_pairs(first: int, second: int) -> int:
    """The pairs of edges of four nodes: so many operations on the first and the second input, five on nodes."""
    edges = [first, second, 5, 5, 5]
    return prod(sum(a * b for a, b in combinations(edges[: 2 + node], 2)) for node in range(4))


ZOO = {
    "accel_mnasnet": 36**6 * 48,
    "amoebanet": CELLS_OF_FIVE**2,
    "attentive_nas": 4 * 1536 * 6912 * 128 * 81,
    "auto_deeplab": 28_657 * CELLS_OF_FIVE,  # 2.9 * 10^4 ways through the levels
    "bossnas": sum(hytra(level) for level in range(4)),
    "einspace": 83_730,
    "enas_macro": 6**12 * 2**66,  # 1.6 * 10^29
    "enas_micro": (PAIRS * 5**10) ** 2,
    "fbnet": 9**22,  # 10^21
    "hr_nas": 81 ** (2 * (1 + 2 + 3 + 4 + 4)),
    "metaformer": 4**4,
    "mnasnet": 432**5,
    "nas_bench_asr": 6**3 * 2**6,
    "nas_bench_macro": 3**8,
    "nas_unet": node_pairs(6, 6) * node_pairs(5, 4),
    "nasnet": (PAIRS * 13**10 * 2**5) ** 2,
    "nats_size": 8**5,
    "ofa_resnet50": 2 * 3**2 * (3 * (3**2 + 3**3 + 3**4)) ** 3 * 3 * (3**4 + 3**5 + 3**6),
    "pnas": CELLS_OF_FIVE,
    "proxylessnas": 6**6 * 7**15,
    "spos": 4**20,
    "transnas_macro": 3_256,
    "transnas_micro": 4**6,
    "vitas": 3 * 10 * (4 * 10 * 10 + 1) ** 16,
}
"""How many architectures the papers say there are, or their lists of choices come to."""
QUICK = {"nats_size", "nas_bench_asr", "transnas_macro"}
"""Spaces of which the suite tries a network: maps of chosen widths, series, chosen depths."""
LARGE = {"amoebanet", "auto_deeplab", "bossnas", "nasnet", "pnas", "vitas"}
"""Spaces whose size is looked at in the soak alone, and so is that of the grammar."""


def path_of(name: str) -> str:
    return f"zoo/{name}.arch:{name}"


def test_zoo_folder_has_exactly_listed_spaces() -> None:
    assert {path.stem for path in (EXAMPLES / "zoo").glob("*.arch")} == ZOO.keys() | {"hnas"} | TEXT.keys()


@pytest.mark.parametrize("name", with_soak(ZOO, ZOO.keys() - LARGE))
def test_space_size_equals_published_size(name: str) -> None:
    head = (EXAMPLES / "zoo" / f"{name}.arch").read_text("utf-8").partition("\n\n")[0]
    assert "Published size: " in head.replace("\n# ", " ")
    assert elaborated(path_of(name)).satisfying == ZOO[name]


@pytest.mark.soak
def test_hnas_size_equals_closed_formula() -> None:
    """Of 10^446 derivations, 10^375.8 are other networks: the grammar has one of its rules twice."""
    for rules_of_convolutions, size in ((1, 375.8), (2, 446.1)):
        cell = (3 + 27 * rules_of_convolutions) ** 6
        cells, down = cell**2 + 2 * cell**3, 2 * cell + cell**2
        ending = [(cells**2 + cells**3) * last + cells**2 * last**2 for last in (down, cell)]
        whole_size = 2 * ending[0] ** 2 * ending[1] + ending[0] ** 2 * ending[1] ** 2
        assert log10(whole_size) == pytest.approx(size, abs=0.1)
        if rules_of_convolutions == 1:
            space = archir.load(
                EXAMPLES / "zoo" / "hnas.arch",
                limits=Limits(nodes=10**6, work=10**7),
                networks=("late", "early", "four"),
            )
            assert space.size == whole_size


SMALL_KERNELS, LEAST = (3,) * 7, (1, 4, 4, 4, 4, 6, 6)
ATTENTIVE = {
    203: (192, (16, 16, 24, 32, 64, 112, 192, 216, 1792), SMALL_KERNELS, LEAST, (1, 3, 3, 3, 3, 3, 1)),
    279: (224, (16, 16, 24, 32, 64, 112, 192, 216, 1984), (3, 3, 3, 5, 3, 5, 3), LEAST, (1, 3, 3, 3, 3, 3, 1)),
    709: (288, (16, 16, 24, 32, 64, 112, 216, 224, 1984), (3, 3, 3, 3, 3, 5, 3), (1, 4, 6, 5, 4, 6, 6),
          (1, 3, 3, 4, 4, 6, 1)),
}  # fmt: skip
"""Resolution, widths, kernels, expansions and depths of AttentiveNAS-A0, A1 and A6, by their millions of MACs."""


def test_mnasnet_a1_and_proxyless_mobile_match_published_costs() -> None:
    """MnasNet-A1 (table 1 of the paper), and ProxylessNAS for phones: widths that their spaces have not are put in."""
    text = (EXAMPLES / "zoo" / "mnasnet.arch").read_text("utf-8")
    space = archir.loads(text.replace("(96, 3, 1)", "(90, 3, 1)"))
    rows = [
        ("mbconv6", 3, 0, 1, 0), ("mbconv3", 5, "1/4", "5/4", 0), ("mbconv6", 3, 0, "5/4", 0),
        ("mbconv6", 3, "1/4", "5/4", -1), ("mbconv6", 5, "1/4", 1, 0),
    ]  # fmt: skip
    names = ("op", "kernel", "ratio", "filters", "more")
    labels = {f"{name}[{i}]": label for i, row in enumerate(rows) for name, label in zip(names, row, strict=True)}
    labels |= {f"skip[{i}]": "identity" for i in range(5)}
    cost = archir.cost(space.specialize(space.architecture(labels)))
    assert (round(cost.params / 1e6, 1), round(cost.macs / 1e6)) == (3.9, 312)
    phone = ["53 33 00 00", "73 33 53 53", "76 53 53 53", "56 53 53 53", "76 76 73 73", "76"]
    space = archir.load(EXAMPLES / "zoo" / "proxylessnas.arch", first=32)
    ops = {f"layer[{i}][{j}].op": [*map(int, op)] for i, row in enumerate(phone) for j, op in enumerate(row.split())}
    labels = {
        one.path: next(a for a in one.alternatives if json.loads(str(a)) == ops[one.path]) for one in space.choices
    }
    cost = archir.cost(space.specialize(space.architecture(labels)))
    assert (round(cost.params / 1e6, 1), round(cost.macs / 1e6)) == (4.1, 320)


def cost_of(name: str, **labels: Any) -> archir.Cost:
    """The cost of an architecture, given by the labels of its choices; those of others are left out."""
    space = archir.load(EXAMPLES / "zoo" / f"{name}.arch")
    known = {choice.path for choice in space.choices}
    return archir.cost(space.specialize(space.architecture({p: v for p, v in labels.items() if p in known})))


@pytest.mark.parametrize("millions", ATTENTIVE)
def test_attentive_nas_networks_match_published_macs(millions: int) -> None:
    size, widths, kernels, expansions, depths = ATTENTIVE[millions]
    labels: dict[str, Any] = {"resolution": size, "stem": widths[0], "last": widths[-1]}
    for name, values in (("width", widths[1:-1]), ("kernel", kernels), ("expansion", expansions), ("depth", depths)):
        labels |= {f"{name}[{i}]": value for i, value in enumerate(values)}
    assert round(cost_of("attentive_nas", **labels).macs / 1e6) == millions


@pytest.mark.parametrize(
    ("mixers", "params", "macs"), [(["conv"] * 4, 26.8, 4.0), (["conv"] * 2 + ["attention"] * 2, 26.3, 4.1)]
)
def test_metaformers_match_published_params_and_macs(mixers: list[str], params: float, macs: float) -> None:
    cost = cost_of("metaformer", **{f"mixer[{i}]": mixer for i, mixer in enumerate(mixers)})
    assert round(cost.params / 1e6, 1) == params
    assert cost.macs / 1e9 == pytest.approx(
        macs, rel=0.02
    )  # the table also counts what is not a multiply-accumulate here


def paired(cells: dict[str, str]) -> dict[str, Any]:
    """Labels of cells of five blocks, each two operations and what they read: `avg 0 max 1`."""
    labels: dict[str, Any] = {}
    for cell, text in cells.items():
        for i, block in enumerate(text.split(", ")):
            one, left, other, right = block.split()
            sides = {"left": int(left), "right": int(right), "op": NAMED[one], "op_2": NAMED[other]}
            labels |= {f"{cell}.pairs.{side}[{i}]" + ".op" * side.startswith("op"): at for side, at in sides.items()}
    return labels


NAMED = {
    "avg": "avg_3x3", "max": "max_3x3", "sep3": "sep_3x3", "sep5": "sep_5x5", "sep7": "sep_7x7", "skip": "identity",
    "line": "conv_1x7_7x1",
}  # fmt: skip
AMOEBANET_A = {
    "normal": "avg 0 max 1, sep3 0 sep5 2, sep3 0 avg 3, sep3 1 skip 1, skip 0 avg 1",
    "reduction": "avg 0 sep3 1, max 0 sep7 2, sep7 0 avg 1, max 0 max 1, line 0 sep3 5",
}
SPOS = "00311100202110202132"
"""Its best blocks, by their numbers."""
FBNET_C = [
    "k3_e1",
    "k3_e6",
    "skip",
    "k3_e1",
    "k3_e1",
    "k5_e6",
    "k5_e3",
    "k5_e6",
    "k3_e6",
    "k5_e6",
    "k5_e3",
    "k5_e6",
    "k5_e6",
    "k5_e6",
    "k5_e6",
    "k5_e6",
    "k5_e3",
    "k5_e6",
    "k5_e6",
    "k5_e6",
    "k5_e6",
    "k3_e6",
]


def test_table_costs_equal_recomputed_costs() -> None:
    """AmoebaNet-A (Real et al. 2019, table 1), SPOS (Guo et al. 2020, table 5), FBNet-C (Wu et al. 2019, table 3)."""
    known = {row.key: row.costs for row in zoo.rows()}
    amoebanet = cost_of("amoebanet", **paired(AMOEBANET_A))
    assert known["amoebanet"] == f"AmoebaNet-A: 3.2 M parameters; here {amoebanet.params / 1e6:.2f} M"
    blocks = ("shuffle_3", "shuffle_5", "shuffle_7", "xception")
    paths = [choice.path for choice in archir.load(EXAMPLES / "zoo" / "spos.arch").choices]
    spos = cost_of("spos", **{path: blocks[int(one)] for path, one in zip(paths, SPOS, strict=True)})
    assert known["spos"] == f"319 M MACs of the best blocks; here {spos.macs / 1e6:.0f} M"
    text = (EXAMPLES / "zoo" / "fbnet.arch").read_text("utf-8")
    found = []
    for last in ("1504", "1984"):
        space = archir.loads(text.replace("1504", last))
        labels = {choice.path: op for choice, op in zip(space.choices, FBNET_C, strict=True)}
        found.append(archir.cost(space.specialize(space.architecture(labels))))
    less, more = (f"{one.params / 1e6:.2f} M" for one in found)
    assert known["fbnet"].startswith(
        f"FBNet-C: 375 M MACs, 5.5 M parameters; here {found[0].macs / 1e6:.0f} M, and {less} ({more} with"
    )


def test_every_zoo_table_row_states_published_costs() -> None:
    """With exact figures where a file gives the exact one of its largest network."""
    known = {row.key: row.costs for row in zoo.rows() if row.file.startswith("zoo/")}
    assert all(known.values())
    for name, (_, params) in TEXT.items():
        head = (EXAMPLES / "zoo" / f"{name}.arch").read_text("utf-8").partition("\n\n")[0]
        if f"{params:,}" in head:
            assert f"{params:,} parameters; here the same" in known[name]


def test_once_for_all_contains_resnet_50_d() -> None:
    depths, least = (3, 4, 6, 3), (2, 2, 4, 2)
    labels = {f"more[{i}]": depth - base for i, (depth, base) in enumerate(zip(depths, least, strict=True))}
    widths = ("widened.width", "widened_2.width", *(f"widened_3[{i}].width" for i in range(4)))
    inner = {f"bottleneck_of[{i}][{j}].expansion": "0.25" for i, depth in enumerate(depths) for j in range(depth)}
    cost = cost_of("ofa_resnet50", deep="true", **labels, **inner, **dict.fromkeys(widths, "1.0"))
    assert cost.params == 25_576_264  # ResNet-50's with another stem
    assert round(cost.macs / 1e9, 2) == 4.33


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
@pytest.mark.parametrize("name", with_soak([*ZOO, "hnas"], QUICK))
def test_sampled_networks_run_export_and_emit_python(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = path_of(name)
    space = elaborated(net, **NETS[net])
    graph = space.specialize(space.sample(seed))
    assert_works(graph, tmp_path, monkeypatch)
    imported(tmp_path / "net.py", emit(graph))


def test_zoo_page_and_figures_are_up_to_date() -> None:
    assert zoo.PAGE.read_text("utf-8") == zoo.updated(), "run python docs/zoo.py"
    known = json.loads(zoo.FIGURES.read_text("utf-8"))
    for name, size in {**ZOO, **{name: size for name, (size, _) in TEXT.items()}}.items():
        assert name not in known or int(known[name]["size"]) == size, "run python docs/zoo.py --measure"


ROWS = {row.key: row for row in zoo.rows()}


@pytest.mark.parametrize("key", with_soak(ROWS, QUICK - {"nas_bench_asr"}))
def test_stored_figures_equal_fresh_measurement(key: str) -> None:
    """Where one is missing: python docs/zoo.py --measure NAME"""
    assert json.loads(zoo.FIGURES.read_text("utf-8"))[key] == zoo.measure_space(ROWS[key])


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
def test_nas_bench_asr_unique_counts_match_paper_and_library() -> None:
    """The authors' 8,242 are graphs; more is computed, since a zero passes on what is added to it."""
    ops = product(("linear", "conv5", "conv5d2", "conv7", "conv7d2", "zero"), repeat=3)
    bits = (False, True)
    skips = list(product(*(list(product(bits, repeat=nodes)) for nodes in (1, 2, 3))))
    assert len({published_graph(*cell) for cell in product(ops, skips)}) == 8_242
    space = elaborated("zoo/nas_bench_asr.arch:nas_bench_asr", cells=(1, 1, 1, 1), frames=8)
    assert sum(1 for _ in space.unique(space.enumerate(20_000))) == 9_155
