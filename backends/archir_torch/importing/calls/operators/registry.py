"""Registry of the functions of ONNX operators, and helpers that these share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from archir.diagnostics.errors import RuleError

Operator = Callable[..., Any]
"""Function of an operator."""
OPERATORS: dict[str, Operator] = {}
"""Functions by operator: they take operands, then attributes by name, and `version`, the version of the operator set.

Parameters annotated `Any` receive constants as arrays, all others as tensors.
"""


def onnx_operator(*names: str) -> Callable[[Operator], Operator]:
    """Return a decorator that registers a function for ONNX operators."""

    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def constant_ints(value: Any) -> list[int]:
    """Return constant integers as a list. Raises RuleError if they depend on the input."""
    if isinstance(value, Tensor):
        raise RuleError("sizes or positions that depend on the input are not supported")
    return [int(item) for item in np.asarray(value).reshape(-1)]


def constant_number(value: Any) -> float:
    """Return a constant number. Raises RuleError if it depends on the input."""
    if isinstance(value, Tensor):
        raise RuleError("a parameter that depends on the input is not supported")
    return float(np.asarray(value).reshape(-1)[0])


def takes_tensors(name: str, count: int) -> list[bool]:
    """Return, for each of `count` operands, whether the operator's function takes it as a tensor."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [
        parameter for parameter in inspect.signature(OPERATORS[name]).parameters.values() if parameter.kind in kinds
    ]
    parameters += parameters[-1:] * count  # the last one may be variadic
    return [parameter.annotation != "Any" for parameter in parameters[:count]]
