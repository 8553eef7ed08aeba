"""Parts of tensors: what an architecture uses of the weights that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir.passes.positions import Along, Part


class Picked:
    """A part of a tensor, position by position of each axis: those of some axis are no loops."""

    leading = False

    def __init__(self, part: Part) -> None:
        self.shape = tuple(one.size for one in part)
        self._places = tuple(torch.tensor(one.positions()) for one in part)
        self._held: dict[torch.device, tuple[Tensor, ...]] = {}

    def of(self, tensor: Tensor) -> Tensor:
        """The part, in order in memory; gradients reach it alone."""
        if tensor.requires_grad and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _Taken.apply
            return apply(tensor, self)
        return self.read(tensor)

    def read(self, tensor: Tensor) -> Tensor:
        """A copy of the part."""
        return tensor[self._index(tensor.device)]

    def write(self, whole: Tensor, part: Tensor) -> None:
        """Write a part where it belongs."""
        whole[self._index(whole.device)] = part

    def _index(self, device: torch.device) -> tuple[Tensor, ...]:
        """Of each axis [.., n, ..], so that all of them together are those of a box."""
        if device not in self._held:
            count = len(self._places)
            self._held[device] = tuple(
                places.to(device, non_blocking=True).view([-1 if i == axis else 1 for i in range(count)])
                for axis, places in enumerate(self._places)
            )
        return self._held[device]


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
        return self.read(tensor)

    def read(self, tensor: Tensor) -> Tensor:
        """A copy of the part, in order in memory."""
        return self.view(tensor).reshape(self.shape).contiguous()

    def write(self, whole: Tensor, part: Tensor) -> None:
        """Write a part where it belongs."""
        self.view(whole).copy_(part.reshape(self.size))

    def view(self, tensor: Tensor) -> Tensor:
        """The part as a view with an axis for each loop."""
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


def cut(part: Part, whole: tuple[int, ...]) -> Cut | Picked | None:
    """What takes a part out of tensors of a shape that are in order in memory; None if it is all of them."""
    shape = tuple(along.size for along in part)
    if shape == whole:
        return None
    loops = [one for one in part if isinstance(one, Along)]
    if len(loops) < len(part):
        return Picked(part)
    size: list[int] = []
    stride: list[int] = []
    offset, step = 0, 1
    for along, length in zip(reversed(loops), reversed(whole), strict=True):
        for count, distance in reversed(along.levels):
            size.insert(0, count)
            stride.insert(0, distance * step)
        offset += along.start * step
        step *= length
    first = loops[0]
    leading = shape[1:] == whole[1:] and first.start == 0 and first.levels == ((first.size, 1),)
    return Cut(tuple(size), tuple(stride), offset, shape, leading)


class _Taken(torch.autograd.Function):
    """`Cut.of`, whose gradient is written once, however many axes are cut."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, part: Cut | Picked) -> Tensor:
        ctx.part, ctx.shape = part, tensor.shape
        return part.read(tensor)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.new_zeros(ctx.shape)
        part: Cut | Picked = ctx.part
        part.write(whole, gradient)
        return whole, None
