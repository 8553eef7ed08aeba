"""ONNX matrix products, attention and einsum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import onnx_operator


@onnx_operator("MatMul")
def matmul(a: Tensor, b: Tensor, **_: Any) -> Tensor:
    """Multiply matrices; if the second operand is a trained matrix, apply a linear layer."""
    return F.linear(a, b.t()) if isinstance(b, torch.nn.Parameter) and b.dim() == 2 else torch.matmul(a, b)


@onnx_operator("Linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor, **_: Any) -> Tensor:
    """Multiply by a stored matrix [in, out] and add a stored bias.

    Fusion creates this operator from two ONNX operators.
    """
    return F.linear(x, weight.t(), bias)


@onnx_operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0, **attributes: Any
) -> Tensor:
    """Return alpha * a b + beta * c, where a b is a matrix product."""
    if attributes.get("transA"):
        raise RuleError("products over the batch axis are not supported")
    weight = b if attributes.get("transB") else b.t()
    if alpha == 1 and beta == 1 and (c is None or c.dim() <= 1):
        return F.linear(a, weight, c.reshape(-1) if c is not None and c.dim() else c)
    result: Tensor = alpha * F.linear(a, weight)
    return result if c is None else result + beta * c


@onnx_operator("Attention")
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *more: Any, **attributes: Any) -> Tensor:
    """Apply attention to tokens [samples, N, heads * d] or [samples, heads, N, d]."""
    if any(operand is not None for operand in more) or attributes.get("softcap"):
        raise RuleError("attention with a cache or with softcap is not supported")
    is_packed = q.dim() == 3
    if is_packed:
        heads, kv_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
        if heads is None or kv_heads is None:
            raise RuleError("attention to tokens needs `q_num_heads` and `kv_num_heads`")
        q, k, v = (x.unflatten(-1, (n, -1)).transpose(1, 2) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    result = F.scaled_dot_product_attention(
        q,
        k,
        v,
        mask,
        0.0,
        bool(attributes.get("is_causal", 0)),
        scale=attributes.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return result.transpose(1, 2).flatten(-2) if is_packed else result


@onnx_operator("Einsum")
def einsum(*xs: Tensor, equation: str = "", **_: Any) -> Tensor:
    """Apply an einsum equation."""
    return torch.einsum(equation, *xs)
