"""Every operation with several settings, as graphs of one node, on which both backends are tested."""

from __future__ import annotations

from typing import Literal

from archir.ir.graph import Graph, Node
from archir.ir.op import Op
from archir.ir.structure import Input
from archir.ops.activation import (
    Abs,
    Clamp,
    Cos,
    Cumsum,
    Elu,
    Exp,
    Gelu,
    HardSigmoid,
    HardSwish,
    Identity,
    LeakyRelu,
    Log,
    LogSoftmax,
    Mish,
    Power,
    Prelu,
    Relu,
    Relu6,
    Scale,
    Shift,
    Sigmoid,
    Silu,
    Sin,
    Softmax,
    Softplus,
    Sqrt,
    Tanh,
    Zero,
)
from archir.ops.arithmetic import Add, Concat, Div, Greater, Less, Matmul, Maximum, Minimum, Mul, Sub, Where
from archir.ops.attention import Attention, AxialAttention, LocalAttention, Rotary
from archir.ops.calibration import AsGate, AsKernel, DynamicConv
from archir.ops.constant import Constant, Positions, Sinusoidal
from archir.ops.conv import Conv, Conv1d, Conv3d, ConvTranspose, Linear
from archir.ops.lookup import Embedding, Equal, Gather, OneHot, ToNumbers
from archir.ops.norm import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, Normalize, RmsNorm
from archir.ops.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    AvgPool1d,
    AvgPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxOver,
    MaxPool,
    MaxPool1d,
    MaxPool3d,
    MeanOver,
    SumOver,
)
from archir.ops.random import Dropout, DropPath
from archir.ops.resize import PixelShuffle, PixelUnshuffle, Resize
from archir.ops.routing import CombineExperts, ExpertLinear, TopK, TopPositions
from archir.ops.shape import (
    ChannelShuffle,
    FirstTokens,
    Flatten,
    Pad,
    Parameter,
    Reshape,
    Slice,
    ToMap,
    ToTokens,
    Transpose,
    Upsample,
)

MAP, TOKENS, VECTOR, VOLUME = (8, 6, 5), (12, 8), (8,), (8, 4, 6, 5)
MODES: tuple[Literal["nearest", "bilinear", "bicubic"], ...] = ("nearest", "bilinear", "bicubic")
Dims = tuple[int, ...]
KINDS: dict[type[Op], tuple[type[Op], ...]] = {
    DynamicConv: (Identity, AsKernel),
    **dict.fromkeys((Log, Sqrt, Power), (Exp,)),
    Div: (Identity, Exp),  # nothing is near zero below
}
"""What makes operands of a kind of the inputs."""
ELEMENTS: dict[type[Op], tuple[str, ...]] = {
    **dict.fromkeys((Embedding, OneHot, Equal), ("i64",)),
    ToNumbers: ("bool",),
    **dict.fromkeys((Gather, ExpertLinear), ("f32", "i64")),
    Where: ("bool", "f32", "f32"),
}
"""The element types of operands that are not all f32."""
Case = tuple[Op, tuple[Dims, ...]]

