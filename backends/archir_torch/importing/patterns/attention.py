"""Fusion of attention that a module computes by matrix products and a softmax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import fx

from archir_torch.importing.patterns.matching import (
    PASSTHROUGH,
    aten,
    insert_call,
    name_of,
    scalar_value,
    shape_of,
    skip_passthrough,
)

VIEWS = ("view", "reshape", "_unsafe_view")
"""Operators that change only the shape."""
MASK_THRESHOLD = -1e4
"""Threshold for mask values: a number up to this one, added to logits or replacing them, masks a position."""
MASK_VALUE = float(torch.finfo(torch.float32).min) / 2
"""Value added to logits at masked positions: half of the lowest float32, so that sums stay finite."""


@dataclass(frozen=True)
class _Logits:
    """Decomposition of attention logits: queries, transposed keys, scale and masks."""

    query: fx.Node
    transposed: fx.Node
    scale: float = 1.0
    added: tuple[fx.Node, ...] = ()
    """Masks or biases that are added to the logits."""
    hidden: tuple[fx.Node, ...] = ()
    """Boolean masks that are true at hidden positions."""
    shown: tuple[fx.Node, ...] = ()
    """Boolean masks that are true at visible positions."""


def fuse_attention(graph: fx.Graph, softmax: fx.Node) -> None:
    """Replace softmax(q k^T * scale + mask) v by `scaled_dot_product_attention`, if the given softmax matches."""
    sizes = shape_of(softmax)
    if len(sizes) < 3 or softmax.args[1] not in (-1, len(sizes) - 1):
        return
    logits = _match_logits(softmax.args[0])
    product = _only_user(softmax)
    if logits is None or product is None or name_of(product) not in ("matmul", "bmm"):
        return
    weights, values = product.args[:2]
    if _skip_views(weights) is not softmax or not isinstance(values, fx.Node):
        return
    lead = sizes[:-2]
    insert = _Inserter(graph, product, softmax, lead)
    key = insert(aten.transpose.int, logits.transposed, -1, -2)
    key.meta["val"] = logits.transposed.meta["val"].transpose(-1, -2)
    operands = [insert.with_lead(operand) for operand in (logits.query, key, values)]
    mask = insert.mask(logits)
    if any(operand is None for operand in operands) or mask is UNSUPPORTED:
        return
    fused = insert(aten.scaled_dot_product_attention.default, *operands, mask, 0.0, False, scale=logits.scale)
    fused.meta["val"] = product.meta["val"].reshape(*lead, *shape_of(product)[-2:])
    if len(shape_of(product)) != len(sizes):
        fused = insert(aten.reshape.default, fused, list(shape_of(product)))
        fused.meta["val"] = product.meta["val"]
    product.replace_all_uses_with(fused)


UNSUPPORTED = object()
"""Result of `_Inserter.mask` for masks that are not supported."""


@dataclass(frozen=True)
class _Inserter:
    """Inserts nodes into torch's graph before the product of attention weights and values.

    New nodes are assigned to the torch module of the node `like`; `lead` is the shape of the logits without the axes
    of rows and columns.
    """

    graph: fx.Graph
    before: fx.Node
    like: fx.Node
    lead: tuple[int, ...]

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Insert a call of `target` and return its node."""
        return insert_call(self.graph, self.before, self.like, target, *args, **kwargs)

    def with_lead(self, node: fx.Node) -> fx.Node | None:
        """Return the tensor reshaped to the leading shape of the logits.

        Returns None if the tensor holds another number of matrices than the logits.
        """
        sizes = shape_of(node)
        if len(sizes) == len(self.lead) + 2:
            return node
        if prod(sizes[:-2]) != prod(self.lead):
            return None
        reshaped = self(aten.reshape.default, node, [*self.lead, *sizes[-2:]])
        reshaped.meta["val"] = node.meta["val"].reshape(*self.lead, *sizes[-2:])
        return reshaped

    def mask(self, logits: _Logits) -> Any:
        """Combine all masks into one: a single boolean mask stays boolean, several masks become numbers that are added.

        Returns UNSUPPORTED if the masks cannot be combined.
        """
        parts = [self._expand_mask(mask_node) for mask_node in (*logits.added, *logits.hidden, *logits.shown)]
        windows = len(self.lead) > 2  # a learned bias and a mask of windows are not added: their sum would be larger
        if any(part is None for part in parts) or (windows and len(parts) > 1):
            return UNSUPPORTED
        added = parts[: len(logits.added)]
        hidden = parts[len(added) : len(added) + len(logits.hidden)]
        shown = parts[len(added) + len(hidden) :]
        if len(parts) == 1 and not added:
            return shown[0] if shown else self(aten.logical_not.default, hidden[0])
        hidden += [self(aten.logical_not.default, mask_node) for mask_node in shown]
        total: fx.Node | None = None
        for mask_node in [*added, *(self(aten.mul.Scalar, mask_node, MASK_VALUE) for mask_node in hidden)]:
            total = mask_node if total is None else self(aten.add.Tensor, total, mask_node)
        return total

    def _expand_mask(self, node: fx.Node) -> fx.Node | None:
        """Return a mask that broadcasts to the logits' shape [..., rows, columns]; None if it has too many axes."""
        sizes = shape_of(node)
        is_flat = len(self.lead) > 1 and len(sizes) == 3 and sizes[0] == prod(self.lead) and sizes[0] != self.lead[-1]
        return self.with_lead(node) if is_flat else node if len(sizes) <= len(self.lead) + 2 else None


