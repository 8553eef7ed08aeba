"""What exporters write in several operators, as the one that it is: activations, norms, experts, linear maps with a
bias."""

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


def fused(calls: Calls) -> Calls:
    """The same network in fewer calls."""
    fusing = _Fusing(calls)
    made = [fusing.one(call) for call in calls.calls]
    wanted, kept = set(calls.outputs.values()), []
    for call in reversed(made):
        if wanted & {*call.writes}:
            kept.append(call)
            wanted |= {*call.reads}
    return replace(calls, calls=kept[::-1])


class _Fusing:
    def __init__(self, calls: Calls) -> None:
        self.arrays: dict[str, NDArray[Any]] = dict(calls.tensors)
        self.makers: dict[str, Call] = {}
        self.uses = Counter(name for call in calls.calls for name in call.reads)
        self.uses.update(calls.outputs.values())

    def one(self, call: Call) -> Call:
        """A call, or the one that does what it does with what came before it."""
        if call.operator == "Constant" and "value" in call.attributes:
            self.arrays[call.writes[0]] = np.asarray(call.attributes["value"])
        for rule in RULES:
            found = rule(self, call)
            if found is not None:
                operator, reads, attributes = found
                call = replace(call, operator=operator, reads=reads, attributes=attributes)
                break
        for name in call.writes:
            self.makers[name] = call
        return call

    def number(self, name: str) -> float | None:
        """A constant, if it is one number."""
        array = self.arrays.get(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def made(self, name: str, operator: str) -> Call | None:
        """The call that makes a value, if it is of this operator."""
        found = self.makers.get(name)
        return found if found is not None and found.operator == operator else None

    def scaled(self, call: Call) -> tuple[float, list[str]]:
        """A product as a number and values, taken apart as long as nobody else reads its parts."""
        number = 1.0
        names: list[str] = []
        for place, name in enumerate(call.reads):
            inverse = call.operator == "Div" and place == 1
            known, inner = self.number(name), self.makers.get(name)
            if known is not None and known != 0:
                number *= 1 / known if inverse else known
            elif inner is not None and inner.operator in ("Mul", "Div") and self.uses[name] == 1 and not inverse:
                factor, more = self.scaled(inner)
                number, names = number * factor, [*names, *more]
            else:
                names.append(f"1/{name}" if inverse else name)
        return number, names

    def plus(self, name: str, wanted: float) -> str | None:
        """What a number is added to."""
        call = self.made(name, "Add")
        if call is None:
            return None
        for one, other in (call.reads, call.reads[::-1]):
            known = self.number(one)
            if known is not None and isclose(known, wanted, rel_tol=1e-4):
                return other
        return None


Found = tuple[str, tuple[str, ...], dict[str, Any]]


def _product(f: _Fusing, call: Call) -> Found | None:
    """x sigmoid(x), x Phi(x), x relu6(x + 3) / 6."""
    if call.operator not in ("Mul", "Div"):
        return None
    number, names = f.scaled(call)
    if len(names) != 2:
        return None
    for x, other in (names, names[::-1]):
        inner = f.makers.get(other)
        if inner is None:
            continue
        if isclose(number, 1) and inner.operator == "Sigmoid" and inner.reads[0] == x:
            return "Silu", (x,), {}
        if isclose(number, 1) and inner.operator == "HardSigmoid" and inner.reads[0] == x:
            sixth = isclose(inner.attributes.get("alpha", 0.2), 1 / 6, rel_tol=1e-4)
            if sixth and isclose(inner.attributes.get("beta", 0.5), 0.5):
                return "HardSwish", (x,), {}
        if isclose(number, 1 / 6, rel_tol=1e-4) and inner.operator == "Clip" and f.plus(inner.reads[0], 3) == x:
            low, high = (
                inner.attributes.get(name) if len(inner.reads) <= place else f.number(inner.reads[place])
                for place, name in ((1, "min"), (2, "max"))
            )
            if low == 0 and high == 6:
                return "HardSwish", (x,), {}
        if isclose(number, 0.5) and (core := f.plus(other, 1)) is not None:
            return _gelu(f, x, core)
    return None


def _gelu(f: _Fusing, x: str, core: str) -> Found | None:
    erf, tanh = f.made(core, "Erf"), f.made(core, "Tanh")
    curve = erf or tanh
    inner = f.makers.get(curve.reads[0]) if curve is not None else None
    if inner is None or inner.operator not in ("Mul", "Div"):
        return None
    number, names = f.scaled(inner)
    if erf is not None:
        return ("Gelu", (x,), {}) if names == [x] and isclose(number, sqrt(0.5), rel_tol=1e-4) else None
    if len(names) != 1 or not isclose(number, sqrt(2 / pi), rel_tol=1e-4):
        return None
    added = f.made(names[0], "Add")
    for one, other in (added.reads, added.reads[::-1]) if added is not None else ():
        cubic = f.made(other, "Mul")
        if one == x and cubic is not None:
            factor, parts = f.scaled(cubic)
            power = f.made(parts[0], "Pow") if len(parts) == 1 else None
            cubed = parts == [x] * 3 or (power is not None and power.reads[0] == x and f.number(power.reads[1]) == 3)
            if cubed and isclose(factor, 0.044715, rel_tol=1e-4):
                return "Gelu", (x,), {"approximate": "tanh"}
    return None


def _norm(f: _Fusing, call: Call) -> Found | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) over the last axis."""
    if call.operator != "Div":
        return None
    centred, deviation = call.reads
    root = f.made(deviation, "Sqrt")
    added = f.made(root.reads[0], "Add") if root is not None else None
    if added is None:
        return None
    for variance, small in (added.reads, added.reads[::-1]):
        eps, mean = f.number(small), f.made(variance, "ReduceMean")
        square = f.makers.get(mean.reads[0]) if mean is not None and _last(f, mean) else None
        if eps is None or square is None:
            continue
        squared = square.reads == (square.reads[0],) * 2
        squared = squared or (square.operator == "Pow" and f.number(square.reads[1]) == 2)
        sub = f.makers.get(square.reads[0])
        other = f.makers.get(centred)
        if not squared or sub is None or sub.operator != "Sub" or other is None or other.reads != sub.reads:
            continue
        x, mean_of = sub.reads
        middle = f.made(mean_of, "ReduceMean")
        if middle is not None and middle.reads[0] == x and _last(f, middle):
            return "LayerNormalization", (x,), {"epsilon": float(f"{eps:.7g}")}
    return None


def _last(f: _Fusing, call: Call) -> bool:
    """Whether a mean is along the last axis, which is kept."""
    axes = call.attributes.get("axes", [])
    if len(call.reads) > 1 and call.reads[1] in f.arrays:
        axes = f.arrays[call.reads[1]].tolist()
    return list(axes) == [-1] and call.attributes.get("keepdims", 1) == 1


def _affine(f: _Fusing, call: Call) -> Found | None:
    """A norm or a product with a matrix, and what is multiplied and added after it."""
    if call.operator not in ("Add", "Mul"):
        return None
    for one, other in (call.reads, call.reads[::-1]):
        stored, inner = f.arrays.get(other), f.makers.get(one)
        if stored is None or inner is None or stored.ndim != 1 or f.uses[one] != 1:
            continue
        if call.operator == "Mul" and inner.operator == "LayerNormalization" and len(inner.reads) == 1:
            return inner.operator, (*inner.reads, other), dict(inner.attributes)
        if call.operator == "Add" and inner.operator == "LayerNormalization" and len(inner.reads) == 2:
            return inner.operator, (*inner.reads, other), dict(inner.attributes)
        matrix = f.arrays.get(inner.reads[1]) if inner.operator == "MatMul" else None
        if call.operator == "Add" and matrix is not None and matrix.ndim == 2 and matrix.shape[1] == stored.shape[0]:
            return "Linear", (*inner.reads, other), {}
    return None


def _unscaled(f: _Fusing, call: Call) -> Found | None:
    """A norm with a scale of ones that a node says, and no shift: it has none."""
    said = f.made(call.reads[1], "Constant") if call.operator in NORMS and len(call.reads) > 1 else None
    if said is None or any(call.reads[2:]) or not bool((f.arrays[call.reads[1]] == 1).all()):
        return None
    return call.operator, call.reads[:1], dict(call.attributes)


NORMS = ("LayerNormalization", "RMSNormalization")


def _pool(f: _Fusing, call: Call) -> Found | None:
    """A convolution of each channel by itself that gives the mean of each window."""
    weight = f.arrays.get(call.reads[1]) if call.operator == "Conv" and len(call.reads) == 2 else None
    if weight is None or weight.ndim != 4 or weight.shape[:2] != (call.attributes.get("group", 1), 1):
        return None
    area = weight[0, 0].size
    dilated = set(call.attributes.get("dilations", [1])) != {1}
    if area < 2 or dilated or not bool((weight == np.float32(1 / area)).all()):
        return None
    kept = {name: value for name, value in call.attributes.items() if name in ("strides", "pads", "auto_pad")}
    padded = any(kept.get("pads", [])) or kept.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    kept |= {"kernel_shape": [*weight.shape[2:]], "count_include_pad": int(padded)}
    return "AveragePool", call.reads[:1], kept


def _experts(f: _Fusing, call: Call) -> Found | None:
    """Rows that chose an expert, mapped by its matrix; those of all experts, put back where they were."""
    if call.operator != "ScatterND":
        return None
    places, rows = (f.made(name, "Concat") for name in call.reads[1:])
    if places is None or rows is None or len(places.reads) != len(rows.reads):
        return None
    read: set[tuple[str, str]] = set()
    stored: list[tuple[str, ...]] = []
    for expert, (where, row) in enumerate(zip(places.reads, rows.reads, strict=True)):
        mapped = f.made(row, "Gemm")
        picked = f.made(mapped.reads[0], "GatherND") if mapped is not None else None
        turned = f.made(where, "Transpose")
        found = f.made(turned.reads[0], "NonZero") if turned is not None else None
        met = f.made(found.reads[0], "Equal") if found is not None else None
        if mapped is None or picked is None or met is None or f.number(met.reads[1]) != expert:
            return None
        source = f.made(picked.reads[0], "Reshape") if picked.reads[1] == where else None
        read.add((source.reads[0] if source is not None else picked.reads[0], met.reads[0]))
        stored.append(mapped.reads[1:])
    if len(read) != 1 or len({len(one) for one in stored}) != 1:
        return None
    (operands,) = read
    held = (name for role in zip(*stored, strict=True) for name in role)
    return "ExpertLinear", (*operands, *held), {"count": len(stored)}


def _combined(f: _Fusing, call: Call) -> Found | None:
    """The rows that experts made of each token, times their gates, summed."""
    product = f.made(call.reads[0], "MatMul") if call.operator == "Squeeze" else None
    if product is None:
        return None
    gates, rows = f.made(product.reads[0], "Unsqueeze"), f.made(product.reads[1], "Reshape")
    shape = f.made(rows.reads[1], "Concat") if rows is not None else None
    sizes = f.made(shape.reads[0], "Shape") if shape is not None else None
    if gates is None or rows is None or sizes is None or sizes.reads[0] != gates.reads[0]:
        return None
    return "CombineExperts", (rows.reads[0], gates.reads[0]), {}


RULES: Sequence[Callable[[_Fusing, Call], Found | None]] = (
    _product, _norm, _affine, _pool, _unscaled, _experts, _combined,
)  # fmt: skip
