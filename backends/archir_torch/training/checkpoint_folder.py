"""Checkpoints in a folder: tensors as safetensors, all other state as JSON.

The JSON contains the SHA-256 of the tensors and of the JSON itself. It is written last and names the tensor file
of its epoch, so that one complete checkpoint exists at any time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from archir.diagnostics.errors import describe_error, fail
from archir.runs.manifest import MAX_BYTES, sealed, unsealed
from archir.utils.files import read_bytes, sha256, write_atomic
from archir_torch.lowering.weights import read_weights
from archir_torch.training.tensors import separate

RECORD_FILE = "checkpoint.json"
"""File name of the JSON record of a checkpoint."""


def write(folder: Path, epoch: int, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write the checkpoint of an epoch, then delete the previous one."""
    path = folder / f"checkpoint-{epoch}.safetensors"
    write_atomic(path, save(separate(tensors)))
    record = {"epoch": epoch, "tensors": path.name, "sha256": sha256(path), **metadata}
    write_atomic(folder / RECORD_FILE, sealed(json.loads(json.dumps(record))).encode())
    for stale in folder.glob("checkpoint-*.safetensors"):
        if stale != path:
            stale.unlink()


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the last checkpoint in a folder: tensors and record; None if the folder has no checkpoint.

    Raises ArchError (A1105) if the checkpoint is corrupt.
    """
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    try:
        record = unsealed(read_bytes(path, MAX_BYTES))
        tensors = folder / Path(record["tensors"]).name
        damaged = sha256(tensors) != record["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise fail("A1105", f"the checkpoint {path} cannot be read: {describe_error(error)}") from None
    if damaged:
        raise fail("A1105", f"{tensors} was changed after it was written: its SHA-256 differs")
    return read_weights(tensors)[0], record
