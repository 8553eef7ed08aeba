"""Norms, activations and rotations that modules write out number by number, as the one operator that each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose, pi, sqrt
from typing import Any

import torch
from torch import Tensor, fx

from archir_torch.importing.patterns.matching import aten, made, name_of, number_of, operands_of, passed, size_of


def simplified(graph: fx.Graph) -> None:
    """Put one operator in the place of what is written out, the last node of which comes first."""
    for node in reversed(list(graph.nodes)):
        rules = RULES.get(name_of(node).removesuffix("_"), ())
        for rule in rules:
            found = rule(node)
            if found is not None:
                target, args, kwargs = found
                whole = made(graph, node, node, target, *args, **kwargs)
                whole.meta["val"] = node.meta.get("val")
                node.replace_all_uses_with(whole)
                break


Found = tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """The halves of the last axis turned against each other by angles."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


def _number(value: Any, wanted: float) -> bool:
    return isinstance(value, int | float) and isclose(value, wanted, rel_tol=1e-4)


def _scaled(node: Any, wanted: float) -> Any:
    """What is multiplied with a number."""
    if name_of(node) == "div" and isinstance(node.args[1], int | float) and _number(1 / node.args[1], wanted):
        return passed(node.args[0])
    return next((x for x, by in operands_of(node, "mul") if _number(by, wanted)), None)


def _cubed(node: Any) -> Any:
    if name_of(node) == "pow" and _number(node.args[1], 3):
        return passed(node.args[0])
    for square, x in operands_of(node, "mul"):
        if any(one is x and other is x for one, other in operands_of(square, "mul")):
            return x
    return None


def _gelu(node: fx.Node) -> Found | None:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    for half, curve in operands_of(node, "mul"):
        x = _scaled(half, 0.5)
        tanh = next((one for one, by in operands_of(curve, "add") if _number(by, 1)), None)
        if x is None or tanh is None or name_of(tanh) != "tanh":
            continue
        inner = _scaled(passed(tanh.args[0]), sqrt(2 / pi))
        for one, cubic in operands_of(inner, "add"):
            if one is x and _cubed(_scaled(cubic, 0.044715)) is x:
                return aten.gelu.default, (x,), {"approximate": "tanh"}
    return None


def _exact_gelu(node: fx.Node) -> Found | None:
    """x / 2 (1 + erf(x / sqrt(2))), in either order."""
    for first, curve in operands_of(node, "mul"):
        erf = next((one for one, by in operands_of(curve, "add") if _number(by, 1)), None)
        x = _scaled(passed(erf.args[0]), 1 / sqrt(2)) if erf is not None and name_of(erf) == "erf" else None
        if x is not None and _scaled(first, 0.5) is x:
            return aten.gelu.default, (x,), {}
    half = next((one for one, by in operands_of(node, "mul") if _number(by, 0.5)), None)
    for x, curve in operands_of(half, "mul"):
        erf = next((one for one, by in operands_of(curve, "add") if _number(by, 1)), None)
        if erf is not None and name_of(erf) == "erf" and _scaled(passed(erf.args[0]), 1 / sqrt(2)) is x:
            return aten.gelu.default, (x,), {}
    return None


def _normed(node: Any) -> tuple[Any, float] | None:
    """x / sqrt(mean(x^2) + eps) over the last axis: x and eps."""
    for x, rate in operands_of(node, "mul"):
        if name_of(rate) == "rsqrt" or (name_of(rate) == "pow" and _number(rate.args[1], -0.5)):
            inner = passed(rate.args[0])
        else:
            continue
        for mean, eps in operands_of(inner, "add"):
            if name_of(mean) != "mean" or not isinstance(eps, int | float) or len(mean.args) < 3:
                continue
            square = passed(mean.args[0])
            last = list(mean.args[1]) in ([-1], [len(size_of(x)) - 1])
            squared = name_of(square) == "pow" and _number(square.args[1], 2) and passed(square.args[0]) is x
            squared = squared or any(one is x and other is x for one, other in operands_of(square, "mul"))
            if last and mean.args[2] and squared:
                return x, float(eps)
    return None


def _rms_norm(node: fx.Node) -> Found | None:
    """A norm, and the scale that it is multiplied with."""
    for inner, weight in operands_of(node, "mul"):
        found = _normed(inner)
        if found is not None and isinstance(weight, fx.Node) and _fits(weight, found[0]):
            return aten.rms_norm.default, (found[0], [size_of(found[0])[-1]], weight, found[1]), {}
    found = _normed(node)
    return (aten.rms_norm.default, (found[0], [size_of(found[0])[-1]], None, found[1]), {}) if found else None


def _fits(weight: fx.Node, x: Any) -> bool:
    return size_of(weight) == size_of(x)[-1:]


