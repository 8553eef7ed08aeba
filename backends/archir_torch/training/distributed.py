"""Several processes that train one thing, started by `torchrun`: gloo for what is on the CPU, NCCL for what is on GPUs.

A group may join processes of one kind alone. Then what is elsewhere goes there, and back.
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

from archir.diagnostics.errors import Interrupted, fail, listed

BUCKET = 2**25
"""Bytes that are averaged at once, at most, unless a single tensor is larger."""


PATIENCE = timedelta(days=365)
"""For what processes do alone while others wait: a generation of candidates may take hours, where a step of training
that takes minutes is a fault. A process that ends meanwhile ends the others at once."""


class World(NamedTuple):
    """Which process this is, of how many."""

    rank: int
    size: int


_apart = False
_patient: dist.ProcessGroup | None = None


def world() -> World:
    """This process among those that train together: 0 of 1 if it is alone."""
    if _apart or not (dist.is_available() and dist.is_initialized()):
        return World(0, 1)
    return World(dist.get_rank(), dist.get_world_size())


@contextmanager
def alone() -> Iterator[None]:
    """Inside, this process is alone, and what it does is nothing that the others have a part in."""
    global _apart
    before, _apart = _apart, True
    try:
        yield
    finally:
        _apart = before


def start(device: str) -> str:
    """Join the processes that `torchrun` started, if it did; the device of this process: each has a GPU of its own.

    Raises ArchError (A1702) if there are fewer GPUs than processes.
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
    global _patient
    _patient = dist.new_group(backend="gloo", timeout=PATIENCE)
    return device


@contextmanager
def joined(device: str) -> Iterator[str]:
    """`start`, and `stop` at the end if that began here; the device of this process. Raises ArchError (A1702)."""
    before = dist.is_available() and dist.is_initialized()
    try:
        yield start(device)
        _settle()
    except Interrupted:  # in all processes
        _settle()
        raise
    finally:
        if not before:
            stop()


def _settle() -> None:
    """Wait until gloo's threads have let go of all tensors: that takes the interpreter, which may be about to end."""
    if world().size > 1:
        dist.barrier()


def stop() -> None:
    """Leave the other processes, if there are any."""
    global _patient
    _patient = None
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def broadcast(tensors: Iterable[Tensor]) -> None:
    """All processes take what the first one has."""
    if world().size > 1:
        _in_buckets(tensors, lambda flat: dist.broadcast(flat, 0, async_op=True), 1)


def average(tensors: Iterable[Tensor]) -> None:
    """Every tensor becomes its mean over all processes."""
    if world().size > 1:
        _in_buckets(tensors, lambda flat: dist.all_reduce(flat, async_op=True), world().size)


def add(tensors: Mapping[str, Tensor]) -> None:
    """Every tensor becomes its sum over all processes, which have the same names."""
    if world().size > 1:
        _in_buckets([tensors[name] for name in sorted(tensors)], lambda flat: dist.all_reduce(flat, async_op=True), 1)


def agreed(*values: bool) -> tuple[bool, ...]:
    """For each of the values, whether any process has it true."""
    return _agreed(values, None)


def _agreed(values: tuple[bool, ...], group: dist.ProcessGroup | None) -> tuple[bool, ...]:
    if world().size == 1:
        return values
    said = torch.tensor(values, dtype=torch.uint8, device=_device() if group is None else "cpu")
    dist.all_reduce(said, dist.ReduceOp.MAX, group)
    return tuple(map(bool, said.tolist()))


def told(text: str) -> str:
    """The text that the first process has."""
    return gathered(text if world().rank == 0 else "")[0]


def gathered(text: str) -> list[str]:
    """The texts of all processes, by rank."""
    size = world().size
    if size == 1:
        return [text]
    own = torch.frombuffer(bytearray(text.encode() + b"\n"), dtype=torch.uint8).to(_device())
    lengths = [torch.zeros(1, dtype=torch.int64, device=_device()) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(own)], device=_device()))
    longest = max(int(length) for length in lengths)
    held = [torch.zeros(longest, dtype=torch.uint8, device=_device()) for _ in range(size)]
    dist.all_gather(held, torch.nn.functional.pad(own, (0, longest - len(own))))
    return [bytes(one[: int(n) - 1].tolist()).decode() for one, n in zip(held, lengths, strict=True)]


@contextmanager
def jointly(what: str) -> Iterator[bool]:
    """Work of which each process does its part, where none goes on before all are done; whether this is the first one.

    It may take as long as `PATIENCE`. Raises ArchError (A1705) where it was done if another process could not: that one
    says why.
    """
    done = False
    try:
        yield world().rank == 0
        done = True
    finally:
        (failed,) = _agreed((not done,), _patient)
    if failed:
        raise fail("A1705", f"{what}: another process failed, and says why")


def check_same(tensors: Mapping[str, Tensor]) -> None:
    """Raises ArchError (A1703) naming the tensors that are not the same in all processes."""
    if world().size == 1 or not tensors:
        return
    sums = torch.stack([_fingerprint(tensor) for tensor in tensors.values()]).to(_device())
    high, low = sums.clone(), sums.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    differ = [name for name, same in zip(tensors, (high == low).all(1).tolist(), strict=True) if not same]
    if differ:
        raise fail("A1703", f"{len(differ)} of {len(tensors)} tensors differ between processes: {listed(differ, 4)}")


def _fingerprint(tensor: Tensor) -> Tensor:
    """Two sums over the bits of a tensor, the second with a weight for each place."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.detach().reshape(-1).contiguous().view(integers[tensor.element_size()]).long()
    places = torch.arange(1, len(bits) + 1, device=bits.device)
    return torch.stack([bits.sum(), (bits * places).sum()])


def on_gpus() -> bool:
    """Whether each of the processes that train together has a GPU of its own."""
    return "nccl" in dist.get_backend_config()


def _joined() -> list[str]:
    """The kinds of devices on which processes meet, the CPU first."""
    return sorted(part.partition(":")[0] for part in dist.get_backend_config().split(","))


def _device() -> torch.device:
    """Where what all processes are told is put: on the CPU, if they meet there, where nobody waits for a GPU."""
    return torch.device(_joined()[0])


def _met(tensor: Tensor) -> Tensor:
    """A tensor where processes can exchange it: where it is, if they meet there."""
    return tensor if tensor.device.type in _joined() else tensor.to(_device())


def _in_buckets(tensors: Iterable[Tensor], reduce: Callable[[Tensor], dist.Work | None], divisor: int) -> None:
    """Put tensors through a collective, many of them in one flat tensor, and write back what comes out."""
    running = []
    for bucket in _buckets(tensors):
        flat = _met(torch.cat([tensor.detach().reshape(-1) for tensor in bucket]))
        running.append((bucket, flat, reduce(flat)))
    for bucket, flat, work in running:
        if work is not None:
            work.wait()
        sizes = [tensor.numel() for tensor in bucket]
        for tensor, part in zip(bucket, flat.div_(divisor).split(sizes), strict=True):
            tensor.detach().copy_(part.view_as(tensor))


def _buckets(tensors: Iterable[Tensor]) -> list[Sequence[Tensor]]:
    """Tensors of one type, on one device, together, in order."""
    open_: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    full: list[Sequence[Tensor]] = []
    for tensor in tensors:
        kind = tensor.dtype, tensor.device
        bucket = open_.setdefault(kind, [])
        if bucket and sum(t.nbytes for t in bucket) + tensor.nbytes > BUCKET:
            full.append(open_.pop(kind))
            bucket = open_.setdefault(kind, [])
        bucket.append(tensor)
    return [*full, *open_.values()]
