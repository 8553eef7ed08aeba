"""Registry of import functions: for each torch operator, a function that adds archir operations to the graph.

An import function takes the builder, and then the parameters of the operator's schema. Tensors are passed as values
or constants, at least one of them as a value. Functions are registered under operator names without overload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from archir.plugins.registry import Registry

Operator = Callable[..., Any]
"""Function that imports a torch operator."""
O_ = TypeVar("O_", bound=Operator)

OPERATORS: Registry[str, Operator] = Registry("operator of torch", "operators of torch")
"""Import function by torch operator name."""


def torch_operator(*names: str) -> Callable[[O_], O_]:
    """Return a decorator that registers an import function for torch operators, such as `conv2d`."""

    def register(function: O_) -> O_:
        for name in names:
            OPERATORS.register(name, function)
        return function

    return register
