"""The table of operators: one function each, from what a node of torch's graph reads to what it gives.

A function has the parameters of the operator's schema, after the builder. Tensors are values or constants; functions
are asked only where one of them is a value, and are named by the operators that they understand, without overload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from archir.plugins.registry import Registry

Operator = Callable[..., Any]
O_ = TypeVar("O_", bound=Operator)

OPERATORS: Registry[str, Operator] = Registry("operator of torch", "operators of torch")


def understands(*names: str) -> Callable[[O_], O_]:
    """Register a function for operators such as `conv2d`."""

    def register(function: O_) -> O_:
        for name in names:
            OPERATORS.register(name, function)
        return function

    return register
