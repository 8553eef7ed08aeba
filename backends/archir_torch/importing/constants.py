"""Constants of an import: parameters, buffers, and tensors computed from these alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from archir.language.decompiler.imported import Move


class StoredTensor(NamedTuple):
    """Parameter or buffer of the imported module."""

    name: str
    shape: tuple[int, ...]
    trained: bool
    aliases: tuple[str, ...] = ()
    """Other names under which the module holds the same tensor."""
    in_state_dict: bool = True
    """True if the tensor is in the state dict; non-persistent buffers are not."""


@dataclass(frozen=True, eq=False)
class Constant:
    """Tensor that does not depend on the network's inputs, with its origin.

    If the tensor is derived from a parameter or buffer by `moves` (reshapes, permutations and slices), `origin` is
    that parameter or buffer. If the tensor was computed in another way, `computed` describes how.
    """

    tensor: Tensor
    origin: StoredTensor | None = None
    moves: tuple[Move, ...] = ()
    computed: str = ""
    trained: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for constants that are the same part of the same stored tensor."""
        return (self.origin.name, self.moves) if self.origin is not None else (id(self.tensor),)

    def permuted(self, order: tuple[int, ...]) -> Constant:
        """Return the constant with its axes in another order."""
        if order == tuple(range(len(order))):
            return self
        moves, combined = self.moves, order
        if moves and moves[-1].kind == "permute":  # merge consecutive permutations, which may cancel
            combined = tuple(moves[-1].numbers[axis] for axis in order)
            moves = moves[:-1]
        if combined != tuple(range(len(combined))):
            moves = (*moves, Move("permute", combined))
        return replace(self, tensor=self.tensor.permute(order), moves=moves)

    def reshaped(self, shape: tuple[int, ...]) -> Constant:
        """Return the constant in another shape."""
        if tuple(self.tensor.shape) == shape:
            return self
        return replace(self, tensor=self.tensor.reshape(shape), moves=(*self.moves, Move("reshape", shape)))

    def sliced(self, axis: int, start: int, stop: int) -> Constant:
        """Return the positions from `start` to `stop` of an axis."""
        if (start, stop) == (0, self.tensor.shape[axis]):
            return self
        part = self.tensor.narrow(axis, start, stop - start)
        return replace(self, tensor=part, moves=(*self.moves, Move("slice", (axis, start, stop))))
