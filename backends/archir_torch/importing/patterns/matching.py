"""What the nodes of torch's graph are, for those who look for patterns in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

PASSING = {"dropout", "clone", "contiguous", "to", "_to_copy", "alias", "detach", "type_as"}
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
