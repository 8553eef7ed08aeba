"""Llama-3.1-8B and Puzzle's child network have the published parameter counts; no weights are created."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.passes.cost import costs
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated
from tests.sequences.laws import assert_deploys, assert_shared

LAYERS = 32
SMALL = "llama/llama3.arch:llama3"


@pytest.fixture(scope="module")
def llama() -> Space:
    return archir.load(EXAMPLES / "llama" / "llama3.arch")


def test_the_largest_is_llama_8b(llama: Space) -> None:
    assert llama.size == (7 * 6) ** LAYERS
    assert llama.account.extremes("params")[1].value == 8_030_261_248


def test_space_contains_puzzle_child_network(llama: Space) -> None:
    """It keeps all feed-forward networks, and the attention of twenty layers."""
    picks = {f"layer[{i}].attention": "skip" if i >= 20 else "full" for i in range(LAYERS)}
    child = llama.architecture(picks | {f"layer[{i}].ratio": "1" for i in range(LAYERS)})
    parts = {"attention": 0, "ratio": 0, "feed_forward": 0, "": 0}
    graph = llama.specialize(child)
    for number, cost in costs(graph).items():
        scope = graph[number].scope.split(".")
        parts[scope[1] if scope[0].startswith("layer") else ""] += cost.params
    assert parts["attention"] == 838_942_720
    assert parts["feed_forward"] == 5_637_275_648
    assert sum(parts.values()) == int(llama.cost([child])["params"][0]) == 7_526_895_616


def test_small_supernet_equals_its_extracted_networks() -> None:
    assert_shared(elaborated(SMALL, **NETS[SMALL]), 2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_networks_of_small_space_deploy(seed: int, tmp_path: Path) -> None:
    space = elaborated(SMALL, **NETS[SMALL])
    assert_deploys(space.specialize(space.sample(seed)), tmp_path)
