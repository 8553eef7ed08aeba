"""What the nodes of torch's graph are, for those who look for patterns in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

PASSING = {
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
"""Operators that give what they read, in evaluation."""


def name_of(node: Any) -> str:
    """`aten.conv2d.default` -> `conv2d`; nothing for what is no call."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return ""
    schema = getattr(node.target, "_schema", None)
    return schema.name.split("::")[-1] if schema is not None else getattr(node.target, "__name__", str(node.target))


def made(graph: fx.Graph, before: fx.Node, like: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A node of the module that another one is of, put before a third."""
    with graph.inserting_before(before):
        node = graph.call_function(target, args, kwargs)
    node.meta["nn_module_stack"] = like.meta.get("nn_module_stack")
    return node


def passed(node: Any) -> Any:
    """What an operator passes on."""
    while name_of(node) in PASSING:
        node = node.args[0]
    return node


def operands_of(node: Any, operator: str) -> Iterator[tuple[Any, Any]]:
    """The operands of a sum or a product, both ways around; nothing for other operators."""
    node = passed(node)
    if name_of(node).removesuffix("_") == operator and not node.kwargs and len(node.args) == 2:
        one, other = map(passed, node.args)
        yield one, other
        yield other, one


def size_of(node: Any) -> tuple[int, ...]:
    """The sizes of a tensor."""
    return tuple(getattr(node.meta.get("val"), "shape", ())) if isinstance(node, fx.Node) else ()


def numbered(graph: fx.Graph, constants: Mapping[str, Tensor]) -> None:
    """Note which nodes are one number that is known: stored tensors, by the name of their node, and what is made of
    them."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or value.dim():
            continue
        if node.name in constants:
            node.meta["number"] = float(constants[node.name])
        elif name_of(node) in SCALARS and not node.kwargs:
            given = [number_of(one) for one in node.args]
            if all(one is not None for one in given):
                made = SCALARS[name_of(node)](*(torch.tensor(one, dtype=torch.float32) for one in given))
                node.meta["number"] = float(made)
        elif name_of(node) in PASSING and (number := number_of(node.args[0])) is not None:
            node.meta["number"] = number


SCALARS: dict[str, Callable[..., Tensor]] = {
    "mul": torch.mul,
    "div": torch.div,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "neg": torch.neg,
}


def number_of(node: Any) -> float | None:
    """The number that an operand is, if it is known as one."""
    if isinstance(node, fx.Node):
        known: float | None = node.meta.get("number")
        return known
    return float(node) if isinstance(node, int | float) and not isinstance(node, bool) else None