ACTIVATIONS: list[Op] = [
    *(Relu(), Relu6(), LeakyRelu(), LeakyRelu(0.2), Elu(), Gelu(), Gelu(True), Silu(), Mish(), HardSwish()),
    *(HardSigmoid(), Sigmoid(), Tanh(), Exp(), Softmax(), Softmax(0), Identity(), Zero(), Scale(2.0), Shift(-1.0)),
    *(Softplus(), Clamp(-0.5, 0.5), Clamp(low=0.0), Clamp(high=1.0)),
]
CONVOLUTIONS: list[Op] = [
    *(Conv(16), Conv(16, 1), Conv(16, 3, 2), Conv(16, 4, 2), Conv(16, 2, padding="valid", bias=True)),
    *(Conv(16, (3, 1), (2, 1)), Conv(16, (1, 4), padding=(0, 2), bias=True), Conv(16, 3, 2, (1, 0, 0, 2), (1, 2))),
    *(Conv(8, (5, 3), groups=8, padding="valid"), Conv(8, (3, 3), (2, 2), (1, 1), (1, 1), 8)),
    *(Conv(16, 3, padding=3), Conv(16, 3, dilation=2, groups=4), Conv(8, 5, groups=8, bias=True), Conv(4, 7, 3)),
]
CASES: list[Case] = [
    *((op, (dims,)) for op in ACTIVATIONS for dims in (MAP, VECTOR)),
    *((op, (MAP, MAP)) for op in (Add(), Sub(), Mul(), Minimum(), Maximum())),
    *((op, (MAP, (8, 1, 1))) for op in (Add(), Sub(), Mul())),
    *((op, ((1, 8), TOKENS)) for op in (Add(), Sub(), Mul(), Minimum(), Maximum())),
    (Div(), (MAP, (8, 1, 1))),
    *((op, (dims,)) for op in (Log(), Sqrt(), Abs(), Sin(), Cos()) for dims in (MAP, VECTOR)),
    *((Power(exponent), (MAP,)) for exponent in (2.0, -1.0, 0.5, 3)),
    *((Cumsum(axis), (MAP,)) for axis in (-1, 0, 2)),
    *((Prelu(shared), (dims,)) for shared in (False, True) for dims in (MAP, TOKENS, VECTOR, VOLUME)),
    *((LogSoftmax(axis), (MAP,)) for axis in (-1, 0, 1)),
    *((kind(), (MAP, (8, 1, 1))) for kind in (Greater, Less)),
    *((kind(than=0.5), (TOKENS,)) for kind in (Greater, Less)),
    *((Where(), (MAP, *pair)) for pair in ((MAP, MAP), (MAP, (8, 1, 1)), ((1, 6, 5), (8, 1, 1)))),
    (Concat(), (MAP, (3, 6, 5), MAP)),
    (Concat(), (TOKENS, (12, 3))),
    (Concat(0), (TOKENS, (1, 8))),
    (Concat(-1), (MAP, (8, 6, 2))),
    (Concat(-3), (MAP, MAP)),
    *((Concat(axis), (VECTOR,)) for axis in (None, 0)),
    (Matmul(), (TOKENS, (8, 5))),
    (Matmul(True), (TOKENS, (5, 8))),
    (Matmul(), ((3, 4, 8), (3, 8, 5))),
    (Matmul(True), ((2, 3, 4, 8), (2, 3, 5, 8))),
    *((Attention(heads), (TOKENS, TOKENS, TOKENS)) for heads in (1, 2)),
    (Attention(2, 1.0), (TOKENS, (7, 8), (7, 6))),
    *((Attention(heads), (MAP, MAP, MAP)) for heads in (1, 4)),
    (Attention(2, 0.5), (MAP, (8, 3, 2), (12, 3, 2))),
    (Attention(2, causal=True), (TOKENS, TOKENS, TOKENS)),
    (Attention(2, window=3), (TOKENS, TOKENS, (12, 6))),
    (Attention(4, causal=True, window=5, kv_heads=2), (TOKENS, (12, 4), (12, 6))),
    (Attention(4, kv_heads=1), (TOKENS, (7, 2), (7, 3))),
    (Attention(2), (TOKENS, (7, 8), (7, 8), (12, 7))),
    (Attention(2, causal=True), (TOKENS, TOKENS, TOKENS, (2, 12, 12))),
    *((Attention(4, 1.0), (TOKENS, (7, 8), (7, 4), mask)) for mask in ((1, 7), (12, 1), (4, 1, 7))),
    (Attention(4, causal=True, kv_heads=2), (MAP, (4, 6, 5), (8, 6, 5))),
    (Attention(2, window=4), (MAP, MAP, MAP, (1, 30))),
    *((Attention(heads, along=axis), (MAP, MAP, MAP)) for axis, heads in (("height", 1), ("width", 4))),
    (Attention(2, 0.5, along="width"), (MAP, (8, 6, 3), (12, 6, 3))),
    (Attention(4, causal=True, window=2, kv_heads=2, along="height"), (MAP, (4, 6, 5), (8, 6, 5))),
    *((Attention(2, along="width"), (MAP, MAP, MAP, mask)) for mask in ((2, 5, 5), (5, 1))),
    *(
        (Attention(2, causal=True, along=axis), (VOLUME, VOLUME, (12, 4, 6, 5)))
        for axis in ("depth", "height", "width")
    ),
    (LocalAttention(3), (MAP, MAP, MAP)),
    (LocalAttention(5, 2, False, 0.5), (MAP, MAP, MAP)),
    (LocalAttention(3, 4), (MAP, MAP, (12, 6, 5))),
    (LocalAttention(7, 2), (MAP, MAP, MAP)),
    (LocalAttention(5, 2, shared=True), (MAP, MAP, (12, 6, 5))),
    (LocalAttention(3, 8, shared=True), (MAP, MAP, MAP)),
    (Attention(2, dropout=0.4), (TOKENS, TOKENS, TOKENS)),
    (LocalAttention(3, 2, dropout=0.4), (MAP, MAP, MAP)),
    (AxialAttention("height", 2, dropout=0.4), (MAP, MAP, MAP)),
    *((AxialAttention(axis, heads), (MAP, MAP, (12, 6, 5))) for axis in ("height", "width") for heads in (1, 4)),
    *((AxialAttention(axis, 2, False, 0.5), (MAP, MAP, MAP)) for axis in ("height", "width")),
    *((op, (TOKENS,)) for op in (Rotary(), Rotary(2), Rotary(4, 100.0), Rotary(2, width=2))),
    *((op, (MAP,)) for op in CONVOLUTIONS),
    *((op, (VOLUME,)) for op in (Conv3d(4), Conv3d(16, (1, 3, 2), (1, 2, 1), groups=4, bias=True))),
    (Conv3d(8, 3, 2, (1, 0, 0, 2, 1, 1), groups=8), (VOLUME,)),
    *((ConvTranspose(16, kernel, 2), (MAP,)) for kernel in (1, 2, 3, 4)),
    (ConvTranspose(12, (3, 5), (1, 3), bias=True, groups=4), (MAP,)),
    (ConvTranspose(8, 3, (2, 3), (1, 0), (0, 2), 2, groups=8), (MAP,)),
    (ConvTranspose(4, 2, padding="valid"), (MAP,)),
    *((DynamicConv(), (MAP, (8, k, k))) for k in (1, 3, 5)),
    (AsGate(), (MAP,)),
    (AsKernel(), ((8, 3, 3),)),
    *((op, (TOKENS,)) for op in (Conv1d(16), Conv1d(16, 4, bias=True), Conv1d(8, 3, "valid", 8), Conv1d(8, 3, 2))),
    *((Conv1d(8, 3, padding, 4, stride=2, dilation=2), (TOKENS,)) for padding in ("same", "valid", (3, 0))),
    *((op, (dims,)) for op in (Linear(5), Linear(5, bias=False)) for dims in (TOKENS, VECTOR)),
    *((op, (dims,)) for op in (BatchNorm(), BatchNorm(False, 1e-3, 0.3)) for dims in (MAP, TOKENS, VECTOR, VOLUME)),
    *((op, (dims,)) for op in (LayerNorm(), LayerNorm(False), RmsNorm(), RmsNorm(False)) for dims in (TOKENS, VECTOR)),
    *((op, (dims,)) for op in (LayerNorm(), RmsNorm(False)) for dims in (MAP, VOLUME)),
    (GroupNorm(2), (VOLUME,)),
    *((op, (VOLUME,)) for op in (Relu(), HardSwish(), Softmax(), Zero(), Dropout(), Upsample(2))),
    *((op, (VOLUME, VOLUME)) for op in (Add(), Concat())),
    *((op, (dims,)) for op in (InstanceNorm(), InstanceNorm(False)) for dims in (MAP, TOKENS, VOLUME)),
    *((Normalize(), (dims,)) for dims in (MAP, TOKENS, VECTOR)),
    *((Normalize(axis, 0.5), (MAP,)) for axis in (1, -1)),
    *((op, (MAP,)) for op in (GroupNorm(4), GroupNorm(8, False), GroupNorm(1))),
    *((op, (MAP,)) for op in (MaxPool(3), MaxPool(2), MaxPool(3, 2), MaxPool(2, 2, "valid"), MaxPool(3, 2, 1))),
    *((AvgPool(3, stride, count_padding=counts), (MAP,)) for stride in (1, 2) for counts in (False, True)),
    *((AvgPool(2, stride, count_padding=counts), (MAP,)) for stride in (1, 2) for counts in (False, True)),
    (AvgPool(2, 2, "valid"), (MAP,)),
    *(
        (kind((3, 2), (1, 2), padding), (MAP,))
        for kind in (MaxPool, AvgPool)
        for padding in ("same", (1, 0), (1, 0, 0, 1))
    ),
    (AvgPool((2, 3), 1, (1, 0), True), (MAP,)),
    *(
        (op, (TOKENS,))
        for kind in (MaxPool1d, AvgPool1d)
        for op in (kind(3), kind(2, 2, "valid"), kind(4, 2), kind(4, 3, (0, 2)))
    ),
    *((AvgPool1d(4, 2, padding, True), (TOKENS,)) for padding in ("same", 2)),
    *((op, (VOLUME,)) for kind in (MaxPool3d, AvgPool3d) for op in (kind(2, 2, "valid"), kind((1, 3, 2), (1, 2, 1)))),
    *((AvgPool3d(3, counts, 1, bool(counts - 1)), (VOLUME,)) for counts in (1, 2)),
    *((AvgPool3d(3, count_padding=counts), ((8, 4, 2, 1),)) for counts in (False, True)),
    *((op, (dims,)) for op in (GlobalAvgPool(), GlobalMaxPool()) for dims in (MAP, TOKENS, VOLUME)),
    *((op, (dims,)) for op in (GlobalAvgPool(True), GlobalMaxPool(True)) for dims in (MAP, VOLUME)),
    *((kind(axis), (MAP,)) for kind in (MeanOver, SumOver, MaxOver) for axis in (0, 1, 2, -1)),
    *((kind(0), (dims,)) for kind in (MeanOver, SumOver, MaxOver) for dims in (TOKENS, VECTOR)),
    *((op, (dims,)) for op in (Dropout(), Dropout(0.0), DropPath(0.5), DropPath(0.0)) for dims in (MAP, VECTOR)),
    *((op, (MAP,)) for op in (Reshape((8, 30)), Reshape((-1,)), Reshape((2, -1, 5)))),
    *((op, (MAP,)) for op in (Transpose(), Transpose((2, 0, 1)))),
    (Transpose((1, 0)), (TOKENS,)),
    *((op, (MAP,)) for op in (Slice(2, 6), Slice(1, None, 2), Slice(-3, -1, -2), Slice(0, 1, -3))),
    (Slice(stop=3), (TOKENS,)),
    (Slice(stop=3, axis=0), (TOKENS,)),
    *((FirstTokens(), pair) for pair in ((TOKENS, (5, 3)), ((9,), (7, 2)), (TOKENS, TOKENS))),
    *((op, (MAP,)) for op in (Pad(1), Pad(0), Pad((1, 0, 2, 3)))),
    *((op, (VOLUME,)) for op in (Pad(1), Pad((1, 0, 2, 3, 0, 4)))),
    (ToTokens(), (MAP,)),
    (ToMap(3), (TOKENS,)),
    (ToMap(), ((9, 8),)),
    *((Flatten(), (dims,)) for dims in (MAP, VECTOR, ())),
    (ChannelShuffle(4), (MAP,)),
    *((Upsample(factor), (MAP,)) for factor in (1, 3)),
    *((OneHot(5), (dims,)) for dims in ((), (7,))),
    *((Equal(1), (dims,)) for dims in ((7,), (2, 7))),
    *((ToNumbers(), (dims,)) for dims in ((7,), MAP)),
    *((Embedding(11, 6), (dims,)) for dims in ((), (7,))),
    *((Gather(), (dims, positions)) for dims in (TOKENS, VECTOR) for positions in ((), (5,))),
    *((Resize(size, mode=mode), (MAP,)) for size in (4, (9, 15)) for mode in MODES),
    *((Resize(factor=factor, mode=mode), (MAP,)) for factor in (2, 0.5, 1 / 3, 1.7) for mode in MODES),
    *((Resize((7, 3), None, mode, True), (MAP,)) for mode in MODES[1:]),
    *((Resize(size, None, "bilinear", antialias=True), (MAP,)) for size in ((3, 13), 5, (2, 1), (1, 1))),
    (Resize(factor=0.6, mode="bilinear", antialias=True), (MAP,)),
    *((Resize((3, 9, 7), mode=mode), (VOLUME,)) for mode in MODES[:2]),
    *((Resize(factor=factor, mode=mode), (VOLUME,)) for factor in (2, 0.5) for mode in MODES[:2]),
    (Resize(5, None, "bilinear", True), (VOLUME,)),
    *((kind(size), (MAP,)) for kind in (AdaptiveAvgPool, AdaptiveMaxPool) for size in (1, (3, 5), 4, (2, 3))),
    *((PixelShuffle(factor), ((36, 3, 2),)) for factor in (1, 2, 3)),
    *((PixelUnshuffle(factor), ((3, 6, 12),)) for factor in (1, 2, 3)),
    *((op, (TOKENS,)) for op in (Sinusoidal(), Sinusoidal(100.0), Positions(), Constant((3, 1, 4)))),
    (Constant((0.5, -1, 2.25), "f32"), (TOKENS,)),
    (Constant((True, False), "bool"), (TOKENS,)),
    (Sinusoidal(), ((6, 7),)),
    *((kind(k), (dims,)) for kind in (TopK, TopPositions) for k, dims in ((1, VECTOR), (3, TOKENS), (5, MAP))),
    *((ExpertLinear(5, 6, bias), (rows, (4, 3))) for bias in (True, False) for rows in ((4, 8), (12, 8))),
    (ExpertLinear(1, 3), (TOKENS, (12, 1))),
    (CombineExperts(), (TOKENS, (4, 3))),
    (Parameter((4, 8)), ()),
    (Parameter((1,), "ones"), ()),
    (Parameter((2, 3), trained=False), ()),
]


def name_of(case: Case) -> str:
    op, dims = case
    return (
        f"{op.name}-{'-'.join(str(value) for value in op.attributes().values())}-{'x'.join(str(len(d)) for d in dims)}"
    )


def graph_of(op: Op, dims: tuple[Dims, ...]) -> Graph:
    """Return the graph of one operation on inputs. There is an input even if it reads none, for the number of
    samples."""
    graph = Graph("one")
    elements = ELEMENTS.get(type(op), ("f32",) * len(dims))
    inputs = [Input(f"x{i}", *kind) for i, kind in enumerate(zip(dims, elements, strict=True))]
    operands = [graph.add(Node(op_input)) for op_input in inputs]
    kinds = KINDS.get(type(op), ())
    operands = [graph.add(Node(kind()), x) for kind, x in zip(kinds, operands, strict=False)] or operands
    graph.outputs["y"] = graph.add(Node(op, scope="block[0].op"), *operands)
    if not dims:
        x = graph.add(Node(Input("x", VECTOR)))
        graph.outputs["x"] = x
    return graph
