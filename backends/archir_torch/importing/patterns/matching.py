"""Helpers for pattern matching: names, operands and shapes of nodes in torch's graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

PASSTHROUGH = {
    "dropout",
    "dropout_",
    "clone",
    "contiguous",
    "to",
    "_to_copy",
    "alias",
    "detach",
    "detach_",
    "type_as",
    "lift_fresh_copy",
}
"""Operators that return their operand unchanged in evaluation."""


def name_of(node: Any) -> str:
    """Return the name of a node's operator without overload: `conv2d` for `aten.conv2d.default`.

    Returns "" if the node is not a call.
    """
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return ""
    schema = getattr(node.target, "_schema", None)
    return schema.name.split("::")[-1] if schema is not None else getattr(node.target, "__name__", str(node.target))


def insert_call(graph: fx.Graph, before: fx.Node, like: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """Insert a call before a node and return the new node.

    The new node is assigned to the torch module of the node `like`.
    """
    with graph.inserting_before(before):
        node = graph.call_function(target, args, kwargs)
    node.meta["nn_module_stack"] = like.meta.get("nn_module_stack")
    return node


def skip_passthrough(node: Any) -> Any:
    """Return the first operand node that is not the result of an operator in PASSTHROUGH."""
    while name_of(node) in PASSTHROUGH:
        node = node.args[0]
    return node


def operands_of(node: Any, operator: str) -> Iterator[tuple[Any, Any]]:
    """Yield the two operands of a node in both orders if the node calls `operator`; otherwise yield nothing."""
    node = skip_passthrough(node)
    if name_of(node).removesuffix("_") == operator and not node.kwargs and len(node.args) == 2:
        first, second = map(skip_passthrough, node.args)
        yield first, second
        yield second, first


def shape_of(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's tensor; () for anything else."""
    return tuple(getattr(node.meta.get("val"), "shape", ())) if isinstance(node, fx.Node) else ()


def record_scalars(graph: fx.Graph, constants: Mapping[str, Tensor]) -> None:
    """Record the values of nodes that are known numbers: stored scalars, and scalars computed from these.

    `constants` are stored tensors by node name.
    """
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or value.dim():
            continue
        if node.name in constants:
            node.meta["number"] = float(constants[node.name])
        elif name_of(node) in SCALARS and not node.kwargs:
            operands = [scalar_value(operand) for operand in node.args]
            if all(operand is not None for operand in operands):
                result = SCALARS[name_of(node)](*(torch.tensor(operand, dtype=torch.float32) for operand in operands))
                node.meta["number"] = float(result)
        elif name_of(node) in PASSTHROUGH and (number := scalar_value(node.args[0])) is not None:
            node.meta["number"] = number


SCALARS: dict[str, Callable[..., Tensor]] = {
    "mul": torch.mul,
    "div": torch.div,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "neg": torch.neg,
}
"""Function that computes an operator on known scalars, by operator name."""


def scalar_value(node: Any) -> float | None:
    """Return the value of a scalar operand, or None if the value is not known."""
    if isinstance(node, fx.Node):
        recorded: float | None = node.meta.get("number")
        return recorded
    return float(node) if isinstance(node, int | float) and not isinstance(node, bool) else None
