"""Function outlining: repeated subexpressions become ONNX functions, which runtimes inline on loading.

The nodes that quantise an int8 layer's input, weights and bias are the same for every layer. In a small network they
would be a third of the file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from string import ascii_letters, digits
from typing import Any

import onnx
from onnx import helper

DOMAIN = "q"
"""Operator domain of the outlined functions."""
_ABSORBED = ("QuantizeLinear", "DequantizeLinear", "Mul")
"""Operators that are outlined together with the node that consumes their result."""
_CHARACTERS = ascii_letters + digits
_FIELD = 2
"""Number of bytes that protobuf adds to each string or node."""


def short_names() -> Iterator[str]:
    """Yield short names: a, b, ..., 9, aa, ab, ..."""
    for number in count():
        text = ""
        while number >= 0:
            text = _CHARACTERS[number % len(_CHARACTERS)] + text
            number = number // len(_CHARACTERS) - 1
        yield text


@dataclass(frozen=True, eq=False)
class Expression:
    """Subexpression of a graph: its nodes in execution order; the last node computes the result.

    `inputs` are the values that the nodes read from outside; `structure` describes the nodes independently of the names
    of values, so that equal expressions have equal structures.
    """

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    structure: Any

    @property
    def saving(self) -> int:
        """Number of bytes saved if a call replaces the expression."""
        names = (*self.inputs, *self.nodes[-1].output)
        call = 2 * (_FIELD + 1) + _FIELD + sum(_FIELD + len(name) for name in names)
        return sum(_bytes(node) + _FIELD for node in self.nodes) - call


def outline(model: onnx.ModelProto) -> None:
    """Replace repeated expressions by function calls, as long as that makes the model smaller."""
    graph = model.graph
    opset = [entry for entry in model.opset_import if entry.domain == ""]
    for name in short_names():
        by_structure: defaultdict[Any, list[Expression]] = defaultdict(list)
        for expression in _expressions(graph):
            by_structure[expression.structure].append(expression)
        best = max(by_structure.values(), key=_bytes_saved, default=None)
        if best is None or _bytes_saved(best) <= 0:
            break
        model.functions.append(_function(name, best[0], opset))
        _call(graph, name, best)
    if model.functions:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def _bytes_saved(same: list[Expression]) -> int:
    """Return the total number of bytes saved if a function replaces all of these equal expressions."""
    return sum(expression.saving for expression in same) - _bytes(_function("a", same[0], [])) - 4 * _FIELD


def _bytes(message: onnx.NodeProto | onnx.FunctionProto) -> int:
    return len(message.SerializeToString())


def _expressions(graph: onnx.GraphProto) -> Iterator[Expression]:
    """Yield an expression per node of a graph: the node, and its operand nodes without other consumers.

    Only operand nodes that quantise, dequantise, or multiply constant scales are included.
    """
    producers = {node.output[0]: node for node in graph.node if node.op_type in _ABSORBED and not node.domain}
    readers = Counter(name for node in graph.node for name in node.input)
    for output in graph.output:
        readers[output.name] += 1
    constants = {tensor.name for tensor in graph.initializer}

    single_use = {
        name: node
        for name, node in producers.items()
        if readers[name] == 1 and (node.op_type != "Mul" or constants.issuperset(node.input))
    }
    for root in graph.node:
        if not root.domain:
            nodes: list[onnx.NodeProto] = []
            inputs: dict[str, int] = {}
            structure = _structure(root, single_use, nodes, inputs)
            yield Expression(tuple(nodes), tuple(inputs), structure)


def _structure(
    node: onnx.NodeProto, serving: Mapping[str, onnx.NodeProto], nodes: list[onnx.NodeProto], inputs: dict[str, int]
) -> Any:
    """Return the structure of a node and its single-use operands.

    Outside values are numbered in the order of first use. `serving` maps values to the single-use nodes that compute
    them. The nodes are appended to `nodes`, the outside values to `inputs`.
    """
    parts: list[Any] = []
    for name in node.input:
        if name in serving:
            parts.append(_structure(serving[name], serving, nodes, inputs))
        else:
            parts.append(inputs.setdefault(name, len(inputs)) if name else None)
    nodes.append(node)
    attributes = tuple(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    return (node.op_type, node.domain, len(node.output), attributes, tuple(parts))


def _function(name: str, expression: Expression, opset: list[onnx.OperatorSetIdProto]) -> onnx.FunctionProto:
    """Return an ONNX function that computes an expression."""
    fresh = short_names()
    names: defaultdict[str, str] = defaultdict(lambda: next(fresh), {"": ""})
    inputs = [names[value] for value in expression.inputs]
    nodes = [
        helper.make_node(node.op_type, [names[x] for x in node.input], [names[y] for y in node.output])
        for node in expression.nodes
    ]
    for copy, node in zip(nodes, expression.nodes, strict=True):
        copy.attribute.extend(node.attribute)
        copy.domain = node.domain
    return helper.make_function(DOMAIN, name, inputs, [names[y] for y in expression.nodes[-1].output], nodes, opset)


def _call(graph: onnx.GraphProto, function: str, same: list[Expression]) -> None:
    """Replace equal expressions by calls of a function. Each call takes the position of the expression's last node."""
    removed = {node.output[0] for expression in same for node in expression.nodes[:-1]}
    for expression in same:
        last = expression.nodes[-1]
        last.op_type, last.domain = function, DOMAIN
        del last.attribute[:]
        last.input[:] = expression.inputs
    nodes = [node for node in graph.node if node.output[0] not in removed]
    del graph.node[:]
    graph.node.extend(nodes)
