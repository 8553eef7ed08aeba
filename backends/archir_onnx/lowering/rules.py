"""Registry of lowering rules: one function per operation, which returns the name of the result.

Positional parameters of a rule are the builder, the operation, and the names of the operands; keyword-only parameters
are the names of the weights, or None for absent optional weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archir.ir.op import OPS, Composite, Op
from archir.plugins.registry import Registry
from archir_onnx.lowering.builder import Builder

RULES: Registry[type[Op], Callable[..., str]] = Registry(
    "lowering to ONNX", "lowerings to ONNX", "archir_onnx.lowering.operations"
)
"""Lowering rule by operation class."""
OPERATOR_OPSETS: dict[type[Op], int] = {}
"""First opset with an operator of its own, by operation class; in older opsets, the operation is decomposed."""


def lowers(*ops: type[Op], since: int | None = None) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Return a decorator that registers a function as the lowering rule of the given operations.

    `since` is the first opset with an operator for them, if older opsets need a decomposition.
    """

    def register(function: Callable[..., str]) -> Callable[..., str]:
        for op in ops:
            RULES.register(op, function)
            if since is not None:
                OPERATOR_OPSETS[op] = since
        return function

    return register


def missing_rules() -> list[type[Op]]:
    """Return the non-composite operations of the language that have no lowering rule to ONNX."""
    return [op for op in OPS.values() if not (op.internal or issubclass(op, Composite)) and op not in RULES]


def lower_node(builder: Builder, op: Op, operands: list[str], weights: dict[str, Any]) -> str:
    """Add the ONNX nodes for an operation to the builder; return the name of the result."""
    return RULES[type(op)](builder, op, *operands, **weights)
