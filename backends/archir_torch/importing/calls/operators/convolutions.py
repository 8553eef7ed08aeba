"""ONNX convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import onnx_operator
from archir_torch.importing.calls.operators.windows import pad_axes, window


@onnx_operator("Conv")
def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, **attributes: Any) -> Tensor:
    """Convolve along one, two or three spatial axes."""
    axes = weight.dim() - 2
    strides, dilations, before, after = window(x, attributes, list(weight.shape[2:]))
    if before != after:
        x, before = pad_axes(x, before, after), [0] * axes
    function: Any = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    result: Tensor = function(x, weight, bias, strides, before, dilations, attributes.get("group", 1))
    return result


@onnx_operator("ConvTranspose")
def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, **attributes: Any) -> Tensor:
    """Apply a transposed convolution to feature maps."""
    strides, dilations, before, after = window(x, {**attributes, "auto_pad": "NOTSET"}, list(weight.shape[2:]))
    if (
        before != after
        or attributes.get("auto_pad", "NOTSET") != "NOTSET"
        or attributes.get("output_shape")
        or weight.dim() != 4
    ):
        raise RuleError("transposed convolutions with uneven padding, or of other tensors than maps, are not supported")
    output_padding = attributes.get("output_padding") or [0, 0]
    return F.conv_transpose2d(x, weight, bias, strides, before, output_padding, attributes.get("group", 1), dilations)
