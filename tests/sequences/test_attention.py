"""Attention that hides positions, adds to its logits, or shares heads of keys and values."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor

import archir
from archir.ir.types import TensorType
from archir.ops.attention import Attention
from archir_onnx.lowering.export_options import ATTENTIONS
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit
from tests.sequences.laws import assert_deploys, assert_shared

N = 10


def attended(call: str, *inputs: Tensor, more: str = "") -> Tensor:
    kind = f"f32[{', '.join(map(str, inputs[0].shape[1:]))}]"
    lines = [*(f"input {name}: {kind}" for name in "qkv"), more, f"output y = {call}"]
    text = "\n".join(["net n {", *lines, "}"])
    found: Tensor = TORCH.lower(archir.loads(text).graph)(*inputs)
    return found


def by_hand(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    """One head, position by position."""
    rows = []
    for i in range(N):
        seen = [j for j in range(N) if not hidden[i, j]]
        logits = torch.stack([(q[:, i] * k[:, j]).sum(1) * q.shape[2] ** -0.5 for j in seen], 1)
        rows.append((logits.softmax(1).unsqueeze(2) * v[:, seen]).sum(1))
    return torch.stack(rows, 1)


@pytest.mark.parametrize(
    ("options", "sees"),
    [
        ("causal=true", lambda i, j: j <= i),
        ("window=3", lambda i, j: abs(i - j) < 3),
        ("causal=true, window=3", lambda i, j: i - 3 < j <= i),
        ("window=1", lambda i, j: i == j),
        ("causal=true, window=40", lambda i, j: j <= i),
    ],
)
def test_causal_and_window_masks_equal_manual_attention(options: str, sees: object) -> None:
    q, k, v = torch.randn(3, 2, N, 4).unbind()
    hidden = torch.tensor([[not sees(i, j) for j in range(N)] for i in range(N)])  # type: ignore[operator]
    torch.testing.assert_close(attended(f"attention(q, k, v, {options})", q, k, v), by_hand(q, k, v, hidden))
    maps = [x.transpose(1, 2).unflatten(2, (2, 5)) for x in (q, k, v)]
    found = attended(f"attention(q, k, v, {options})", *maps)
    torch.testing.assert_close(found.flatten(2).transpose(1, 2), by_hand(q, k, v, hidden))


def test_boolean_mask_excludes_keys() -> None:
    q, k, v = torch.randn(3, 2, N, 4).unbind()
    keep = torch.arange(N) < torch.tensor([[N], [3]])
    found = attended("attention(q, k, v, mask=keep)", q, k, v, keep[:, None], more=f"input keep: bool[1, {N}]")
    for sample in range(2):
        count = int(keep[sample].sum())
        wanted = by_hand(q, k, v, torch.arange(N).expand(N, N) >= count)
        torch.testing.assert_close(found[sample], wanted[sample])
    nothing = torch.zeros(2, 1, N, dtype=torch.bool)
    found = attended("attention(q, k, v, mask=keep)", q, k, v, nothing, more=f"input keep: bool[1, {N}]")
    torch.testing.assert_close(found, v.mean(1, keepdim=True).expand_as(v))


def test_bias_is_added_to_attention_logits() -> None:
    q, k, v = torch.randn(3, 2, N, 4).unbind()
    bias = torch.randn(2, 2, N, N)
    found = attended("attention(q, k, v, bias, heads=2)", q, k, v, bias, more=f"input bias: f32[2, {N}, {N}]")
    for head in range(2):
        a, b, c = (x[..., 2 * head : 2 * head + 2] for x in (q, k, v))
        weights = (a @ b.transpose(1, 2) * 2**-0.5 + bias[:, head]).softmax(2)
        torch.testing.assert_close(found[..., 2 * head : 2 * head + 2], weights @ c)


def test_grouped_query_attention_shares_key_value_heads() -> None:
    """Four heads read two: the first two the first one (Ainslie et al. 2023)."""
    text = f"""
    net n {{
        input q: f32[{N}, 8]
        input k: f32[{N}, 4]
        input v: f32[{N}, 6]
        output y = attention(q, k, v, heads=4, kv_heads=2)
    }}
    """
    graph = archir.loads(text).graph
    q, k, v = (torch.randn(2, N, width) for width in (8, 4, 6))
    found = TORCH.lower(graph)(q, k, v)
    assert found.shape == (2, N, 12)
    for head in range(4):
        shared = head // 2
        logits = q[..., 2 * head : 2 * head + 2] @ k[..., 2 * shared : 2 * shared + 2].transpose(1, 2) * 2**-0.5
        wanted = logits.softmax(2) @ v[..., 3 * shared : 3 * shared + 3]
        torch.testing.assert_close(found[..., 3 * head : 3 * head + 3], wanted)
    assert archir.cost(graph).macs == N * N * (8 + 12)


LLAMA = """
net language(context = 10, vocabulary = 30) {
    input tokens: i64[context]
    input keep: bool[1, context]
    x = tokens |> embedding(vocabulary, choose width(16, 24))
    heads = choose heads(2, 4)
    groups = choose groups(1, 2)
    q = x |> linear(8 * heads, bias=false) |> rotary(heads)
    k = x |> linear(8 * groups, bias=false) |> rotary(groups)
    v = x |> linear(8 * groups, bias=false)
    y = attention(q, k, v, keep, heads=heads, causal=true, kv_heads=groups, window=choose window(3, 10))
    x = x + (y |> linear(x.features))
    z = x |> conv1d(x.features, kernel=1)
    x = x + attention(z, z, z, parameter([1, context, context]), heads=heads)
    output logits = x |> rms_norm |> linear(vocabulary)
}
"""


def test_llama_supernet_equals_subnetworks_and_deploys(tmp_path: Path) -> None:
    space = archir.loads(LLAMA)
    assert_shared(space, 6)
    assert_deploys(space.specialize(space.sample(random.Random(1))), tmp_path)


@pytest.mark.parametrize("form", ATTENTIONS)
@pytest.mark.parametrize("opset", [17, 26])
def test_llama_exports_in_every_attention_form_and_precision(form: str, opset: int, tmp_path: Path) -> None:
    if form == "standard" and opset < 23:
        pytest.skip("there is no operator")
    space = archir.loads(LLAMA)
    graph = space.specialize(space.sample(random.Random(0)))
    module = TORCH.lower(graph)
    for precision, most in (("float32", 1e-5), ("float16", 1e-2)):
        path = tmp_path / f"{precision}.onnx"
        report = archir.export(graph, path, module, attention=form, opset=opset, precision=precision)
        assert report.relative < most


def test_standard_onnx_attention_is_causal_without_mask(tmp_path: Path) -> None:
    graph = archir.loads("net n {\n input x: f32[9, 8]\n output y = attention(x, x, x, heads=4, causal=true)\n}").graph
    archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), attention="standard")
    model = onnx.load(tmp_path / "net.onnx")
    assert [node.op_type for node in model.graph.node] == ["Attention"]
    assert not model.graph.initializer


def test_emitted_attention_code_includes_only_used_features() -> None:
    one = "net n {\n input x: f32[9, 8]\n output y = attention(x, x, x, heads=4OPTIONS)\n}"
    plain = emit(archir.loads(one.replace("OPTIONS", "")).graph)
    assert "causal" not in plain
    assert "mask" not in plain
    causal = emit(archir.loads(one.replace("OPTIONS", ", causal=true")).graph)
    assert "is_causal=causal" in causal
    assert "attention(x, x, x, heads=4, scale=None, causal=True)" in causal
    windows = emit(archir.loads(one.replace("OPTIONS", ", window=3")).graph)
    assert "def _bias" in windows


@pytest.mark.parametrize(
    ("query", "key", "kernels"),
    [((4, 8), (6, 8), 1), ((8, 1, 1), (8, 1, 1), 1), ((8, 2, 3), (8, 1, 1), 5), ((8, 1, 1), (8, 2, 3), 5)],
)
def test_attention_kernel_count_depends_on_input_layout(
    query: tuple[int, ...], key: tuple[int, ...], kernels: int
) -> None:
    assert Attention(2).kernels(*map(TensorType, (query, key, key))) == kernels
