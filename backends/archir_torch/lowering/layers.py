"""Layers of `torch.nn` that do what an operation does, with weights of the same names."""

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
from archir.ops.windows import alike


@dataclass(frozen=True)
class Argument:
    """An argument of a constructor: given by keyword, and left out where it has its default, if it has one."""

    name: str
    value: Any
    default: Any = None
    keyword: bool = False


@dataclass(frozen=True)
class Standard:
    """A call of a `torch.nn` class, or of one made of it; `source` is that one's text."""

    name: str
    arguments: list[Argument]
    source: str = ""


def _along_tokens(name: str, base: str) -> str:
    """A layer of channels [B, D, N] for tokens [B, N, D]."""
    lines = [f"class {name}({base}):", "    def forward(self, x):"]
    return "\n".join([*lines, "        return super().forward(x.transpose(1, 2)).transpose(1, 2)"])


def _option(name: str, value: Any, default: Any) -> Argument:
    return Argument(name, value, default, keyword=True)


def _conv(op: Conv, x: TensorType) -> Standard | None:
    if not all(window.even for window in op.windows):
        return None
    before = alike(tuple(window.before for window in op.windows))
    return Standard(
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


def _conv_transpose(op: ConvTranspose, x: TensorType) -> Standard:
    return Standard(
        "nn.ConvTranspose2d",
        [
            Argument("in_channels", x.channels),
            Argument("out_channels", op.channels),
            Argument("kernel_size", op.kernel),
            _option("stride", op.stride, 1),
            _option("padding", alike(op.cut), 0),
            _option("output_padding", alike(op.more), 0),
            _option("groups", op.groups, 1),
            _option("bias", op.bias, True),
            _option("dilation", op.dilation, 1),
        ],
    )


def _conv1d(op: Conv1d, x: TensorType) -> Standard | None:
    before, after = op.pads
    if before != after:
        return None
    return Standard(
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
        _along_tokens("TokenConv", "nn.Conv1d"),
    )


def _linear(op: Linear, x: TensorType) -> Standard:
    sizes = [Argument("in_features", x.channels), Argument("out_features", op.channels)]
    return Standard("nn.Linear", [*sizes, _option("bias", op.bias, True)])


def _batch_norm(op: BatchNorm, x: TensorType) -> Standard:
    options = [_option("eps", op.eps, 1e-5), _option("momentum", op.momentum, 0.1), _option("affine", op.affine, True)]
    arguments = [Argument("channels", x.channels), *options]
    if x.rank == 2:
        return Standard("TokenBatchNorm", arguments, _along_tokens("TokenBatchNorm", "nn.BatchNorm1d"))
    return Standard(f"nn.BatchNorm{max(1, x.rank - 1)}d", arguments)


def _layer_norm(op: LayerNorm, x: TensorType) -> Standard | None:
    if x.channel_axis != x.rank - 1:
        return None
    options = [_option("eps", op.eps, 1e-5), _option("elementwise_affine", op.affine, True)]
    return Standard("nn.LayerNorm", [Argument("features", x.channels), *options])


def _rms_norm(op: RmsNorm, x: TensorType) -> Standard | None:
    if x.channel_axis != x.rank - 1:
        return None
    options = [_option("eps", op.eps, None), _option("elementwise_affine", op.affine, True)]
    return Standard("nn.RMSNorm", [Argument("features", x.channels), *options])


def _group_norm(op: GroupNorm, x: TensorType) -> Standard:
    options = [_option("eps", op.eps, 1e-5), _option("affine", op.affine, True)]
    return Standard("nn.GroupNorm", [Argument("groups", op.groups), Argument("channels", x.channels), *options])


def _dropout(op: Dropout, x: TensorType) -> Standard:
    return Standard("nn.Dropout", [Argument("rate", op.rate)])


def _embedding(op: Embedding, x: TensorType) -> Standard:
    return Standard("nn.Embedding", [Argument("num_embeddings", op.vocabulary), Argument("channels", op.channels)])


_LAYERS: dict[type[Op], Callable[..., Standard | None]] = {
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


def standard_layer(op: Op, types: Sequence[TensorType]) -> Standard | None:
    """The layer for an operation on operands of these types; None if there is none."""
    make = _LAYERS.get(type(op))
    return make(op, *types) if make is not None else None
