"""Import of complex numbers as pairs of real tensors. Some modules rotate queries and keys by complex products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported, Value
from archir_torch.importing.operators import elementwise, movement
from archir_torch.importing.rules import torch_operator


@dataclass(frozen=True)
class Complex:
    """Complex tensor as its real and imaginary parts, which have the same shape."""

    real: Value | Constant
    imaginary: Value | Constant


def complex_of(x: Any) -> Complex:
    """Return the real and imaginary parts of a complex value or constant. Raises Unsupported for real tensors."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, Constant) and x.tensor.is_complex():
        parts = (x.tensor.real.contiguous(), x.tensor.imag.contiguous())
        return Complex(*(Constant(part, computed="complex numbers") for part in parts))
    raise Unsupported("an operation of complex and real numbers")


@torch_operator("view_as_complex")
def view_as_complex(b: Builder, x: Value) -> Complex:
    """Import the view of pairs on the last axis as complex numbers."""
    last = len(x.axes) - 1
    return Complex(movement.select(b, x, last, 0), movement.select(b, x, last, 1))


def view_as_real(b: Builder, x: Complex) -> Value:
    """Import the view of complex numbers as pairs on a new last axis."""
    return movement.stack(b, [x.real, x.imaginary], -1)


def complex_product(b: Builder, x: Any, y: Any) -> Complex:
    """Import a product of complex numbers."""
    left, right = complex_of(x), complex_of(y)
    mul, sub = elementwise.mul, elementwise.sub
    return Complex(
        sub(b, mul(b, left.real, right.real), mul(b, left.imaginary, right.imaginary)),
        elementwise.add(b, mul(b, left.real, right.imaginary), mul(b, left.imaginary, right.real)),
    )


COMPLEX_OPERATORS: dict[str, Callable[..., Any]] = {
    "view_as_real": view_as_real,
    "mul": complex_product,
    "real": lambda b, x: x.real,
    "imag": lambda b, x: x.imaginary,
}
"""Import function by operator name, for operators on complex numbers."""
