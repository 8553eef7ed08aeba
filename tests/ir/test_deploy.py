"""Networks prepared for deployment equal the trained ones in evaluation, with fewer operations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.passes.deploy import deploy, fold_norm
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.module import Network
from tests.architectures import image_of
from tests.conftest import EXAMPLES
from tests.published.test_spaces import SPACES, WAYS, space_of
from tests.soak import with_soak

BRANCHED = """
net branched() {
    input x: f32[4, 6, 6]
    a = x |> conv(8, kernel=3) |> batch_norm |> relu
    b = a |> conv(8, kernel=1, bias=true)
    c = b |> batch_norm(affine=false)
    d = x |> conv(8, kernel=3, groups=4) |> batch_norm(eps=0.01)
    y = b + c + d |> dropout(0.5) |> drop_path(0.3) |> identity
    y = y + (y |> relu |> batch_norm)
    output logits = y |> global_avg_pool |> linear(6) |> batch_norm
    output tokens = y |> to_tokens |> conv1d(8, kernel=3) |> batch_norm
}
"""
"""Norms of a convolution that others read too, of one in groups, of a vector, of tokens, and of no convolution."""


def module_of(graph: Graph) -> Network:
    """A network whose norms have statistics of their own."""
    module = TORCH.lower(graph)
    numbers = torch.Generator().manual_seed(4)
    state = module.state_dict()
    norms = {name.removesuffix(".running_var") for name in state if name.endswith(".running_var")}
    with torch.no_grad():
        for name, tensor in state.items():
            if name.rpartition(".")[0] in norms:
                start = torch.rand(tensor.shape, generator=numbers)
                tensor.copy_(0.2 * start if name.endswith(("mean", "bias")) else 0.75 + 0.5 * start)
    return module.eval()


def deployed(graph: Graph, module: Network) -> tuple[Graph, Network]:
    made, weights = deploy(graph, TORCH.arrays(module))
    other = TORCH.lower(made)
    other.load_state_dict({name: torch.from_numpy(np.array(weights[name])) for name in other.state_dict()})
    return made, other.eval()


def operations(graph: Graph) -> Counter[str]:
    return Counter(graph[number].op.name for number in graph)


def assert_same(graph: Graph) -> Graph:
    module = module_of(graph)
    made, other = deployed(graph, module)
    image = image_of(graph, 3)
    with torch.no_grad():
        one, two = module(image), other(image)
    pairs = zip(one.values(), two.values(), strict=True) if isinstance(one, dict) else [(one, two)]
    for wanted, found in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    return made


def test_foldable_batch_norms_are_folded_and_others_kept() -> None:
    graph = archir.loads(BRANCHED)
    made = assert_same(graph.specialize(graph.sample(0)))
    left = operations(made)
    assert left["batch_norm"] == 2  # of what is read elsewhere, and of no convolution
    assert not left.keys() & {"dropout", "drop_path", "identity"}


@pytest.mark.parametrize("seeds", with_soak([range(1), range(1, 20)], [range(1)]), ids=str)
@pytest.mark.parametrize("name", with_soak(SPACES, WAYS))
def test_deployed_networks_of_spaces_equal_originals(name: str, seeds: range) -> None:
    space = space_of(name, **SPACES[name].small)
    for seed in seeds:
        assert_same(space.specialize(space.sample(seed)))


def test_deployed_resnet_has_no_batch_norms(tmp_path: Path) -> None:
    text = (EXAMPLES / "resnet50.arch").read_text().replace("imagenet_stem(64)", "imagenet_stem(16)")
    space = archir.loads(text.replace("stage_depths(50), 256,", "stage_depths(50), 64,"), size=32, classes=10)
    graph = space.specialize(space.sample(0))
    made = assert_same(graph)
    assert operations(graph)["batch_norm"] == 53
    assert operations(made)["batch_norm"] == 0
    module = module_of(graph)
    report = archir.export(graph, tmp_path / "deployed.onnx", module)
    as_trained = archir.export(graph, tmp_path / "as_trained.onnx", module, deployed=False)
    assert report.nodes == as_trained.nodes - 53
    assert report.relative <= 1e-4
    kinds = {node.op_type for node in onnx.load(tmp_path / "deployed.onnx").graph.node}
    assert "BatchNormalization" not in kinds


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    graph = archir.loads(BRANCHED)
    network = graph.specialize(graph.sample(0))
    weights = TORCH.arrays(module_of(network))
    del weights["batch_norm.running_mean"]
    with pytest.raises(ArchError, match=r"batch_norm\.running_mean"):
        archir.backends.get("onnx").write(network, tmp_path / "net.onnx", weights)


def test_fold_norm_keeps_other_operations() -> None:
    graph = archir.loads(BRANCHED)
    network = graph.specialize(graph.sample(0))
    weights = TORCH.arrays(module_of(network))
    made, found = fold_norm(network, weights)
    assert set(found) <= {*weights, *(name.replace("weight", "bias") for name in weights)}
    assert operations(made)["dropout"] == 1


PADDED = """
net padded() {
    input x: f32[2, 7, 6]
    a = x |> pad(2) |> conv(4, kernel=3, padding="valid") |> batch_norm
    b = x |> pad((2, 1, 2, 1)) |> conv(4, kernel=2)
    c = x |> pad((1, 0, 0, 0)) |> conv(4, kernel=1)
    output even = a
    output completed = b
    output uneven = c
}
"""


def test_padding_is_folded_into_convolutions() -> None:
    graph = archir.loads(PADDED).graph
    module = module_of(graph)
    made, other = deployed(graph, module)
    assert operations(made)["pad"] == 1
    paddings = [made[number].op.padding for number in made if made[number].op.name == "conv"]
    assert paddings == [2, 2, "same"]
    x = image_of(graph, 2)
    for name, wanted in module(x).items():
        assert torch.allclose(other(x)[name], wanted, atol=1e-5)


def test_batch_independent_tensors_are_expanded_only_at_outputs(tmp_path: Path) -> None:
    text = """
    net learned() {
        input x: f32[5, 4]
        offsets = parameter([5, 4])
        scales = parameter([5, 4], "ones")
        output y = (x + offsets) * scales - parameter([5, 4])
        output both = offsets + scales
    }
    """
    graph = archir.loads(text).graph
    report = archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph))
    assert report.relative < 1e-6
    nodes = Counter(node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node)
    assert nodes == {"Add": 2, "Mul": 1, "Sub": 1, "Expand": 2, "Concat": 2, "Shape": 1}
