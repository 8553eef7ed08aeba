"""Tensors that no input reaches: parameters, buffers, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from archir.language.decompiler.imported import Move


class Named(NamedTuple):
    """A parameter or buffer of the module."""

    name: str
    shape: tuple[int, ...]
    trained: bool
    also: tuple[str, ...] = ()
    """Other names that the module has for it."""
    kept: bool = True
    """Whether state dicts have it: some buffers are made anew with each module."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor, and the parameter that it is, moved; or what it was computed from."""

    tensor: Tensor
    origin: Named | None = None
    moves: tuple[Move, ...] = ()
    computed: str = ""
    trained: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same part of the same parameter."""
        return (self.origin.name, self.moves) if self.origin is not None else (id(self.tensor),)

    def permuted(self, order: tuple[int, ...]) -> Constant:
        """With its axes in another order."""
        if order == tuple(range(len(order))):
            return self
        moves, whole = self.moves, order
        if moves and moves[-1].kind == "permute":  # back and forth is nothing at all
            whole = tuple(moves[-1].numbers[axis] for axis in order)
            moves = moves[:-1]
        if whole != tuple(range(len(whole))):
            moves = (*moves, Move("permute", whole))
        return replace(self, tensor=self.tensor.permute(order), moves=moves)

    def reshaped(self, shape: tuple[int, ...]) -> Constant:
        """In another shape."""
        if tuple(self.tensor.shape) == shape:
            return self
        return replace(self, tensor=self.tensor.reshape(shape), moves=(*self.moves, Move("reshape", shape)))

    def sliced(self, axis: int, start: int, stop: int) -> Constant:
        """Positions of an axis."""
        if (start, stop) == (0, self.tensor.shape[axis]):
            return self
        part = self.tensor.narrow(axis, start, stop - start)
        return replace(self, tensor=part, moves=(*self.moves, Move("slice", (axis, start, stop))))
