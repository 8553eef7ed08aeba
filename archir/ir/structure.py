"""The operations every graph is made with: inputs and choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archir.errors import RuleError, require
from archir.ir.op import View
from archir.types import TensorType


@dataclass(frozen=True)
class Input(View):
    """A tensor that is given from outside."""

    operands: ClassVar[tuple[str, ...]] = ()
    internal: ClassVar[bool] = True
    label: str
    dims: tuple[int, ...]
    dtype: str = "f32"

    def infer(self, *operands: Any) -> TensorType:
        """The declared type."""
        require(all(dim >= 1 for dim in self.dims), f"dimensions must be at least 1, got {list(self.dims)}")
        return TensorType(self.dims, self.dtype)


@dataclass(frozen=True)
class Select(View):
    """One of the operands, by the outcome of a choice: outcome i reads operand `cases[i]`."""

    operands: ClassVar[tuple[str, ...]] = ("*alternatives",)
    internal: ClassVar[bool] = True
    choice: str
    cases: tuple[int, ...]

    def infer(self, *operands: Any) -> TensorType:
        """The common type; where dimensions or kinds differ, they depend on the choice (see `archir.ir.typing`)."""
        require(len(set(operands)) == 1, "the alternatives have different types")
        first: TensorType = operands[0]
        return first


def merge(types: list[TensorType]) -> None:
    """RuleError unless the alternatives agree in rank and element type; their kinds have a union."""
    first = types[0]
    for other in types[1:]:
        if (other.rank, other.dtype) != (first.rank, first.dtype):
            raise RuleError(f"alternatives differ in rank or element type: {first} and {other}", code="A0403")
