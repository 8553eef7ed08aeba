"""Fusion of operator sequences that ONNX exporters emit for a single layer.

Examples are activations, norms, layers of experts, and linear layers with a bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isclose, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.backends.calls import Call, Calls

Arrays = Mapping[str, NDArray[Any]]


def fuse(calls: Calls) -> Calls:
    """Return the same network with patterns of calls fused and unused calls removed."""
    fuser = _Fuser(calls)
    fused_calls = [fuser.fuse_call(call) for call in calls.calls]
    needed, kept = set(calls.outputs.values()), []
    for call in reversed(fused_calls):
        if needed & {*call.writes}:
            kept.append(call)
            needed |= {*call.reads}
    return replace(calls, calls=kept[::-1])


class _Fuser:
    """State of the fusion: constant arrays, the call that computes each value, and its number of consumers."""

    def __init__(self, calls: Calls) -> None:
        self.arrays: dict[str, NDArray[Any]] = dict(calls.tensors)
        self.producers: dict[str, Call] = {}
        self.uses = Counter(name for call in calls.calls for name in call.reads)
        self.uses.update(calls.outputs.values())

    def fuse_call(self, call: Call) -> Call:
        """Return the fused call that replaces a call and its predecessors if a pattern matches, else the call
        itself."""
        if call.operator == "Constant" and "value" in call.attributes:
            self.arrays[call.writes[0]] = np.asarray(call.attributes["value"])
        for rule in RULES:
            match = rule(self, call)
            if match is not None:
                operator, reads, attributes = match
                call = replace(call, operator=operator, reads=reads, attributes=attributes)
                break
        for name in call.writes:
            self.producers[name] = call
        return call

    def number(self, name: str) -> float | None:
        """Return the value of a constant with a single element; None for all other values."""
        array = self.arrays.get(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def producer(self, name: str, operator: str) -> Call | None:
        """Return the call that computes a value if it is a call of the given operator, else None."""
        call = self.producers.get(name)
        return call if call is not None and call.operator == operator else None

    def factors(self, call: Call) -> tuple[float, list[str]]:
        """Decompose a product or quotient into a constant number and the names of its other factors.

        Nested products without other consumers are expanded. A divisor is named `1/NAME`.
        """
        number = 1.0
        names: list[str] = []
        for place, name in enumerate(call.reads):
            inverse = call.operator == "Div" and place == 1
            constant, inner = self.number(name), self.producers.get(name)
            if constant is not None and constant != 0:
                number *= 1 / constant if inverse else constant
            elif inner is not None and inner.operator in ("Mul", "Div") and self.uses[name] == 1 and not inverse:
                factor, inner_names = self.factors(inner)
                number, names = number * factor, [*names, *inner_names]
            else:
                names.append(f"1/{name}" if inverse else name)
        return number, names

    def sum_operand(self, name: str, addend: float) -> str | None:
        """Return the other operand if a value is the sum of that operand and the constant `addend`; else None."""
        call = self.producer(name, "Add")
        if call is None:
            return None
        for first, second in (call.reads, call.reads[::-1]):
            constant = self.number(first)
            if constant is not None and isclose(constant, addend, rel_tol=1e-4):
                return second
        return None


Match = tuple[str, tuple[str, ...], dict[str, Any]]
"""Result of a match: the fused operator, its operands and its attributes."""


def _match_activation(f: _Fuser, call: Call) -> Match | None:
    """Match the activations x sigmoid(x), GELU, and x relu6(x + 3) / 6."""
    if call.operator not in ("Mul", "Div"):
        return None
    number, names = f.factors(call)
    if len(names) != 2:
        return None
    for x, factor in (names, names[::-1]):
        inner = f.producers.get(factor)
        if inner is None:
            continue
        if isclose(number, 1) and inner.operator == "Sigmoid" and inner.reads[0] == x:
            return "Silu", (x,), {}
        if isclose(number, 1) and inner.operator == "HardSigmoid" and inner.reads[0] == x:
            sixth = isclose(inner.attributes.get("alpha", 0.2), 1 / 6, rel_tol=1e-4)
            if sixth and isclose(inner.attributes.get("beta", 0.5), 0.5):
                return "HardSwish", (x,), {}
        if isclose(number, 1 / 6, rel_tol=1e-4) and inner.operator == "Clip" and f.sum_operand(inner.reads[0], 3) == x:
            low, high = (
                inner.attributes.get(name) if len(inner.reads) <= place else f.number(inner.reads[place])
                for place, name in ((1, "min"), (2, "max"))
            )
            if low == 0 and high == 6:
                return "HardSwish", (x,), {}
        if isclose(number, 0.5) and (erf_or_tanh := f.sum_operand(factor, 1)) is not None:
            return _match_gelu(f, x, erf_or_tanh)
    return None


def _match_gelu(f: _Fuser, x: str, core: str) -> Match | None:
    """Match GELU, exact or with the tanh approximation."""
    erf, tanh = f.producer(core, "Erf"), f.producer(core, "Tanh")
    curve = erf or tanh
    inner = f.producers.get(curve.reads[0]) if curve is not None else None
    if inner is None or inner.operator not in ("Mul", "Div"):
        return None
    number, names = f.factors(inner)
    if erf is not None:
        return ("Gelu", (x,), {}) if names == [x] and isclose(number, sqrt(0.5), rel_tol=1e-4) else None
    if len(names) != 1 or not isclose(number, sqrt(2 / pi), rel_tol=1e-4):
        return None
    added = f.producer(names[0], "Add")
    for first, second in (added.reads, added.reads[::-1]) if added is not None else ():
        cubic = f.producer(second, "Mul")
        if first == x and cubic is not None:
            factor, parts = f.factors(cubic)
            power = f.producer(parts[0], "Pow") if len(parts) == 1 else None
            cubed = parts == [x] * 3 or (power is not None and power.reads[0] == x and f.number(power.reads[1]) == 3)
            if cubed and isclose(factor, 0.044715, rel_tol=1e-4):
                return "Gelu", (x,), {"approximate": "tanh"}
    return None


def _match_layer_norm(f: _Fuser, call: Call) -> Match | None:
    """Match layer norm: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) over the last axis."""
    if call.operator != "Div":
        return None
    centred, deviation = call.reads
    root = f.producer(deviation, "Sqrt")
    added = f.producer(root.reads[0], "Add") if root is not None else None
    if added is None:
        return None
    for variance, epsilon in (added.reads, added.reads[::-1]):
        eps, mean = f.number(epsilon), f.producer(variance, "ReduceMean")
        square = f.producers.get(mean.reads[0]) if mean is not None and _is_over_last_axis(f, mean) else None
        if eps is None or square is None:
            continue
        squared = square.reads == (square.reads[0],) * 2
        squared = squared or (square.operator == "Pow" and f.number(square.reads[1]) == 2)
        sub = f.producers.get(square.reads[0])
        difference = f.producers.get(centred)
        if not squared or sub is None or sub.operator != "Sub" or difference is None or difference.reads != sub.reads:
            continue
        x, mean_of = sub.reads
        mean_call = f.producer(mean_of, "ReduceMean")
        if mean_call is not None and mean_call.reads[0] == x and _is_over_last_axis(f, mean_call):
            return "LayerNormalization", (x,), {"epsilon": float(f"{eps:.7g}")}
    return None


def _is_over_last_axis(f: _Fuser, call: Call) -> bool:
    """Return whether a mean reduces only the last axis and keeps it with size 1."""
    axes = call.attributes.get("axes", [])
    if len(call.reads) > 1 and call.reads[1] in f.arrays:
        axes = f.arrays[call.reads[1]].tolist()
    return list(axes) == [-1] and call.attributes.get("keepdims", 1) == 1


def _merge_affine(f: _Fuser, call: Call) -> Match | None:
    """Merge a scale or shift into the preceding layer norm, or a bias into the preceding matrix product."""
    if call.operator not in ("Add", "Mul"):
        return None
    for inner_name, constant_name in (call.reads, call.reads[::-1]):
        stored, inner = f.arrays.get(constant_name), f.producers.get(inner_name)
        if stored is None or inner is None or stored.ndim != 1 or f.uses[inner_name] != 1:
            continue
        if call.operator == "Mul" and inner.operator == "LayerNormalization" and len(inner.reads) == 1:
            return inner.operator, (*inner.reads, constant_name), dict(inner.attributes)
        if call.operator == "Add" and inner.operator == "LayerNormalization" and len(inner.reads) == 2:
            return inner.operator, (*inner.reads, constant_name), dict(inner.attributes)
        matrix = f.arrays.get(inner.reads[1]) if inner.operator == "MatMul" else None
        if call.operator == "Add" and matrix is not None and matrix.ndim == 2 and matrix.shape[1] == stored.shape[0]:
            return "Linear", (*inner.reads, constant_name), {}
    return None


def _drop_unit_scale(f: _Fuser, call: Call) -> Match | None:
    """Match a norm without shift whose scale is a constant node of ones, and drop that scale."""
    constant = f.producer(call.reads[1], "Constant") if call.operator in NORMS and len(call.reads) > 1 else None
    if constant is None or any(call.reads[2:]) or not bool((f.arrays[call.reads[1]] == 1).all()):
        return None
    return call.operator, call.reads[:1], dict(call.attributes)


NORMS = ("LayerNormalization", "RMSNormalization")
"""Operators of normalization layers that have a scale."""


def _match_mean_pool(f: _Fuser, call: Call) -> Match | None:
    """Match an average pool that is computed by a depthwise convolution with equal weights."""
    weight = f.arrays.get(call.reads[1]) if call.operator == "Conv" and len(call.reads) == 2 else None
    if weight is None or weight.ndim != 4 or weight.shape[:2] != (call.attributes.get("group", 1), 1):
        return None
    area = weight[0, 0].size
    dilated = set(call.attributes.get("dilations", [1])) != {1}
    is_strided = max(call.attributes.get("strides", [1])) > 1  # a strided window of one pixel is a mean, too
    if (area < 2 and not is_strided) or dilated or not bool((weight == np.float32(1 / area)).all()):
        return None
    attributes = {name: value for name, value in call.attributes.items() if name in ("strides", "pads", "auto_pad")}
    padded = any(attributes.get("pads", [])) or attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    attributes |= {"kernel_shape": [*weight.shape[2:]], "count_include_pad": int(padded)}
    return "AveragePool", call.reads[:1], attributes


def _match_counted_pool(f: _Fuser, call: Call) -> Match | None:
    """Match an average pool that leaves out padding.

    Exporters compute it as the sum of each window (by a convolution), divided by the window's number of unpadded
    pixels.
    """
    if call.operator != "Mul":
        return None
    for sum_name, factor_name in (call.reads, call.reads[::-1]):
        inner, factors = f.producer(sum_name, "Conv"), f.arrays.get(factor_name)
        weight = f.arrays.get(inner.reads[1]) if inner is not None and len(inner.reads) == 2 else None
        if inner is None or weight is None or factors is None or weight.ndim != 4 or f.uses[sum_name] != 1:
            continue
        depthwise = weight.shape[:2] == (inner.attributes.get("group", 1), 1) and bool((weight == 1).all())
        if not depthwise or factors.size < 2 or not bool((factors > 0).all()):
            continue
        counts = 1 / factors.astype(np.float64)
        if np.allclose(counts, counts.round(), rtol=1e-5) and round(counts.max()) == weight[0, 0].size:
            attributes = {
                name: value for name, value in inner.attributes.items() if name in ("strides", "pads", "auto_pad")
            }
            attributes |= {"kernel_shape": [*weight.shape[2:]], "count_include_pad": 0}
            return "AveragePool", inner.reads[:1], attributes
    return None


def _match_experts(f: _Fuser, call: Call) -> Match | None:
    """Match a linear layer with experts.

    For each expert, its rows are selected, multiplied by its matrix, and written back to their positions.
    """
    if call.operator != "ScatterND":
        return None
    indices, rows = (f.producer(name, "Concat") for name in call.reads[1:])
    if indices is None or rows is None or len(indices.reads) != len(rows.reads):
        return None
    sources: set[tuple[str, str]] = set()
    stored: list[tuple[str, ...]] = []
    for expert, (index_name, row) in enumerate(zip(indices.reads, rows.reads, strict=True)):
        mapped = f.producer(row, "Gemm")
        picked = f.producer(mapped.reads[0], "GatherND") if mapped is not None else None
        turned = f.producer(index_name, "Transpose")
        nonzero = f.producer(turned.reads[0], "NonZero") if turned is not None else None
        comparison = f.producer(nonzero.reads[0], "Equal") if nonzero is not None else None
        if mapped is None or picked is None or comparison is None or f.number(comparison.reads[1]) != expert:
            return None
        source = f.producer(picked.reads[0], "Reshape") if picked.reads[1] == index_name else None
        sources.add((source.reads[0] if source is not None else picked.reads[0], comparison.reads[0]))
        stored.append(mapped.reads[1:])
    if len(sources) != 1 or len({len(stored_operands) for stored_operands in stored}) != 1:
        return None
    (operands,) = sources
    weights = (name for role in zip(*stored, strict=True) for name in role)
    return "ExpertLinear", (*operands, *weights), {"count": len(stored)}


def _match_combined(f: _Fuser, call: Call) -> Match | None:
    """Match the sum over each token's expert outputs, weighted by gates."""
    product = f.producer(call.reads[0], "MatMul") if call.operator == "Squeeze" else None
    if product is None:
        return None
    gates, rows = f.producer(product.reads[0], "Unsqueeze"), f.producer(product.reads[1], "Reshape")
    shape = f.producer(rows.reads[1], "Concat") if rows is not None else None
    sizes = f.producer(shape.reads[0], "Shape") if shape is not None else None
    if gates is None or rows is None or sizes is None or sizes.reads[0] != gates.reads[0]:
        return None
    return "CombineExperts", (rows.reads[0], gates.reads[0]), {}


RULES: Sequence[Callable[[_Fuser, Call], Match | None]] = (
    _match_activation, _match_layer_norm, _merge_affine, _match_mean_pool, _match_counted_pool, _drop_unit_scale,
    _match_experts, _match_combined,
)  # fmt: skip
"""Matching functions in the order in which they are tried."""