def _keeps_matrices(node: fx.Node) -> bool:
    """Return whether a node is a reshape that keeps the sizes of the last two axes."""
    return name_of(node) in VIEWS and shape_of(node)[-2:] == shape_of(node.args[0])[-2:]


def _skip_views(node: Any) -> Any:
    """Return the first operand node that is neither an identity nor a reshape that keeps the last two axes."""
    node = skip_passthrough(node)
    while isinstance(node, fx.Node) and _keeps_matrices(node):
        node = skip_passthrough(node.args[0])
    return node


def _only_user(node: fx.Node) -> fx.Node | None:
    """Return the only consumer of a node, skipping identities and reshapes of leading axes.

    Returns None if the node has several consumers.
    """
    while len(node.users) == 1:
        (user,) = node.users
        if name_of(user) not in PASSTHROUGH and not _keeps_matrices(user):
            return user
        node = user
    return None


def _match_logits(node: Any) -> _Logits | None:
    """Match a product of queries and keys, scaled and masked.

    The product and all intermediate results must have one consumer each.
    """
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return None
    name, args = name_of(node).removesuffix("_"), node.args  # in-place operators too: there is no other consumer
    if name in PASSTHROUGH or _keeps_matrices(node):
        return _match_logits(args[0])
    if name in ("matmul", "bmm") and isinstance(args[1], fx.Node):
        (query, by_query), (key, by_key) = _split_scale(args[0]), _split_scale(args[1])
        return _Logits(query, key, by_query * by_key)
    if name == "baddbmm" and all(isinstance(first, fx.Node) for first in args[:3]):
        beta, alpha = (scalar_value(node.kwargs.get(word, 1)) for word in ("beta", "alpha"))
        bias, query, key = (first for first in args[:3] if isinstance(first, fx.Node))
        return _Logits(query, key, alpha, (bias,) if beta else ()) if alpha and beta in (0, 1) else None
    if name in ("mul", "div") and (factor := scalar_value(args[1])):
        logits = _match_logits(args[0])
        multiplier = factor if name == "mul" else 1 / factor
        is_unmasked = logits and not (logits.added or logits.hidden or logits.shown)
        return replace(logits, scale=logits.scale * multiplier) if logits and is_unmasked else None
    if name == "masked_fill" and isinstance(args[1], fx.Node) and _is_mask_value(args[2]):
        logits = _match_logits(args[0])
        return replace(logits, hidden=(*logits.hidden, args[1])) if logits else None
    if name == "where" and len(args) == 3 and isinstance(args[0], fx.Node):
        if _is_mask_value(args[2]) and (logits := _match_logits(args[1])):
            return replace(logits, shown=(*logits.shown, args[0]))
        if _is_mask_value(args[1]) and (logits := _match_logits(args[2])):
            return replace(logits, hidden=(*logits.hidden, args[0]))
    if name == "add" and not node.kwargs:
        for first, second in (args[:2], args[1::-1]):
            if scalar_value(second) == 0:
                return _match_logits(first)
            logits = _match_logits(first)
            if logits is not None and isinstance(second, fx.Node):
                return replace(logits, added=(*logits.added, second))
    return None


def _is_mask_value(node: Any) -> bool:
    """Return whether an operand is a number low enough to mask a position."""
    number = scalar_value(node)
    return number is not None and number <= MASK_THRESHOLD


def _split_scale(query: Any) -> tuple[fx.Node, float]:
    """Return the queries or keys before multiplication by a constant, and that constant."""
    if name_of(query) in ("mul", "div") and len(query.users) == 1 and (number := scalar_value(query.args[1])):
        return query.args[0], number if name_of(query) == "mul" else 1 / number
    return query, 1.0
