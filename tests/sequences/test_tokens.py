"""Integer inputs: embeddings, gathers, sampling ranges, and spaces that read tokens."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import archir
from archir.backends.comparison import random_inputs
from archir.backends.input_ranges import ranged_inputs
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, Node
from archir.ir.structure import Input
from archir.ir.typing import NodeError, infer
from archir.ops.activation import Relu
from archir.ops.lookup import Embedding
from archir.ops.random import Dropout
from archir.passes.relax import relax
from archir_onnx import BACKEND as ONNX
from archir_onnx.verification.probe import probe_inputs
from archir_torch import BACKEND as TORCH
from tests.architectures import inputs_of
from tests.sequences.laws import assert_deploys, assert_shared

SPACE = """
net words {
    input tokens: i64[12]
    input last: i64[]
    width = choose width(8, 12, 16)
    vocabulary = choose vocabulary(20, 50)
    x = tokens |> embedding(vocabulary, width)
    x = x + parameter((12, width))
    x = x + (x |> choose op { none: identity, deeper: linear(width) })
    x = x |> layer_norm
    output logits = x |> linear(50)
    output end = gather(x, last) |> linear(3)
}
"""


def test_token_supernet_equals_subnetworks_and_deploys(tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    assert space.size == 12
    assert_shared(space)
    assert_deploys(space.specialize(space.sample(random.Random(1))), tmp_path)


@pytest.mark.parametrize("form", [{"opset": 17}, {"opset": 26}, {"batch": 2, "dynamic": ()}], ids=str)
def test_token_network_deploys_in_every_form(form: dict[str, object], tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    graph = space.specialize(space.sample(random.Random(0)))
    assert_deploys(graph, tmp_path, **form)


def test_half_precision_leaves_integers_alone(tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    graph = space.specialize(space.sample(random.Random(0)))
    report = archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), precision="float16")
    assert report.relative < 1e-2
    kinds = [one.type.tensor_type.elem_type for one in onnx.load(tmp_path / "net.onnx").graph.input]
    assert kinds == [onnx.TensorProto.INT64] * 2


def ranged(text: str) -> dict[str, int | None]:
    graph = archir.loads("net n {\n" + text + "\n}").graph
    return {name: kind.integer_limit for name, kind in ranged_inputs(graph).items()}


def test_random_integer_inputs_stay_below_table_sizes(tmp_path: Path) -> None:
    text = """
    input a: i64[6]
    input b: i32[6]
    input c: i64[2]
    input d: i64[4]
    both = concat(a[0:2], d)
    output x = a[3:] |> reshape([3]) |> embedding(7, 4)
    output y = both |> embedding(5, 4)
    output z = gather(b |> embedding(300, 4), c)
    output w = gather(a, c) |> embedding(9, 4)
    """
    assert ranged(text) == {"a": 5, "b": 300, "c": 6, "d": 5}
    learned = "input a: i64[6]\n output x = (a |> embedding(50, 4)) + (a |> positions |> embedding(6, 4))"
    assert ranged(learned) == {"a": 50}  # positions are not tokens
    assert ranged("input a: i64[6]\n input x: f32[3]\n output y = a\n output z = x") == {"a": None, "x": None}
    graph = archir.loads("net n {\n" + text + "\n}").graph
    drawn = random_inputs(ranged_inputs(graph), 400, seed=0)
    assert {name: array.max() for name, array in drawn.items()} == {"a": 4, "b": 299, "c": 5, "d": 4}
    assert {name: array.dtype.name for name, array in drawn.items()} == dict.fromkeys("acd", "int64") | {"b": "int32"}
    assert [int(x.max()) for x in inputs_of(graph, 400)] == [4, 299, 5, 4]
    module = TORCH.lower(graph)
    archir.export(graph, tmp_path / "net.onnx", module)
    found = probe_inputs(onnx.load(tmp_path / "net.onnx"), {"batch": 400})
    assert {name: array.max() for name, array in found.items()} == {"a": 4, "b": 299, "c": 5, "d": 4}


def test_vocabulary_of_one_deploys_and_rejects_other_tokens(tmp_path: Path) -> None:
    """Nothing may be drawn but 0: lookups beyond the table are errors in both backends."""
    graph = archir.loads("net n {\n input x: i64[3]\n output y = x |> embedding(1, 4)\n}").graph
    assert_deploys(graph, tmp_path)
    with pytest.raises(IndexError):
        TORCH.lower(graph)(torch.ones(1, 3, dtype=torch.long))


def test_an_embedding_is_the_rows_of_its_table(tmp_path: Path) -> None:
    graph = archir.loads("net n {\n input x: i64[3]\n output y = x |> embedding(5, 4)\n}").graph
    module = TORCH.lower(graph)
    archir.export(graph, tmp_path / "net.onnx", module)
    table = module.state_dict()["embedding.weight"]
    x = np.array([[4, 0, 4]])
    assert torch.equal(module(torch.from_numpy(x)), table[x])
    assert (ONNX.run(tmp_path / "net.onnx", {"x": x})["y"] == table[x].numpy()).all()
    cost = archir.cost(graph)
    assert (cost.params, cost.macs, cost.kernels) == (20, 0, 1)


def test_gather_takes_positions_of_each_sample() -> None:
    graph = archir.loads("net n {\n input x: f32[4, 2]\n input p: i64[]\n output y = gather(x, p)\n}").graph
    x, p = torch.randn(3, 4, 2), torch.tensor([3, 0, 2])
    assert torch.equal(TORCH.lower(graph)(x, p), x[torch.arange(3), p])


def test_token_network_is_packaged_and_benchmarked(tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    graph = space.specialize(space.sample(random.Random(0)))
    report = TORCH.package(graph, tmp_path / "net.pt2", TORCH.lower(graph), "exported")
    assert report.relative < 1e-4
    said = json.loads((tmp_path / "net.pt2.json").read_text())["model"]["inputs"]
    assert {name: one["below"] for name, one in said.items()}["last"] == 12
    for backend in (TORCH, ONNX):
        with backend.bench("cpu", 2, 1) as bench:
            for one in space_workloads(graph).values():
                assert bench.timed(one.graph())(1) > 0


def test_rejects_integer_input_for_floating_point_operation() -> None:
    for op in (Relu(), Dropout()):
        graph = Graph("n")
        graph.add(Node(op), graph.add(Node(Input("x", (3,), "i64"))))
        graph.outputs["y"] = 1
        with pytest.raises(NodeError, match=r"expected floating-point numbers, got i64\[3\]"):
            infer(graph)
    with pytest.raises(ArchError, match="A0408"):
        archir.loads("net n {\n input x: f32[3]\n output y = x |> embedding(5, 4)\n}")


def test_mixtures_of_integers_are_refused() -> None:
    inputs = "input a: i64[3]\n input b: i64[3]"
    space = archir.loads(f"net n {{\n {inputs}\n x = choose x {{ a: a, b: b }}\n output y = x |> embedding(5, 4)\n}}")
    assert space.size == 2
    assert_shared(space, 2)
    with pytest.raises(ArchError, match=r"A2001.*`x` cannot be relaxed"):
        relax(space.graph)


def test_embeddings_may_be_alternatives_of_mixtures() -> None:
    text = "net n {\n input a: i64[3]\n output y = a |> choose op { few: embedding(5, 4), many: embedding(9, 4) }\n}"
    relaxed = relax(archir.loads(text).graph)
    assert {Embedding(5, 4), Embedding(9, 4)} <= {relaxed[number].op for number in relaxed}
