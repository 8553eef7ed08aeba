"""Import of top-k selection, and of linear layers with experts."""

from __future__ import annotations

from typing import Any

from archir.ops.routing import CombineExperts, ExpertLinear, TopK, TopPositions
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, base_without_batch
from archir_torch.importing.operators.elementwise import align_axes, as_numeric
from archir_torch.importing.rules import torch_operator


@torch_operator("topk")
def topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    """Import the k largest numbers along an axis, and their positions."""
    axis = dim % len(x.axes)
    if not largest:
        raise Unsupported("the smallest numbers instead of the largest ones")
    if b.batch in x.axes[axis]:
        raise Unsupported("the largest along the batch")
    x = as_numeric(b, x)
    others = tuple(other for i, other in enumerate(x.axes) if i != axis)
    other_axes = tuple(other for other in base_without_batch(others, b.batch) if other)
    x = b.with_base(x, (*other_axes, x.axes[axis]))
    last_axis: Axis = (Atom(k),) if k > 1 else ()
    base, axes = (*other_axes, last_axis), (*x.axes[:axis], last_axis, *x.axes[axis + 1 :])
    node = b.node(x)
    return [Value(b.add(TopK(k), node), base, axes), Value(b.add(TopPositions(k), node), base, axes, "i64")]


@torch_operator("of_experts")
def of_experts(b: Builder, rows: Value, weight: Any, chosen: Value, bias: Constant | None = None) -> Value:
    """Import a layer of experts: rows [tokens * k, D] times matrices [experts, D, channels].

    `chosen` is the expert of each row.
    """
    if not isinstance(weight, Constant):
        raise Unsupported("weights of experts that depend on inputs")
    experts, _, channels = weight.tensor.shape
    experts_value = Value(chosen.node, chosen.base, (chosen.axes[0], ()), chosen.dtype)
    rows, experts_value = align_axes(b, rows, experts_value)
    row_axis, features = rows.axes
    row_atoms = tuple(atom for atom in row_axis if atom in {*rows.atoms})
    tokens, choices = _split_choices(b, experts_value)
    if row_atoms not in (tokens, tokens + choices):
        raise Unsupported("rows of experts in another order than that of the tokens")
    row_node = b.node(b.with_base(rows, (row_atoms, features)))
    ids = b.node(b.with_base(experts_value, (tokens, choices)))
    weights = {"weight": weight.permuted((0, 2, 1))} | ({} if bias is None else {"bias": bias})
    node = b.add_layer(ExpertLinear(experts, channels, bias is not None), weights, row_node, ids)
    features_out = (Atom(channels),)
    return Value(node, (tokens + choices, features_out), (row_axis, features_out))


def _split_choices(b: Builder, chosen: Value) -> tuple[Axis, Axis]:
    """Return the atoms of the tokens, and the atoms of the experts selected for each token.

    Raises Unsupported if the selected experts are not in the order of the tokens.
    """
    atoms = tuple(atom for axis in chosen.axes for atom in axis if atom is not b.batch)
    last = chosen.base[-1] if chosen.base else ()
    if atoms[len(atoms) - len(last) :] != last:
        raise Unsupported("choices of experts in another order than that of the tokens")
    return atoms[: len(atoms) - len(last)], last


@torch_operator("combined")
def combined(b: Builder, rows: Value, gates: Value) -> Value:
    """Import the sum of rows [tokens, k, D] over k, weighted by gates [tokens, k]."""
    gate_value = Value(gates.node, gates.base, (*gates.axes, ()), gates.dtype)
    rows, gate_value = align_axes(b, rows, gate_value)
    tokens = tuple(atom for atom in rows.axes[0] if atom is not b.batch)
    choices, features = rows.axes[1], rows.axes[2]
    row_node = b.node(b.with_base(rows, (tokens + choices, features)))
    weights = b.node(b.with_base(gate_value, (tokens, choices)))
    node = b.add(CombineExperts(), row_node, weights)
    return Value(node, (tokens, features), (rows.axes[0], features))