def _halves(first: Any, second: Any) -> Any:
    """What two tensors are the halves of, along the last axis."""
    parts = [passed(first), passed(second)]
    if all(name_of(one) == "getitem" for one in parts):
        (whole, i), (other, j) = (one.args for one in parts)
        even = name_of(whole) in ("split", "split_with_sizes", "chunk") and [i, j] == [0, 1] and whole is other
        source = whole.args[0] if even else None
        return source if source is not None and 2 * size_of(parts[0])[-1] == size_of(source)[-1] else None
    if not all(name_of(one) == "slice" for one in parts) or parts[0].args[0] is not parts[1].args[0]:
        return None
    source = parts[0].args[0]
    size = size_of(source)
    half = size[-1] // 2
    bounds = [(one.args[1] % len(size), *slice(*one.args[2:4]).indices(size[-1])[:2]) for one in parts]
    return (
        source if bounds == [(len(size) - 1, 0, half), (len(size) - 1, half, size[-1])] and size[-1] % 2 == 0 else None
    )


def _joined(node: Any) -> list[Any]:
    """The two parts of what is joined along the last axis."""
    if name_of(node) != "cat" or len(node.args[0]) != 2:
        return []
    dim = node.args[1] if len(node.args) > 1 else 0
    return list(node.args[0]) if dim in (-1, len(size_of(node)) - 1) else []


def _rotary(node: fx.Node) -> Found | None:
    """x cos + (the halves of x, turned) sin."""
    for one, other in operands_of(node, "add"):
        for x, cosines in operands_of(one, "mul"):
            for turned, sines in operands_of(other, "mul"):
                parts = _joined(turned)
                if parts and name_of(passed(parts[0])) == "neg" and isinstance(cosines, fx.Node):
                    source = _halves(parts[1], passed(parts[0]).args[0])
                    if source is not None and passed(source) is x and isinstance(sines, fx.Node):
                        return rotated, (x, cosines, sines), {}
    return None


def _rotary_by_halves(node: fx.Node) -> Found | None:
    """[a cos - b sin, b cos + a sin] of the halves a and b."""
    parts = [passed(one) for one in _joined(node)]
    if [name_of(one) for one in parts] != ["sub", "add"]:
        return None
    for a, cosines in operands_of(passed(parts[0].args[0]), "mul"):
        for b, sines in operands_of(passed(parts[0].args[1]), "mul"):
            source = _halves(a, b) if isinstance(a, fx.Node) and isinstance(b, fx.Node) else None
            wanted = [{a, sines}, {b, cosines}] if source is not None else []
            pairs = [{*map(passed, one.args[:2])} for one in map(passed, parts[1].args[:2]) if name_of(one) == "mul"]
            if source is not None and pairs in (wanted, wanted[::-1]):
                return rotated, (source, cosines, sines), {}
    return None


def padded(ids: Tensor, padding: int) -> Tensor:
    """The places of tokens among those that are no padding, counted from the number after it."""
    shown = ids != padding
    return shown.cumsum(1) * shown + padding


def _padded(node: fx.Node) -> Found | None:
    """The sum of a mask up to each position, times the mask, plus the number that padding has."""
    for product, padding in operands_of(node, "add"):
        for count, mask in operands_of(product, "mul") if isinstance(padding, int) else ():
            count = next((one for one, none in operands_of(count, "add") if _number(none, 0)), count)
            summed = name_of(count) == "cumsum" and passed(count.args[0]) is mask and count.args[1] in (1, -1)
            ids = _unequal(mask, padding)
            if summed and ids is not None and len(size_of(mask)) == 2:
                return padded, (ids, padding), {}
    return None


def _unequal(mask: Any, number: int) -> Any:
    """Integers of which a mask says where they are no such number."""
    if name_of(mask) in ("ne", "not_equal"):
        return mask.args[0] if mask.args[1] == number else None
    if name_of(mask) == "where" and (number_of(mask.args[1]), number_of(mask.args[2])) == (0, 1):
        equal = passed(mask.args[0])
        return equal.args[0] if name_of(equal) == "eq" and equal.args[1] == number else None
    return None


def widened(x: Tensor, pads: Sequence[int], *window: Any) -> Tensor:
    """The largest numbers of windows, with as many positions around that count for nothing."""
    return torch.max_pool2d(torch.constant_pad_nd(x, list(pads), float("-inf")), *window)


def _widened(node: fx.Node) -> Found | None:
    """A max pool of what is padded with the lowest of all numbers."""
    padded_, *window = node.args
    padded_ = passed(padded_)
    plain = name_of(padded_) in ("pad", "constant_pad_nd") and not padded_.kwargs and not node.kwargs
    if plain and padded_.args[-1] == float("-inf") and len(padded_.args[1]) == 4:
        zeros = window[2] if len(window) > 2 else 0
        if zeros == 0 or (isinstance(zeros, list | tuple) and not any(zeros)):
            return widened, (padded_.args[0], list(padded_.args[1]), *window), {}
    return None


RULES: dict[str, Sequence[Callable[[fx.Node], Found | None]]] = {
    "mul": (_gelu, _exact_gelu, _rms_norm),
    "add": (_rotary, _padded),
    "cat": (_rotary_by_halves,),
    "max_pool2d": (_widened,),
}
