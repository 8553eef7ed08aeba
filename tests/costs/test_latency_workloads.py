"""The operations that are timed for a space: exactly those that its architectures run."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import booleans

import archir
from archir.costs.latencies.counts import counts_of_codes
from archir.costs.latencies.workloads import Workload, chain_network, expand_op, network_workloads, space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.ops.activation import Relu, Scale
from archir.ops.calibration import Calibrate
from archir.ops.conv import Conv
from archir.passes.fold import fold
from archir.spaces.space import Space
from archir_onnx import BACKEND as ONNX
from archir_onnx.lowering.model import build
from archir_onnx.measuring.latency import random_weights
from archir_torch import BACKEND as TORCH
from tests.ir.random_graphs import graphs
from tests.ir.reference import assignments
from tests.latencies import SMALL, net
from tests.published.test_spaces import space_of


def union(space: Space, simplified: bool = False) -> set[str]:
    """What the networks of all architectures run."""
    networks = [space.specialize(architecture) for architecture in space.enumerate()]
    return {one.key for network in networks for one in network_workloads(network, simplified)}


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_space_workloads_equal_union_over_architectures(name: str, simplified: bool) -> None:
    space = archir.loads(SMALL[name])
    assert space.size > 1
    assert set(space_workloads(space.graph, simplified=simplified)) == union(space, simplified)


def test_simplified_models_execute_neither_dead_nodes_nor_additions_of_zeros() -> None:
    spaces = [space_of("nas_bench_201", channels=4, cells=1, size=8), archir.loads(SMALL["zeros"])]
    saved = Counter[str]()
    for space, seed in product(spaces, range(20)):
        network = space.specialize(space.sample(seed))
        executed, needed = (Counter(one.op.name for one in network_workloads(network, flag)) for flag in (True, False))
        folded = fold(network)
        nodes = Counter(node.op_type for node in build(folded, random_weights(folded)).to_proto().graph.node)
        found = [nodes[name] for name in ("Add", "Relu", "BatchNormalization", "Expand")]
        assert found == [executed[name] for name in ("add", "relu", "batch_norm", "zero")]
        saved += needed - executed
    assert saved.keys() >= {"add", "relu", "batch_norm", "zero"}


def test_additions_of_zeros_that_depend_on_too_many_choices_count_as_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("archir.passes.fold"), "MAX_EXACT_SIZE", 1)
    space = archir.loads(SMALL["zeros"])
    assert space_workloads(space.graph, simplified=True) == space_workloads(space.graph)
    codes = space.sample_codes(2, np.random.default_rng(0))
    with pytest.raises(ArchError, match="A1602"):
        counts_of_codes(space.account, codes, simplified=True)


def test_published_space_workloads_equal_those_of_random_architectures() -> None:
    space = space_of("nas_bench_201", channels=4, cells=1, size=8)
    drawn = [space.specialize(space.sample(seed)) for seed in range(300)]
    assert set(space_workloads(space.graph)) == {one.key for graph in drawn for one in network_workloads(graph)}


@settings(max_examples=80, deadline=None)
@given(graphs(most_nodes=15, most_choices=3), booleans())
def test_random_space_workloads_equal_union_over_assignments(graph: Graph, simplified: bool) -> None:
    from archir.passes.specialize import specialize

    found: set[str] = set()
    for outcomes in assignments(graph):
        found |= {one.key for one in network_workloads(specialize(graph, outcomes), simplified)}
    assert found == set(space_workloads(graph, simplified))


def test_requirements_do_not_reduce_workloads() -> None:
    body = "k = choose k(1, 3)\nREQUIRE\noutput y = image |> conv(4, k)"
    narrow, wide = (archir.loads(net(body.replace("REQUIRE", line))) for line in ("require k < 3", ""))
    assert space_workloads(narrow.graph).keys() == space_workloads(wide.graph).keys()
    assert union(narrow) < set(space_workloads(narrow.graph))


def test_workload_keys_hold_types_and_attributes_only() -> None:
    x = TensorType((4, 6, 6))
    assert Workload(Relu(), (x,)).key == "relu(f32[4, 6, 6])"
    key = Workload(Conv(8, stride=2), (x,)).key
    assert key.startswith('conv(f32[4, 6, 6], channels=8, kernel=3, stride=2, padding="same"')
    assert Workload(Scale(1), (x,)).key != Workload(Scale(1.0), (x,)).key
    space = archir.loads(net("output y = image |> relu |> relu |> conv(4) |> conv(4)"))
    assert len(space_workloads(space.graph)) == 2


def test_composite_operations_expand_to_primitive_workloads() -> None:
    x, gate = TensorType((4, 6, 6)), TensorType((4, 1, 1), kind="gate")
    kernel = TensorType((4, 3, 3), kind="kernel")
    found = expand_op(Calibrate(), [x, gate, kernel])
    for one in found:
        graph = one.graph()
        types = infer(graph)
        assert tuple(types[operand] for operand in graph.operands(graph.outputs["result"])) == one.types
    names = [one.op.name for one in found]
    assert names == ["mul", "add", "dynamic_conv", "add"]
    assert expand_op(Calibrate(), [x]) == []


@pytest.mark.parametrize("name", SMALL)
def test_each_workload_is_a_network_that_runs(name: str) -> None:
    for one in space_workloads(archir.loads(SMALL[name]).graph).values():
        graph = one.graph()
        verify(graph)
        assert infer(graph)[graph.outputs["result"]] is not None
        with TORCH.bench("cpu", 2) as bench:
            assert bench.timed(graph)(1) > 0
        with ONNX.bench("cpu", 2, 1) as session:
            assert session.timed(graph)(1) >= 0


def test_identity_workload_is_free_in_onnx() -> None:
    x = TensorType((4, 6, 6))
    with ONNX.bench("cpu", 1, 1) as bench:
        assert bench.free(Workload(archir.ir.op.OPS["identity"](), (x,)).graph())
        assert not bench.free(Workload(Relu(), (x,)).graph())
        assert not bench.free(chain_network(1))
