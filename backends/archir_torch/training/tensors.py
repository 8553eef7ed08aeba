"""Tensors that are divided between processes, recognised without the second that importing `DTensor` takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_divided(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether each process has only a part of the tensor: there is none before `torch.distributed.tensor` is there."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the parts of all processes put together: all of them must ask."""
    return tensor.full_tensor() if is_divided(tensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """What this process has of a tensor."""
    tensor = tensor.detach()
    return tensor.to_local() if is_divided(tensor) else tensor


def divided_like(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor where, and divided between processes as, another one is."""
    if not is_divided(other):
        return whole(tensor).to(other.device)
    if is_divided(tensor):
        return tensor.redistribute(other.device_mesh, other.placements)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements)
