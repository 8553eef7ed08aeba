"""Kernels in unusual cases: NaN, sizes that do not fit, hooks, folders, numbers of 16 bits."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.passes.relax import relax
from archir_torch.lowering.kernels import depthwise, library, norm, separable, sums
from archir_torch.lowering.kernels.attention import window_attention
from archir_torch.lowering.kernels.depthwise import window_geometry
from archir_torch.lowering.kernels.library import to_channels_last, unavailable_reason
from archir_torch.lowering.kernels.norm import HARD_SWISH, RELU, RELU6, apply_norm
from archir_torch.lowering.kernels.pool import pool_windows
from archir_torch.lowering.local_attention import local_attention
from archir_torch.lowering.module import Network, lower
from archir_torch.supernet.mixture import MixedNetwork
from archir_torch.supernet.tuning import Plan, lower_with_plan

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason="there is no C++ compiler")
NAN, INF = float("nan"), float("inf")

SMALL = "x |> conv(4, kernel=3, bias=false) |> batch_norm |> relu |> conv(3, kernel=1, bias=false) |> global_avg_pool"


def graph(expression: str, shape: str = "4, 8, 8") -> Graph:
    return archir.loads(f"net n() {{\n input x: f32[{shape}]\n output y = {expression}\n}}\n").graph


def pair(expression: str, shape: str = "4, 8, 8") -> tuple[Network, Network]:
    """A network, and one with kernels."""
    plain = lower(graph(expression, shape), generator=torch.Generator().manual_seed(0)).train()
    compiled = copy.deepcopy(plain)
    compiled.use_kernels()
    return plain, compiled


def mixed(expression: str, shape: str) -> tuple[MixedNetwork, MixedNetwork]:
    made = [lower_with_plan(relax(graph(expression, shape)), Plan()).train() for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    made[1].use_kernels()
    return made[0], made[1]


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("kind", "function"), [(RELU, F.relu), (RELU6, F.relu6), (HARD_SWISH, F.hardswish)], ids=["relu", "relu6", "swish"]
)
def test_activations_match_torch_at_nan_and_kinks(kind: int, function: Callable[[Tensor], Tensor]) -> None:
    values = torch.tensor([NAN, 1.0, -1.0, 7.0, 0.0, 3.0, -3.0, 6.0])
    found = []
    for run in (function, lambda x: apply_norm(x, None, kind)):
        x = to_channels_last(values.view(1, 1, 2, 4).clone()).requires_grad_()
        y = run(x)
        y.sum().backward()
        assert x.grad is not None
        found.append((y.detach().flatten(), x.grad.flatten()[1:]))
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_nan_propagates_through_pooling_and_attention_windows() -> None:
    x = to_channels_last(noise(1, 4, 3, 3))
    x[0, 0, 1, 1] = NAN
    wanted = F.max_pool2d(x, 2, 1)
    torch.testing.assert_close(
        pool_windows(x, window_geometry(x, (2, 2), 1, 1, (0, 0, 0, 0)), is_max=True), wanted, equal_nan=True
    )
    key, value = to_channels_last(noise(1, 4, 3, 3)), to_channels_last(noise(1, 4, 3, 3))
    torch.testing.assert_close(
        window_attention(x, key, value, None, 1, 3), local_attention(x, key, value, heads=1, kernel=3), equal_nan=True
    )


@pytest.mark.parametrize("numbers", [[NAN, 2.0, 1.0, 3.0], [1.0, NAN, NAN, 2.0], [1.0, 2.0, 2.0, 1.0], [-INF] * 4])
def test_max_pool_gradients_match_torch_at_ties_and_nan(numbers: list[float]) -> None:
    gradients = []
    for kernels in (False, True):
        x = to_channels_last(torch.tensor(numbers).view(1, 1, 2, 2).repeat(1, 3, 1, 1)).requires_grad_()
        y = (
            pool_windows(x, window_geometry(x, (2, 2), 2, 1, (0, 0, 0, 0)), is_max=True)
            if kernels
            else F.max_pool2d(x, 2)
        )
        y.backward(torch.full_like(y, 5.0))
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_nan_weights_give_nan_outputs() -> None:
    for network in pair(SMALL):
        with torch.no_grad():
            next(network.parameters()).fill_(NAN)
        assert network(noise(2, 4, 8, 8)).isnan().all()


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ('x |> conv(4, kernel=5, groups=4, bias=false, padding="valid", stride=8)', (4, 400)),
        ('x |> relu |> max_pool(5, padding="valid", stride=1)', (4, 8)),
        ('x |> relu |> avg_pool(5, padding="valid", stride=1)', (4, 8)),
    ],
    ids=["depthwise", "largest", "mean"],
)
def test_too_small_maps_raise_error_message_of_torch(expression: str, size: tuple[int, int]) -> None:
    said = []
    for network in pair(expression, "4, 16, 16"):
        network.open_sizes = True
        with pytest.raises(RuntimeError) as caught:
            network(noise(2, 4, *size))
        said.append(str(caught.value))
    assert said[1] == said[0]


def test_mismatched_norm_statistics_raise_error_message_of_torch() -> None:
    for network in pair("x |> batch_norm |> relu", "3, 4, 4"):
        network.open_sizes = True
        with pytest.raises(RuntimeError, match="running_mean should contain 20 elements not 3"):
            network(noise(4, 20, 4, 4))


def test_results_stay_on_device_of_input() -> None:
    x = noise(2, 4, 8, 8)
    for network in pair(SMALL):
        with torch.device("meta"):
            assert network(x).device.type == "cpu"


@pytest.mark.parametrize("kernel", [3, 7])
def test_local_attention_uses_its_kernel_in_evaluation(kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch has no such operation, and what is composed of others takes six to eleven times as long."""
    called: list[str] = []
    function = library.kernel_function
    monkeypatch.setattr(library, "kernel_function", lambda name, dtype: called.append(name) or function(name, dtype))
    plain, compiled = (network.eval() for network in pair(f"local_attention(x, x |> relu, x, kernel={kernel})"))
    x = noise(3, 4, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), plain(x))
    assert called == ["attention_forward"]


