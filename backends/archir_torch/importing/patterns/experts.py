"""Rewriting of mixtures of experts that sort tokens by expert; the rewriting removes the sorting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from archir_torch.importing.patterns.matching import aten, insert_call, name_of, operands_of, shape_of, skip_passthrough

GROUPED = ("grouped_mm_fallback", "_grouped_mm", "grouped_mm")
"""Operators that multiply each group of rows by one matrix."""


@torch.library.custom_op("archir::of_experts", mutates_args=())
def of_experts(rows: Tensor, weight: Tensor, chosen: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply each row by the matrix [D, channels] of its expert, and add the expert's bias.

    `chosen` holds the index of the expert of each row. The function is a custom operator, so that `torch.export` does
    not decompose it.
    """
    result = (rows.unsqueeze(1) @ weight[chosen]).squeeze(1)
    return result if bias is None else result + bias[chosen]


@of_experts.register_fake
def _(rows: Tensor, weight: Tensor, chosen: Tensor, bias: Tensor | None = None) -> Tensor:
    return rows.new_empty(chosen.shape[0], weight.shape[2])


@torch.library.custom_op("archir::combined", mutates_args=())
def combined(rows: Tensor, gates: Tensor) -> Tensor:
    """Return the sum of the rows [N, k, D] of each token, weighted by its gates [N, k]."""
    return (rows * gates.unsqueeze(-1)).sum(1)


@combined.register_fake
def _(rows: Tensor, gates: Tensor) -> Tensor:
    return rows.new_empty(rows.shape[0], rows.shape[2])


def remove_sorting(graph: fx.Graph) -> None:
    """Remove sorting by expert, if all operators between the sort and its inverse treat each row separately.

    Sorts are removed last to first, since the results of earlier sorts may reach later ones.
    """
    for node in reversed(list(graph.nodes)):
        if name_of(node) == "sort" and not torch.is_floating_point(_example(node.args[0])):
            _remove_sort(graph, node)
    for node in list(graph.nodes):
        if name_of(node) == "sum":
            _combine(graph, node)


def _example(node: Any) -> Tensor:
    """Return the example (fake) tensor that tracing recorded for a node."""
    example = node.meta.get("val")
    assert isinstance(example, Tensor)
    return example


def _remove_sort(graph: fx.Graph, node: fx.Node) -> None:
    """Replace rows in sorted order by rows in their original order, and grouped products by `of_experts`."""
    chosen = node.args[0]
    results = {user.args[1]: user for user in node.users if name_of(user) == "getitem"}
    order = results.get(1)
    if order is None or not isinstance(chosen, fx.Node) or chosen.meta["val"].dim() != 1:
        return
    for user in list(order.users):
        if name_of(user) == "floor_divide" and isinstance(times := user.args[1], int):
            for rows in list(user.users):
                if name_of(rows) == "index":
                    _replace_by(graph, rows, aten.repeat_interleave.self_int, rows.args[0], times, 0)
        elif (indexed := _indexed_rows(user, order)) is not None:
            user.replace_all_uses_with(indexed)
        elif name_of(user).startswith("index_put"):
            for back in list(user.users):
                if (indexed := _indexed_rows(back, user)) is not None:
                    back.replace_all_uses_with(indexed)
    count = shape_of(chosen)[0]
    for product in list(graph.nodes):
        is_grouped = name_of(product) in GROUPED and shape_of(product)[:1] == (count,)
        if is_grouped and product.args[2] in _dependents(node):
            _replace_by(graph, product, torch.ops.archir.of_experts.default, product.args[0], product.args[1], chosen)
    if (ids := results.get(0)) is not None:
        for user in list(ids.users):
            if _indexed_rows(user, ids) is not None:
                _merge_bias(graph, user)


def _indexed_rows(node: fx.Node, order: fx.Node) -> fx.Node | None:
    """Return the tensor from which a node selects rows by the index `order`; None for other nodes."""
    if name_of(node) != "index":
        return None
    rows, picks = node.args[0], node.args[1]
    return rows if isinstance(rows, fx.Node) and isinstance(picks, list | tuple) and [*picks] == [order] else None


def _merge_bias(graph: fx.Graph, rows: fx.Node) -> None:
    """Merge the addition of the experts' biases into the `of_experts` product before it."""
    for user in list(rows.users):
        for product, bias in operands_of(user, "add"):
            if bias is rows and name_of(product) == "of_experts" and len(product.args) == 3:
                _replace_by(graph, user, torch.ops.archir.of_experts.default, *product.args, rows.args[0])


def _dependents(node: fx.Node) -> set[fx.Node]:
    """Return all nodes computed from the sorted expert indices, such as the number of rows per expert."""
    result, pending = {node}, [node]
    while pending:
        for user in pending.pop().users:
            if user not in result and name_of(user) not in GROUPED:
                result.add(user)
                pending.append(user)
    return result


def _replace_by(graph: fx.Graph, node: fx.Node, target: Any, *args: Any) -> None:
    """Replace a node by a call of `target`."""
    replacement = insert_call(graph, node, node, target, *args)
    replacement.meta["val"] = node.meta.get("val")
    node.replace_all_uses_with(replacement)


def _combine(graph: fx.Graph, node: fx.Node) -> None:
    """Replace sum(view(rows * gates)), the weighted sum over each token's experts, by `combined`."""
    view = skip_passthrough(node.args[0])
    axes = node.args[1]
    if not isinstance(axes, list | tuple) or [*axes] != [1]:
        return
    if name_of(view) not in ("view", "reshape") or len(shape_of(view)) != 3:
        return
    for rows, gates in operands_of(view.args[0], "mul"):
        is_column = name_of(gates) in ("unsqueeze", "view", "reshape") and shape_of(gates)[1:] == (1,)
        if (
            is_column
            and len(shape_of(rows)) == 2
            and any(name_of(addend) == "of_experts" for addend in _with_addends(rows))
        ):
            gate_matrix = insert_call(graph, node, node, aten.reshape.default, gates, list(shape_of(view)[:2]))
            gate_matrix.meta["val"] = _example(gates).reshape(shape_of(view)[:2])
            row_tensor = insert_call(graph, node, node, aten.reshape.default, rows, list(shape_of(view)))
            row_tensor.meta["val"] = _example(rows).reshape(shape_of(view))
            _replace_by(graph, node, torch.ops.archir.combined.default, row_tensor, gate_matrix)
            return


def _with_addends(node: fx.Node) -> list[fx.Node]:
    """Return a node; if the node is a sum, also return its operands."""
    return [node, *(operand for operand in node.all_input_nodes if name_of(node).startswith("add"))]
