"""Helpers for sharded tensors (`DTensor`) that avoid importing `DTensor`, which takes a second."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Return True if each process holds only a shard of the tensor.

    The check does not import `torch.distributed.tensor`: unless it has been imported, no tensor is sharded.
    """
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor assembled from the shards of all processes. Collective operation: all processes must call
    it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local_shard(tensor: Tensor) -> Tensor:
    """Return this process's shard of a tensor, detached; an unsharded tensor is returned as a whole."""
    tensor = tensor.detach()
    return tensor.to_local() if is_sharded(tensor) else tensor


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a tensor moved to the device of `other` and sharded in the same way."""
    if not is_sharded(other):
        return full_tensor(tensor).to(other.device)
    if is_sharded(tensor):
        return tensor.redistribute(other.device_mesh, other.placements)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements)
