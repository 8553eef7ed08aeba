"""Equivalent `torch.nn` layers of operations, with the same weight names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ops.conv import Conv, Conv1d, Conv3d, ConvTranspose, Linear
from archir.ops.lookup import Embedding
from archir.ops.norm import BatchNorm, GroupNorm, LayerNorm, RmsNorm
from archir.ops.random import Dropout
from archir.ops.windows import collapse_sizes


@dataclass(frozen=True)
class Argument:
    """Argument in a layer's constructor call.

    The argument is passed by keyword if `keyword` is True, and left out if its value equals `default`; a `default` of
    None means that the argument is always passed.
    """

    name: str
    value: Any
    default: Any = None
    keyword: bool = False


@dataclass(frozen=True)
class StandardLayer:
    """Constructor call for a layer: a class of `torch.nn`, or a subclass whose definition is `source`."""

    name: str
    arguments: list[Argument]
    source: str = ""


def _token_layer_source(name: str, base: str) -> str:
    """Return the source of a layer for tokens [B, N, D], a subclass of `base`, which takes [B, D, N]."""
    lines = [f"class {name}({base}):", "    def forward(self, x):"]
    return "\n".join([*lines, "        return super().forward(x.transpose(1, 2)).transpose(1, 2)"])


_TOKEN_CONV = """class TokenConv(nn.Conv1d):
    def forward(self, x):
        if x.device.type != "cpu":
            return super().forward(x.transpose(1, 2)).transpose(1, 2)
        # on CPUs, a map of one row is convolved faster than a sequence
        row, weight = x.transpose(1, 2).unsqueeze(2), self.weight.unsqueeze(2)
        stride, padding, dilation = (1, *self.stride), (0, *self.padding), (1, *self.dilation)
        row = F.conv2d(row, weight, self.bias, stride, padding, dilation, self.groups)
        return row.squeeze(2).transpose(1, 2)"""


def _option(name: str, value: Any, default: Any) -> Argument:
    """Return a keyword argument that is left out if its value is the default."""
    return Argument(name, value, default, keyword=True)


def _conv(op: Conv, x: TensorType) -> StandardLayer | None:
    if not all(window.is_symmetric for window in op.windows):
        return None
    before = collapse_sizes(tuple(window.before for window in op.windows))
    return StandardLayer(
        f"nn.Conv{op.spatial}d",
        [
            Argument("in_channels", x.channels),
            Argument("out_channels", op.channels),
            Argument("kernel_size", op.kernel),
            _option("stride", op.stride, 1),
            _option("padding", before, 0),
            _option("dilation", op.dilation, 1),
            _option("groups", op.groups, 1),
            _option("bias", op.bias, True),
        ],
    )


def _conv_transpose(op: ConvTranspose, x: TensorType) -> StandardLayer:
    return StandardLayer(
        "nn.ConvTranspose2d",
        [
            Argument("in_channels", x.channels),
            Argument("out_channels", op.channels),
            Argument("kernel_size", op.kernel),
            _option("stride", op.stride, 1),
            _option("padding", collapse_sizes(op.crop), 0),
            _option("output_padding", collapse_sizes(op.extra), 0),
            _option("groups", op.groups, 1),
            _option("bias", op.bias, True),
            _option("dilation", op.dilation, 1),
        ],
    )


def _conv1d(op: Conv1d, x: TensorType) -> StandardLayer | None:
    before, after = op.pads
    if before != after:
        return None
    return StandardLayer(
        "TokenConv",
        [
            Argument("in_channels", x.channels),
            Argument("out_channels", op.channels),
            Argument("kernel_size", op.kernel),
            _option("stride", op.stride, 1),
            _option("padding", before, 0),
            _option("dilation", op.dilation, 1),
            _option("groups", op.groups, 1),
            _option("bias", op.bias, True),
        ],
        _TOKEN_CONV,
    )


def _linear(op: Linear, x: TensorType) -> StandardLayer:
    sizes = [Argument("in_features", x.channels), Argument("out_features", op.channels)]
    return StandardLayer("nn.Linear", [*sizes, _option("bias", op.bias, True)])


def _batch_norm(op: BatchNorm, x: TensorType) -> StandardLayer:
    options = [_option("eps", op.eps, 1e-5), _option("momentum", op.momentum, 0.1), _option("affine", op.affine, True)]
    arguments = [Argument("channels", x.channels), *options]
    if x.rank == 2:
        return StandardLayer("TokenBatchNorm", arguments, _token_layer_source("TokenBatchNorm", "nn.BatchNorm1d"))
    return StandardLayer(f"nn.BatchNorm{max(1, x.rank - 1)}d", arguments)


def _layer_norm(op: LayerNorm, x: TensorType) -> StandardLayer | None:
    if x.channel_axis != x.rank - 1:
        return None
    options = [_option("eps", op.eps, 1e-5), _option("elementwise_affine", op.affine, True)]
    return StandardLayer("nn.LayerNorm", [Argument("features", x.channels), *options])


def _rms_norm(op: RmsNorm, x: TensorType) -> StandardLayer | None:
    if x.channel_axis != x.rank - 1:
        return None
    options = [_option("eps", op.eps, None), _option("elementwise_affine", op.affine, True)]
    return StandardLayer("nn.RMSNorm", [Argument("features", x.channels), *options])


def _group_norm(op: GroupNorm, x: TensorType) -> StandardLayer:
    options = [_option("eps", op.eps, 1e-5), _option("affine", op.affine, True)]
    return StandardLayer("nn.GroupNorm", [Argument("groups", op.groups), Argument("channels", x.channels), *options])


def _dropout(op: Dropout, x: TensorType) -> StandardLayer:
    return StandardLayer("nn.Dropout", [Argument("rate", op.rate)])


def _embedding(op: Embedding, x: TensorType) -> StandardLayer:
    return StandardLayer("nn.Embedding", [Argument("num_embeddings", op.vocabulary), Argument("channels", op.channels)])


_LAYERS: dict[type[Op], Callable[..., StandardLayer | None]] = {
    Conv: _conv,
    Conv1d: _conv1d,
    Conv3d: _conv,
    ConvTranspose: _conv_transpose,
    Linear: _linear,
    BatchNorm: _batch_norm,
    LayerNorm: _layer_norm,
    RmsNorm: _rms_norm,
    GroupNorm: _group_norm,
    Dropout: _dropout,
    Embedding: _embedding,
}


def standard_layer(op: Op, types: Sequence[TensorType]) -> StandardLayer | None:
    """Return the `torch.nn` layer that is equivalent to an operation on operands of these types; None if there is
    none."""
    make = _LAYERS.get(type(op))
    return make(op, *types) if make is not None else None
