"""Helpers for tensors that are stored, and for sharded tensors (`DTensor`), without importing `DTensor`, which takes a
second."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the CPU, detached, of which no two share storage, as files of safetensors need them."""
    seen: set[int] = set()
    separated = {}
    for name, tensor in tensors.items():
        copy = tensor.detach().cpu().contiguous()
        storage = copy.untyped_storage().data_ptr()
        separated[name] = copy.clone() if storage in seen else copy
        seen.add(storage)
    return separated


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
