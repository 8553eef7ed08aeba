"""Mixtures of experts: computation, costs, weight sharing, and equal routing in torch and ONNX."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import archir
from archir.diagnostics.errors import ArchError
from archir.ops.routing import ExpertLinear
from archir.passes.relax import relax
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.sequences.laws import assert_deploys, assert_shared

SPACE = """
import std.experts
net routed(n = 6) {
    input tokens: i64[n]
    x = tokens |> embedding(20, 8)
    k = choose k(1, 2)
    x = x + mixture_of_experts(x |> layer_norm, choose experts(2, 4), k, choose ratio(2, 3))
    x = x + (x |> choose op {
        dense: linear(8)
        gated: mixture_of_gated_experts(4, choose hidden(6, 12), 1, among="all")
    })
    output next = x |> linear(20)
}
"""


def test_experts_supernet_equals_subnetworks() -> None:
    space = archir.loads(SPACE)
    assert space.size == 2 * 2 * 2 * (1 + 2)
    assert_shared(space)


@pytest.mark.parametrize(
    "form",
    [
        {},
        *(
            pytest.param(form, marks=pytest.mark.soak)
            for form in ({"opset": 17}, {"opset": 26}, {"batch": 2, "dynamic": ()})
        ),
    ],
    ids=str,
)
def test_expert_network_deploys(form: dict[str, object], tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    assert_deploys(space.specialize(space.sample(random.Random(0))), tmp_path, **form)


def test_mixture_of_experts_equals_formula() -> None:
    """All experts see all tokens here; those that a token did not choose have a gate of 0."""
    text = "import std.experts\nnet n {\n input x: f32[5, 8]\n output y = x |> mixture_of_experts(4, k=2, ratio=3)\n}"
    module, x = TORCH.lower(archir.loads(text).graph), torch.randn(3, 5, 8)
    router, up, up_bias, down, down_bias = module.parameters()
    scores = x @ router.T
    best = scores.topk(2).indices
    gates = torch.zeros_like(scores).scatter(2, best, scores.gather(2, best).softmax(2))
    hidden = F.gelu(torch.einsum("bnd,ehd->bneh", x, up) + up_bias)
    wanted = torch.einsum("bneh,edh,bne->bnd", hidden, down, gates) + gates @ down_bias
    torch.testing.assert_close(module(x), wanted)


def test_macs_count_chosen_experts_only() -> None:
    text = "import std.experts\nnet n(k = 1) {\n input x: f32[5, 8]\n output y = x |> mixture_of_experts(4, k)\n}"
    once, twice = (archir.cost(archir.loads(text, k=k).graph) for k in (1, 2))
    assert once.params == twice.params == 4 * 8 + 4 * (8 * 32 + 32 + 32 * 8 + 8)
    assert once.macs == 5 * (4 * 8 + 2 * 8 * 32 + 8)
    assert twice.macs == 5 * (4 * 8 + 2 * 2 * 8 * 32 + 2 * 8)


def test_of_equal_scores_the_first_are_chosen(tmp_path: Path) -> None:
    text = "net n {\n input x: f32[3, 40]\n output y = x |> top_positions(7)\n output z = x |> top_k(7)\n}"
    graph = archir.loads(text).graph
    module = TORCH.lower(graph)
    archir.export(graph, tmp_path / "net.onnx", module)
    x = np.random.default_rng(0).integers(0, 4, (2, 3, 40)).astype(np.float32)
    found, wanted = ONNX.run(tmp_path / "net.onnx", {"x": x}), module(torch.from_numpy(x))
    order = np.argsort(-x, axis=-1, kind="stable")[..., :7]
    assert (found["y"] == order).all()
    assert (wanted["y"].numpy() == order).all()
    assert (found["z"] == np.take_along_axis(x, order, -1)).all()


@pytest.mark.soak
def test_exported_expert_package_equals_module(tmp_path: Path) -> None:
    """All experts are computed there: how many tokens one has is not known before."""
    space = archir.loads(SPACE)
    graph = space.specialize(space.sample(random.Random(1)))
    module = TORCH.lower(graph)
    assert TORCH.package(graph, tmp_path / "net.pt2", module, "exported").relative < 1e-5


def test_rejects_expert_index_out_of_range() -> None:
    text = "net n {\n input x: f32[3, 8]\n output y = expert_linear(x, x |> top_positions(1), 4, 5)\n}"
    with pytest.raises(ArchError, match="7 is looked up, and there are 4"):
        archir.loads(text)


def test_number_of_experts_cannot_be_relaxed() -> None:
    """Which expert is meant cannot be a mean; experts may stand in what is weighed."""
    space = archir.loads(SPACE)
    with pytest.raises(ArchError, match=r"A2001.*`experts` cannot be relaxed"):
        relax(space.graph, ["experts"])
    relaxed = relax(space.graph, ["op", "hidden"])
    assert any(isinstance(relaxed[number].op, ExpertLinear) for number in relaxed)


def test_gate_option_among_accepts_chosen_or_all_only() -> None:
    text = "import std.experts\nnet n {\n input x: f32[8, 16]\n output y = x |> mixture_of_experts(4, among=WHICH)\n}"
    for which in ("chosen", "all"):
        archir.loads(text.replace("WHICH", f'"{which}"'))
    with pytest.raises(ArchError, match=r'A0310.*no arm matches "nope"'):
        archir.loads(text.replace("WHICH", '"nope"'))
