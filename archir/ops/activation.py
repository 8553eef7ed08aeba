"""Activations and other functions of one tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free, Role, View, Weight
from archir.ir.types import TensorType

MAX_F32 = (2 - 2**-23) * 2.0**127
"""Largest finite 32-bit floating-point number."""


@dataclass(frozen=True)
class _Activation(Free, abstract=True):
    """Base of functions that keep the type of their operand."""

    in_place: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        return x


@dataclass(frozen=True)
class Relu(_Activation):
    """max(x, 0)."""


@dataclass(frozen=True)
class Relu6(_Activation):
    """min(max(x, 0), 6)."""


@dataclass(frozen=True)
class LeakyRelu(_Activation):
    """x where positive, slope * x elsewhere."""

    slope: float = 0.01


@dataclass(frozen=True)
class Elu(_Activation):
    """x where positive, exp(x) - 1 elsewhere."""


@dataclass(frozen=True)
class Gelu(_Activation):
    """x times the cumulative distribution function of the normal distribution; with `approximate`, the tanh
    approximation."""

    approximate: bool = False


@dataclass(frozen=True)
class Silu(_Activation):
    """x * sigmoid(x), also called swish."""


@dataclass(frozen=True)
class Mish(_Activation):
    """x * tanh(log(1 + exp(x)))."""


@dataclass(frozen=True)
class Softplus(_Activation):
    """log(1 + exp(x)): a smooth and always positive relu."""


@dataclass(frozen=True)
class HardSwish(_Activation):
    """x * min(max(x + 3, 0), 6) / 6."""


@dataclass(frozen=True)
class HardSigmoid(_Activation):
    """min(max(x + 3, 0), 6) / 6."""


@dataclass(frozen=True)
class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""


@dataclass(frozen=True)
class Tanh(_Activation):
    """Hyperbolic tangent."""


@dataclass(frozen=True)
class Exp(_Activation):
    """Exponential function."""


@dataclass(frozen=True)
class Log(_Activation):
    """Natural logarithm."""


@dataclass(frozen=True)
class Sqrt(_Activation):
    """Square root. Of a plain number, `sqrt` is the built-in function of that name."""


@dataclass(frozen=True)
class Abs(_Activation):
    """Absolute value. Of a plain number, `abs` is the built-in function of that name."""


@dataclass(frozen=True)
class Power(_Activation):
    """x raised to a fixed power; `x ** 2` in `.arch`, and `1 / x` is `x ** -1`."""

    exponent: float


@dataclass(frozen=True)
class Sin(_Activation):
    """Sine, of radians."""


@dataclass(frozen=True)
class Cos(_Activation):
    """Cosine, of radians."""


@dataclass(frozen=True)
class Clamp(_Activation):
    """min(max(x, low), high); either bound may be left out."""

    low: float | None = None
    high: float | None = None

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(self.low is not None or self.high is not None, "give `low`, `high` or both")
        if self.low is not None and self.high is not None:
            require(self.low <= self.high, f"`low` is {self.low}, above `high`, which is {self.high}")
        for name, bound in (("low", self.low), ("high", self.high)):
            require(bound is None or abs(bound) <= MAX_F32, f"`{name}` is {bound}, beyond the range of 32-bit floats")
        return x


@dataclass(frozen=True)
class Softmax(_Activation):
    """Softmax over an axis, counted without the batch axis; the default is the last axis."""

    in_place: ClassVar[bool] = False
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x


@dataclass(frozen=True)
class LogSoftmax(Softmax):
    """Logarithm of the softmax over an axis, accurate also where the softmax underflows; axes as in `softmax`."""


@dataclass(frozen=True)
class Cumsum(_Activation):
    """Cumulative sum along an axis, counted without the batch axis: `cumsum(axis=0)` of tokens."""

    in_place: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x


@dataclass(frozen=True)
class Prelu(_Activation):
    """x where positive, a learned slope for each channel times x elsewhere (He et al. 2015).

    With `shared`, all channels have the same slope.
    """

    shared: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(self.shared or x.rank >= 1, f"a slope per channel needs channels, got {x}", code="A0402")
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [C], or [1] if `shared`, initialised to 0.25."""
        return {"weight": Weight((1 if self.shared else x.channels,), "slope")}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the axis of `weight`: the channels of the result; a shared slope has one position."""
        return {"weight": ("leading" if self.shared else "result",)}


@dataclass(frozen=True)
class Identity(View, _Activation):
    """x itself: the skip connection of many spaces."""

    any_kind: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Zero(_Activation):
    """Zeros of the shape of x: the absent connection of many spaces."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Scale(_Activation):
    """x times a fixed number; `x * 2` in `.arch`."""

    linear: ClassVar[bool] = True
    factor: float


@dataclass(frozen=True)
class Shift(_Activation):
    """x plus a fixed number; `x + 1` in `.arch`."""

    amount: float
