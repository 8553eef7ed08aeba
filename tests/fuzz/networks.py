"""Fuzzing of imported ONNX models: from archir, in ONNX's text format, and from torch's exporters, with exchanged
parts."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
import torch
from google.protobuf.message import Message
from onnx import parser
from torch import nn

from archir.api import importing, loading, lowering
from archir.diagnostics.errors import ArchError
from tests.fuzz.files import fields
from tests.fuzz.harness import Case, Maker
from tests.fuzz.registry import kind

NETWORK = """
import std.experts
net n {
    input ids: i64[4]
    input image: f32[3, 8, 8]
    x = image |> conv(4, kernel=3) |> batch_norm |> silu |> max_pool(2, stride=2)
    y = x * parameter([1, 1, 1]) |> hard_swish |> avg_pool(kernel=2, stride=2) |> to_tokens
    z = (ids |> embedding(5, 4)) + y |> layer_norm
    z = attention(z, z, z, heads=2, causal=true) |> rms_norm |> rotary(heads=2) |> gelu
    output one = z |> mixture_of_experts(2, k=1, ratio=1)
    output two = x |> group_norm(2) |> global_avg_pool |> linear(3)
}
"""
TEXTS = ["""
windows (float[N, 4, 8, 8] x) => (float[N, K] y)
<int64[2] st = {0, 0}, int64[2] en = {8, 8}, int64[2] ax = {2, 3}, int64[2] one = {1, 1}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1},
 float zero = {0}, float six = {6}, int64[2] halves = {4, 4}, float[4] sc = {1, 1, 2, 2}, int64[2] flat = {0, -1},
 float[4, 1, 1] slope = {0.1, 0.2, 0.3, 0.4}> {
    a = Slice (x, st, en, ax, one)
    b = Pad <mode = "constant"> (a, p, zero)
    c = MaxPool <kernel_shape = [3, 3], strides = [1, 1]> (b)
    d = Concat <axis = 1> (c, x)
    e, f = Split <axis = 1> (d, halves)
    g = Add (e, f)
    h = Clip (g, zero, six)
    i = PRelu (h, slope)
    j = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (i, "", sc)
    k = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (j)
    l = Softmax <axis = 1> (k)
    y = Reshape (l, flat)
}""", """
shapes (float[N, 3, 4] x, int64[N, 3] ids) => (float[N, K] y, int64[N] most)
<float[3, 4] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, int64[1] last = {-1}, int64 axis = {0}, int64[1] k = {0}, int64[1] two = {2},
 float deux = {2}, float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}, float[4] v = {1, 2, 3, 4}> {
    s = Shape (x)
    n = Gather <axis = 0> (s, axis)
    first = Unsqueeze (n, k)
    wanted = Concat <axis = 0> (first, last)
    t = Gather <axis = 0> (table, ids)
    u = Add (x, t)
    m = MatMul (u, w)
    q = Transpose <perm = [0, 2, 1]> (m)
    r = Einsum <equation = "bij,bjk->bik"> (q, u)
    norm = LayerNormalization <axis = -1, epsilon = 0.00001> (r, v, v)
    mean = ReduceMean <keepdims = 0> (norm, last)
    square = Pow (mean, deux)
    half = Div (square, deux)
    gate = Sigmoid (half)
    silu = Mul (half, gate)
    top, place = TopK <axis = -1> (silu, two)
    z = Gemm <transB = 1, alpha = 0.5> (silu, w, v)
    most = ArgMax <axis = 1, keepdims = 0> (z)
    y = Reshape (z, wanted)
}""", """
steps (float[N, 5, 4] x) => (float[N, 5, 3] y)
<float[1, 12, 4] w, float[1, 12, 3] r, float[1, 24] b, int64[1] one = {1}, int64[1] shape = {3}, float[3] s = {1, 2, 3},
 float eps = {0.00001}, float two = {2}, int64[1] last = {-1}> {
    t = Transpose <perm = [1, 0, 2]> (x)
    o, h, c = LSTM <hidden_size = 3> (t, w, r, b)
    q = Squeeze (o, one)
    u = Transpose <perm = [1, 0, 2]> (q)
    mean = ReduceMean <keepdims = 1> (u, last)
    d = Sub (u, mean)
    p = Pow (d, two)
    variance = ReduceMean <keepdims = 1> (p, last)
    e = Add (variance, eps)
    f = Sqrt (e)
    g = Div (d, f)
    i = Mul (g, s)
    j = Add (i, s)
    z = ConstantOfShape <value = float[1] {0}> (shape)
    mask = Greater (j, eps)
    k = CumSum (j, one)
    l = Where (mask, k, z)
    a = Exp (l)
    y = Sum (a, j, k)
}"""]  # fmt: skip
LISTED = {"NodeProto": 8, "AttributeProto": 4, "TensorProto": 2}
"""How much more often than others messages of a type are changed."""


def _base(folder: Path) -> list[onnx.ModelProto]:
    space = loading.loads(NETWORK)
    lowering.export(space, folder / "m.onnx", lowering.compile(space), deployed=False)
    models = [onnx.load(folder / "m.onnx")]
    for text in TEXTS:
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]>{text}')
        initialized = {value.name for value in model.graph.initializer}
        for value in [*model.graph.value_info]:  # weights without values
            if value.name not in initialized:
                dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                model.graph.initializer.append(onnx.numpy_helper.from_array(torch.randn(dims).numpy(), value.name))
        models.append(model)
    return models


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(x).mean(1)
        return output


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.steps(x)[0][:, -1]
        return output


def _exported(folder: Path) -> Iterator[onnx.ModelProto]:
    """Yield models from both of torch's exporters."""
    maps = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4), nn.GELU(),
        nn.Hardswish(), nn.Conv2d(4, 4, 3, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3), nn.Softmax(-1))
    modules = {Encoder(): (5, 4), Steps(): (5, 4), maps: (3, 8, 8), mlp: (3, 4)}
    for module, shape in modules.items():
        for dynamo in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                axes: dict[str, Any] = {"dynamic_axes": {"x": {0: "n"}}, "input_names": ["x"]}
                axes = {"dynamic_shapes": ({0: torch.export.Dim("n")},), "verbose": False} if dynamo else axes
                torch.onnx.export(module.eval(), (torch.randn(2, *shape),), folder / "t.onnx", dynamo=dynamo, **axes)
            yield onnx.load(folder / "t.onnx")


