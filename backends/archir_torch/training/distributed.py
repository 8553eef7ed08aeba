"""Data-parallel training in processes started by `torchrun`, with gloo for CPU tensors and NCCL for GPU tensors.

If a process group supports only one kind of device, tensors on other devices are copied to that device and back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from archir.diagnostics.errors import Interrupted, fail, join_names

MAX_BUCKET_BYTES = 2**25
"""Maximum number of bytes per collective call; a larger tensor has a call of its own."""


SLOW_TIMEOUT = timedelta(days=365)
"""Timeout for waits during which other processes may work for a long time.

Scoring a generation of candidates may take hours, whereas a training step that takes minutes indicates a fault.
If a process exits while others wait for it, they end at once.
"""


class World(NamedTuple):
    """Rank of this process, and number of processes."""

    rank: int
    size: int


_is_detached = False
_slow_group: dist.ProcessGroup | None = None


def world() -> World:
    """Return the rank and size of the process group; (0, 1) if there is no group, or inside `detached`."""
    if _is_detached or not (dist.is_available() and dist.is_initialized()):
        return World(0, 1)
    return World(dist.get_rank(), dist.get_world_size())


@contextmanager
def detached() -> Iterator[None]:
    """Context manager in which `world` returns (0, 1), so that the code inside takes no part in collective
    operations."""
    global _is_detached
    previous, _is_detached = _is_detached, True
    try:
        yield
    finally:
        _is_detached = previous


def start(device: str) -> str:
    """Join the process group that `torchrun` prepared, if any, and return the device of this process.

    On CUDA, every process has a GPU of its own. Raises ArchError (A1702) if there are fewer GPUs than processes.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or dist.is_initialized():
        return device
    if device.split(":")[0] == "cuda":
        local, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if local >= count:
            raise fail("A1702", f"process {local} has no GPU: there are {count}", None, "lower --nproc-per-node")
        device = f"cuda:{local}"
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    global _slow_group
    _slow_group = dist.new_group(backend="gloo", timeout=SLOW_TIMEOUT)
    return device


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Context manager that joins the process group (`start`), yields the device of this process, and leaves the
    group again.

    A group that already existed is not left. Raises ArchError (A1702) if there are fewer GPUs than processes.
    """
    was_initialized = dist.is_available() and dist.is_initialized()
    try:
        yield start(device)
        _drain()
    except Interrupted:  # raised in all processes
        _drain()
        raise
    finally:
        if not was_initialized:
            stop()


def _drain() -> None:
    """Wait until gloo's threads have released all tensors.

    To release tensors, the threads need the Python interpreter, which may be about to exit.
    """
    if world().size > 1:
        dist.barrier()


def stop() -> None:
    """Leave the process group, if there is one."""
    global _slow_group
    _slow_group = None
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Overwrite the tensors with those in the first process."""
    if world().size > 1:
        _in_buckets(tensors, lambda flat: dist.broadcast(flat, 0, async_op=True), 1)


def average(tensors: Iterable[Tensor]) -> None:
    """Replace every tensor by its mean over all processes."""
    if world().size > 1:
        _in_buckets(tensors, lambda flat: dist.all_reduce(flat, async_op=True), world().size)


def add(tensors: Mapping[str, Tensor]) -> None:
    """Replace every tensor by its sum over all processes. All processes must pass the same names."""
    if world().size > 1:
        _in_buckets([tensors[name] for name in sorted(tensors)], lambda flat: dist.all_reduce(flat, async_op=True), 1)


def any_reduce(*values: bool) -> tuple[bool, ...]:
    """Return, for each value, whether it is True in any process."""
    return _any_reduce(values, None)


def _any_reduce(values: tuple[bool, ...], group: dist.ProcessGroup | None) -> tuple[bool, ...]:
    """Return `any_reduce(*values)` over a process group; None is the default group."""
    if world().size == 1:
        return values
    flags = torch.tensor(values, dtype=torch.uint8, device=_collective_device() if group is None else "cpu")
    dist.all_reduce(flags, dist.ReduceOp.MAX, group)
    return tuple(map(bool, flags.tolist()))


def broadcast_text(text: str) -> str:
    """Return the text that the first process passes; the texts of the others are ignored."""
    return gather_texts(text if world().rank == 0 else "")[0]


