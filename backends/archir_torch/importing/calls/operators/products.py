"""Products of matrices, and attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import operator


@operator("MatMul")
def matmul(a: Tensor, b: Tensor, **_: Any) -> Tensor:
    """Products of matrices."""
    return F.linear(a, b.t()) if isinstance(b, torch.nn.Parameter) and b.dim() == 2 else torch.matmul(a, b)


@operator("Linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor, **_: Any) -> Tensor:
    """A product with a stored matrix, and a stored vector added: two operators of ONNX."""
    return F.linear(x, weight.t(), bias)


@operator("Gemm")
def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0, **given: Any) -> Tensor:
    """alpha a b + beta c."""
    if given.get("transA"):
        raise RuleError("a product over the samples")
    weight = b if given.get("transB") else b.t()
    if alpha == 1 and beta == 1 and (c is None or c.dim() <= 1):
        return F.linear(a, weight, c.reshape(-1) if c is not None and c.dim() else c)
    made: Tensor = alpha * F.linear(a, weight)
    return made if c is None else made + beta * c


@operator("Attention")
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *more: Any, **given: Any) -> Tensor:
    """Of tokens [samples, N, heads * d], or [samples, heads, N, d]."""
    if any(one is not None for one in more) or given.get("softcap"):
        raise RuleError("attention with a cache or a cap")
    packed = q.dim() == 3
    if packed:
        heads, others = given["q_num_heads"], given["kv_num_heads"]
        q, k, v = (x.unflatten(-1, (n, -1)).transpose(1, 2) for x, n in ((q, heads), (k, others), (v, others)))
    made = F.scaled_dot_product_attention(
        q,
        k,
        v,
        mask,
        0.0,
        bool(given.get("is_causal", 0)),
        scale=given.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return made.transpose(1, 2).flatten(-2) if packed else made


@operator("Einsum")
def einsum(*xs: Tensor, equation: str = "", **_: Any) -> Tensor:
    """Products, summed over axes that are named."""
    return torch.einsum(equation, *xs)
