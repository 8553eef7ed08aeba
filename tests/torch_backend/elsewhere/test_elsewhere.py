"""The simulated GPU detects planted mistakes: wrong devices, waits, lost precision and wrong generators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.torch_backend.elsewhere.gpu import REAL, gpu

imagined = pytest.mark.skipif(REAL[0], reason="what is planted is found by the GPU that is not there")


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to("cuda", non_blocking=True)


class Forgotten(nn.Module):
    """A tensor that is not a buffer stays behind when the module is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mask = nn.Linear(3, 3), torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.mask


def position_made_on_the_cpu(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[1])


def layer_that_was_not_moved(x: Tensor) -> Tensor:
    return F.linear(x, torch.ones(2, 3))


def buffer_that_was_forgotten(x: Tensor) -> Tensor:
    return Forgotten().to("cuda")(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("planted", [position_made_on_the_cpu, layer_that_was_not_moved, buffer_that_was_forgotten])
def test_tensors_on_the_cpu_are_refused(planted: Callable[[Tensor], Tensor]) -> None:
    with gpu():
        x = noise(2, 3)
        with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
            planted(x)


def loss_that_is_looked_at(x: Tensor) -> object:
    return x.sum().item()


def positions_of_what_is_positive(x: Tensor) -> object:
    return x[x > 0].sum()


def weights_that_are_sent_each_time(x: Tensor) -> object:
    return x * torch.tensor([1.0, 2.0, 3.0], device=x.device)


@pytest.mark.parametrize(
    ("planted", "said"),
    [(loss_that_is_looked_at, "_local_scalar_dense"), (positions_of_what_is_positive, "index"),
     (weights_that_are_sent_each_time, "copy to the GPU")],
)  # fmt: skip
def test_synchronizing_operations_are_recorded(planted: Callable[[Tensor], object], said: str) -> None:
    with gpu() as seen:
        x = noise(2, 3)
        assert seen.waits == []
        planted(x)
    (line,) = seen.waits
    assert line.startswith("wait" if REAL[0] else said)
    assert f"{__name__}:" in line


def logarithm_in_16_bits(x: Tensor) -> object:
    return x.bfloat16().log()


def softmax_that_was_made_short(x: Tensor) -> object:
    with torch.autocast("cuda", enabled=False):
        return (x @ x.T).half().softmax(1)


@imagined
@pytest.mark.parametrize("planted", [logarithm_in_16_bits, softmax_that_was_made_short])
def test_lost_precision_is_recorded(planted: Callable[[Tensor], object]) -> None:
    with gpu() as seen:
        planted(noise(2, 3))
    (line,) = seen.narrow
    assert f"{__name__}:" in line


@imagined
def test_products_outside_autocast_are_recorded() -> None:
    with gpu() as seen, torch.autocast("cuda", torch.bfloat16):
        x = noise(2, 3)
        torch.zeros(2, 2, device="cuda").addmm_(x, x.T)
    assert [line.split()[0] for line in seen.wide] == ["addmm_"]


@imagined
def test_types_that_do_not_fit_are_refused() -> None:
    with gpu(), torch.autocast("cuda", torch.bfloat16):
        x = noise(3, 3)
        with pytest.raises(RuntimeError, match="dtype"):
            torch.zeros(3, 3, device="cuda").index_copy_(0, torch.arange(3, device="cuda"), x @ x)


@imagined
def test_autocast_dtypes_equal_those_of_gpu() -> None:
    with gpu() as seen, torch.autocast("cuda", torch.bfloat16):
        x = noise(3, 3)
        found = {"mm": x @ x, "linear": F.linear(x, x), "softmax": (x @ x).softmax(1), "exp": (x @ x).exp()}
        found |= {"sum": (x @ x).sum(), "layer_norm": F.layer_norm(x @ x, (3,)), "relu": (x @ x).relu()}
    short = {name for name, one in found.items() if one.dtype == torch.bfloat16}
    assert short == {"mm", "linear", "relu"}
    assert not seen.narrow
    assert not seen.wide


def test_cpu_generators_are_rejected() -> None:
    with gpu():
        generator = torch.Generator()
        with pytest.raises(RuntimeError, match="device type for generator"):
            torch.rand(3, generator=generator, device="cuda")
        with pytest.raises(RuntimeError, match="device type for generator"):
            noise(3).normal_(generator=generator)


def test_gpu_tensor_cannot_become_numpy_array() -> None:
    with gpu(), pytest.raises(TypeError, match="can't convert cuda:0"):
        noise(3).numpy()


def test_a_module_that_is_moved_keeps_its_parameters() -> None:
    with gpu():
        layer = nn.Linear(3, 2)
        weight = layer.weight
        layer.to("cuda")
        assert layer.weight is weight
        layer(noise(4, 3)).sum().backward()
        assert weight.grad is not None
        assert weight.grad.device == torch.device("cuda:0")
