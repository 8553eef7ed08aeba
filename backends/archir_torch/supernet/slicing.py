"""Parts of tensors: what an architecture uses of the weights that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir.passes.spaces.sharing import Part


class Cut(NamedTuple):
    """A part of a tensor of a certain shape, as a strided view of it, and the shape in which it is used."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    shape: tuple[int, ...]
    leading: bool
    """Whether it is the first positions of the first axis, and all of the others: a view will do."""

    def of(self, tensor: Tensor) -> Tensor:
        """The part, in order in memory; gradients reach it alone."""
        if self.leading:
            return tensor.narrow(0, 0, self.shape[0])
        if tensor.requires_grad and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _Taken.apply
            return apply(tensor, self)
        return self.view(tensor).reshape(self.shape).contiguous()

    def view(self, tensor: Tensor) -> Tensor:
        """The part as a view with an axis for each loop."""
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


def cut(part: Part, whole: tuple[int, ...]) -> Cut | None:
    """What takes a part out of tensors of a shape that are in order in memory; None if it is all of them."""
    shape = tuple(along.size for along in part)
    if shape == whole:
        return None
    size: list[int] = []
    stride: list[int] = []
    offset, step = 0, 1
    for along, length in zip(reversed(part), reversed(whole), strict=True):
        for count, distance in reversed(along.levels):
            size.insert(0, count)
            stride.insert(0, distance * step)
        offset += along.start * step
        step *= length
    first = part[0]
    leading = shape[1:] == whole[1:] and first.start == 0 and first.levels == ((first.size, 1),)
    return Cut(tuple(size), tuple(stride), offset, shape, leading)


class _Taken(torch.autograd.Function):
    """`Cut.of`, whose gradient is written once, however many axes are cut."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, part: Cut) -> Tensor:
        ctx.part, ctx.shape = part, tensor.shape
        return part.view(tensor).reshape(part.shape).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.new_zeros(ctx.shape)
        part: Cut = ctx.part
        part.view(whole).copy_(gradient.reshape(part.size))
        return whole, None
