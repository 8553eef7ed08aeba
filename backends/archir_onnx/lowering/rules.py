"""Registry of lowering rules: one function per operation, from operand names to the result's name.

Positional parameters of a rule are the builder, the operation, and the names of the operands; keyword-only parameters
are the names of the weights, or None for optional weights that are absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archir.ir.op import OPS, Composite, Op
from archir.plugins.registry import Registry
from archir_onnx.lowering.builder import Builder

RULES: Registry[type[Op], Callable[..., str]] = Registry("lowering to ONNX", "lowerings to ONNX")
"""Lowering rules by operation."""


def lowers(*ops: type[Op]) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function as the lowering rule of operations."""

    def register(function: Callable[..., str]) -> Callable[..., str]:
        for op in ops:
            RULES.register(op, function)
        return function

    return register


def missing_rules() -> list[type[Op]]:
    """Return the operations of the language, except composite ones, that have no lowering rule here."""
    return [op for op in OPS.values() if not (op.internal or issubclass(op, Composite)) and op not in RULES]


def lower_node(builder: Builder, op: Op, operands: list[str], weights: dict[str, Any]) -> str:
    """Add the ONNX nodes of an operation to the builder; return the name of the result."""
    return RULES[type(op)](builder, op, *operands, **weights)
