"""Attention that is written out, as the one operator that it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import fx

from archir_torch.importing.patterns.matching import PASSING, aten, made, name_of, number_of, passed, size_of

VIEWS = ("view", "reshape", "_unsafe_view")
HIDDEN = -1e4
"""What is added to hidden positions, or put in their place, is at most this."""
LOWEST = float(torch.finfo(torch.float32).min) / 2


@dataclass(frozen=True)
class _Logits:
    """Queries, transposed keys, and what is done with their product."""

    query: fx.Node
    transposed: fx.Node
    scale: float = 1.0
    added: tuple[fx.Node, ...] = ()
    hidden: tuple[fx.Node, ...] = ()
    """Where these hold, a position is hidden."""
    shown: tuple[fx.Node, ...] = ()
    """Where these do not hold."""


def attention(graph: fx.Graph, softmax: fx.Node) -> None:
    """softmax(q k^T * scale + mask) v."""
    sizes = size_of(softmax)
    if len(sizes) < 3 or softmax.args[1] not in (-1, len(sizes) - 1):
        return
    found = _logits(softmax.args[0])
    product = _only_user(softmax)
    if found is None or product is None or name_of(product) not in ("matmul", "bmm"):
        return
    weights, values = product.args[:2]
    if _seen_through(weights) is not softmax or not isinstance(values, fx.Node):
        return
    lead = sizes[:-2]
    put = _Put(graph, product, softmax, lead)
    key = put(aten.transpose.int, found.transposed, -1, -2)
    key.meta["val"] = found.transposed.meta["val"].transpose(-1, -2)
    operands = [put.led(one) for one in (found.query, key, values)]
    mask = put.mask(found)
    if any(one is None for one in operands) or mask is REFUSED:
        return
    whole = put(aten.scaled_dot_product_attention.default, *operands, mask, 0.0, False, scale=found.scale)
    whole.meta["val"] = product.meta["val"].reshape(*lead, *size_of(product)[-2:])
    if len(size_of(product)) != len(sizes):
        whole = put(aten.reshape.default, whole, list(size_of(product)))
        whole.meta["val"] = product.meta["val"]
    product.replace_all_uses_with(whole)


REFUSED = object()


@dataclass(frozen=True)
class _Put:
    """New nodes before a product; `lead` are the sizes of logits before their rows and columns."""

    graph: fx.Graph
    before: fx.Node
    like: fx.Node
    lead: tuple[int, ...]

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return made(self.graph, self.before, self.like, target, *args, **kwargs)

    def led(self, node: fx.Node) -> fx.Node | None:
        """With the leading sizes that the logits have in the end; None where it has others."""
        sizes = size_of(node)
        if len(sizes) == len(self.lead) + 2:
            return node
        if prod(sizes[:-2]) != prod(self.lead):
            return None
        shaped = self(aten.reshape.default, node, [*self.lead, *sizes[-2:]])
        shaped.meta["val"] = node.meta["val"].reshape(*self.lead, *sizes[-2:])
        return shaped

    def mask(self, found: _Logits) -> Any:
        """All masks as one: truth values where there is one alone, else numbers that are added."""
        parts = [self._masked(one) for one in (*found.added, *found.hidden, *found.shown)]
        windows = len(self.lead) > 2  # a learned bias and what windows hide stay apart: their sum would be larger
        if any(part is None for part in parts) or (windows and len(parts) > 1):
            return REFUSED
        added = parts[: len(found.added)]
        hidden = parts[len(added) : len(added) + len(found.hidden)]
        shown = parts[len(added) + len(hidden) :]
        if len(parts) == 1 and not added:
            return shown[0] if shown else self(aten.logical_not.default, hidden[0])
        hidden += [self(aten.logical_not.default, one) for one in shown]
        total: fx.Node | None = None
        for one in [*added, *(self(aten.mul.Scalar, one, LOWEST) for one in hidden)]:
            total = one if total is None else self(aten.add.Tensor, total, one)
        return total

    def _masked(self, node: fx.Node) -> fx.Node | None:
        """A mask of [..., rows, columns] beside the logits; None where it was one beside another shape of theirs."""
        sizes = size_of(node)
        flat = len(self.lead) > 1 and len(sizes) == 3 and sizes[0] == prod(self.lead) and sizes[0] != self.lead[-1]
        return self.led(node) if flat else node if len(sizes) <= len(self.lead) + 2 else None


def _keeps_matrices(node: fx.Node) -> bool:
    """Whether a view leaves the last two axes as they are."""
    return name_of(node) in VIEWS and size_of(node)[-2:] == size_of(node.args[0])[-2:]


def _seen_through(node: Any) -> Any:
    """What an operator passes on, in another shape or not."""
    node = passed(node)
    while isinstance(node, fx.Node) and _keeps_matrices(node):
        node = passed(node.args[0])
    return node


def _only_user(node: fx.Node) -> fx.Node | None:
    """Who alone reads a node, past operators that pass it on."""
    while len(node.users) == 1:
        (user,) = node.users
        if name_of(user) not in PASSING and not _keeps_matrices(user):
            return user
        node = user
    return None


def _logits(node: Any) -> _Logits | None:
    """A product of queries and keys, scaled and masked, that nobody else reads."""
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return None
    name, args = name_of(node).removesuffix("_"), node.args  # nobody else reads what is written over
    if name in PASSING or _keeps_matrices(node):
        return _logits(args[0])
    if name in ("matmul", "bmm") and isinstance(args[1], fx.Node):
        (query, by_query), (key, by_key) = _unscaled(args[0]), _unscaled(args[1])
        return _Logits(query, key, by_query * by_key)
    if name == "baddbmm" and all(isinstance(one, fx.Node) for one in args[:3]):
        beta, alpha = (number_of(node.kwargs.get(word, 1)) for word in ("beta", "alpha"))
        bias, query, key = (one for one in args[:3] if isinstance(one, fx.Node))
        return _Logits(query, key, alpha, (bias,) if beta else ()) if alpha and beta in (0, 1) else None
    if name in ("mul", "div") and (factor := number_of(args[1])):
        found = _logits(args[0])
        by = factor if name == "mul" else 1 / factor
        plain = found and not (found.added or found.hidden or found.shown)
        return replace(found, scale=found.scale * by) if found and plain else None
    if name == "masked_fill" and isinstance(args[1], fx.Node) and _lowest(args[2]):
        found = _logits(args[0])
        return replace(found, hidden=(*found.hidden, args[1])) if found else None
    if name == "where" and len(args) == 3 and isinstance(args[0], fx.Node):
        if _lowest(args[2]) and (found := _logits(args[1])):
            return replace(found, shown=(*found.shown, args[0]))
        if _lowest(args[1]) and (found := _logits(args[2])):
            return replace(found, hidden=(*found.hidden, args[0]))
    if name == "add" and not node.kwargs:
        for one, other in (args[:2], args[1::-1]):
            if number_of(other) == 0:
                return _logits(one)
            found = _logits(one)
            if found is not None and isinstance(other, fx.Node):
                return replace(found, added=(*found.added, other))
    return None


def _lowest(node: Any) -> bool:
    number = number_of(node)
    return number is not None and number <= HIDDEN


def _unscaled(query: Any) -> tuple[fx.Node, float]:
    """Queries before they were multiplied with a number, and the number."""
    if name_of(query) in ("mul", "div") and len(query.users) == 1 and (number := number_of(query.args[1])):
        return query.args[0], number if name_of(query) == "mul" else 1 / number
    return query, 1.0
