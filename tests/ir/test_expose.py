"""Nodes exposed as outputs, and the feature map before the final global pooling."""

from __future__ import annotations

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.typing import infer
from archir.passes.expose import expose, features
from archir.passes.relax import relax
from tests.conftest import EXAMPLES

POOLED = """
net pooled {
    input image: f32[3, 8, 8]
    x = image |> conv(8)
    gate = x |> global_avg_pool(keep=true) |> conv(8, kernel=1) |> sigmoid
    y = x * gate |> choose op { a: conv(4), b: relu |> conv(4) }
    z = y |> choose mix { k1: conv(6, kernel=1), k3: conv(6) }
    output logits = z |> BODY |> linear(2)
}
"""


def test_features_are_the_input_of_last_global_pooling() -> None:
    graph = archir.loads(POOLED.replace("BODY", "global_avg_pool")).graph
    found = expose(graph, {"features": features(graph)})
    assert list(found.outputs) == ["features"]
    assert [str(kind) for kind in infer(found).values()][-1] == "f32[6, 8, 8]"
    assert found.decisions.keys() == graph.decisions.keys() == {"op", "mix"}
    assert {found[number].op.name for number in found}.isdisjoint({"linear"})
    assert sum(found[number].op.name == "global_avg_pool" for number in found) == 1
    assert [graph[number].op.name for number in graph.outputs.values()] == ["linear"]


def test_rejects_features_without_single_global_pooling() -> None:
    graph = archir.loads(POOLED.replace("BODY", "choose pool { mean: global_avg_pool, max: global_max_pool }")).graph
    with pytest.raises(ArchError, match=r"A1902.*`pooled` has no global pooling.*`logits`"):
        features(graph)
    gated = archir.loads(POOLED.replace("BODY", "flatten")).graph
    with pytest.raises(ArchError, match="A1902"):
        features(gated)


def test_features_of_published_spaces_have_expected_shapes() -> None:
    for file, shape in (("full_attention/full_attention.arch", (64, 8, 8)), ("nos/nos.arch:nos", (256, 8, 8))):
        graph = archir.load(f"{EXAMPLES}/{file}", channels=16).graph
        found = expose(graph, {"features": features(graph)})
        assert infer(found)[found.outputs["features"]].shape == shape


def test_features_of_relaxed_graph_are_a_mixture() -> None:
    graph = relax(archir.loads(POOLED.replace("BODY", "global_avg_pool")).graph)
    found = expose(graph, {"features": features(graph)})
    assert found[found.outputs["features"]].op.name == "mix"
    assert infer(found)[found.outputs["features"]].shape == (6, 8, 8)
