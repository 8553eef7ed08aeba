"""Choosing by score: the largest of some numbers, and experts that see only the tokens that chose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free, Op, Role, Tie, Tied, Weight
from archir.ir.types import INTEGERS, TensorType, is_tokens


@dataclass(frozen=True)
class TopK(Free):
    """The k largest of the numbers along the last axis, the largest first; of equal ones, the first."""

    k: int

    def infer(self, x: TensorType) -> TensorType:
        """The type of x, with k along the last axis."""
        require(x.rank >= 1, f"expected an axis of numbers to choose from, got {x}", code="A0402")
        require(1 <= self.k <= x.shape[-1], f"there are no {self.k} largest of {x.shape[-1]} numbers")
        return x.with_dims(*x.shape[:-1], self.k)

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """The channels of maps; those of tokens and vectors are what is chosen among."""
        return (Tied((0, None)),) if x.rank >= 3 else ()


@dataclass(frozen=True)
class TopPositions(TopK):
    """Where the numbers are that `top_k` finds, counted from 0: `scores |> top_positions(1)` is the best class."""

    def infer(self, x: TensorType) -> TensorType:
        """i64 of the shape of `top_k`."""
        return TensorType(super().infer(x).dims, "i64")

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int]:
        """From 0 to the last that there is to choose."""
        return 0, operands[0].shape[-1] - 1


@dataclass(frozen=True)
class ExpertLinear(Op):
    """Affine maps of tokens, one for each of the `experts`, of which every token is mapped by those that it chose.

    `chosen` are k numbers of experts for each token, i64[N, k]. The result has a row for each choice: those of a token
    follow each other. What is mapped are tokens f32[N, D], or such rows f32[N * k, D], each by its own expert.
    """

    linear: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "chosen")
    experts: int
    channels: int
    bias: bool = True

    def infer(self, x: TensorType, chosen: TensorType) -> TensorType:
        """f32[N * k, channels]."""
        require(x.numeric, f"expected floating-point numbers, got {x}", code="A0408")
        require(chosen.dtype in INTEGERS, f"expected integers i64[N, k], got {chosen}", _CHOICES, "A0408")
        rows, _ = is_tokens(x)
        require(chosen.rank == 2, f"expected the choices of tokens, i64[N, k], got {chosen}", _CHOICES, "A0402")
        for name in ("experts", "channels"):
            count = getattr(self, name)
            require(count >= 1, f"`{name}` must be at least 1, got {count}")
        tokens, k = chosen.shape
        hint = f"{tokens} tokens with {k} choices each are {tokens} rows, or {tokens * k}"
        require(rows in (tokens, tokens * k), f"{chosen} are not the choices of the {rows} rows of {x}", hint)
        return x.with_dims(tokens * k, self.channels)

    def weights(self, x: TensorType, chosen: TensorType) -> dict[str, Weight]:
        """`weight` [experts, channels, D] and `bias` [experts, channels]."""
        features = x.channels
        matrices = Weight((self.experts, self.channels, features), "fan_in", features)
        return {"weight": matrices} | ({"bias": Weight((self.experts, self.channels), "zeros")} if self.bias else {})

    def roles(self, x: TensorType, chosen: TensorType) -> dict[str, tuple[Role, ...]]:
        """Fewer experts are the first ones; then channels."""
        axes: tuple[Role, ...] = ("leading", "result", "operand")
        return {name: axes[: len(weight.shape)] for name, weight in self.weights(x, chosen).items()}

    def ties(self, x: TensorType, chosen: TensorType) -> tuple[Tie, ...]:
        """None."""
        return ()

    def limits(self, x: TensorType, chosen: TensorType) -> tuple[int | None, ...]:
        """Choices are of the experts."""
        return None, self.experts

    def macs(self, x: TensorType, chosen: TensorType) -> int:
        """N * k * D * channels: those of the experts that are chosen, each token's k."""
        return chosen.elements * x.shape[1] * self.channels

    def kernels(self, x: TensorType, chosen: TensorType) -> int:
        """One for each expert; 5 that sort the choices, count them, and take, join and put back their rows."""
        return self.experts + 5


_CHOICES = "`top_positions` of each token's scores of the experts are choices"


@dataclass(frozen=True)
class CombineExperts(Op):
    """For each token, the sum of the rows of its k choices, as `expert_linear` has them, times its k gates."""

    operands: ClassVar[tuple[str, ...]] = ("x", "gates")

    def infer(self, x: TensorType, gates: TensorType) -> TensorType:
        """f32[N, D] of x f32[N * k, D] and gates f32[N, k]."""
        rows, features = is_tokens(x)
        tokens, k = is_tokens(gates)
        require(rows == tokens * k, f"{rows} rows of {x} are not the {tokens} x {k} choices of gates {gates}")
        return x.with_dims(tokens, features)

    def ties(self, x: TensorType, gates: TensorType) -> tuple[Tie, ...]:
        """The channels of rows."""
        return (Tied((0, None)),)

    def macs(self, x: TensorType, gates: TensorType) -> int:
        """N * k * D: a matrix product of one row for each token."""
        return x.elements
