"""Spaces of the zoo that read text: published sizes and costs; what their networks become."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
import torch

import archir
from archir_torch import BACKEND as TORCH
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated
from tests.sequences.laws import assert_deploys, assert_shared
from tests.soak import with_soak

DECODERS = 2 * sum(36**depth for depth in range(1, 7))
FACTORIAL = prod(range(1, 12))
PRIMER = 2 * 2 * 2 * 3 * 3 * 4 * 2  # norms, and where they stand; kernels; ratios, activations, gates
TEXT = {
    "darts_rnn": (40_320 * 4**8, 22_950_000),
    "enas_rnn": (4**12 * FACTORIAL, 22_027_104),
    "gpt": (4 * sum(9**depth for depth in (6, 8, 10, 12)), 124_439_808),
    "gemma": (4**26, 999_885_952),
    "hat": (2 * 6**6 * DECODERS, 112_844_032),
    "hw_gpt": (6 * sum(9**depth for depth in (10, 11, 12)), 123_651_072),
    "llama": (2 * sum(3**depth for depth in (11, 16, 22)), 1_100_048_384),
    "mamba_hybrid": (2**24, 129_135_360),
    "mixtral": (6**32, 46_702_792_704),
    "primer": (PRIMER**6, 51_094_528),
    "pythia": (4 * sum(12**depth for depth in (6, 8, 10, 12)), 162_322_944),
    "qwen3": (sum(6**depth for depth in (14, 21, 28)), 596_049_920),
    "switch": (4**12, 7_415_217_408),
}
"""How many architectures there are, and parameters of the largest: those that are published, but for those of ENAS, HAT
and Primer."""


@pytest.mark.parametrize("name", TEXT)
def test_size_and_largest_params_match_published_ones(name: str) -> None:
    size, params = TEXT[name]
    space = archir.load(EXAMPLES / "zoo" / f"{name}.arch")
    assert space.size == size
    assert space.account.extremes("params")[1].value == params


@pytest.mark.parametrize("name", with_soak(TEXT, ("darts_rnn", "gpt")))
def test_sampled_networks_equal_their_supernets(name: str) -> None:
    net = f"zoo/{name}.arch:{name}"
    assert_shared(elaborated(net, **NETS[net]), 2)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
@pytest.mark.parametrize("name", with_soak(TEXT, ("hat", "llama")))
def test_sampled_networks_deploy(name: str, seed: int, tmp_path: Path) -> None:
    net = f"zoo/{name}.arch:{name}"
    space = elaborated(net, **NETS[net])
    assert_deploys(space.specialize(space.sample(seed)), tmp_path)


@pytest.mark.parametrize("net", [*(f"zoo/{name}.arch:{name}" for name in TEXT), "llama/llama3.arch:llama3"])
def test_sampled_network_outputs_are_finite(net: str) -> None:
    """Small, and drawn: it says numbers of every token."""
    space = elaborated(net, **NETS[net])
    graph = space.specialize(space.sample(1))
    module = TORCH.lower(graph).eval()
    types = [graph[number].op.infer() for number in graph.inputs.values()]
    with torch.no_grad():
        found = module(*(torch.ones(2, *one.shape, dtype=torch.int64) for one in types))
    assert found.shape[0] == 2
    assert found.isfinite().all()
    assert sum(one.numel() for one in module.parameters()) == archir.cost(graph).params
