"""Numbers that are the same for every sample and are not learned: positions, and waves of them.

They take a tensor, of which they need the shape, or no more than where it is: its numbers do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

from archir.diagnostics.errors import RuleError, require
from archir.ir.op import Free, Tie, View
from archir.ir.types import INTEGERS, TensorType, is_tokens


@dataclass(frozen=True)
class Sinusoidal(Free):
    """Sines and cosines of the positions n of tokens f32[N, D], of every speed (Vaswani et al. 2017, section 3.5).

    Feature 2 i is the sine of n / base^(2 i / D), feature 2 i + 1 the cosine.
    """

    base: float = 10000.0

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        is_tokens(x)
        require(self.base > 0, f"`base` must be positive, got {self.base}")
        return x

    def kernels(self, x: TensorType) -> int:
        """5 for the angles, 2 for sines and cosines, 1 that joins them."""
        return 8


@dataclass(frozen=True)
class Positions(Free):
    """The numbers 0, 1, ... of the tokens f32[N, D] or i64[N], which `embedding` gives learned vectors.

    With `padding`, tokens i64[N] that are this number have it as their position, and the others are counted from the
    next number on: with padding=1, the tokens 7, 8, 1, 9 are at 2, 3, 1, 4 (Ott et al. 2019, fairseq).
    """

    any_element: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("padding",)
    padding: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """i64[N]."""
        require(x.rank in (1, 2), f"expected tokens [N, D] or i64[N], got {x}", code="A0402")
        if self.padding is not None:
            fits = x.dtype in INTEGERS and x.rank == 1
            require(fits, f"`padding` is one of the integers i64[N], and not of {x}", code="A0408")
            require(self.padding >= 0, f"`padding` must not be negative, got {self.padding}")
        return TensorType(x.shape[:1], "i64")

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int]:
        """From 0 to the last token; with `padding` from there to what all tokens, if none is padding, come to."""
        return (0, result.elements - 1) if self.padding is None else (self.padding, self.padding + result.elements)

    def kernels(self, x: TensorType) -> int:
        """One; with `padding` what is none, how many that are up to each, a product and a sum."""
        return 1 if self.padding is None else 4

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None: numbers of tokens are no channels."""
        return ()


@dataclass(frozen=True)
class Constant(View):
    """These numbers, for every sample of x: positions that are known, such as `gather(x, constant(x, [0, 5]))`; with
    `dtype="f32"` real numbers, with `dtype="bool"` truth values, of which `reshape` makes a mask."""

    any_element: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("dtype",)
    values: tuple[bool | int | float, ...]
    dtype: Literal["i64", "f32", "bool"] = "i64"

    def infer(self, x: TensorType) -> TensorType:
        """i64[as many as there are], or f32, or bool."""
        require(len(self.values) >= 1, "`values` is an empty list")
        wrong = next((one for one in self.values if type(one) not in _WRITTEN[self.dtype]), None)
        if wrong is not None:
            own = "f32" if type(wrong) is float else "bool"
            hint = f'`dtype="{own}"` says what they are' if own != self.dtype and type(wrong) is not int else None
            raise RuleError(f"`values` of {self.dtype} hold {str(wrong).lower()}", hint)
        require(all(map(isfinite, self.values)), "`values` are finite numbers")
        return TensorType((len(self.values),), self.dtype)

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int] | None:
        """As they are written, if they are integers."""
        return (int(min(self.values)), int(max(self.values))) if self.dtype == "i64" else None

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None: these numbers have no channels."""
        return ()


_WRITTEN: dict[str, tuple[type, ...]] = {"i64": (int,), "f32": (int, float), "bool": (bool,)}
"""What values of each element type are written as."""
