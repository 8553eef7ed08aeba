"""Constant tensors: position indices, sinusoidal position encodings and literal numbers.

They are not learned, and have the same values for every sample. The operand determines the shape (for `constant`, only
the place in the graph). The operand's values do not matter, except for the token ids that `positions` compares with
`padding`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

from archir.diagnostics.errors import RuleError, require
from archir.ir.op import ChannelMap, Free, View
from archir.ir.types import INTEGER_DTYPES, TensorType, is_tokens


@dataclass(frozen=True)
class Sinusoidal(Free):
    """Sinusoidal position encoding of tokens f32[N, D] at positions n (Vaswani et al. 2017, section 3.5).

    Feature 2 i is sin(n / base^(2 i / D)), and feature 2 i + 1 is the cosine of the same angle.
    """

    constant: ClassVar[bool] = True
    base: float = 10000.0

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        is_tokens(x)
        require(self.base > 0, f"`base` must be positive, got {self.base}")
        return x

    def kernels(self, x: TensorType) -> int:
        """8 kernel launches: 5 for the angles, 2 for sines and cosines, 1 to interleave them."""
        return 8


@dataclass(frozen=True)
class Positions(Free):
    """Position indices 0, 1, ... of tokens f32[N, D] or i64[N], as operand of a learned `embedding`.

    With `padding`, tokens i64[N] equal to this number are padding: their position is `padding` itself, and the other
    tokens are numbered from `padding` + 1. With padding=1, the tokens 7, 8, 1, 9 have positions 2, 3, 1, 4 (Ott et al.
    2019, fairseq).
    """

    any_element: ClassVar[bool] = True
    padding: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """Type i64[N]."""
        require(x.rank in (1, 2), f"expected tokens [N, D] or i64[N], got {x}", code="A0402")
        if self.padding is not None:
            is_ids = x.dtype in INTEGER_DTYPES and x.rank == 1
            require(is_ids, f"`padding` needs integers i64[N], got {x}", code="A0408")
            require(self.padding >= 0, f"`padding` must not be negative, got {self.padding}")
        return TensorType(x.shape[:1], "i64")

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int]:
        """Return the lowest and the highest position: 0 and N - 1 or, with `padding`, `padding` and `padding` + N.

        Position `padding` + N occurs if no token is padding.
        """
        return (0, result.elements - 1) if self.padding is None else (self.padding, self.padding + result.elements)

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch; with `padding` 4: the padding mask, a cumulative sum, a product and a sum."""
        return 1 if self.padding is None else 4

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: position indices have no channels."""
        return ()


@dataclass(frozen=True)
class Constant(View):
    """A vector of literal numbers, such as fixed indices: `gather(x, constant(x, [0, 5]))`.

    The numbers are the same for every sample. They are integers by default; with `dtype="f32"` they are floating-point
    numbers, and with `dtype="bool"` booleans, from which `reshape` can make a mask.
    """

    any_element: ClassVar[bool] = True
    constant: ClassVar[bool] = True
    values: tuple[bool | int | float, ...]
    dtype: Literal["i64", "f32", "bool"] = "i64"

    def infer(self, x: TensorType) -> TensorType:
        """Type i64[number of values]; f32 or bool instead of i64 if `dtype` says so."""
        require(len(self.values) >= 1, "`values` is an empty list")
        wrong = next((value for value in self.values if type(value) not in _LITERAL_TYPES[self.dtype]), None)
        if wrong is not None:
            value_dtype = "f32" if type(wrong) is float else "bool"
            hint = f'write `dtype="{value_dtype}"`' if value_dtype != self.dtype and type(wrong) is not int else None
            raise RuleError(f"`values` of {self.dtype} hold {str(wrong).lower()}", hint)
        require(all(map(isfinite, self.values)), "`values` must be finite numbers")
        return TensorType((len(self.values),), self.dtype)

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int] | None:
        """Return the smallest and the largest of the values if they are integers, else None."""
        return (int(min(self.values)), int(max(self.values))) if self.dtype == "i64" else None

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: literal numbers have no channels."""
        return ()


_LITERAL_TYPES: dict[str, tuple[type, ...]] = {"i64": (int,), "f32": (int, float), "bool": (bool,)}
"""Python types that the literals may have, by element type."""
