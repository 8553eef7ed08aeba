"""Checkpoints: tensors as safetensors, everything else as JSON that carries the tensors' hash and its own.

The JSON is written last and names the tensor file of its epoch, so that at any moment there is one whole checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.runs.manifest import MOST_BYTES, sealed, unsealed
from archir.utils.files import read_bytes, sha256, write_atomic
from archir_torch.lowering.weights import read_weights

NAME = "checkpoint.json"


def write(folder: Path, epoch: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write the checkpoint of an epoch and remove the one before."""
    path = folder / f"checkpoint-{epoch}.safetensors"
    write_atomic(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))
    record = {"epoch": epoch, "tensors": path.name, "sha256": sha256(path), **facts}
    write_atomic(folder / NAME, sealed(json.loads(json.dumps(record))).encode())
    for old in folder.glob("checkpoint-*.safetensors"):
        if old != path:
            old.unlink()


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint of a folder, None if there is none. Raises ArchError (A1105) if it was damaged."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        record = unsealed(read_bytes(path, MOST_BYTES))
        tensors = folder / Path(record["tensors"]).name
        damaged = sha256(tensors) != record["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise fail("A1105", f"the checkpoint {path} cannot be read: {error}") from None
    if damaged:
        raise fail("A1105", f"{tensors} was changed after it was written: its SHA-256 differs")
    return read_weights(tensors)[0], record
