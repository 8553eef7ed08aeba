"""Experts whose tokens are sorted before they are mapped: the same rows in the order of their tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from archir_torch.importing.patterns.matching import aten, made, name_of, operands_of, passed, size_of

GROUPED = ("grouped_mm_fallback", "_grouped_mm", "grouped_mm")


@torch.library.custom_op("archir::of_experts", mutates_args=())
def of_experts(rows: Tensor, weight: Tensor, chosen: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each row by the matrix [D, channels] of the expert that it chose, and its bias. Torch leaves it whole."""
    made = (rows.unsqueeze(1) @ weight[chosen]).squeeze(1)
    return made if bias is None else made + bias[chosen]


@of_experts.register_fake
def _(rows: Tensor, weight: Tensor, chosen: Tensor, bias: Tensor | None = None) -> Tensor:
    return rows.new_empty(chosen.shape[0], weight.shape[2])


@torch.library.custom_op("archir::combined", mutates_args=())
def combined(rows: Tensor, gates: Tensor) -> Tensor:
    """The sum of the rows [N, k, D] of each token, times gates [N, k]."""
    return (rows * gates.unsqueeze(-1)).sum(1)


@combined.register_fake
def _(rows: Tensor, gates: Tensor) -> Tensor:
    return rows.new_empty(rows.shape[0], rows.shape[2])


def unsorted(graph: fx.Graph) -> None:
    """Undo sorting by experts, where what is between it and its inverse maps each row by itself: the last ones first,
    since what earlier ones give may reach them."""
    for node in reversed(list(graph.nodes)):
        if name_of(node) == "sort" and not torch.is_floating_point(_meta(node.args[0])):
            _undo(graph, node)
    for node in list(graph.nodes):
        if name_of(node) == "sum":
            _combine(graph, node)


def _meta(node: Any) -> Tensor:
    found = node.meta.get("val")
    assert isinstance(found, Tensor)
    return found


def _undo(graph: fx.Graph, node: fx.Node) -> None:
    chosen = node.args[0]
    results = {user.args[1]: user for user in node.users if name_of(user) == "getitem"}
    order = results.get(1)
    if order is None or not isinstance(chosen, fx.Node) or chosen.meta["val"].dim() != 1:
        return
    for user in list(order.users):
        if name_of(user) == "floor_divide" and isinstance(times := user.args[1], int):
            for rows in list(user.users):
                if name_of(rows) == "index":
                    _put(graph, rows, aten.repeat_interleave.self_int, rows.args[0], times, 0)
        elif (picked := _picked(user, order)) is not None:
            user.replace_all_uses_with(picked)
        elif name_of(user).startswith("index_put"):
            for back in list(user.users):
                if (picked := _picked(back, user)) is not None:
                    back.replace_all_uses_with(picked)
    count = size_of(chosen)[0]
    for product in list(graph.nodes):
        mapped = name_of(product) in GROUPED and size_of(product)[:1] == (count,)
        if mapped and product.args[2] in _reached(node):
            _put(graph, product, torch.ops.archir.of_experts.default, product.args[0], product.args[1], chosen)
    if (ids := results.get(0)) is not None:
        for user in list(ids.users):
            if _picked(user, ids) is not None:
                _biased(graph, user, chosen)


def _picked(node: fx.Node, order: fx.Node) -> fx.Node | None:
    """What `order` picks the rows of, if that is what a node does."""
    if name_of(node) != "index":
        return None
    rows, picks = node.args[0], node.args[1]
    return rows if isinstance(rows, fx.Node) and isinstance(picks, list | tuple) and [*picks] == [order] else None


def _biased(graph: fx.Graph, rows: fx.Node, chosen: fx.Node) -> None:
    """A product of experts, and the row of a table that each of them has, added."""
    for user in list(rows.users):
        for product, bias in operands_of(user, "add"):
            if bias is rows and name_of(product) == "of_experts" and len(product.args) == 3:
                _put(graph, user, torch.ops.archir.of_experts.default, *product.args, rows.args[0])


def _reached(node: fx.Node) -> set[fx.Node]:
    """What is computed of the sorted experts: how many rows each has."""
    found, pending = {node}, [node]
    while pending:
        for user in pending.pop().users:
            if user not in found and name_of(user) not in GROUPED:
                found.add(user)
                pending.append(user)
    return found


def _put(graph: fx.Graph, node: fx.Node, target: Any, *args: Any) -> None:
    whole = made(graph, node, node, target, *args)
    whole.meta["val"] = node.meta.get("val")
    node.replace_all_uses_with(whole)


def _combine(graph: fx.Graph, node: fx.Node) -> None:
    """sum(view(rows * gates)) over the choices of each token."""
    view = passed(node.args[0])
    along = node.args[1]
    if not isinstance(along, list | tuple) or [*along] != [1]:
        return
    if name_of(view) not in ("view", "reshape") or len(size_of(view)) != 3:
        return
    for rows, gates in operands_of(view.args[0], "mul"):
        spread = name_of(gates) in ("unsqueeze", "view", "reshape") and size_of(gates)[1:] == (1,)
        if spread and len(size_of(rows)) == 2 and any(name_of(one) == "of_experts" for one in _before(rows)):
            whole = made(graph, node, node, aten.reshape.default, gates, list(size_of(view)[:2]))
            whole.meta["val"] = _meta(gates).reshape(size_of(view)[:2])
            apart = made(graph, node, node, aten.reshape.default, rows, list(size_of(view)))
            apart.meta["val"] = _meta(rows).reshape(size_of(view))
            _put(graph, node, torch.ops.archir.combined.default, apart, whole)
            return


def _before(node: fx.Node) -> list[fx.Node]:
    """A node, and what it is a sum of."""
    return [node, *(one for one in node.all_input_nodes if name_of(node).startswith("add"))]
