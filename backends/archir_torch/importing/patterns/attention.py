"""Attention that is written out, as the one operator that it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from archir_torch.importing.patterns.matching import PASSING, aten, made, name_of, passed


@dataclass(frozen=True)
class _Logits:
    query: fx.Node
    transposed: fx.Node
    scale: float = 1.0
    added: tuple[fx.Node, ...] = ()
    hidden: tuple[fx.Node, ...] = ()


def attention(graph: fx.Graph, softmax: fx.Node) -> None:
    """softmax(q k^T * scale + mask) v."""
    value = softmax.meta.get("val")
    if value is None or value.dim() < 3 or softmax.args[1] not in (-1, value.dim() - 1):
        return
    found = _logits(softmax.args[0])
    product = _only_user(softmax)
    if found is None or product is None or name_of(product) not in ("matmul", "bmm"):
        return
    weights, values = product.args[:2]
    if passed(weights) is not softmax or not isinstance(values, fx.Node):
        return
    mask: fx.Node | None = None
    if found.hidden:
        if found.added or len(found.hidden) > 1:
            return
        mask = made(graph, product, softmax, aten.logical_not.default, found.hidden[0])
    for one in found.added:
        mask = one if mask is None else made(graph, product, softmax, aten.add.Tensor, mask, one)
    key = made(graph, product, softmax, aten.transpose.int, found.transposed, -1, -2)
    whole = made(
        graph, product, softmax, aten.scaled_dot_product_attention.default, found.query, key, values, mask, 0.0, False,
        scale=found.scale,
    )  # fmt: skip
    whole.meta["val"] = product.meta["val"]
    product.replace_all_uses_with(whole)


def _only_user(node: fx.Node) -> fx.Node | None:
    """Who alone reads a node, past operators that pass it on."""
    while len(node.users) == 1:
        (user,) = node.users
        if name_of(user) not in PASSING:
            return user
        node = user
    return None


def _logits(node: Any) -> _Logits | None:
    """A product of queries and keys, scaled and masked, that nobody else reads."""
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return None
    name, args = name_of(node), node.args
    if name in PASSING:
        return _logits(args[0])
    if name in ("matmul", "bmm") and isinstance(args[1], fx.Node):
        query, scale = _unscaled(args[0])
        return _Logits(query, args[1], scale)
    if name in ("mul", "div") and isinstance(args[1], int | float):
        found = _logits(args[0])
        by = args[1] if name == "mul" else 1 / args[1]
        return replace(found, scale=found.scale * by) if found and not (found.added or found.hidden) else None
    if name == "masked_fill" and isinstance(args[1], fx.Node) and isinstance(args[2], int | float) and args[2] <= -1e4:
        found = _logits(args[0])
        return replace(found, hidden=(*found.hidden, args[1])) if found else None
    if name == "add" and not node.kwargs:
        for one, other in (args[:2], args[1::-1]):
            found = _logits(one)
            if found is not None and isinstance(other, fx.Node):
                return replace(found, added=(*found.added, other))
    return None


def _unscaled(query: Any) -> tuple[fx.Node, float]:
    """Queries before they were multiplied with a number, and the number."""
    if name_of(query) in ("mul", "div") and isinstance(query.args[1], int | float) and len(query.users) == 1:
        return query.args[0], query.args[1] if name_of(query) == "mul" else 1 / query.args[1]
    return query, 1.0
