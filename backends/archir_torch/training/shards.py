"""Networks too large for one device: each process keeps a part of every tensor (FSDP), and saves that part."""

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

from archir.diagnostics.errors import fail
from archir.runs.manifest import MOST_BYTES
from archir.utils.files import read_bytes, sha256, write_atomic
from archir_torch.lowering.module import Layer
from archir_torch.training.checkpoint_state import State
from archir_torch.training.distributed import broadcast, on_gpus, world
from archir_torch.training.loop import Figures, Keeper, Nowhere

LARGE = 2**20
"""Numbers in a layer that is gathered by itself, when it runs; smaller ones are gathered together."""

_RECORD = "shards.json"


def shard(module: nn.Module, large: int = LARGE) -> None:
    """Divide the first process's module between all of them, before it gets a learner. One process keeps it whole."""
    if world().size == 1:
        return
    broadcast(module.state_dict().values())
    mesh = _mesh()
    for layer in module.modules():
        if isinstance(layer, Layer) and sum(p.numel() for p in layer.parameters()) >= large:
            fully_shard(layer, mesh=mesh)
    # by default the outermost module stays whole after a look at held-out images, and trains on with what it had then
    fully_shard(module, mesh=mesh, reshard_after_forward=True)


class ShardKeeper:
    """A keeper to whose states each process adds its part, in safetensors files of `torch.distributed.checkpoint`.

    The folder is one that all processes see. States that so many processes saved can be read by any other number of
    them. `figures` records the rows of epochs.
    """

    together = True

    def __init__(self, folder: Path, figures: Keeper | None = None) -> None:
        self._folder, self._figures = folder, figures or Nowhere()

    def save(self, state: State) -> None:
        """Keep a state: the record that names its files is written last, and those of the one before are removed."""
        path = self._folder / f"shards-{self._next()}"
        if world().rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        _wait()
        save(dict(state.tensors), storage_writer=HuggingFaceStorageWriter(str(path), save_distributed=True))
        _wait()
        if world().rank == 0:
            files = {file.name: sha256(file) for file in sorted(path.iterdir())}
            record = {"shards": path.name, "sha256": files, "facts": state.facts}
            write_atomic(self._folder / _RECORD, json.dumps(record, indent=1).encode())
            for old in self._folder.glob("shards-*"):
                if old != path:
                    shutil.rmtree(old)
        _wait()

    def last(self) -> State | None:
        """The last state; its tensors are divided between the processes. Raises ArchError (A1105) if it is damaged."""
        record = self._record()
        if record is None:
            return None
        path = self._folder / Path(record["shards"]).name
        for name, digest in record["sha256"].items():
            if not (path / Path(name).name).is_file() or sha256(path / Path(name).name) != digest:
                raise fail("A1105", f"{path / name} was changed after it was written: its SHA-256 differs")
        reader = HuggingFaceStorageReader(str(path))
        kinds = reader.read_metadata().state_dict_metadata
        tensors = {name: _room(kind) for name, kind in kinds.items() if isinstance(kind, TensorStorageMetadata)}
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that one process is alone
            load(tensors, storage_reader=reader)
        return State(tensors, record["facts"])

    def record(self, row: Figures) -> None:
        """The first process records it."""
        if world().rank == 0:
            self._figures.record(row)

    def _next(self) -> int:
        record = self._record()
        return int(record["shards"].split("-")[1]) + 1 if record is not None else 0

    def _record(self) -> dict[str, Any] | None:
        path = self._folder / _RECORD
        if not path.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(read_bytes(path, MOST_BYTES))
            assert record.keys() >= {"shards", "sha256", "facts"}
        except (OSError, ValueError, AssertionError) as error:
            raise fail("A1105", f"the checkpoint {path} cannot be read: {error}") from None
        return record


def _wait() -> None:
    """Until all processes are here."""
    if world().size > 1:
        dist.barrier()


def _mesh() -> DeviceMesh:
    return init_device_mesh("cuda" if on_gpus() else "cpu", (world().size,))


def _room(kind: TensorStorageMetadata) -> Tensor:
    """Where a tensor is read to: divided along its first axis, as FSDP divides it."""
    dtype = kind.properties.dtype
    if not kind.size or world().size == 1:
        return torch.zeros(kind.size, dtype=dtype)
    return zeros(*kind.size, dtype=dtype, device_mesh=_mesh(), placements=[Shard(0)])
