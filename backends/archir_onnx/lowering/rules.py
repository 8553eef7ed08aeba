"""The table of lowerings: one function per operation, from tensor names to tensor names.

A rule's positional parameters are the builder, the operation, and the names of the operands; its keyword-only
parameters are the names of the weights, None for those an operation may lack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archir.ir.op import OPS, Composite, Op
from archir.plugins.registry import Registry
from archir_onnx.lowering.builder import Builder

RULES: Registry[type[Op], Callable[..., str]] = Registry("lowering to ONNX", "lowerings to ONNX")


def lowers(*ops: type[Op]) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function as the lowering of operations."""

    def register(function: Callable[..., str]) -> Callable[..., str]:
        for op in ops:
            RULES.register(op, function)
        return function

    return register


def missing_rules() -> list[type[Op]]:
    """Operations that can be written in `.arch`, stand for themselves, and have no lowering here."""
    return [op for op in OPS.values() if not (op.internal or issubclass(op, Composite)) and op not in RULES]


def lower_node(builder: Builder, op: Op, operands: list[str], weights: dict[str, Any]) -> str:
    """The name of a node's result, its nodes added to the builder."""
    return RULES[type(op)](builder, op, *operands, **weights)
