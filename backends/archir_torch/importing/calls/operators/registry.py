"""The functions by the names of operators, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from archir.base.errors import RuleError

Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}
"""Functions of tensors, then of attributes by name; `version` is that of the operators."""


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
