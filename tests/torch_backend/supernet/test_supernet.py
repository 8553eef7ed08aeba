"""Supernets: each architecture computes what its own network does, and trains its own part of the weights alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import archir
from archir.spaces.architecture import Architecture
from archir.spaces.completion import smallest
from archir.spaces.space import Space
from archir_torch.lowering.module import Network
from archir_torch.supernet.network import SuperNetwork, extract
from tests.architectures import image_of
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

MANY, FEW = 100, 2
SOAK = pytest.param(MANY, marks=pytest.mark.soak)


def supernet_of(space: Space, **options: bool) -> SuperNetwork:
    """A supernet, in evaluation mode, whose buffers are not those that it starts with."""
    numbers = torch.Generator().manual_seed(1)
    model = SuperNetwork(space.graph, torch.Generator().manual_seed(0), **options)
    for name, buffer in model.named_buffers():
        start = torch.rand(buffer.shape, generator=numbers)
        buffer.copy_(0.1 * start if name.endswith("mean") else 0.5 + start)
    return model.eval()


def architectures(space: Space, count: int) -> list[Architecture]:
    """Architectures, every second one with all choices uniform."""
    return [space.sample(seed, policy="choices" if seed % 2 else "architectures") for seed in range(count)]


KINDS = ["darts", "nos", "nas_bench_201", "mobilenet_v3_ofa", "autoformer"]
"""Spaces of the suite: cells of pairs, calibrated maps, plain choices, elastic convolutions, elastic attention."""


def tensors(found: Tensor | dict[str, Tensor]) -> list[Tensor]:
    return list(found.values()) if isinstance(found, dict) else [found]


@pytest.mark.parametrize("count", [FEW, SOAK])
@pytest.mark.parametrize("name", with_soak(SPACES, KINDS))
def test_supernet_output_equals_extracted_network(name: str, count: int) -> None:
    space = space_of(name, **SPACES[name].small)
    model = supernet_of(space)
    image = image_of(space.graph, 2)
    with torch.no_grad():
        for architecture in architectures(space, count):
            network = extract(model, architecture)
            for one, other in zip(tensors(model(image, architecture)), tensors(network(image)), strict=True):
                assert torch.equal(one, other)


def test_supernet_without_parameters_works() -> None:
    space = archir.loads("net n() { input x: f32[4, 6, 6]\n output y = x |> choose op { a: relu, b: gelu } }")
    model = SuperNetwork(space.graph)
    image = image_of(space.graph, 2)
    for architecture in space.enumerate():
        assert torch.equal(extract(model, architecture)(image), model(image, architecture))


def test_extracted_network_has_the_dtype_of_the_supernet() -> None:
    space = archir.loads("net n() { input x: f32[4, 6, 6]\n output y = x |> conv(choose w(2, 4)) |> batch_norm }")
    model, image = SuperNetwork(space.graph).double().eval(), image_of(space.graph, 2).double()
    for architecture in space.enumerate():
        assert torch.equal(extract(model, architecture)(image), model(image, architecture))


def test_weights_do_not_depend_on_the_global_generator() -> None:
    graph = archir.loads("net n() { input x: f32[4]\n output y = x |> linear(choose w(2, 4)) }").graph
    torch.manual_seed(1)
    one = SuperNetwork(graph).state_dict()
    torch.manual_seed(2)
    assert all(torch.equal(tensor, one[name]) for name, tensor in SuperNetwork(graph).state_dict().items())


@pytest.mark.parametrize("name", with_soak(SPACES, KINDS))
def test_gradients_reach_only_used_weights(name: str) -> None:
    space = space_of(name, **SPACES[name].small)
    model = supernet_of(space).train()
    image = image_of(space.graph, 4)
    for architecture in architectures(space, 2):
        network = extract(model, architecture)
        model.zero_grad(set_to_none=True)
        for one in (model, network):
            torch.manual_seed(0)
            found = one(image, architecture) if one is model else one(image)
            sum(result.square().mean() for result in tensors(found)).backward()  # type: ignore[union-attr]
        assert_same_gradients(model, network, architecture)
        assert_same_statistics(model, network, architecture)


def assert_same_gradients(model: SuperNetwork, network: Network, architecture: Architecture) -> None:
    used, cuts, own = model.used(architecture), model.slices(architecture), dict(network.named_parameters())
    for actual, parameter in model.named_parameters():
        name = model._renamed.get(actual, actual)
        if name not in used:
            assert parameter.grad is None, name
            continue
        wanted = own[network_name(network, name)].grad
        if wanted is None:  # the architecture has it, but its result does not depend on it
            assert parameter.grad is None or not parameter.grad.any()
            continue
        assert parameter.grad is not None, name
        assert not parameter.grad[~used[name]].any()
        cut = cuts[name]
        part = parameter.grad if cut is None else cut.take(parameter.grad)
        torch.testing.assert_close(part, wanted, rtol=1e-4, atol=1e-6)


def assert_same_statistics(model: SuperNetwork, network: Network, architecture: Architecture) -> None:
    held = model.weights(architecture)
    for name, buffer in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            torch.testing.assert_close(held[name], buffer, rtol=1e-5, atol=1e-6)


def network_name(network: Network, name: str) -> str:
    """A parameter's name among those of the module, which may have to differ from its scope's."""
    return {wanted: actual for actual, wanted in network._renamed.items()}.get(name, name)


@pytest.mark.parametrize("count", [1])
@pytest.mark.parametrize("name", with_soak(SPACES, KINDS))
def test_onnx_model_of_subnet_equals_supernet(name: str, count: int, tmp_path: Path) -> None:
    onnx_models_agree(name, range(count), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", SPACES)
def test_onnx_models_of_many_subnets_equal_supernet(name: str, tmp_path: Path) -> None:
    onnx_models_agree(name, range(MANY), tmp_path)


def onnx_models_agree(name: str, seeds: range, folder: Path) -> None:
    space = space_of(name, **SPACES[name].small)
    model = supernet_of(space)
    for architecture in architectures(space, len(seeds)):
        report = archir.export(space.specialize(architecture), folder / "net.onnx", extract(model, architecture))
        assert min(report.absolute, report.relative) <= 1e-5


def test_training_step_leaves_unused_weights_unchanged() -> None:
    """What no architecture of a step uses is as it was."""
    space = space_of("trionet", channels=64, size=32, classes=4)
    model = supernet_of(space).train()
    architecture = space.sample(3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(image_of(space.graph, 2), architecture).square().mean().backward()
    optimizer.step()
    used = model.used(architecture)
    after = model.state_dict()
    for name, tensor in before.items():
        moved = after[name] != tensor
        assert not moved[~used[name]].any() if name in used else not moved.any()
    assert any((after[name] != tensor).any() for name, tensor in before.items())


def test_supernet_has_parameter_count_of_largest_layers() -> None:
    """32.7 M for TrioNet: projections 4.60 M, convolutions 15.15 M, local 3.74 M, axial 7.48 M, ..."""
    space = space_of("trionet")
    model = SuperNetwork(space.graph)
    assert sum(p.numel() for p in model.parameters()) == model.sharing.elements
    assert round(model.sharing.elements / 1e6, 1) == 32.7


def test_call_without_architecture_raises_type_error() -> None:
    space = space_of("nas_bench_201", **SPACES["nas_bench_201"].small)
    model = supernet_of(space)
    with pytest.raises(TypeError, match="takes its inputs"):
        model(image_of(space.graph, 2))


def test_state_dict_restores_supernet_outputs() -> None:
    space = space_of("mobilenet_v3_ofa", **SPACES["mobilenet_v3_ofa"].small)
    model, other = supernet_of(space), SuperNetwork(space.graph, torch.Generator().manual_seed(5)).eval()
    other.load_state_dict(model.state_dict())
    image, architecture = image_of(space.graph, 2), space.sample(0)
    with torch.no_grad():
        assert torch.equal(model(image, architecture), other(image, architecture))


def test_python_api_builds_and_extracts_supernets() -> None:
    space = space_of("mobilenet_v3_ofa", **SPACES["mobilenet_v3_ofa"].small)
    image, architecture = image_of(space.graph, 2), space.sample(1)
    for sharing in ("heads", "leading"):
        model = archir.supernet(space, seed=3, sharing=sharing).eval()
        with torch.no_grad():
            assert torch.equal(model(image, architecture), archir.extract(model, architecture)(image))
    assert model.state_dict().keys() == archir.supernet(space).state_dict().keys()


def test_step_memory_is_limited_to_path() -> None:
    """What a step keeps for its gradient is what the network alone would keep, and the parts of weights that it uses;
    gradients are those of the weights that the path uses."""
    space = space_of("trionet", channels=64, size=32, classes=4)
    model = supernet_of(space).train()
    architecture = smallest(space)
    image = image_of(space.graph, 8)
    network = extract(model, architecture).train()
    alone = kept(network, lambda: network(image))
    shared = kept(model, lambda: model(image, architecture))
    own = sum(parameter.nbytes for parameter in network.parameters())
    assert shared <= alone + own
    model(image, architecture).square().mean().backward()
    touched = sum(p.nbytes for p in model.parameters() if p.grad is not None)
    used = model.used(architecture)
    largest_of_used = sum(p.nbytes for n, p in model.named_parameters() if n in used)
    assert touched <= largest_of_used < sum(p.nbytes for p in model.parameters()) / 2


def kept(module: nn.Module, run: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass keeps for its gradient, every storage once, without parameters and buffers."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [*module.parameters(), *module.buffers()]}
    found: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            found[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    assert result.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values())
