"""Zeros, tiny and large numbers, infinities and NaN: imports give what the module gives, and so do their ONNX files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir_torch.importing.proof import network

inf, nan = float("inf"), float("nan")
EDGES = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 0.5, -0.5, 7.0, -7.0, 300.0, -300.0, 1e20, -1e20, inf, -inf, nan])
ROWS = torch.tensor([[0.0, 200.0, -50.0, 10.0], [1e30, 2e30, 3.0, 4.0], [300.0, 299.0, 298.0, -1e5]])
"""For reductions: infinities and NaN are beside finite numbers in a row of their own."""
NOT_FINITE = torch.tensor([[inf, 1.0, 2.0, 3.0], [-inf, 1.0, 2.0, 3.0], [nan, 1.0, 2.0, 3.0], [-inf, -inf, -inf, -inf]])

ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "relu6": F.relu6, "silu": F.silu, "mish": F.mish, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "abs": torch.abs,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "leaky_relu": F.leaky_relu, "elu": F.elu,
    "softplus": F.softplus, "logsigmoid": F.logsigmoid, "softsign": F.softsign, "tanhshrink": F.tanhshrink,
    "hardtanh": lambda x: F.hardtanh(x, -2, 3), "at_least": lambda x: x.clamp(min=0),
    "at_most": lambda x: x.clamp(max=1), "square": torch.square, "cube": lambda x: x**3, "neg": torch.neg,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: torch.rsqrt(x * x + 1e-12), "log": lambda x: torch.log(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()), "divided": lambda x: (x + 1) / x, "less": lambda x: x - 1,
    "greater": lambda x: (x > 0).float(), "where": lambda x: torch.where(x > 0, x, x * 2),
    "where_not": lambda x: torch.where(x > 0, 0.0, x), "where_zero": lambda x: torch.where(x < 1, x, 0.0),
    "filled": lambda x: x.masked_fill(x > 0, -1e9), "filled_inf": lambda x: x.masked_fill(x > 0, -inf),
    "filled_zero": lambda x: x.masked_fill(x.abs() > 100, 0), "two": lambda x: torch.where(x > 0, 1e-8, 1.0),
    "filled_always": lambda x: x.masked_fill(torch.arange(15) > 9, 0.0),
    "filled_lowest": lambda x: x.masked_fill(torch.arange(15) > 9, torch.finfo(torch.float32).min),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25)), "larger": lambda x: torch.maximum(x, -x),
    "smaller": lambda x: torch.minimum(x, x * 2),
}  # fmt: skip
REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: F.softmax(x, -1), "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmin": lambda x: F.softmin(x, -1), "logsumexp": lambda x: torch.logsumexp(x, -1, keepdim=True),
    "sum": lambda x: x.sum(-1, keepdim=True), "mean": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(-1, keepdim=True), "amin": lambda x: x.amin(-1, keepdim=True),
    "cumsum": lambda x: x.cumsum(-1), "masked": lambda x: x.masked_fill(x > 100, -inf).softmax(-1),
    "nll": lambda x: -F.log_softmax(x, -1)[..., :1],
}  # fmt: skip


class Each(nn.Module):
    """The results of several functions of a parameter and the input."""

    def __init__(self, functions: dict[str, Callable[[Tensor], Tensor]], size: int) -> None:
        super().__init__()
        self.functions, self.zero = functions, nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: function(x + self.zero) for name, function in self.functions.items()}


def made(functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor, folder: Path) -> dict[str, list[Tensor]]:
    """What module, network and ONNX model make of x, and the gradients of the first two, by function."""
    module = Each(functions, x.shape[-1]).eval()
    imported = archir.from_torch(module, torch.ones(1, x.shape[-1]))
    net = network(imported.graph, imported.weights)
    archir.export(imported.graph, folder / "net.onnx", net)
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    exported = session.run(None, {"x": x.numpy()})
    found: dict[str, list[Tensor]] = {}
    for place, name in enumerate(functions):
        found[name] = [torch.from_numpy(exported[place])]
        for one in (module, net):
            given = x.clone().requires_grad_()
            result = list(one(given).values())[place]
            found[name].append(result.detach())
            if result.requires_grad:
                (gradient,) = torch.autograd.grad(result.sum(), given)
                found[name].append(gradient)
    return found


AT_NAN = {"hardtanh gradient"}
"""What torch's operators for the same function differ in: the gradient of `clamp` at NaN is 0, that of `hardtanh` 1."""

AT_INFINITY = {"gelu onnx"}
"""torch's gelu of infinity is infinity or NaN, depending on the vector instructions of the CPU."""


def differences(found: dict[str, list[Tensor]]) -> dict[str, str]:
    """By function, where the results are not those of the module."""
    told: dict[str, str] = {}
    for name, (exported, result, *others) in found.items():
        pairs = {"onnx": (exported, result)}
        if len(others) == 1:
            pairs["torch"] = (others[0], result)
        else:
            gradient, mine, my_gradient = others
            pairs |= {"torch": (mine, result), "gradient": (my_gradient, gradient)}
        for what, (one, other) in pairs.items():
            if f"{name} {what}" in AT_NAN:
                one, other = one[..., :-1], other[..., :-1]
            if f"{name} {what}" in AT_INFINITY:
                one, other = one[..., :-3], other[..., :-3]
            if not torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True):
                told[f"{name} {what}"] = f"{one.tolist()} is not {other.tolist()}"
    return told


def test_elementwise_ops_match_module_at_numeric_edges(tmp_path: Path) -> None:
    assert differences(made(ELEMENTWISE, EDGES[None], tmp_path)) == {}


@pytest.mark.parametrize("rows", [ROWS, NOT_FINITE], ids=["finite", "not finite"])
def test_reductions_match_module_at_numeric_edges(rows: Tensor, tmp_path: Path) -> None:
    assert differences(made(REDUCTIONS, rows, tmp_path)) == {}


class TwiceGelu(nn.Module):
    """A gelu without its half."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y * (1 + torch.erf(y / math.sqrt(2)))


def test_erf_formula_without_half_is_not_gelu() -> None:
    with pytest.raises(archir.ArchError, match="erf"):
        archir.from_torch(TwiceGelu(), torch.zeros(1, 4))
