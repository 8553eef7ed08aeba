"""Expressions that recur, written once: as functions of the model, which runtimes put back where they are called.

A layer in int8 comes with nodes that quantise its input, its weights and its bias, and all layers have the same. Of a
small network they would be a third of the file.
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
_ABSORBED = ("QuantizeLinear", "DequantizeLinear", "Mul")
_CHARACTERS = ascii_letters + digits
_FIELD = 2
"""Bytes around a string, or a node, in its message."""


def numbered() -> Iterator[str]:
    """a, b, ..., 9, aa, ab, ..."""
    for number in count():
        text = ""
        while number >= 0:
            text = _CHARACTERS[number % len(_CHARACTERS)] + text
            number = number // len(_CHARACTERS) - 1
        yield text


@dataclass(frozen=True, eq=False)
class Expression:
    """Nodes in the order in which they run, the last one being what all others are for.

    `given` are the values that they read from outside, `form` is what does not depend on the values' names.
    """

    nodes: tuple[onnx.NodeProto, ...]
    given: tuple[str, ...]
    form: Any

    @property
    def saving(self) -> int:
        """Bytes less that a call takes."""
        names = (*self.given, *self.nodes[-1].output)
        call = 2 * (_FIELD + 1) + _FIELD + sum(_FIELD + len(name) for name in names)
        return sum(_bytes(node) + _FIELD for node in self.nodes) - call


def outline(model: onnx.ModelProto) -> None:
    """Replace expressions that recur by calls, as long as that makes the model smaller."""
    graph = model.graph
    opset = [entry for entry in model.opset_import if entry.domain == ""]
    for name in numbered():
        forms: defaultdict[Any, list[Expression]] = defaultdict(list)
        for one in _expressions(graph):
            forms[one.form].append(one)
        best = max(forms.values(), key=_worth, default=None)
        if best is None or _worth(best) <= 0:
            break
        model.functions.append(_function(name, best[0], opset))
        _call(graph, name, best)
    if model.functions:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def _worth(same: list[Expression]) -> int:
    """Bytes that a function for these expressions saves."""
    return sum(one.saving for one in same) - _bytes(_function("a", same[0], [])) - 4 * _FIELD


def _bytes(message: onnx.NodeProto | onnx.FunctionProto) -> int:
    return len(message.SerializeToString())


def _expressions(graph: onnx.GraphProto) -> Iterator[Expression]:
    """Every node of a graph with what serves it alone: nodes that quantise, and products of scales."""
    makers = {node.output[0]: node for node in graph.node if node.op_type in _ABSORBED and not node.domain}
    readers = Counter(name for node in graph.node for name in node.input)
    for output in graph.output:
        readers[output.name] += 1
    constants = {tensor.name for tensor in graph.initializer}

    serving = {
        name: node
        for name, node in makers.items()
        if readers[name] == 1 and (node.op_type != "Mul" or constants.issuperset(node.input))
    }
    for root in graph.node:
        if not root.domain:
            nodes: list[onnx.NodeProto] = []
            given: dict[str, int] = {}
            form = _form(root, serving, nodes, given)
            yield Expression(tuple(nodes), tuple(given), form)


def _form(
    node: onnx.NodeProto, serving: Mapping[str, onnx.NodeProto], nodes: list[onnx.NodeProto], given: dict[str, int]
) -> Any:
    """What a node and those that serve it compute, of values that are numbered in the order in which they are met.

    The nodes are added to `nodes`, the values to `given`.
    """
    parts: list[Any] = []
    for name in node.input:
        if name in serving:
            parts.append(_form(serving[name], serving, nodes, given))
        else:
            parts.append(given.setdefault(name, len(given)) if name else None)
    nodes.append(node)
    attributes = tuple(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    return (node.op_type, node.domain, len(node.output), attributes, tuple(parts))


def _function(name: str, one: Expression, opset: list[onnx.OperatorSetIdProto]) -> onnx.FunctionProto:
    fresh = numbered()
    names: defaultdict[str, str] = defaultdict(lambda: next(fresh), {"": ""})
    given = [names[value] for value in one.given]
    nodes = [
        helper.make_node(node.op_type, [names[x] for x in node.input], [names[y] for y in node.output])
        for node in one.nodes
    ]
    for made, node in zip(nodes, one.nodes, strict=True):
        made.attribute.extend(node.attribute)
        made.domain = node.domain
    return helper.make_function(DOMAIN, name, given, [names[y] for y in one.nodes[-1].output], nodes, opset)


def _call(graph: onnx.GraphProto, function: str, same: list[Expression]) -> None:
    """Let calls stand for expressions, where the last node of each was."""
    gone = {node.output[0] for one in same for node in one.nodes[:-1]}
    for one in same:
        last = one.nodes[-1]
        last.op_type, last.domain = function, DOMAIN
        del last.attribute[:]
        last.input[:] = one.given
    nodes = [node for node in graph.node if node.output[0] not in gone]
    del graph.node[:]
    graph.node.extend(nodes)
