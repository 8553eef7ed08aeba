"""Operations reject invalid arguments at their place in the program, not later in a backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import archir
from archir.diagnostics.errors import ArchError, RuleError
from archir.ir.typing import infer
from tests.op_cases import CASES, Dims, graph_of


def net(body: str, takes: str = "f32[8, 8]") -> archir.Space:
    return archir.loads(f"net n {{\n input x: {takes}\n {body}\n}}\n")


@pytest.mark.parametrize(
    ("takes", "body", "said"),
    [
        ("f32[8, 8]", "output y = positions(x) |> embedding(3, 4)", "7 is looked up, and there are 3: from 0 to 2"),
        ("f32[8, 8]", "output y = gather(x, constant(x, [-1]))", "-1 is looked up, and indices start at 0"),
        ("f32[8, 8]", "output y = gather(x, constant(x, [0, 8]))", "8 is looked up, and there are 8: from 0 to 7"),
        ("f32[8, 8]", "output y = constant(x, [-1]) |> one_hot(3)", "-1 is looked up"),
        ("f32[8, 8]", "output y = positions(x) |> embedding(choose size(6, 8), 4)", "when size = 6"),
        (
            "f32[8, 8]",
            "k = choose k(3, 9)\n output y = constant(x, [k]) |> embedding(choose size(6, 8), 4)",
            "9 is looked up, and there are 6",
        ),
        ("f32[4, 1, 1]", "output y = x |> instance_norm", "one position in a channel"),
        ("f32[1, 4]", "output y = x |> instance_norm", "one position in a channel"),
        ("f32[4, 1, 1]", "output y = x |> group_norm(4)", "one number in a group"),
        ("f32[4, 3, 3]", "output y = x |> group_norm(4, eps=0)", "`eps` must be above 0"),
        ("f32[8, 8]", "output y = x |> normalize(eps=-1)", "`eps` must be above 0"),
        ("f32[8, 8]", "output y = x |> clamp(low=-1e300)", "`low` is -1e+300, beyond the range of 32-bit floats"),
        ("f32[4, 5, 5]", "output y = x |> conv_transpose(4, kernel=2, stride=1, dilation=3)", "below 1, the stride"),
        ("f32[8, 8]", "output y = attention(x, x, x, heads=2, kv_heads=0)", "`kv_heads` must be at least 1"),
        (
            "f32[8, 8]",
            "output y = attention(x, x, x, heads=4, kv_heads=3)",
            "do not split into 3 kv_heads",
        ),
        ("f32[8, 8]", "output y = x |> clamp", "give `low`, `high` or both"),
        *(
            ("f32[8, 8]", f"output y = x |> {op}(rate={rate})", f"at least 0 and below 1, got {rate}")
            for op in ("dropout", "drop_path")
            for rate in (-0.5, 1.0, 1.5)
        ),
        ("f32[8, 8]", "output y = x |> layer_norm(eps=0)", "`eps` must be above 0"),
        ("f32[4, 5, 5]", "output y = x |> resize(factor=0)", "`factor` must be above 0, got 0"),
        ("f32[8, 8]", "output y = x |> max_pool(2)", "expected a map [C, H, W], got f32[8, 8]"),
        ("f32[4, 5, 5]", "output y = x |> channel_shuffle(0)", "4 channels do not split into 0 groups"),
        ("f32[8, 8]", "output y = x |> embedding(8, 4)", "expected integers, i64[N] or i64[], got f32[8, 8]"),
        ("i64[8]", "output y = x |> embedding(0, 4)", "`vocabulary` must be at least 1, got 0"),
        ("i64[8]", "output y = x |> one_hot(0)", "`classes` must be at least 1, got 0"),
        ("f32[8, 4]", "output y = x |> top_k(5)", "there are no 5 largest of 4 numbers"),
        ("f32[8]", "output y = x |> top_k(0)", "there are no 0 largest of 8 numbers"),
        ("f32[]", "output y = x |> top_k(1)", "expected an axis of numbers to choose from, got f32[]"),
        ("f32[8]", "output y = x |> positions(padding=0)", "`padding` needs integers i64[N]"),
        ("f32[8]", "output y = x |> constant([0.5])", 'write `dtype="f32"`'),
        ("f32[8]", "output y = x |> constant([true])", 'write `dtype="bool"`'),
        (
            "f32[4, 5, 5]",
            "output y = x |> global_avg_pool |> reshape([4, 1, 1]) |> calibrate(x |> as_gate)",
            "the gate gate f32[4, 5, 5] does not fit f32[4, 1, 1]",
        ),
    ],
)
def test_rejects_invalid_arguments_at_their_place(takes: str, body: str, said: str) -> None:
    with pytest.raises(ArchError) as caught:
        net(body, takes)
    assert said in str(caught.value)
    assert caught.value.diagnostics[0].span is not None


@pytest.mark.parametrize(
    "body",
    [
        "output y = positions(x) |> embedding(8, 4)",
        "k = choose k(3, 9)\n require k < 5\n output y = constant(x, [k]) |> embedding(choose size(6, 8), 4)",
        "k = choose k(3, 7)\n output y = constant(x, [k]) |> embedding(k + 1, 4)",
        "output y = gather(positions(x), constant(x, [0, 2])) |> embedding(3, 4)",
        "output y = x |> reshape([1, 64])",
        "output y = positions(x) |> embedding(8, 1) |> reshape([8]) |> top_positions(1) |> one_hot(8)",
        "output y = constant(x, [0]) |> one_hot(1)",
        "output y = x |> slice(stop=2, axis=0) |> top_k(3) |> reshape([6])",
    ],
)
def test_accepts_arguments_valid_for_every_architecture(body: str) -> None:
    assert net(body).graph


AXES = {type(op): (op, dims) for op, dims in CASES if type(getattr(op, "axis", None)) is int}


@pytest.mark.parametrize(("op", "dims"), AXES.values(), ids=lambda value: getattr(value, "name", ""))
def test_axis_must_lie_within_operand_rank(op: Any, dims: tuple[Dims, ...]) -> None:
    """Counted from the first or from the last one, which gives the same type."""
    rank, found = len(dims[0]), {}
    for axis in range(-rank - 2, rank + 2):
        graph = graph_of(replace(op, axis=axis), tuple(dims[0] for _ in dims))
        try:
            found[axis] = infer(graph)[graph.outputs["y"]]
        except RuleError:
            assert not -rank <= axis < rank
    assert sorted(found) == list(range(-rank, rank))
    assert all(found[axis] == found[axis - rank] for axis in range(rank))


@pytest.mark.parametrize("kind", ["i64", "i32"])
def test_one_hot_of_out_of_range_integer_is_zero(kind: str, tmp_path: Path) -> None:
    graph = net("output y = x |> one_hot(4)", f"{kind}[5]").graph
    archir.export(graph, tmp_path / "n.onnx", archir.compile(graph))
    given = np.array([[-1, 0, 3, 4, -4]], np.int64 if kind == "i64" else np.int32)
    (found,) = onnxruntime.InferenceSession(tmp_path / "n.onnx").run(None, {"x": given})
    assert np.array_equal(found, archir.compile(graph)(torch.from_numpy(given)).numpy())
    assert found.sum(2).tolist() == [[0, 1, 1, 0, 0]]


@pytest.mark.parametrize("parts", [[600, 1], [601, 2], [2, 600]])
def test_adaptive_pool_of_long_axis_exports_small_file(parts: list[int], tmp_path: Path) -> None:
    size = [1200, 5] if parts[0] > parts[1] else [5, 1201]
    graph = net(f"output y = x |> adaptive_avg_pool({parts})", f"f32[2, {size[0]}, {size[1]}]").graph
    archir.export(graph, tmp_path / "n.onnx", archir.compile(graph))
    assert (tmp_path / "n.onnx").stat().st_size < 200_000
    given = torch.randn(1, 2, *size, generator=torch.Generator().manual_seed(0))
    (found,) = onnxruntime.InferenceSession(tmp_path / "n.onnx").run(None, {"x": given.numpy()})
    assert np.allclose(found, F.adaptive_avg_pool2d(given, parts), atol=1e-5)
