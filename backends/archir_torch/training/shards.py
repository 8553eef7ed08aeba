"""Sharded training (FSDP) for networks that exceed the memory of one device.

Each process stores and saves a shard of every tensor.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, zeros

from archir.diagnostics.errors import describe_error, fail
from archir.runs.manifest import MAX_BYTES
from archir.utils.files import read_bytes, sha256, write_atomic
from archir_torch.lowering.module import Layer
from archir_torch.training.checkpoint_state import State
from archir_torch.training.distributed import broadcast, on_gpus, world
from archir_torch.training.loop import Checkpointer, Figures, NullCheckpointer

MIN_SHARDED_LAYER = 2**20
"""Minimum number of parameters for which a layer is gathered separately when it runs.

Smaller layers are gathered together.
"""

_RECORD = "shards.json"


def shard(module: nn.Module, min_parameters: int = MIN_SHARDED_LAYER) -> None:
    """Shard the module of the first process over all processes; call it before a Learner is created.

    With a single process, the module stays unsharded.
    """
    if world().size == 1:
        return
    broadcast(module.state_dict().values())
    mesh = _mesh()
    for layer in module.modules():
        if isinstance(layer, Layer) and sum(p.numel() for p in layer.parameters()) >= min_parameters:
            fully_shard(layer, mesh=mesh)
    # by default the root module stays gathered after an evaluation, and would go on training with those stale weights
    fully_shard(module, mesh=mesh, reshard_after_forward=True)


class ShardCheckpointer:
    """Checkpointer to which each process writes its own shards, as safetensors files of
    `torch.distributed.checkpoint`.

    The folder must be visible to all processes. A different number of processes can read the states. `row_store` stores
    the metrics of epochs.
    """

    together = True

    def __init__(self, folder: Path, row_store: Checkpointer | None = None) -> None:
        self._folder, self._row_store = folder, row_store or NullCheckpointer()

    def save(self, state: State) -> None:
        """Save a state. The record with the names of its files is written last; then the files of the previous state
        are deleted."""
        path = self._folder / f"shards-{self._next()}"
        if world().rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        _barrier()
        save(dict(state.tensors), storage_writer=HuggingFaceStorageWriter(str(path), save_distributed=True))
        _barrier()
        if world().rank == 0:
            files = {file.name: sha256(file) for file in sorted(path.iterdir())}
            record = {"shards": path.name, "sha256": files, "facts": state.facts}
            write_atomic(self._folder / _RECORD, json.dumps(record, indent=1).encode())
            for old in self._folder.glob("shards-*"):
                if old != path:
                    shutil.rmtree(old)
        _barrier()

    def last(self) -> State | None:
        """Return the last state, with its tensors sharded over the current processes.

        Raises ArchError (A1105) if the checkpoint is corrupt.
        """
        record = self._record()
        if record is None:
            return None
        path = self._folder / Path(record["shards"]).name
        for name, digest in record["sha256"].items():
            if not (path / Path(name).name).is_file() or sha256(path / Path(name).name) != digest:
                raise fail("A1105", f"{path / name} was changed after it was written: its SHA-256 differs")
        reader = HuggingFaceStorageReader(str(path))
        kinds = reader.read_metadata().state_dict_metadata
        tensors = {name: _empty_tensor(kind) for name, kind in kinds.items() if isinstance(kind, TensorStorageMetadata)}
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # warns if there is only one process
            load(tensors, storage_reader=reader)
        return State(tensors, record["facts"])

    def record(self, row: Figures) -> None:
        """Store the metrics of an epoch; only the first process writes."""
        if world().rank == 0:
            self._row_store.record(row)

    def _next(self) -> int:
        record = self._record()
        return int(record["shards"].split("-")[1]) + 1 if record is not None else 0

    def _record(self) -> dict[str, Any] | None:
        path = self._folder / _RECORD
        if not path.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(read_bytes(path, MAX_BYTES))
            assert record.keys() >= {"shards", "sha256", "facts"}
        except (OSError, ValueError, AssertionError) as error:
            raise fail("A1105", f"the checkpoint {path} cannot be read: {describe_error(error)}") from None
        return record


def _barrier() -> None:
    """Wait until all processes have arrived."""
    if world().size > 1:
        dist.barrier()


def _mesh() -> DeviceMesh:
    return init_device_mesh("cuda" if on_gpus() else "cpu", (world().size,))


def _empty_tensor(kind: TensorStorageMetadata) -> Tensor:
    """Return a zero tensor to receive a stored tensor, sharded along its first axis as FSDP shards parameters."""
    dtype = kind.properties.dtype
    if not kind.size or world().size == 1:
        return torch.zeros(kind.size, dtype=dtype)
    return zeros(*kind.size, dtype=dtype, device_mesh=_mesh(), placements=[Shard(0)])
