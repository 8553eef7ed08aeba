"""Simplification of a trained network for deployment: fewer operations, but the same results in evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.ir.graph import Graph, Node, NodeId, copy_node, rebuild, state_name
from archir.ir.op import Op
from archir.ops.conv import AffineOp, Conv, ConvTranspose
from archir.ops.norm import BatchNorm
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import Pad
from archir.ops.windows import collapse_sizes
from archir.passes.cse import cse
from archir.passes.expand import expand
from archir.passes.fold import fold
from archir.passes.prune import prune
from archir.passes.resize import Size, resize

Arrays = Mapping[str, NDArray[Any]]
"""Weights by name, as in a state dict."""


def deploy(graph: Graph, weights: Arrays, sizes: Sequence[Size] = ()) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """Simplify a graph without choices, together with its weights, for evaluation.

    Dropout is removed, batch norms and padding are folded into convolutions and linear layers, operations without
    effect are dropped, and common subexpressions are computed once. `sizes` are further input sizes (of images or
    texts) for which the simplified graph must be correct.
    """
    deterministic = _without_random(expand(graph))
    folded = fold(deterministic)
    # a slice of a whole axis has no effect at this size, but has one if the axis is longer
    is_size_independent = all(
        _steps(fold(resize(deterministic, *size))) == _steps(resize(folded, *size)) for size in sizes
    )
    return fold_norm(fold_pad(cse(folded if is_size_independent else deterministic)), weights)


def _steps(graph: Graph) -> list[object]:
    """Return operations with operand numbers, and outputs: equal for equal graphs, whatever their scopes."""
    return [*((graph[number].op, graph.operands(number)) for number in graph), graph.outputs]


def _without_random(graph: Graph) -> Graph:
    """Remove the operations that have no effect in evaluation, such as dropout."""

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        return operands[0] if isinstance(node.op, Dropout | DropPath) else copy_node(out, node, operands)

    return prune(rebuild(graph, step))


def fold_pad(graph: Graph) -> Graph:
    """Fold zero padding of a map into the convolution that reads it, if opposite sides have equal padding.

    `%1 = pad(%0, amount=1); %2 = conv(%1, padding="valid")` -> `%1 = conv(%0, padding=1)`.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Conv) and isinstance(pad := out[operands[0]].op, Pad):
            left, right, top, bottom = (sum(pair) for pair in zip(pad.pads(2), node.op.pads, strict=True))
            if left == right and top == bottom:
                inner = out.operands(operands[0])
                return out.add(replace(node, op=replace(node.op, padding=collapse_sizes((top, left)))), *inner)
        return copy_node(out, node, operands)

    return prune(rebuild(graph, step))


def fold_norm(graph: Graph, weights: Arrays) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """Fold each batch norm into the convolution or linear layer that it reads, if nothing else reads the layer.

    `%1 = conv(%0); %2 = batch_norm(%1)` -> `%1 = conv(%0, bias=true)`: the weights are multiplied by f = scale /
    sqrt(variance + eps), and the bias becomes shift - mean * f (Jacob et al. 2018, eq. 14).
    """
    arrays = dict(weights)
    scopes = Counter(graph[number].scope for number in graph)
    folded: dict[NodeId, NodeId] = {}
    for number in graph:
        op = graph[number].op
        if not isinstance(op, BatchNorm):
            continue
        (producer,) = graph.operands(number)
        is_only_reader = graph.consumers(producer) == [number] and producer not in graph.outputs.values()
        if not (is_only_reader and isinstance(graph[producer].op, AffineOp)):
            continue
        scope, norm = graph[producer].scope, graph[number].scope
        has_weights = all(name in arrays for name in [state_name(scope, "weight"), *_norm_names(norm, op)])
        if (
            has_weights
            and scopes[scope] == scopes[norm] == 1
            and (axis := _output_axis(graph[producer].op)) is not None
        ):
            folded[number] = producer
            _fold(arrays, scope, norm, op, axis)
    producers = set(folded.values())
    numbers = iter(list(graph))

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        number = next(numbers)
        if number in folded:
            return operands[0]
        if number in producers:
            assert isinstance(node.op, AffineOp)
            return out.add(Node(replace(node.op, bias=True), node.span, node.scope), *operands)
        return copy_node(out, node, operands)

    return rebuild(graph, step), arrays


def _output_axis(op: Op) -> int | None:
    """Return the axis of an operation's `weight` that holds the channels of the result.

    Returns None unless there is exactly one such axis.
    """
    if isinstance(op, ConvTranspose):
        return 1 if op.groups == 1 else None
    return 0


def _norm_names(norm: str, op: BatchNorm) -> list[str]:
    """Return the names that a batch norm's weights have in the state dict."""
    parts = ("running_mean", "running_var", *(("weight", "bias") if op.affine else ()))
    return [state_name(norm, part) for part in parts]


def _fold(weights: dict[str, NDArray[Any]], producer: str, norm: str, op: BatchNorm, axis: int) -> None:
    """Fold a batch norm into the weights of the operation it reads; delete the norm's weights from `weights`."""
    parts = {name.rsplit(".", 1)[-1]: weights.pop(name).astype(np.float64) for name in _norm_names(norm, op)}
    factor = parts.get("weight", np.float64(1)) / np.sqrt(parts["running_var"] + op.eps)
    weight = weights[state_name(producer, "weight")]
    bias = weights.get(state_name(producer, "bias"))
    before = -parts["running_mean"] if bias is None else bias.astype(np.float64) - parts["running_mean"]
    shaped = factor.reshape(*[1] * axis, -1, *[1] * (weight.ndim - 1 - axis))
    weights[state_name(producer, "weight")] = (weight * shaped).astype(weight.dtype)
    weights[state_name(producer, "bias")] = (before * factor + parts.get("bias", 0.0)).astype(weight.dtype)
