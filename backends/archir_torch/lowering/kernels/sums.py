"""Weighted sums of maps and of norms of maps, in one pass; the gradients of all terms in two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out
from archir_torch.lowering.kernels.norm import Handed, Norm


class Term(NamedTuple):
    """share * norm(x); 1 and x, where they are None."""

    x: Tensor
    norm: Norm | None = None
    share: Tensor | None = None
    handed: Handed | None = None
    """What the norm leaves its gradient to."""


def weighted_sum(terms: Sequence[Term]) -> Tensor:
    """The sum of terms of equal shapes that lie pixel by pixel."""
    given: list[Tensor | None] = []
    for x, norm, share, _ in terms:
        given += [x, *(norm or (None,) * 4), share]
    y: Tensor = applied(_Sum, [one.handed for one in terms], *given)
    return y


_PARTS = 6
"""Of a term: the map, mean, 1 / deviation, weight, bias, share."""


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, handed: Sequence[Handed | None], *given: Tensor | None) -> Tensor:
        first = given[0]
        assert first is not None
        y = empty(first.shape, first)
        ctx.shape, ctx.handed = first.shape, handed
        channels = first.shape[1]
        ctx.save_for_backward(*_kept(given, ctx.needs_input_grad[1:]))
        call("sum_forward", y.dtype, given, len(given) // _PARTS, y.numel() // channels, channels, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        given, wanted = ctx.saved_tensors, ctx.needs_input_grad[1:]
        gradient = laid_out(gradient)
        channels = ctx.shape[1]
        found: list[Tensor | None] = [None] * len(given)
        to: list[Tensor | None] = []
        used: list[Tensor | None] = []
        for at, handed in zip(range(0, len(given), _PARTS), ctx.handed, strict=True):
            passed_on = None
            x, mean, _, weight, bias, share = given[at : at + _PARTS]
            if wanted[at] and mean is None and share is None:
                found[at] = gradient
            elif wanted[at] and handed is not None:
                found[at], passed_on = gradient, handed.offered(gradient)
            elif wanted[at]:
                found[at] = empty(ctx.shape, gradient)
            for place, one in ((3, weight), (4, bias), (5, share)):
                if wanted[at + place]:
                    found[at + place] = torch.empty_like(one)
            here = found[at : at + _PARTS]
            to += [None if here[0] is gradient else here[0], here[3], here[4], here[5], passed_on]
            used += [x, *given[at + 1 : at + _PARTS]]
        call(
            "sum_backward", gradient.dtype, gradient, tuple(used), tuple(to), len(given) // _PARTS,
            gradient.numel() // channels, channels,
        )  # fmt: skip
        return None, *found


def _kept(given: Sequence[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
    """What gradients need: a map that is only added up is not kept."""
    kept: list[Tensor | None] = []
    for at in range(0, len(given), _PARTS):
        term = given[at : at + _PARTS]
        needed = term[1] is not None or wanted[at + 5]
        kept += [term[0] if needed else None, *term[1:]]
    return kept
