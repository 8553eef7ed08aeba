"""Neural operator search: sizes, parameters each operation adds, and the published average costs."""

from __future__ import annotations

import random
from functools import cache

import pytest

import archir
from archir.passes.cost import Cost
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

FILE = EXAMPLES / "nos" / "nos.arch"
PER_CELL, GUIDED = 180 * 11**12, 320_332_086_112_500
CAPTION = ("sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "max_pool_3x3", "skip_connect")
GATES, KERNELS = ("spatial_attention", "channel_attention"), ("dynamic_3x3", "dynamic_5x5")


@cache
def space(net: str) -> Space:
    return archir.load(f"{FILE}:{net}")


def labels(cells: dict[str, list[tuple[tuple[int, str], tuple[int, str], str]]]) -> dict[str, object]:
    """Choices from, for each node, its two (input, operation) and the operation of the second tier."""
    found: dict[str, object] = {}
    for name, nodes in cells.items():
        for n, (one, other, tier2) in enumerate(nodes):
            place = f"{name}.searched.heterogeneous[{n}]"
            found[f"{place}.inputs"] = [one[0], other[0]]
            found.update({f"{place}.edge[{i}].op": operation for i, operation in (one, other)})
            found[f"{place}.op"] = tier2
    return found


def all_pools(name: str) -> list[tuple[tuple[int, str], tuple[int, str], str]]:
    return [((0, "max_pool_3x3"), (1, "max_pool_3x3"), "max_pool_3x3") for _ in range(4)]


def params(net: str, cells: dict[str, list[tuple[tuple[int, str], tuple[int, str], str]]]) -> Cost:
    of = space(net)
    return archir.cost(of.specialize(of.architecture(labels(cells))))


def test_space_sizes_match_formula() -> None:
    assert space("nos").size == GUIDED**2
    assert PER_CELL == 564_917_107_809_780
    assert archir.load(f"{FILE}:nos", guided=False, cells=3).size == PER_CELL**2


def test_pooling_only_network_has_expected_parameters() -> None:
    pools = {name: all_pools(name) for name in ("normal", "reduction")}
    assert params("nos", pools).params == 1_370_134
    assert params("mobile", pools).params == 2_427_232


SLOTS = {
    "sep_conv_3x3": (359_856, 56_592),
    "sep_conv_5x5": (408_240, 63_504),
    "dil_conv_3x3": (179_928, 28_296),
    "dil_conv_5x5": (204_120, 31_752),
    "spatial_attention": (10_926, 1_727),
    "channel_attention": (19_872, 3_168),
    "dynamic_3x3": (54_588, 8_478),
    "dynamic_5x5": (78_780, 11_934),
    "avg_pool_3x3": (0, 0),
    "max_pool_3x3": (0, 0),
    "skip_connect": (0, 0),
}
"""Parameters that an operation adds in a slot of the normal cells, and in a second tier of the reduction cells."""


@pytest.mark.parametrize(("operation", "normal", "second_tier_of_reductions"), [(n, *s) for n, s in SLOTS.items()])
def test_operation_adds_expected_parameters(operation: str, normal: int, second_tier_of_reductions: int) -> None:
    """At 36 channels and 20 cells: one slot of the normal cells, and of the second tier of the reduction cells."""
    pools = {name: all_pools(name) for name in ("normal", "reduction")}
    base = params("nos", pools).params
    first = {**pools, "normal": [((0, operation), (1, "max_pool_3x3"), "max_pool_3x3"), *pools["normal"][1:]]}
    assert params("nos", first).params - base == normal
    second = {**pools, "reduction": [(*pools["reduction"][0][:2], operation), *pools["reduction"][1:]]}
    assert params("nos", second).params - base == second_tier_of_reductions


@pytest.mark.soak
def test_random_cells_average_published_imagenet_costs() -> None:
    """Cells of the caption's operations, two gates in the first and two kernels in the second tier of the normal cell,
    that make 2.6 M parameters on CIFAR: on ImageNet they average the published 4.0 M and 440 M."""
    rng = random.Random(0)

    def cell(gates: int, kernels: int) -> list[tuple[tuple[int, str], tuple[int, str], str]]:
        nodes = []
        gated, dynamic = set(rng.sample(range(4), gates)), set(rng.sample(range(4), kernels))
        for n in range(4):
            i, j = sorted(rng.sample(range(n + 2), 2))
            pair = [rng.choice(GATES if n in gated else CAPTION), rng.choice(CAPTION)]
            rng.shuffle(pair)
            tier2 = rng.choice(KERNELS if n in dynamic else CAPTION)
            nodes.append(((i, pair[0]), (j, pair[1]), tier2))
        return nodes

    found = []
    while len(found) < 7:
        cells = {"normal": cell(2, 2), "reduction": cell(0, 0)}
        at_least = sum(SLOTS[one[1]][0] + SLOTS[other[1]][0] + SLOTS[tier2][0] for one, other, tier2 in cells["normal"])
        if not 2_250_000 <= 1_370_134 + at_least <= 2_650_000:
            continue
        if 2_550_000 <= params("nos", cells).params <= 2_650_000:
            found.append(params("mobile", cells))
    assert sum(cost.params for cost in found) / 7 == pytest.approx(4.0e6, rel=0.03)
    assert sum(cost.macs for cost in found) / 7 == pytest.approx(440e6, rel=0.03)


@pytest.mark.parametrize(
    ("by", "adds"), [("dynamic_3x3", 25_648), ("dynamic_5x5", 32_816), ("spatial", 5_684), ("channel", 10_752)]
)
def test_calibration_adds_expected_parameters_to_resnet18(by: str, adds: int) -> None:
    file = f"{EXAMPLES}/nos/preliminary.arch:resnet18"
    plain, calibrated = (archir.cost(archir.load(file, by=which).graph) for which in ("nothing", by))
    assert plain.params == 11_173_962
    assert calibrated.params - plain.params == adds
