"""A trained network as it is deployed: the same in evaluation, with less to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.ir.graph import Graph, Node, NodeId, keep, rebuild, state_name
from archir.ir.op import Op
from archir.ops.conv import Biased, Conv, ConvTranspose
from archir.ops.norm import BatchNorm
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import Pad
from archir.ops.windows import alike
from archir.passes.cse import cse
from archir.passes.expand import expand
from archir.passes.fold import fold
from archir.passes.prune import prune
from archir.passes.resize import Size, resize

Arrays = Mapping[str, NDArray[Any]]
"""Weights by their names in the state dict."""


def deploy(graph: Graph, weights: Arrays, sizes: Sequence[Size] = ()) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """A graph without choices and its weights, made ready: without dropout, batch norms and padding inside of
    convolutions and linear maps, what does nothing dropped, and what is computed twice computed once.

    `sizes` are others of images, or of texts, that this must be right for, too.
    """
    certain = _certain(expand(graph))
    folded = fold(certain)
    # a slice of all there is does nothing, until there is more
    alike = all(_steps(fold(resize(certain, *size))) == _steps(resize(folded, *size)) for size in sizes)
    return fold_norm(fold_pad(cse(folded if alike else certain)), weights)


def _steps(graph: Graph) -> list[object]:
    return [*((graph[number].op, graph.operands(number)) for number in graph), graph.outputs]


def _certain(graph: Graph) -> Graph:
    """Without what acts in training alone."""

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        return operands[0] if isinstance(node.op, Dropout | DropPath) else keep(out, node, operands)

    return prune(rebuild(graph, step))


def fold_pad(graph: Graph) -> Graph:
    """Zeros around a map made part of the padding of the convolution that reads them, where both sides have as many.

    `%1 = pad(%0, amount=1); %2 = conv(%1, padding="valid")` -> `%1 = conv(%0, padding=1)`.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Conv) and isinstance(pad := out[operands[0]].op, Pad):
            left, right, top, bottom = (sum(pair) for pair in zip(pad.pads(2), node.op.pads, strict=True))
            if left == right and top == bottom:
                inner = out.operands(operands[0])
                return out.add(replace(node, op=replace(node.op, padding=alike((top, left)))), *inner)
        return keep(out, node, operands)

    return prune(rebuild(graph, step))


def fold_norm(graph: Graph, weights: Arrays) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """Batch norms made part of the convolution or linear map that they alone read.

    `%1 = conv(%0); %2 = batch_norm(%1)` -> `%1 = conv(%0, bias=true)`, where weights are multiplied by
    scale / sqrt(variance + eps) and the bias is shift - mean times that (Jacob et al. 2018, eq. 14).
    """
    found = dict(weights)
    scopes = Counter(graph[number].scope for number in graph)
    folded: dict[NodeId, NodeId] = {}
    for number in graph:
        op = graph[number].op
        if not isinstance(op, BatchNorm):
            continue
        (maker,) = graph.operands(number)
        alone = graph.consumers(maker) == [number] and maker not in graph.outputs.values()
        if not (alone and isinstance(graph[maker].op, Biased)):
            continue
        scope, norm = graph[maker].scope, graph[number].scope
        known = all(name in found for name in [state_name(scope, "weight"), *_names(norm, op)])
        if known and scopes[scope] == scopes[norm] == 1 and (axis := _axis(graph[maker].op)) is not None:
            folded[number] = maker
            _fold(found, scope, norm, op, axis)
    makers = set(folded.values())
    numbers = iter(list(graph))

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        number = next(numbers)
        if number in folded:
            return operands[0]
        if number in makers:
            assert isinstance(node.op, Biased)
            return out.add(Node(replace(node.op, bias=True), node.span, node.scope), *operands)
        return keep(out, node, operands)

    return rebuild(graph, step), found


def _axis(op: Op) -> int | None:
    """The axis of an operation's weight that has the channels of its result; None if there is no such one."""
    if isinstance(op, ConvTranspose):
        return 1 if op.groups == 1 else None
    return 0


def _names(norm: str, op: BatchNorm) -> list[str]:
    parts = ("running_mean", "running_var", *(("weight", "bias") if op.affine else ()))
    return [state_name(norm, part) for part in parts]


def _fold(weights: dict[str, NDArray[Any]], maker: str, norm: str, op: BatchNorm, axis: int) -> None:
    """Rewrite the weights of a maker, and drop those of its norm."""
    parts = {name.rsplit(".", 1)[-1]: weights.pop(name).astype(np.float64) for name in _names(norm, op)}
    factor = parts.get("weight", np.float64(1)) / np.sqrt(parts["running_var"] + op.eps)
    weight = weights[state_name(maker, "weight")]
    bias = weights.get(state_name(maker, "bias"))
    before = -parts["running_mean"] if bias is None else bias.astype(np.float64) - parts["running_mean"]
    shaped = factor.reshape(*[1] * axis, -1, *[1] * (weight.ndim - 1 - axis))
    weights[state_name(maker, "weight")] = (weight * shaped).astype(weight.dtype)
    weights[state_name(maker, "bias")] = (before * factor + parts.get("bias", 0.0)).astype(weight.dtype)
