"""Depthwise convolutions with gradients of their own: those of torch."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import pytest
import torch
from torch import Tensor

from archir.ir.op import Op
from archir.ops.conv import Conv
from archir.ops.norm import BatchNorm
from archir_torch.lowering.depthwise import depthwise_conv
from archir_torch.lowering.operations.conv import conv
from archir_torch.lowering.rules import RULES
from archir_torch.training.norms import batch_norm


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [1, 2, 4, 7, 12])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_depthwise_gradients_match_plain_convolution(
    kernel: int, stride: int, dilation: int, size: int, layout: torch.memory_format
) -> None:
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, size, size, generator=numbers, dtype=torch.float64).contiguous(memory_format=layout)
    weight = torch.randn(4, 1, kernel, kernel, generator=numbers, dtype=torch.float64).requires_grad_()
    pad = dilation * (kernel - 1) // 2
    given = {"stride": stride, "pads": (pad,) * 4, "dilation": dilation, "groups": 4}
    x.requires_grad_()
    wanted, found = conv(x, weight, **given), depthwise_conv(x, weight, **given)
    torch.testing.assert_close(found, wanted)
    gradient = torch.randn(wanted.shape, generator=numbers, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(found, (x, weight), gradient),
        torch.autograd.grad(wanted, (x, weight), gradient),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_frozen_weight_saves_no_input_for_backward() -> None:
    kept: list[tuple[int, ...]] = []
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    weight = torch.randn(4, 1, 5, 5)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):  # type: ignore[func-returns-value]
        depthwise_conv(x, weight, stride=1, pads=(2, 2, 2, 2), dilation=1, groups=4)
    assert kept == [(4, 1, 5, 5)]


def test_grouped_convolution_is_lowered_as_plain_convolution() -> None:
    x, weight = torch.randn(2, 4, 8, 8, requires_grad=True), torch.randn(8, 2, 5, 5)
    y = depthwise_conv(x, weight, stride=1, pads=(2, 2, 2, 2), dilation=1, groups=2)
    torch.testing.assert_close(y, conv(x, weight, stride=1, pads=(2, 2, 2, 2), dilation=1, groups=2))
    assert type(y.grad_fn).__name__ == "ConvolutionBackward0"


@pytest.mark.parametrize(("instead", "lowering"), [(depthwise_conv, Conv), (batch_norm, BatchNorm)])
def test_substitute_lowerings_have_signature_of_original(instead: Callable[..., Tensor], lowering: type[Op]) -> None:
    """Layers call either in the same way."""
    assert signature(instead) == signature(RULES[lowering].function)
