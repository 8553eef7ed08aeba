"""Gates and dynamic kernels, and the calibration of features by both.

(Li et al., Neural Operator Search, sections 3.1 and 3.2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Composite, Op, View
from archir.ir.types import TensorType, broadcast, is_map
from archir.ops.arithmetic import Add, Mul


@dataclass(frozen=True)
class AsGate(View):
    """x as a gate: a factor that features are multiplied by. Each dimension equals that of the features, or is 1."""

    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """The shape of the operand, with kind gate."""
        return x.of_kind("gate")


@dataclass(frozen=True)
class AsKernel(View):
    """A map f32[C, k, k] as a bank of depthwise kernels: for each sample, one kernel per channel."""

    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """The shape f32[C, k, k] of the operand, with kind kernel; k must be odd."""
        _, height, width = is_map(x)
        require(height == width and height % 2 == 1, f"a kernel is square and odd, got {x}")
        return x.of_kind("kernel")


@dataclass(frozen=True)
class DynamicConv(Op):
    """Depthwise convolution of a map f32[C, H, W] with kernels f32[C, k, k] that differ from sample to sample.

    Zero padding keeps the size.
    """

    operands: ClassVar[tuple[str, ...]] = ("x", "kernels")
    any_kind: ClassVar[bool] = True

    def infer(self, x: TensorType, kernels: TensorType) -> TensorType:
        """Type f32[C, H, W]."""
        channels, _, _ = is_map(x)
        require(x.kind == "feature", f"expected a feature, got {x}", code="A0407")
        require(kernels.kind == "kernel", f"expected kernels, got {kernels}", "`as_kernel` makes them", "A0407")
        require(kernels.shape[0] == channels, f"{x} and {kernels} differ in channels")
        return x

    def macs(self, x: TensorType, kernels: TensorType) -> int:
        """One multiply-accumulate per kernel element and output position."""
        return kernels.elements * x.shape[1] * x.shape[2]


@dataclass(frozen=True)
class Calibrate(Composite):
    """Features combined with gates and kernels: F + F * A + sum of F conv K (Li et al., eq. 3 and 5).

    The first operand is a feature. F is the sum of the other features or, if there are none, the first operand. A is
    the sum of the gates, and the last term is a sum over all kernels K. An operand may be a choice among kinds
    (feature, gate or kernel). The operands may be given as a list.
    """

    operands: ClassVar[tuple[str, ...]] = ("*xs",)
    any_kind: ClassVar[bool] = True

    def infer(self, base: TensorType, *others: TensorType) -> TensorType:
        """The common type of the features."""
        require(base.kind == "feature", f"the first operand must be a feature, got {base}", code="A0407")
        features = [x for x in others if x.kind == "feature"] or [base]
        total = features[0]
        for x in features[1:]:
            require(x == total, f"features differ: {total} and {x}")
        for x in others:
            if x.kind == "gate":
                broadcasted = broadcast(total, x.of_kind("feature"))
                require(broadcasted == total, f"the gate {x} does not fit {total}")
            elif x.kind == "kernel":
                DynamicConv().infer(total, x)
        return total

    def macs(self, base: TensorType, *others: TensorType) -> int:
        """Multiply-accumulates of the dynamic convolutions."""
        x = self.infer(base, *others)
        return sum(DynamicConv().macs(x, kernels) for kernels in others if kernels.kind == "kernel")

    def expand(self, add: Callable[..., Any], operands: Sequence[Any], types: Sequence[TensorType]) -> Any:
        """Emit the sums, products and dynamic convolutions that this operation consists of."""
        base, *others = zip(operands, types, strict=True)
        of_kind: dict[object, list[Any]] = {"feature": [], "gate": [], "kernel": []}
        for operand, type_ in others:
            of_kind[type_.kind].append(operand)
        x = result = _sum(add, of_kind["feature"] or [base[0]])
        if of_kind["gate"]:
            result = add(Add(), result, add(Mul(), x, _sum(add, of_kind["gate"])))
        for kernels in of_kind["kernel"]:
            result = add(Add(), result, add(DynamicConv(), x, kernels))
        return result


def _sum(add: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Append additions that sum up the operands, by calling `add`, and return the result."""
    total = operands[0]
    for operand in operands[1:]:
        total = add(Add(), total, operand)
    return total
