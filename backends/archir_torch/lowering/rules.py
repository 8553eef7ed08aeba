"""The table of lowerings: one plain torch function per operation.

A rule's positional parameters are the operands and then the weights (by the names the operation gives them); its
keyword-only parameters are attributes and properties of the operation, and of the run: `training` (the module's mode),
`batch` (samples at hand), `inplace` (the operand may be overwritten). Nothing in a rule knows of archir, so that its
source can stand in a file of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from archir.ir.op import Op
from archir.plugins.registry import Registry

Function = Callable[..., Tensor]
F_ = TypeVar("F_", bound=Function)

RUN_TIME = ("training", "batch", "inplace")


@dataclass(frozen=True)
class Rule:
    """A lowering and the names of its keyword-only parameters."""

    function: Function
    keywords: tuple[str, ...]

    def attributes(self, op: Op) -> dict[str, Any]:
        """The attributes of an operation that the function takes."""
        return {name: getattr(op, name) for name in self.keywords if name not in RUN_TIME}

    def takes(self, name: str) -> bool:
        """Whether the function wants to know something of the run."""
        return name in self.keywords


RULES: Registry[type[Op], Rule] = Registry("lowering to torch", "lowerings to torch")


def lowers(*ops: type[Op]) -> Callable[[F_], F_]:
    """Register a function as the lowering of operations."""

    def register(function: F_) -> F_:
        parameters = inspect.signature(function).parameters.values()
        keywords = tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        for op in ops:
            unknown = [name for name in keywords if name not in RUN_TIME and not _has(op, name)]
            assert not unknown, f"{op.name} has no {', '.join(unknown)}"
            RULES.register(op, Rule(function, keywords), function)
        return function

    return register


def _has(op: type[Op], name: str) -> bool:
    return name in op.__dataclass_fields__ or hasattr(op, name)
