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
    """Base of element-wise functions and other functions whose result has the type of the operand."""

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
    """x where it is positive, slope * x elsewhere."""

    slope: float = 0.01


@dataclass(frozen=True)
class Elu(_Activation):
    """x where it is positive, exp(x) - 1 elsewhere."""


@dataclass(frozen=True)
class Gelu(_Activation):
    """x times the standard normal cumulative distribution function of x; with `approximate`, its tanh approximation."""

    approximate: bool = False


@dataclass(frozen=True)
class Silu(_Activation):
    """x * sigmoid(x), also called swish."""


@dataclass(frozen=True)
class Mish(_Activation):
    """x * tanh(log(1 + exp(x)))."""


@dataclass(frozen=True)
class Softplus(_Activation):
    """log(1 + exp(x)), a smooth approximation of `relu` that is always positive."""


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
    """Square root of each element. (Applied to a plain number, `sqrt` is the built-in function of that name.)"""


@dataclass(frozen=True)
class Abs(_Activation):
    """Absolute value of each element. (Applied to a plain number, `abs` is the built-in function of that name.)"""


@dataclass(frozen=True)
class Power(_Activation):
    """x raised to a fixed power. `.arch` syntax: `x ** 2`; `1 / x` is `x ** -1`."""

    exponent: float


@dataclass(frozen=True)
class Sin(_Activation):
    """Sine of x in radians."""


@dataclass(frozen=True)
class Cos(_Activation):
    """Cosine of x in radians."""


@dataclass(frozen=True)
class Clamp(_Activation):
    """x limited to the range from `low` to `high`: min(max(x, low), high). Either bound may be omitted."""

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
    """Softmax along one axis, by default the last. Axes are counted without the batch axis."""

    in_place: ClassVar[bool] = False
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x


@dataclass(frozen=True)
class LogSoftmax(Softmax):
    """Logarithm of the softmax along one axis, accurate even where the softmax underflows. Axes as in `softmax`."""


@dataclass(frozen=True)
class Cumsum(_Activation):
    """Cumulative sum along one axis, such as `cumsum(axis=0)` over tokens. Axes are counted without the batch axis."""

    in_place: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x


@dataclass(frozen=True)
class Prelu(_Activation):
    """x where it is positive, elsewhere x times a learned slope for each channel (He et al. 2015).

    With `shared`, all channels have the same slope.
    """

    shared: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand, which must have channels unless the slope is `shared`."""
        require(self.shared or x.rank >= 1, f"a slope per channel needs channels, got {x}", code="A0402")
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [C], or [1] if `shared`, initialised to 0.25."""
        return {"weight": Weight((1 if self.shared else x.channels,), "slope")}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the role of the axis of `weight`: it holds the channels of the result.

        A shared slope has a single position.
        """
        return {"weight": ("leading" if self.shared else "result",)}


@dataclass(frozen=True)
class Identity(View, _Activation):
    """x itself: in many spaces, the skip connection."""

    any_kind: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Zero(_Activation):
    """Zeros of the shape of x: in many spaces, the alternative without a connection."""

    constant: ClassVar[bool] = True
    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Scale(_Activation):
    """x times a fixed number. `.arch` syntax: `x * 2`."""

    linear: ClassVar[bool] = True
    factor: float


@dataclass(frozen=True)
class Shift(_Activation):
    """x plus a fixed number. `.arch` syntax: `x + 1`."""

    amount: float
