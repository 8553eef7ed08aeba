"""Fusion of norms, activations, rotary embeddings and pools that modules compute by several operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose, pi, sqrt
from typing import Any

import torch
from torch import Tensor, fx

from archir_torch.importing.patterns.matching import (
    aten,
    insert_call,
    name_of,
    operands_of,
    scalar_value,
    shape_of,
    skip_passthrough,
)


def fuse_layers(graph: fx.Graph) -> None:
    """Replace each decomposed layer by a single operator, from the last node of the graph to the first."""
    for node in reversed(list(graph.nodes)):
        rules = RULES.get(name_of(node).removesuffix("_"), ())
        for rule in rules:
            match = rule(node)
            if match is not None:
                target, args, kwargs = match
                fused = insert_call(graph, node, node, target, *args, **kwargs)
                fused.meta["val"] = node.meta.get("val")
                node.replace_all_uses_with(fused)
                break


Match = tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]
"""Result of a match: the replacing function, its positional arguments and its keyword arguments."""


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Apply a rotary position embedding: rotate the two halves of the last axis against each other."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


def _is_number(value: Any, expected: float) -> bool:
    """Return whether a value is a number close to `expected`."""
    return isinstance(value, int | float) and isclose(value, expected, rel_tol=1e-4)


def _other_factor(node: Any, factor: float) -> Any:
    """Return the other operand if a node multiplies by `factor`, or divides by its inverse; else None."""
    if name_of(node) == "div" and isinstance(node.args[1], int | float) and _is_number(1 / node.args[1], factor):
        return skip_passthrough(node.args[0])
    return next((x for x, other_factor in operands_of(node, "mul") if _is_number(other_factor, factor)), None)


def _cube_root(node: Any) -> Any:
    """Return x if a node computes x^3, else None."""
    if name_of(node) == "pow" and _is_number(node.args[1], 3):
        return skip_passthrough(node.args[0])
    for square, x in operands_of(node, "mul"):
        if any(first is x and second is x for first, second in operands_of(square, "mul")):
            return x
    return None


def _tanh_gelu(node: fx.Node) -> Match | None:
    """Match x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    for half, curve in operands_of(node, "mul"):
        x = _other_factor(half, 0.5)
        tanh = next((summand for summand, addend in operands_of(curve, "add") if _is_number(addend, 1)), None)
        if x is None or tanh is None or name_of(tanh) != "tanh":
            continue
        inner = _other_factor(skip_passthrough(tanh.args[0]), sqrt(2 / pi))
        for summand, cubic in operands_of(inner, "add"):
            if summand is x and _cube_root(_other_factor(cubic, 0.044715)) is x:
                return aten.gelu.default, (x,), {"approximate": "tanh"}
    return None


def _exact_gelu(node: fx.Node) -> Match | None:
    """Match x / 2 (1 + erf(x / sqrt(2))), with the factors in any order."""
    for first, curve in operands_of(node, "mul"):
        erf = next((erf_node for erf_node, addend in operands_of(curve, "add") if _is_number(addend, 1)), None)
        x = (
            _other_factor(skip_passthrough(erf.args[0]), 1 / sqrt(2))
            if erf is not None and name_of(erf) == "erf"
            else None
        )
        if x is not None and _other_factor(first, 0.5) is x:
            return aten.gelu.default, (x,), {}
    half = next((erf_node for erf_node, addend in operands_of(node, "mul") if _is_number(addend, 0.5)), None)
    for x, curve in operands_of(half, "mul"):
        erf = next((erf_node for erf_node, addend in operands_of(curve, "add") if _is_number(addend, 1)), None)
        if erf is not None and name_of(erf) == "erf" and _other_factor(skip_passthrough(erf.args[0]), 1 / sqrt(2)) is x:
            return aten.gelu.default, (x,), {}
    return None