@kind
def imports(folder: Path) -> Maker:
    """Models from archir and in text."""
    return _imports(folder, _base(folder))


@kind
def torch_imports(folder: Path) -> Maker:
    """Models from torch's exporters, which are slow to write."""
    return _imports(folder, [*_exported(folder)])


def _imports(folder: Path, models: Sequence[onnx.ModelProto]) -> Maker:
    donors = _messages(*models)
    onnx.save(min(models, key=lambda model: len(model.graph.node)), folder / "d.onnx")
    with suppress(ArchError):  # the first import loads much of torch, which must not count as time of a case
        importing.from_onnx(folder / "d.onnx")

    def make(rng: random.Random) -> Case:
        (model,) = rng.choices(models, [1 / len(each.graph.node) for each in models])  # small models are fast
        data = fields(model, rng) if rng.random() < 0.2 else _exchanged(model, donors, rng)
        partial = rng.random() < 0.2

        def take() -> None:
            (folder / "d.onnx").write_bytes(data)
            importing.from_onnx(folder / "d.onnx", partial=partial)

        return data, take

    return make


def _messages(*roots: Message) -> dict[str, list[Any]]:
    """Return all messages inside of some messages, by type."""
    by_type: dict[str, list[Any]] = {}
    pending: list[Any] = [*roots]
    while pending:
        message = pending.pop()
        by_type.setdefault(message.DESCRIPTOR.name, []).append(message)
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending += value if hasattr(value, "append") else [value]
    return by_type


def _exchanged(model: onnx.ModelProto, donors: dict[str, list[Any]], rng: random.Random) -> bytes:
    """Return a model with a few parts dropped, doubled, swapped, or replaced by such parts of other models."""
    changed = deepcopy(model)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        own = _messages(changed)
        (kind_of,) = rng.choices([*own], [LISTED.get(name, 1) for name in own])
        message, donor = rng.choice(own[kind_of]), rng.choice(donors[kind_of])
        fields = {field.name for field, _ in (*message.ListFields(), *donor.ListFields())} - {"doc_string"}
        if fields:
            _exchange(message, donor, rng.choice(sorted(fields)), rng)
    return bytes(changed.SerializeToString())


def _exchange(message: Any, donor: Any, name: str, rng: random.Random) -> None:
    value, other = getattr(message, name), getattr(donor, name)
    if not hasattr(value, "append"):
        message.ClearField(name)
        if rng.random() < 0.8 and donor.HasField(name):
            copied = type(message)()
            copied.CopyFrom(donor)
            for field, _ in copied.ListFields():
                if field.name != name:
                    copied.ClearField(field.name)
            message.MergeFrom(copied)
        return
    items = deepcopy([*value])
    at = rng.randrange(len(items) + 1)
    match rng.randrange(4):
        case 0:
            del items[at : at + 1]
        case 1:
            items[at:at] = deepcopy(items[at : at + 1])
        case 2 if items:
            there = rng.randrange(len(items))
            at = min(at, len(items) - 1)
            items[at], items[there] = items[there], items[at]
        case _:
            items[at : at + rng.randrange(2)] = deepcopy(rng.choices([*other], k=1)) if other else []
    message.ClearField(name)
    getattr(message, name).extend(items)
