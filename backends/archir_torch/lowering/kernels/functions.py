"""Functions with gradients of their own: called with types, which torch declares none for, and differentiated once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch.autograd import Function

from archir.diagnostics.errors import fail

Gradients = TypeVar("Gradients")


def applied(function: type[Function], *given: object) -> Any:
    """What a function gives: a tensor, or a tuple of them."""
    return function.apply(*given)


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Gradients that have none themselves: whoever asks for those is refused (A1109), and not told something else."""

    @wraps(backward)
    def run(ctx: Any, *gradients: Any) -> Gradients:
        if torch.is_grad_enabled():
            raise fail("A1109", "kernels have no gradients of gradients", None, "training.compile = false")
        return backward(ctx, *gradients)

    return run
