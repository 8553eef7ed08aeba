"""Once-for-all on MobileNetV3: sizes, widths, and costs of uniform networks."""

from __future__ import annotations

import pytest

import archir
from archir.ir.typing import infer
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

FILE = EXAMPLES / "mobilenet_v3_ofa" / "mobilenet_v3_ofa.arch"


def uniform(space: Space, depth: int, kernel: int, expansion: int) -> Architecture:
    """The same in every unit and block."""
    labels: dict[str, int] = {}
    for unit in range(5):
        labels[f"unit[{unit}].depth"] = depth
        for block in range(depth):
            labels[f"unit[{unit}].searched[{block}].kernel"] = kernel
            labels[f"unit[{unit}].searched[{block}].expansion"] = expansion
    return space.architecture(labels)


def by_hand(depth: int, kernel: int, expansion: int) -> int:
    """Parameters at width 1 and 1000 classes: convolutions without biases, two numbers a channel for each norm."""

    def rounded(value: float) -> int:
        near = max(8, int(value + 4) // 8 * 8)
        return near + 8 if near < 0.9 * value else near

    total = 27 * 16 + 32 + 16 * 9 + 32 + 16 * 16 + 32
    before = 16
    for width, excite in ((24, False), (40, True), (80, False), (112, True), (160, True)):
        for _ in range(depth):
            inner = rounded(before * expansion)
            total += before * inner + kernel**2 * inner + inner * width + 2 * (2 * inner + width)
            if excite:
                squeezed = rounded(inner / 4)
                total += 2 * inner * squeezed + squeezed + inner
            before = width
    return total + 160 * 960 + 2 * 960 + 960 * 1280 + 1280 * 1000 + 1000


def test_space_size_matches_formula() -> None:
    """Five units of two to four blocks, nine settings a block."""
    space = archir.load(FILE)
    assert space.size == 7371**5 == (9**2 + 9**3 + 9**4) ** 5 == 21_758_655_492_572_485_851


@pytest.mark.parametrize(("depth", "kernel", "expansion"), [(2, 3, 3), (3, 5, 4), (4, 7, 6)])
def test_uniform_network_parameters_match_formula(depth: int, kernel: int, expansion: int) -> None:
    space = archir.load(FILE)
    cost = archir.cost(space.specialize(uniform(space, depth, kernel, expansion)))
    assert cost.params == by_hand(depth, kernel, expansion)


@pytest.mark.parametrize(
    ("width", "widths"), [(1, (16, 24, 40, 80, 112, 160, 960, 1280)), (1.2, (24, 32, 48, 96, 136, 192, 1152, 1536))]
)
def test_width_multiplier_gives_expected_channels(width: float, widths: tuple[int, ...]) -> None:
    space = archir.load(FILE, width=width)
    graph = space.specialize(uniform(space, 2, 3, 3))
    types = infer(graph)
    found = {types[number].channels for number in graph if graph[number].op.name in ("conv", "linear")}
    assert set(widths) <= found


def test_strides_reach_a_thirty_second_of_the_image() -> None:
    space = archir.load(FILE, resolution=160)
    graph = space.specialize(space.sample(0))
    types = infer(graph)
    pooled = next(n for n in graph if graph[n].op.name == "global_avg_pool" and types[n].rank == 1)
    assert types[graph.operands(pooled)[0]].shape == (960, 5, 5)


def test_tags_name_the_groups_of_choices() -> None:
    tags = [choice.tags for choice in archir.load(FILE).choices]
    assert [sum(tag in found for found in tags) for tag in ("depth", "kernel", "expansion")] == [5, 20, 20]
