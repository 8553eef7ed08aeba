"""Registry of lowering rules: one plain torch function per operation.

The positional parameters of a rule are the operands, then the weights (under the operation's weight names). Its
keyword-only parameters are attributes and properties of the operation, and properties of the run: `training` (the
module's mode), `batch` (number of samples) and `inplace` (whether the operand may be overwritten). Rules depend on
torch only, so that their source can be copied into exported files.
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

RUN_KEYWORDS = ("training", "batch", "inplace")
"""Keyword-only parameters that the run determines, not the operation."""


@dataclass(frozen=True)
class Rule:
    """Lowering rule: its function, and the names of the function's keyword-only parameters."""

    function: Function
    keywords: tuple[str, ...]

    def attributes(self, op: Op) -> dict[str, Any]:
        """Return the operation's attributes that the function takes as keyword arguments."""
        return {name: getattr(op, name) for name in self.keywords if name not in RUN_KEYWORDS}

    def takes(self, name: str) -> bool:
        """Return True if the function has a keyword-only parameter of this name."""
        return name in self.keywords

    def has_modes(self, op: Op) -> bool:
        """Return True if the operation's result may differ between training and evaluation.

        A function whose parameter `training` has a default uses it only for operations that are `random`.
        """
        if not self.takes("training"):
            return False
        return op.random or inspect.signature(self.function).parameters["training"].default is inspect.Parameter.empty


RULES: Registry[type[Op], Rule] = Registry(
    "lowering to torch", "lowerings to torch", "archir_torch.lowering.operations"
)


def lowers(*ops: type[Op]) -> Callable[[F_], F_]:
    """Return a decorator that registers a function as the lowering rule of these operations."""

    def register(function: F_) -> F_:
        parameters = inspect.signature(function).parameters.values()
        keywords = tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        for op in ops:
            unknown = [name for name in keywords if name not in RUN_KEYWORDS and not _has_attribute(op, name)]
            assert not unknown, f"{op.name} has no {', '.join(unknown)}"
            RULES.register(op, Rule(function, keywords), function)
        return function

    return register


def _has_attribute(op: type[Op], name: str) -> bool:
    return name in op.__dataclass_fields__ or hasattr(op, name)
