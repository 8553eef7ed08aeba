"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import operator
from archir_torch.importing.calls.operators.windows import padded, window


@operator("Conv")
def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, **given: Any) -> Tensor:
    """Of one, two or three axes."""
    axes = weight.dim() - 2
    strides, dilations, before, after = window(x, given, list(weight.shape[2:]))
    if before != after:
        x, before = padded(x, before, after), [0] * axes
    function: Any = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    made: Tensor = function(x, weight, bias, strides, before, dilations, given.get("group", 1))
    return made


@operator("ConvTranspose")
def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, **given: Any) -> Tensor:
    """Of two axes."""
    strides, dilations, before, after = window(x, {**given, "auto_pad": "NOTSET"}, list(weight.shape[2:]))
    if before != after or given.get("auto_pad", "NOTSET") != "NOTSET" or given.get("output_shape") or weight.dim() != 4:
        raise RuleError("a transposed convolution that is cut off unevenly, or not of two axes")
    more = given.get("output_padding") or [0, 0]
    return F.conv_transpose2d(x, weight, bias, strides, before, more, given.get("group", 1), dilations)
