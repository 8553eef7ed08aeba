"""Routing by score: the k largest elements, and mixtures of experts in which only k experts process each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, Free, Op, Role, Weight
from archir.ir.types import INTEGER_DTYPES, TensorType, is_tokens


@dataclass(frozen=True)
class TopK(Free):
    """The k largest elements along the last axis, in descending order; among equal elements, the first come first."""

    k: int

    def infer(self, x: TensorType) -> TensorType:
        """The type of x, with size k along the last axis."""
        require(x.rank >= 1, f"expected an axis of numbers to choose from, got {x}", code="A0402")
        require(1 <= self.k <= x.shape[-1], f"there are no {self.k} largest of {x.shape[-1]} numbers")
        return x.with_dims(*x.shape[:-1], self.k)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel map of a map.

        Tokens and vectors have no channel map, because elements are selected along their channels.
        """
        return (AliasMap((0, None)),) if x.rank >= 3 else ()


@dataclass(frozen=True)
class TopPositions(TopK):
    """Positions, from 0, of the elements that `top_k` selects: `scores |> top_positions(1)` is the best class."""

    def infer(self, x: TensorType) -> TensorType:
        """Type i64, with the shape of the result of `top_k`."""
        return TensorType(super().infer(x).dims, "i64")

    def between(self, result: TensorType, *operands: TensorType) -> tuple[int, int]:
        """Return 0 and the last position along the axis."""
        return 0, operands[0].shape[-1] - 1


@dataclass(frozen=True)
class ExpertLinear(Op):
    """One linear layer per expert; each token is mapped by the k experts that `chosen` selects for the token.

    `chosen` holds k expert indices per token, i64[N, k]. The result has one row per pair of a token and one of its
    experts; the k rows of a token are consecutive. The operand is either tokens f32[N, D], or f32[N * k, D] with one
    row for each such pair; each of these rows is mapped only by the expert of its pair.
    """

    linear: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "chosen")
    experts: int
    channels: int
    bias: bool = True

    def infer(self, x: TensorType, chosen: TensorType) -> TensorType:
        """Type f32[N * k, channels]."""
        require(x.is_floating, f"expected floating-point numbers, got {x}", code="A0408")
        require(chosen.dtype in INTEGER_DTYPES, f"expected integers i64[N, k], got {chosen}", _CHOSEN_HINT, "A0408")
        rows, _ = is_tokens(x)
        require(chosen.rank == 2, f"expected the choices of tokens, i64[N, k], got {chosen}", _CHOSEN_HINT, "A0402")
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
        """Return the roles of the weights' axes: experts, channels of the result, channels of the operand.

        A layer with fewer experts uses the first experts.
        """
        axes: tuple[Role, ...] = ("leading", "result", "operand")
        return {name: axes[: len(weight.shape)] for name, weight in self.weights(x, chosen).items()}

    def ties(self, x: TensorType, chosen: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: the channels of the result are new."""
        return ()

    def limits(self, x: TensorType, chosen: TensorType) -> tuple[int | None, ...]:
        """Return the number of experts as the exclusive upper bound of the indices in `chosen`."""
        return None, self.experts

    def macs(self, x: TensorType, chosen: TensorType) -> int:
        """N * k * D * channels multiply-accumulates: each token is mapped by k experts."""
        return chosen.elements * x.shape[1] * self.channels

    def kernels(self, x: TensorType, chosen: TensorType) -> int:
        """One kernel launch per expert, and 5 that sort and count the indices, gather the rows, and restore their
        order."""
        return self.experts + 5


_CHOSEN_HINT = "choose experts with `top_positions` of each token's expert scores"
"""Hint of errors about the operand `chosen`."""


@dataclass(frozen=True)
class CombineExperts(Op):
    """For each token, the sum of its k rows in the result of `expert_linear`, weighted by its k gates."""

    operands: ClassVar[tuple[str, ...]] = ("x", "gates")

    def infer(self, x: TensorType, gates: TensorType) -> TensorType:
        """Type f32[N, D] for x f32[N * k, D] and gates f32[N, k]."""
        rows, features = is_tokens(x)
        tokens, k = is_tokens(gates)
        require(rows == tokens * k, f"{rows} rows of {x} are not the {tokens} x {k} choices of gates {gates}")
        return x.with_dims(tokens, features)

    def ties(self, x: TensorType, gates: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel map from the rows of x to those of the result."""
        return (AliasMap((0, None)),)

    def macs(self, x: TensorType, gates: TensorType) -> int:
        """N * k * D multiply-accumulates: one matrix product with a single row per token."""
        return x.elements
