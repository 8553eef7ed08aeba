"""AutoFormer-Tiny: size of the space, cost of the released network and of random ones."""

from __future__ import annotations

import pytest

import archir
from archir.ir.typing import infer
from archir.spaces.architecture import read_architecture
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "autoformer"
FILE = FOLDER / "autoformer.arch"


def test_space_size_matches_formula() -> None:
    """Three widths; twelve to fourteen blocks of two numbers of heads and two ratios."""
    assert archir.load(FILE).size == 3 * (4**12 + 4**13 + 4**14) == 1_056_964_608
    assert archir.load(FILE, smallest_ratio=3).size == 3 * (6**12 + 6**13 + 6**14)


def by_hand(width: int, heads: list[int], ratios: list[float]) -> int:
    """Parameters: the embeddings, the blocks with two norms each, the last norm and the classifier."""
    total = 3 * 16 * 16 * width + width + width + 197 * width + 2 * width + 1000 * width + 1000
    for count, ratio in zip(heads, ratios, strict=True):
        inner, hidden = 64 * count, int(ratio * width)
        total += 4 * width + 3 * inner * (width + 1) + width * (inner + 1)
        total += hidden * (width + 1) + width * (hidden + 1)
    return total


def test_released_network_has_expected_parameters() -> None:
    """A port of the released network has 5,867,944 parameters; of these, the relative positions that are left out have
    4 * 30 * 64 a block."""
    written = read_architecture((FOLDER / "autoformer_tiny.json").read_text())
    space = archir.load(FILE, **written.parameters)
    graph = space.specialize(space.architecture(written.choices))
    heads = [3] * 10 + [4, 3, 3]
    ratios = [3.5, 3.5, 3, 3.5, 3, 3, 4, 4, 3.5, 4, 3.5, 4, 3.5]
    assert archir.cost(graph).params == by_hand(192, heads, ratios) == 5_768_104
    assert 13 * 4 * 30 * 64 == 99_840 == 5_867_944 - 5_768_104


@pytest.mark.parametrize("seed", range(5))
def test_random_network_parameters_match_formula(seed: int) -> None:
    space = archir.load(FILE)
    found = space.sample(seed)
    depth = int(str(found["depth"]))
    heads = [int(str(found[f"layer[{i}].heads"])) for i in range(depth)]
    ratios = [3.5 if found[f"layer[{i}].ratio"] == "7/2" else 4.0 for i in range(depth)]
    assert archir.cost(space.specialize(found)).params == by_hand(int(str(found["width"])), heads, ratios)


def test_every_width_is_elastic() -> None:
    """All that is as wide as the tokens follows the one choice of the width."""
    space = archir.load(FILE)
    seen = set()
    for seed in range(12):
        found = space.sample(seed)
        graph = space.specialize(found)
        types = infer(graph)
        tokens = {
            types[n].channels for n in graph if graph[n].op.name in ("layer_norm", "parameter", "add", "to_tokens")
        }
        assert tokens == {found["width"]}
        seen |= tokens
    assert seen == {192, 216, 240}
