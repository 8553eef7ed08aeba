"""Registry of torch operators: for each one a function that adds the corresponding operations to archir's graph.

A function takes the builder, and then the parameters of the operator's schema. Tensors are values or constants, at
least one of them a value. Functions are registered under operator names without overload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from archir.plugins.registry import Registry

Operator = Callable[..., Any]
"""Function of an operator."""
O_ = TypeVar("O_", bound=Operator)

OPERATORS: Registry[str, Operator] = Registry("operator of torch", "operators of torch")
"""Functions by the names of torch operators."""


def torch_operator(*names: str) -> Callable[[O_], O_]:
    """Return a decorator that registers a function for operators such as `conv2d`."""

    def register(function: O_) -> O_:
        for name in names:
            OPERATORS.register(name, function)
        return function

    return register
