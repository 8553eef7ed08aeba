"""Slices of tensors: the parts of shared weights that one architecture uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir.passes.weight_slices import StridedIndices, WeightSlice


class IndexedSlice:
    """Slice of a tensor given by a list of indices for each axis; used if strides cannot describe it."""

    def __init__(self, part: WeightSlice) -> None:
        self.shape = tuple(indices.size for indices in part)
        self._indices = tuple(torch.tensor(indices.positions()) for indices in part)
        self._by_device: dict[torch.device, tuple[Tensor, ...]] = {}

    def take(self, tensor: Tensor) -> Tensor:
        """Return the slice as a contiguous tensor. Its gradient is non-zero only in this part of the full tensor."""
        if tensor.requires_grad and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _TakeSlice.apply
            return apply(tensor, self)
        return self.copy(tensor)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a copy of the slice."""
        return tensor[self._index(tensor.device)]

    def write(self, target: Tensor, values: Tensor) -> None:
        """Write values to this part of the full tensor."""
        target[self._index(target.device)] = values

    def _index(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the indices of each axis on a device, with shapes [1, .., n, .., 1] that broadcast to the slice."""
        if device not in self._by_device:
            count = len(self._indices)
            self._by_device[device] = tuple(
                indices.to(device, non_blocking=True).view([-1 if i == axis else 1 for i in range(count)])
                for axis, indices in enumerate(self._indices)
            )
        return self._by_device[device]


class StridedSlice(NamedTuple):
    """Slice of a contiguous tensor as a strided view (`size`, `stride`, `offset`); `shape` is the shape of the
    result."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    shape: tuple[int, ...]
    is_prefix: bool
    """Whether the slice consists of the first rows along axis 0 and is full along all other axes, so that a view
    of it is contiguous."""

    def take(self, tensor: Tensor) -> Tensor:
        """Return the slice as a contiguous tensor. Its gradient is non-zero only in this part of the full tensor."""
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
        """Write values to this part of the full tensor."""
        self.view(target).copy_(values.reshape(self.size))

    def view(self, tensor: Tensor) -> Tensor:
        """Return the slice as a view, in which every level of strides has an axis of its own."""
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


def make_slice(part: WeightSlice, full_shape: tuple[int, ...]) -> StridedSlice | IndexedSlice | None:
    """Return the slice of a contiguous tensor of shape `full_shape`; None if it is the whole tensor."""
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
    """Autograd function behind `take`, whose backward pass writes the gradient in one operation for all axes."""

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
