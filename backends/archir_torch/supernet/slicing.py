"""Slices of tensors: the parts of the shared weights that an architecture uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir.passes.weight_slices import StridedIndices, WeightSlice


class IndexedSlice:
    """Slice of a tensor as a list of indices per axis, for slices that strides cannot describe."""

    is_prefix = False
    """Never a prefix view (see `StridedSlice.is_prefix`)."""

    def __init__(self, part: WeightSlice) -> None:
        self.shape = tuple(indices.size for indices in part)
        self._indices = tuple(torch.tensor(indices.positions()) for indices in part)
        self._by_device: dict[torch.device, tuple[Tensor, ...]] = {}

    def take(self, tensor: Tensor) -> Tensor:
        """Return the slice, contiguous; its gradient is written to this part of the tensor only."""
        if tensor.requires_grad and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _TakeSlice.apply
            return apply(tensor, self)
        return self.copy(tensor)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a copy of the slice."""
        return tensor[self._index(tensor.device)]

    def write(self, target: Tensor, values: Tensor) -> None:
        """Write values to this part of a tensor."""
        target[self._index(target.device)] = values

    def _index(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the indices of each axis on a device, in shapes [1, .., n, .., 1] that broadcast against each
        other."""
        if device not in self._by_device:
            count = len(self._indices)
            self._by_device[device] = tuple(
                indices.to(device, non_blocking=True).view([-1 if i == axis else 1 for i in range(count)])
                for axis, indices in enumerate(self._indices)
            )
        return self._by_device[device]


class StridedSlice(NamedTuple):
    """Slice of a contiguous tensor of a certain shape: a strided view of it, and the shape of the result."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    shape: tuple[int, ...]
    is_prefix: bool
    """Whether the slice has the first positions of axis 0 and all positions of the others, so that a view is
    contiguous."""

    def take(self, tensor: Tensor) -> Tensor:
        """Return the slice, contiguous; its gradient is written to this part of the tensor only."""
        if self.is_prefix:
            return tensor.narrow(0, 0, self.shape[0])
        if tensor.requires_grad and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _TakeSlice.apply
            return apply(tensor, self)
        return self.copy(tensor)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a contiguous copy of the slice."""
        return self.view(tensor).reshape(self.shape).contiguous()

    def write(self, target: Tensor, values: Tensor) -> None:
        """Write values to this part of a tensor."""
        self.view(target).copy_(values.reshape(self.size))

    def view(self, tensor: Tensor) -> Tensor:
        """Return the slice as a view with an axis for each level of strides."""
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


def make_slice(part: WeightSlice, full_shape: tuple[int, ...]) -> StridedSlice | IndexedSlice | None:
    """Return the slice of contiguous tensors of a shape; None if it is the whole tensor."""
    shape = tuple(indices.size for indices in part)
    if shape == full_shape:
        return None
    strided = [indices for indices in part if isinstance(indices, StridedIndices)]
    if len(strided) < len(part):
        return IndexedSlice(part)
    size: list[int] = []
    stride: list[int] = []
    offset, step = 0, 1
    for indices, length in zip(reversed(strided), reversed(full_shape), strict=True):
        for count, distance in reversed(indices.levels):
            size.insert(0, count)
            stride.insert(0, distance * step)
        offset += indices.start * step
        step *= length
    first = strided[0]
    leading = shape[1:] == full_shape[1:] and first.start == 0 and first.levels == ((first.size, 1),)
    return StridedSlice(tuple(size), tuple(stride), offset, shape, leading)


class _TakeSlice(torch.autograd.Function):
    """Autograd function of `take`: the gradient is written once, for all axes together."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, part: StridedSlice | IndexedSlice) -> Tensor:
        ctx.part, ctx.shape = part, tensor.shape
        return part.copy(tensor)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        full_gradient = gradient.new_zeros(ctx.shape)
        part: StridedSlice | IndexedSlice = ctx.part
        part.write(full_gradient, gradient)
        return full_gradient, None
