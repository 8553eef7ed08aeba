"""The functions by the names of operators, and what they share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from archir.diagnostics.errors import RuleError

Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}
"""Functions of operands, then of attributes by name; `version` is that of the operators.

Parameters annotated `Any` take constants as arrays, all others as tensors.
"""


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for operators of ONNX."""

    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def ints(value: Any) -> list[int]:
    """Whole numbers that are known while a network is read."""
    if isinstance(value, Tensor):
        raise RuleError("sizes or places that depend on numbers of the input")
    return [int(one) for one in np.asarray(value).reshape(-1)]


def number(value: Any) -> float:
    """One number that is known while a network is read."""
    if isinstance(value, Tensor):
        raise RuleError("a number that depends on numbers of the input")
    return float(np.asarray(value).reshape(-1)[0])


def takes_tensors(name: str, count: int) -> list[bool]:
    """Which of `count` operands an operator's function takes as tensors."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [one for one in inspect.signature(OPERATORS[name]).parameters.values() if one.kind in kinds]
    parameters += parameters[-1:] * count  # of operands without end
    return [one.annotation != "Any" for one in parameters[:count]]