MAPS = "x |> conv(4) |> choose one { a: conv(4, kernel=3, bias=false) |> batch_norm, b: batch_norm, c: identity }"
TOKENS = "x |> linear(4) |> choose one { a: linear(4) |> batch_norm, b: batch_norm, c: identity }"


@pytest.mark.parametrize(
    ("expression", "shape", "context"),
    [
        (MAPS, (4, 8, 8), nullcontext),
        (MAPS, (4, 8, 8), torch.no_grad),
        (MAPS, (4, 8, 8), lambda: torch.autocast("cpu", torch.bfloat16)),
        (TOKENS, (8, 6), nullcontext),
    ],
    ids=["maps", "without gradients", "16 bits", "tokens"],
)
def test_mixture_norms_update_running_statistics_once(
    expression: str, shape: tuple[int, ...], context: Callable[[], AbstractContextManager[Any]]
) -> None:
    plain, compiled = mixed(expression, ", ".join(map(str, shape)))
    weights = {name: torch.full((count,), 1 / count) for name, count in plain.names.items()}
    for network in (plain, compiled):
        with context():
            network(noise(5, *shape) + 1, weights=weights)
    ours, theirs = dict(compiled.named_buffers()), dict(plain.named_buffers())
    assert any("running_mean" in name for name in theirs)
    for name, buffer in theirs.items():
        torch.testing.assert_close(ours[name], buffer, rtol=1e-4, atol=1e-5)


def test_mixture_norms_reuse_statistics_of_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def call(name: str, *given: Any) -> None:
        calls[name] += 1
        library.call_kernel(name, *given)

    for module in (norm, separable, depthwise, sums):
        monkeypatch.setattr(module, "call_kernel", call)
    cell = "relu |> conv(4, kernel=3, groups=4, bias=false) |> conv(4, kernel=1, bias=false) |> batch_norm"
    _, compiled = mixed(f"x |> choose one {{ a: {cell}, b: identity }}", "4, 8, 8")
    weights = {name: torch.full((count,), 1 / count) for name, count in compiled.names.items()}
    compiled(noise(3, 4, 8, 8), weights=weights)
    assert calls["statistics"] == calls["separable_forward"] == 1
    assert calls["moments"] == 0


def layer_of(network: Network) -> tuple[str, nn.Module]:
    """The norm of a network, and where it is."""
    return next((name, one) for name, one in network.named_modules() if "running_mean" in getattr(one, "names", ()))


def test_hooks_of_layers_see_tensors() -> None:
    found = []
    for network in pair(SMALL):
        seen: list[Tensor] = []
        layer_of(network)[1].register_forward_hook(
            lambda module, given, y, seen=seen: seen.extend(x.detach().clone() for x in (*given, y))
        )
        network(noise(2, 4, 8, 8))
        found.append(seen)
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_layers_wrapped_in_other_modules_keep_their_outputs() -> None:
    found = []
    for network in pair(SMALL):
        name, layer = layer_of(network)
        home, _, last = name.rpartition(".")
        network.get_submodule(home).add_module(last, nn.Sequential(layer, nn.Softplus()))
        found.append(network(noise(2, 4, 8, 8)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_gradients_of_gradients_are_refused() -> None:
    _, compiled = pair(SMALL)
    loss = compiled(noise(2, 4, 8, 8)).square().sum()
    with pytest.raises(ArchError, match="second-order gradients") as caught:
        torch.autograd.grad(loss, list(compiled.parameters()), create_graph=True)
    assert caught.value.diagnostics[0].hint == "training.compile = false"


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own, with a library that is compiled at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "library.cpp").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(library, "SOURCE", tmp_path / "source")
    monkeypatch.setattr(library, "load_library", library.load_library.__wrapped__)
    return tmp_path


def test_unwritable_kernel_cache_is_reported(room: Path) -> None:
    (room / "cache").write_text("")
    assert not library.is_built()
    with pytest.raises(ArchError, match=re.escape(f"cannot be kept in `{room}/cache/archir/kernels`")) as caught:
        library.load_library()
    assert caught.value.diagnostics[0].code == "A1109"


def test_a_library_that_was_cut_off_is_compiled_again(room: Path) -> None:
    path = library.build_library()
    path.write_bytes(b"\x7fELF")
    assert library.load_library().one() == 1
    assert len(path.read_bytes()) > 1000


def test_rejects_library_in_world_writable_folder(room: Path) -> None:
    path = library.build_library()
    path.parent.chmod(0o777)
    with pytest.raises(ArchError, match="other users can write"):
        library.load_library()
