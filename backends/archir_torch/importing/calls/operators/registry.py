"""Registry of the functions that compute ONNX operators, and helpers that they share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from archir.diagnostics.errors import RuleError

Operator = Callable[..., Any]
"""Function that computes an ONNX operator."""
OPERATORS: dict[str, Operator] = {}
"""Function by ONNX operator. It takes the operands, the attributes by name, and the operator set's `version`.

Constants are passed as arrays to parameters annotated with `Any`, and as tensors to all others.
"""


def onnx_operator(*names: str) -> Callable[[Operator], Operator]:
    """Return a decorator that registers a function for the named ONNX operators."""

    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def constant_ints(value: Any) -> list[int]:
    """Convert a constant operand to a list of integers. Raises RuleError if it depends on the network's input."""
    if isinstance(value, Tensor):
        raise RuleError("sizes or positions that depend on the input are not supported")
    return [int(item) for item in np.asarray(value).reshape(-1)]


def constant_number(value: Any) -> float:
    """Convert a constant operand to a number. Raises RuleError if it depends on the network's input."""
    if isinstance(value, Tensor):
        raise RuleError("a parameter that depends on the input is not supported")
    return float(np.asarray(value).reshape(-1)[0])


def takes_tensors(name: str, count: int) -> list[bool]:
    """Return, for each of a call's `count` operands, whether the operator's function takes it as a tensor."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [
        parameter for parameter in inspect.signature(OPERATORS[name]).parameters.values() if parameter.kind in kinds
    ]
    parameters += parameters[-1:] * count  # the last one may be variadic
    return [parameter.annotation != "Any" for parameter in parameters[:count]]
