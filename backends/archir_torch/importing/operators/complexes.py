"""Complex numbers, as two tensors: by them some modules turn queries and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported, Value
from archir_torch.importing.operators import elementwise, movement
from archir_torch.importing.rules import understands


@dataclass(frozen=True)
class Complex:
    """Numbers by their real and their imaginary parts, of one shape."""

    real: Value | Constant
    imaginary: Value | Constant


def complex_of(x: Any) -> Complex:
    """A tensor of either kind."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, Constant) and x.tensor.is_complex():
        parts = (x.tensor.real.contiguous(), x.tensor.imag.contiguous())
        return Complex(*(Constant(part, computed="complex numbers") for part in parts))
    raise Unsupported("complex numbers beside real ones")


@understands("view_as_complex")
def view_as_complex(b: Builder, x: Value) -> Complex:
    last = len(x.axes) - 1
    return Complex(movement.select(b, x, last, 0), movement.select(b, x, last, 1))


def view_as_real(b: Builder, x: Complex) -> Value:
    return movement.stack(b, [x.real, x.imaginary], -1)


def product(b: Builder, x: Any, y: Any) -> Complex:
    """(a + i b)(c + i d)."""
    one, other = complex_of(x), complex_of(y)
    mul, real = elementwise.mul, elementwise.sub
    return Complex(
        real(b, mul(b, one.real, other.real), mul(b, one.imaginary, other.imaginary)),
        elementwise.add(b, mul(b, one.real, other.imaginary), mul(b, one.imaginary, other.real)),
    )


COMPLEX: dict[str, Callable[..., Any]] = {
    "view_as_real": view_as_real,
    "mul": product,
    "real": lambda b, x: x.real,
    "imag": lambda b, x: x.imaginary,
}
"""Operators of complex numbers, by name."""