def _match_normalization(node: Any) -> tuple[Any, float] | None:
    """Match x / sqrt(mean(x^2) + eps) over the last axis; returns x and eps."""
    for x, inner in _divisions_by_root(node):
        for mean, eps in operands_of(inner, "add"):
            if name_of(mean) != "mean" or not isinstance(eps, int | float) or len(mean.args) < 3:
                continue
            square = skip_passthrough(mean.args[0])
            last = list(mean.args[1]) in ([-1], [len(shape_of(x)) - 1])
            squared = (
                name_of(square) == "pow" and _is_number(square.args[1], 2) and skip_passthrough(square.args[0]) is x
            )
            squared = squared or any(first is x and second is x for first, second in operands_of(square, "mul"))
            if last and mean.args[2] and squared:
                return x, float(eps)
    return None


def _divisions_by_root(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield x and y if a node computes x / sqrt(y), in any form."""
    for x, rate in operands_of(node, "mul"):
        if name_of(rate) == "rsqrt" or (name_of(rate) == "pow" and _is_number(rate.args[1], -0.5)):
            yield x, skip_passthrough(rate.args[0])
    if name_of(node) == "div":
        x, root = (skip_passthrough(operand) for operand in node.args[:2])
        if name_of(root) == "sqrt":
            yield x, skip_passthrough(root.args[0])


def _rms_norm(node: fx.Node) -> Match | None:
    """Match an RMS norm, with or without a scale."""
    for inner, weight in operands_of(node, "mul"):
        normalized = _match_normalization(inner)
        if normalized is not None and isinstance(weight, fx.Node) and _is_per_feature(weight, normalized[0]):
            return aten.rms_norm.default, (normalized[0], [shape_of(normalized[0])[-1]], weight, normalized[1]), {}
    normalized = _match_normalization(node)
    return (
        (aten.rms_norm.default, (normalized[0], [shape_of(normalized[0])[-1]], None, normalized[1]), {})
        if normalized
        else None
    )


def _is_per_feature(weight: fx.Node, x: Any) -> bool:
    """Return whether a weight has one element per feature (last axis) of x."""
    return shape_of(weight) == shape_of(x)[-1:]


def _source_of_halves(first: Any, second: Any) -> Any:
    """Return the tensor of which the two given tensors are the halves along the last axis; None if there is none."""
    parts = [skip_passthrough(first), skip_passthrough(second)]
    if all(name_of(part) == "getitem" for part in parts):
        (source_node, i), (second_source, j) = (part.args for part in parts)
        is_split = (
            name_of(source_node) in ("split", "split_with_sizes", "chunk")
            and [i, j] == [0, 1]
            and source_node is second_source
        )
        source = source_node.args[0] if is_split else None
        return source if source is not None and 2 * shape_of(parts[0])[-1] == shape_of(source)[-1] else None
    if not all(name_of(part) == "slice" for part in parts) or parts[0].args[0] is not parts[1].args[0]:
        return None
    source = parts[0].args[0]
    size = shape_of(source)
    half = size[-1] // 2
    bounds = [(part.args[1] % len(size), *slice(*part.args[2:4]).indices(size[-1])[:2]) for part in parts]
    return (
        source if bounds == [(len(size) - 1, 0, half), (len(size) - 1, half, size[-1])] and size[-1] % 2 == 0 else None
    )


def _concat_halves(node: Any) -> list[Any]:
    """Return the two operands of a concatenation along the last axis; empty for other nodes."""
    if name_of(node) != "cat" or len(node.args[0]) != 2:
        return []
    dim = node.args[1] if len(node.args) > 1 else 0
    return list(node.args[0]) if dim in (-1, len(shape_of(node)) - 1) else []


def _rotary(node: fx.Node) -> Match | None:
    """Match a rotary embedding x cos + [-b, a] sin, where a and b are the halves of x."""
    for cosine_term, sine_term in operands_of(node, "add"):
        for x, cosines in operands_of(cosine_term, "mul"):
            for rotated_half, sines in operands_of(sine_term, "mul"):
                parts = _concat_halves(rotated_half)
                if parts and name_of(skip_passthrough(parts[0])) == "neg" and isinstance(cosines, fx.Node):
                    source = _source_of_halves(parts[1], skip_passthrough(parts[0]).args[0])
                    if source is not None and skip_passthrough(source) is x and isinstance(sines, fx.Node):
                        return rotated, (x, cosines, sines), {}
    return None


def _rotary_by_halves(node: fx.Node) -> Match | None:
    """Match a rotary embedding [a cos - b sin, b cos + a sin], where a and b are the halves of a tensor."""
    parts = [skip_passthrough(part) for part in _concat_halves(node)]
    if [name_of(part) for part in parts] != ["sub", "add"]:
        return None
    for a, cosines in operands_of(skip_passthrough(parts[0].args[0]), "mul"):
        for b, sines in operands_of(skip_passthrough(parts[0].args[1]), "mul"):
            source = _source_of_halves(a, b) if isinstance(a, fx.Node) and isinstance(b, fx.Node) else None
            expected = [{a, sines}, {b, cosines}] if source is not None else []
            pairs = [
                {*map(skip_passthrough, part.args[:2])}
                for part in map(skip_passthrough, parts[1].args[:2])
                if name_of(part) == "mul"
            ]
            if source is not None and pairs in (expected, expected[::-1]):
                return rotated, (source, cosines, sines), {}
    return None


def padded(ids: Tensor, padding: int) -> Tensor:
    """Return the position indices of tokens: tokens that are not padding are counted from `padding` + 1.

    Padding tokens get the index `padding`.
    """
    is_token = ids != padding
    return is_token.cumsum(1) * is_token + padding


def _padded_positions(node: fx.Node) -> Match | None:
    """Match the position indices of unpadded tokens: cumsum(mask) * mask + padding."""
    for product, padding in operands_of(node, "add"):
        for count, mask in operands_of(product, "mul") if isinstance(padding, int) else ():
            count = next((summand for summand, zero in operands_of(count, "add") if _is_number(zero, 0)), count)
            is_cumsum = (
                name_of(count) == "cumsum" and skip_passthrough(count.args[0]) is mask and count.args[1] in (1, -1)
            )
            ids = _compared_integers(mask, padding)
            if is_cumsum and ids is not None and len(shape_of(mask)) == 2:
                return padded, (ids, padding), {}
    return None


def _compared_integers(mask: Any, number: int) -> Any:
    """Return the integers that a mask compares: the mask is true where they differ from `number`.

    Returns None for other masks.
    """
    if name_of(mask) in ("ne", "not_equal"):
        return mask.args[0] if mask.args[1] == number else None
    if name_of(mask) == "where" and (scalar_value(mask.args[1]), scalar_value(mask.args[2])) == (0, 1):
        equal = skip_passthrough(mask.args[0])
        return equal.args[0] if name_of(equal) == "eq" and equal.args[1] == number else None
    return None


def widened(x: Tensor, pads: Sequence[int], *window: Any) -> Tensor:
    """Apply max pooling after padding with -inf."""
    return torch.max_pool2d(torch.constant_pad_nd(x, list(pads), float("-inf")), *window)


def _padded_max_pool(node: fx.Node) -> Match | None:
    """Match a max pool whose operand is padded with -inf."""
    source, *window = node.args
    source = skip_passthrough(source)
    is_padding = name_of(source) in ("pad", "constant_pad_nd") and not source.kwargs and not node.kwargs
    if is_padding and source.args[-1] == float("-inf") and len(source.args[1]) == 4:
        padding = window[2] if len(window) > 2 else 0
        if padding == 0 or (isinstance(padding, list | tuple) and not any(padding)):
            return widened, (source.args[0], list(source.args[1]), *window), {}
    return None


RULES: dict[str, Sequence[Callable[[fx.Node], Match | None]]] = {
    "mul": (_tanh_gelu, _exact_gelu, _rms_norm),
    "add": (_rotary, _padded_positions),
    "cat": (_rotary_by_halves,),
    "max_pool2d": (_padded_max_pool,),
}
"""Matching functions by the name of the last operator of their patterns."""
