"""Matrix products and attention."""

from __future__ import annotations

from dataclasses import replace
from math import prod, sqrt
from typing import Any

import torch

from archir.ops.activation import Scale, Softmax
from archir.ops.arithmetic import Matmul
from archir.ops.attention import Attention, Rotary
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axes, Axis, Unsupported, Value, fresh
from archir_torch.importing.operators.elementwise import add, aligned_beside, for_one, mapped, mul, valued
from archir_torch.importing.operators.layers import linear
from archir_torch.importing.operators.masks import HIDDEN, LOWEST, hiding
from archir_torch.importing.operators.movement import cat, permute, reshaped, transpose
from archir_torch.importing.rules import understands


@understands("matmul", "bmm", "mm")
def matmul(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    """A product of matrices side by side; with a constant, a linear map."""
    if isinstance(y, Constant) and y.tensor.dim() == 2:
        return linear(b, _value(x), y.permuted((1, 0)))
    if isinstance(x, Constant) and x.tensor.dim() == 2:
        return transpose(b, linear(b, transpose(b, _value(y), -1, -2), x), -1, -2)
    one, other = valued(b, x), valued(b, y)
    if len(one.axes) < 2 or len(other.axes) < 2:
        raise Unsupported("a product of a vector")
    return product(b, one, other)


def _value(x: Value | Constant) -> Value:
    assert isinstance(x, Value)
    return x


def product(b: Builder, x: Value, y: Value) -> Value:
    """[..., N, K] by [..., K, M]. Where one is copies of a matrix, the other's matrices are rows or columns of one."""
    one = replace(x, axes=(*x.axes[:-2], x.axes[-2], (), x.axes[-1]))
    two = replace(y, axes=(*y.axes[:-2], (), y.axes[-1], y.axes[-2]))
    one, two = aligned_beside(b, one, two)
    beside = tuple(mine or theirs for mine, theirs in zip(one.axes[:-3], two.axes[:-3], strict=True))
    rows, columns, inner = one.axes[-3], two.axes[-2], one.axes[-1]
    if b.batch in inner or (b.batch in rows and b.batch in columns):
        raise Unsupported("a product of samples with each other")
    own, others_own = (tuple(atom for atom in axis if atom is not b.batch) for axis in (rows, columns))
    flat: Axis = tuple(atom for axis in beside for atom in axis if atom is not b.batch)
    held, others = set(one.atoms), set(two.atoms)
    both = tuple(atom for atom in flat if atom in held and atom in others)
    above = tuple(atom for atom in flat if atom in held and atom not in others) + own
    across = tuple(atom for atom in flat if atom in others and atom not in held)
    turned = bool(inner) and two.base[-1] == inner
    first = b.laid(one, _base(both, above, inner))
    right = across + others_own
    second = b.laid(two, _base(both, right, inner) if turned else _base(both, inner, right))
    node = b.add(Matmul(turned), b.node(first), b.node(second))
    made: Axis = (Atom(prod(a.size for a in others_own)),) if others_own else ()
    lead = tuple(atom for atom in columns if atom is b.batch)
    return Value(node, _base(both, above, across + made), (*beside, rows, lead + made))


def _base(flat: Axis, rows: Axis, columns: Axis) -> Axes:
    return (flat, rows, columns) if flat else (rows, columns)


@understands("baddbmm")
def baddbmm(b: Builder, bias: Any, x: Value, y: Value, beta: float = 1, alpha: float = 1) -> Value:
    made = matmul(b, x, y)
    if alpha != 1:
        made = mapped(b, Scale(float(alpha)), made)
    return made if beta == 0 else add(b, made, bias, beta)


@understands("scaled_dot_product_attention")
def attention(
    b: Builder, query: Value, key: Value, value: Value, mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    query, key, value = (valued(b, x) for x in (query, key, value))
    if isinstance(mask, Value) and mask.dtype == "bool":
        mask = hiding(b, mask)
    usual = 1 / sqrt(query.shape[-1])
    if scale is not None and abs(scale - usual) < 1e-6 * usual:
        scale = None
    if len(query.axes) == 3 and query.axes[0][:1] == (b.batch,):  # heads beside samples, or one head
        query, key, value = (replace(x, axes=((b.batch,), x.axes[0][1:], *x.axes[1:])) for x in (query, key, value))
        if isinstance(mask, Value) and len(mask.axes) == 3:
            mask = replace(mask, axes=((b.batch,), mask.axes[0][1:], *mask.axes[1:]))
        found = attention(b, query, key, value, mask, 0.0, is_causal, scale, enable_gqa)
        return replace(found, axes=(found.axes[0] + found.axes[1], *found.axes[2:]))
    if len(query.axes) > 4 and (mask is None or is_causal):  # axes between samples and rows are as many heads
        q, k, v = (replace(x, axes=(x.axes[0], sum(x.axes[1:-2], ()), *x.axes[-2:])) for x in (query, key, value))
        found = attention(b, q, k, v, mask, 0.0, is_causal, scale, enable_gqa)
        return replace(found, axes=(*query.axes[:-2], *found.axes[-2:]))
    if len(query.axes) < 3 or (len(query.axes) == 3 and is_causal):
        raise Unsupported(f"an attention on {list(query.shape)}")
    if len(query.axes) != 4:
        return _apart(b, query, key, value, mask, is_causal, usual if scale is None else scale)
    beside = query.axes[0][1:]
    if beside and mask is None and query.axes[0][0] is b.batch:  # windows are as many more heads
        given = query, key, value
        if all(x.axes[0] == query.axes[0] and {*beside} <= {*x.atoms} for x in given):
            q, k, v = (replace(x, axes=((b.batch,), beside + x.axes[1], *x.axes[2:])) for x in given)
            found = attention(b, q, k, v, None, 0.0, is_causal, scale, enable_gqa)
            return replace(found, axes=(query.axes[0], query.axes[1], *found.axes[2:]))
    if beside and isinstance(mask, Value) and all(_with_own(b, x, query) for x in (query, key, value, mask)):
        q, k, v, m = (
            replace(x, axes=((b.batch,), x.axes[0][1:] + x.axes[1], *x.axes[2:])) for x in (query, key, value, mask)
        )
        found = attention(b, q, k, v, m, 0.0, is_causal, scale, enable_gqa)
        return replace(found, axes=(query.axes[0], query.axes[1], *found.axes[2:]))
    if any(x.axes[0] not in ((b.batch,), ()) for x in (query, key, value)):
        return _apart(b, query, key, value, mask, is_causal, usual if scale is None else scale)
    if isinstance(mask, Constant):
        mask, causal = _read(b, mask)
        is_causal = is_causal or causal
    heads, kv_heads = query.shape[1], prod(a.size for a in _held(key))
    _held(value)
    operands = [
        b.node(b.laid(query, (query.axes[2], query.axes[1] + query.axes[3]))),
        *(b.node(b.laid(x, (x.axes[2], _held(x) + x.axes[3]))) for x in (key, value)),
    ]
    if mask is not None:
        operands.append(b.node(_mask(b, mask, query.shape[2], key.shape[2])))
    op = Attention(heads, scale, is_causal, None, None if kv_heads == heads else kv_heads)
    node = b.add(op, *operands)
    made: Axis = fresh((value.shape[-1],))[0]
    axes = (query.axes[0], query.axes[1], query.axes[2], made)
    return Value(node, (axes[2], axes[1] + made), axes)


def _with_own(b: Builder, x: Value, query: Value) -> bool:
    """Whether a tensor has matrices of its own for each that the queries have beside samples."""
    beside = x.axes[0][1:] + x.axes[1] if len(x.axes) == 4 else ()
    return x.shape[:2] == query.shape[:2] and x.axes[0][:1] == (b.batch,) and {*beside} <= {*x.atoms}


def _held(x: Value) -> Axis:
    """The heads of keys or values; copies for several heads of the queries are none."""
    held = tuple(atom for atom in x.axes[1] if atom in x.atoms)
    if x.axes[1][: len(held)] != held:
        raise Unsupported("heads of keys that are copied in turn")
    return held


def _read(b: Builder, mask: Constant) -> tuple[Constant | None, bool]:
    """A mask without what hides nothing; or that it hides what comes after."""
    mask = for_one(b, mask)
    tensor = mask.tensor
    if tensor.dtype == torch.bool:
        hidden, plainly = ~tensor, True
    else:
        hidden = tensor <= HIDDEN
        plainly = not mask.trained and bool(((tensor == 0) | hidden).all())
    if plainly:
        if not bool(hidden.any()):
            return None, False
        rows, columns = tensor.shape[-2:]
        later = torch.ones(rows, columns, dtype=torch.bool).triu(1)
        if rows == columns and bool((hidden == later).all()):
            return None, True
    if tensor.dtype == torch.bool:
        return Constant(torch.where(tensor, 0.0, LOWEST), computed="a mask"), False
    if tensor.numel() and float(tensor.min()) < LOWEST:
        return Constant(tensor.clamp(min=LOWEST), computed="a mask", trained=mask.trained), False
    return mask, False


def _mask(b: Builder, mask: Value | Constant, queries: int, keys: int) -> Value:
    """On a base [queries, keys], or [heads, queries, keys]."""
    x = valued(b, mask)
    if len(x.axes) == 4:
        if x.axes[0] not in ((), (b.batch,)):
            raise Unsupported("a mask of some samples")
        x = replace(x, axes=x.axes[1:])
    if len(x.axes) == 3 and not x.axes[0]:
        x = replace(x, axes=x.axes[1:])
    held = set(x.atoms)
    axes = tuple(tuple(a for a in axis if a in held) for axis in x.axes)
    return b.laid(replace(x, axes=axes), axes)


@understands("rotated")
def rotated(b: Builder, x: Value, cosines: Any, sines: Any) -> Value:
    """A rotary embedding, where the angles are those of positions; else products and a sum."""
    op, places = _rotary(x, cosines, sines) if isinstance(x, Value) else (None, 0)
    if op is None:
        half = x.shape[-1] // 2
        first, second = (b.sliced(x, len(x.axes) - 1, start, start + half) for start in (0, half))
        if isinstance(cosines, Constant) and cosines.tensor.shape[-1] == half:
            tables = [torch.cat([one.tensor] * 2, -1) for one in (cosines, sines)]
            cosines, sines = (Constant(one, computed="angles") for one in tables)
        turned = cat(b, [mapped(b, Scale(-1.0), second), first], -1)
        return add(b, mul(b, x, cosines), mul(b, turned, sines))
    heads = 3 - places
    x = b.laid(x, (x.axes[places], x.axes[heads] + x.axes[3]))
    return replace(x, node=b.add(op, b.node(x)))


def _rotary(x: Value, cosines: Any, sines: Any) -> tuple[Rotary | None, int]:
    """The operation, and the axis of positions: the other one between samples and width is that of heads."""
    if not (isinstance(cosines, Constant) and isinstance(sines, Constant)) or len(x.axes) != 4:
        return None, 0
    cos, sin = (one.tensor.reshape((1,) * (4 - one.tensor.dim()) + one.tensor.shape) for one in (cosines, sines))
    long = [axis for axis in (1, 2) if cos.shape[axis] > 1]
    width = x.shape[3]
    if len(long) != 1 or cos.shape != sin.shape or cos.shape[0] != 1 or cos.shape[3] not in (width, width // 2):
        return None, 0
    (places,) = long
    count, half = cos.shape[places], width // 2
    cos, sin = (one.reshape(count, -1) for one in (cos, sin))
    if count != x.shape[places] or not float(sin[1, 1 % half]) > 0:
        return None, 0
    speed = float(torch.atan2(sin[1, 1 % half], cos[1, 1 % half]))
    base = float(f"{speed**-half:.5g}") if half > 1 else 10000.0
    angles = torch.outer(torch.arange(count), base ** (torch.arange(half) / -half))
    angles = torch.cat([angles] * (cos.shape[1] // half), 1)
    fits = torch.allclose(angles.cos(), cos, atol=2e-5) and torch.allclose(angles.sin(), sin, atol=2e-5)
    return (Rotary(x.shape[3 - places], base), places) if fits and base > 0 else (None, 0)


def _apart(b: Builder, query: Value, key: Value, value: Value, mask: Any, causal: bool, scale: float) -> Value:
    """Attention in windows: two products and a softmax."""
    if causal:
        raise Unsupported("a causal attention in windows")
    if scale != 1:
        query = mapped(b, Scale(scale), query)
    logits = product(b, query, transpose(b, key, -1, -2))
    if mask is not None:
        if isinstance(mask, Constant):
            samples = mask.tensor.shape[0] if mask.tensor.dim() == len(logits.axes) else 1
            mask, _ = _read(b, mask)
            if mask is not None and samples > mask.tensor.shape[0]:  # which was there for each sample
                one = valued(b, mask)
                mask = replace(one, axes=((b.batch, *one.axes[0]), *one.axes[1:]))
        if mask is not None:
            logits = add(b, logits, mask)
    logits, axis = b.isolated(logits, len(logits.axes) - 1)
    weights = mapped(b, Softmax(-1 if axis == len(logits.base) - 1 else axis), logits)
    return product(b, weights, value)


@understands("einsum")
def einsum(b: Builder, equation: str, operands: Any, path: Any = None) -> Value:
    """Of two tensors: axes of both are side by side or summed over, the others rows and columns."""
    equation = equation.replace(" ", "")
    if "." in equation or "->" not in equation or len(operands) != 2:
        raise Unsupported(f"an einsum {equation}")
    (one, two), out = equation.split("->")[0].split(","), equation.split("->")[1]
    x, y = (valued(b, v) for v in operands)
    sizes = dict(zip(one, x.shape, strict=True)) | dict(zip(two, y.shape, strict=True))
    beside = [c for c in out if c in one and c in two]
    inner = [c for c in one if c in two and c not in out]
    rows, columns = [c for c in out if c in one and c not in two], [c for c in out if c in two and c not in one]
    if {*one, *two} - {*out, *inner}:
        raise Unsupported(f"an einsum {equation}")

    def grouped(v: Value, letters: str, *groups: list[str]) -> Value:
        v = permute(b, v, [letters.index(c) for group in (beside, *groups) for c in group])
        return reshaped(b, v, [*(sizes[c] for c in beside), *(prod(sizes[c] for c in g) for g in groups)])

    known = isinstance(operands[1], Constant) and not beside
    if known:
        weight = operands[1].permuted(tuple(two.index(c) for c in [*columns, *inner]))
        shape = (prod(sizes[c] for c in columns), prod(sizes[c] for c in inner))
        made = linear(b, grouped(x, one, rows, inner), weight.reshaped(shape))
    else:
        made = product(b, grouped(x, one, rows, inner), grouped(y, two, inner, columns))
    made = reshaped(b, made, [sizes[c] for c in [*beside, *rows, *columns]])
    order = [*beside, *rows, *columns]
    return permute(b, made, [order.index(c) for c in out])
