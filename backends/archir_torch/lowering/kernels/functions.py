"""Helpers for `torch.autograd.Function`s: a typed call, and a decorator for backward passes without second
derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch.autograd import Function

from archir.diagnostics.errors import fail

Gradients = TypeVar("Gradients")


def apply_function(function: type[Function], *arguments: object) -> Any:
    """Apply an autograd function to its arguments. The result is a tensor or a tuple of tensors."""
    return function.apply(*arguments)


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Decorator for a backward pass without second-order gradients.

    Raises ArchError (A1109) if second-order gradients are requested, which would otherwise be wrong without notice.
    """

    @wraps(backward)
    def run(ctx: Any, *gradients: Any) -> Gradients:
        if torch.is_grad_enabled():
            raise fail("A1109", "compiled kernels have no second-order gradients", None, "training.compile = false")
        return backward(ctx, *gradients)

    return run
