"""Operations that are random in training and the identity in evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import View
from archir.ir.types import TensorType


@dataclass(frozen=True)
class _Random(View, abstract=True):
    """Base of random operations with a drop rate."""

    in_place: ClassVar[bool] = True
    rate: float = 0.1

    @property
    def random(self) -> bool:
        """True: numbers are sampled in training."""
        return True

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(0 <= self.rate < 1, f"`rate` must be at least 0 and below 1, got {self.rate}")
        return x


@dataclass(frozen=True)
class Dropout(_Random):
    """In training, x with each element set to 0 with probability `rate`, and the others times 1 / (1 - rate).

    In evaluation, x itself. (Srivastava et al. 2014)
    """


@dataclass(frozen=True)
class DropPath(_Random):
    """Stochastic depth: as `dropout`, but sets all elements of a sample to 0 together (Huang et al. 2016)."""