def gather_texts(text: str) -> list[str]:
    """Return the texts that all processes pass, ordered by rank."""
    size = world().size
    if size == 1:
        return [text]
    encoded = torch.frombuffer(bytearray(text.encode() + b"\n"), dtype=torch.uint8).to(_collective_device())
    lengths = [torch.zeros(1, dtype=torch.int64, device=_collective_device()) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(encoded)], device=_collective_device()))
    max_length = max(int(length) for length in lengths)
    buffers = [torch.zeros(max_length, dtype=torch.uint8, device=_collective_device()) for _ in range(size)]
    dist.all_gather(buffers, torch.nn.functional.pad(encoded, (0, max_length - len(encoded))))
    return [bytes(buffer[: int(n) - 1].tolist()).decode() for buffer, n in zip(buffers, lengths, strict=True)]


@contextmanager
def barrier_with_error(work: str) -> Iterator[bool]:
    """Context manager for work that is divided among processes; on exit, each process waits for all others.

    Yields True in the first process. The work may take as long as SLOW_TIMEOUT. If the work fails in one process,
    ArchError (A1705) is raised in the processes where it succeeded; the process that failed reports the cause.
    """
    succeeded = False
    try:
        yield world().rank == 0
        succeeded = True
    finally:
        (failed,) = _any_reduce((not succeeded,), _slow_group)
    if failed:
        raise fail("A1705", f"{work}: another process failed; its own message says why")


def check_same(tensors: Mapping[str, Tensor]) -> None:
    """Check that tensors are equal in all processes. Raises ArchError (A1703) with the names of those that differ."""
    if world().size == 1 or not tensors:
        return
    sums = torch.stack([_fingerprint(tensor) for tensor in tensors.values()]).to(_collective_device())
    maxima, minima = sums.clone(), sums.clone()
    dist.all_reduce(maxima, dist.ReduceOp.MAX)
    dist.all_reduce(minima, dist.ReduceOp.MIN)
    differ = [name for name, same in zip(tensors, (maxima == minima).all(1).tolist(), strict=True) if not same]
    if differ:
        raise fail(
            "A1703", f"{len(differ)} of {len(tensors)} tensors differ between processes: {join_names(differ, 4)}"
        )


def _fingerprint(tensor: Tensor) -> Tensor:
    """Return two checksums over the bits of a tensor; the second is weighted by position."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.detach().reshape(-1).contiguous().view(integers[tensor.element_size()]).long()
    positions = torch.arange(1, len(bits) + 1, device=bits.device)
    return torch.stack([bits.sum(), (bits * positions).sum()])


def on_gpus() -> bool:
    """Return True if the processes communicate by NCCL, each with a GPU of its own."""
    return "nccl" in dist.get_backend_config()


def _device_types() -> list[str]:
    """Return the device types that the process group supports, with the CPU first if it is among them."""
    return sorted(part.partition(":")[0] for part in dist.get_backend_config().split(","))


def _collective_device() -> torch.device:
    """Return the device for small messages to all processes.

    This is the CPU if the group supports it, because the processes then do not wait for a GPU.
    """
    return torch.device(_device_types()[0])


def _to_collective_device(tensor: Tensor) -> Tensor:
    """Move a tensor to a device that the process group supports.

    A tensor that is already on a supported device is not moved.
    """
    return tensor if tensor.device.type in _device_types() else tensor.to(_collective_device())


def _in_buckets(tensors: Iterable[Tensor], reduce: Callable[[Tensor], dist.Work | None], divisor: int) -> None:
    """Apply a collective operation to tensors in flat buckets, divide the results by `divisor` and write them back."""
    pending = []
    for bucket in _buckets(tensors):
        flat = _to_collective_device(torch.cat([tensor.detach().reshape(-1) for tensor in bucket]))
        pending.append((bucket, flat, reduce(flat)))
    for bucket, flat, work in pending:
        if work is not None:
            work.wait()
        sizes = [tensor.numel() for tensor in bucket]
        for tensor, chunk in zip(bucket, flat.div_(divisor).split(sizes), strict=True):
            tensor.detach().copy_(chunk.view_as(tensor))


def _buckets(tensors: Iterable[Tensor]) -> list[Sequence[Tensor]]:
    """Group tensors with the same dtype and device, in their order, into buckets of at most MAX_BUCKET_BYTES."""
    open_: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    sizes: dict[tuple[torch.dtype, torch.device], int] = {}
    full: list[Sequence[Tensor]] = []
    for tensor in tensors:
        kind, size = (tensor.dtype, tensor.device), tensor.nbytes
        if kind in open_ and sizes[kind] + size > MAX_BUCKET_BYTES:
            full.append(open_.pop(kind))
            sizes[kind] = 0
        open_.setdefault(kind, []).append(tensor)
        sizes[kind] = sizes.get(kind, 0) + size
    return [*full, *open_.values()]
