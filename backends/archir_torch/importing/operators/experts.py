"""The largest of some numbers, and experts that tokens choose by them."""

from __future__ import annotations

from typing import Any

from archir.ops.routing import CombineExperts, ExpertLinear, TopK, TopPositions
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, plain
from archir_torch.importing.operators.elementwise import aligned_beside, computed
from archir_torch.importing.rules import understands


@understands("topk")
def topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    """The largest numbers along an axis, and where they are."""
    at = dim % len(x.axes)
    if not largest:
        raise Unsupported("the smallest numbers")
    if b.batch in x.axes[at]:
        raise Unsupported("the largest along the batch")
    x = computed(b, x)
    others = tuple(axis for i, axis in enumerate(x.axes) if i != at)
    left = tuple(axis for axis in plain(others, b.batch) if axis)
    x = b.laid(x, (*left, x.axes[at]))
    made: Axis = (Atom(k),) if k > 1 else ()
    base, axes = (*left, made), (*x.axes[:at], made, *x.axes[at + 1 :])
    node = b.node(x)
    return [Value(b.add(TopK(k), node), base, axes), Value(b.add(TopPositions(k), node), base, axes, "i64")]


@understands("of_experts")
def of_experts(b: Builder, rows: Value, weight: Any, chosen: Value, bias: Constant | None = None) -> Value:
    """Rows [tokens * k, D] by matrices [experts, D, channels], of which each row chose one."""
    if not isinstance(weight, Constant):
        raise Unsupported("experts that depend on inputs")
    experts, _, channels = weight.tensor.shape
    marked = Value(chosen.node, chosen.base, (chosen.axes[0], ()), chosen.dtype)
    rows, marked = aligned_beside(b, rows, marked)
    lead, features = rows.axes
    own = tuple(atom for atom in lead if atom in {*rows.atoms})
    tokens, choices = _choices(b, marked)
    if own not in (tokens, tokens + choices):
        raise Unsupported("experts of rows in another order")
    given = b.node(b.laid(rows, (own, features)))
    ids = b.node(b.laid(marked, (tokens, choices)))
    held = {"weight": weight.permuted((0, 2, 1))} | ({} if bias is None else {"bias": bias})
    node = b.layer(ExpertLinear(experts, channels, bias is not None), held, given, ids)
    made = (Atom(channels),)
    return Value(node, (tokens + choices, made), (lead, made))


def _choices(b: Builder, chosen: Value) -> tuple[Axis, Axis]:
    """The atoms of tokens, and those of the choices of each."""
    atoms = tuple(atom for axis in chosen.axes for atom in axis if atom is not b.batch)
    last = chosen.base[-1] if chosen.base else ()
    if atoms[len(atoms) - len(last) :] != last:
        raise Unsupported("choices of experts in another order")
    return atoms[: len(atoms) - len(last)], last


@understands("combined")
def combined(b: Builder, rows: Value, gates: Value) -> Value:
    """Rows [tokens, k, D], summed with the weights [tokens, k]."""
    lead = Value(gates.node, gates.base, (*gates.axes, ()), gates.dtype)
    rows, lead = aligned_beside(b, rows, lead)
    tokens = tuple(atom for atom in rows.axes[0] if atom is not b.batch)
    choices, features = rows.axes[1], rows.axes[2]
    given = b.node(b.laid(rows, (tokens + choices, features)))
    weights = b.node(b.laid(lead, (tokens, choices)))
    node = b.add(CombineExperts(), given, weights)
    return Value(node, (tokens, features), (rows.axes[0], features))
