"""An ONNX model that computes batches of samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

_DTYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8, "tensor(int32)": np.int32, "tensor(int64)": np.int64,
}  # fmt: skip


_MAX_CERTIFICATE_BYTES = 1 << 23
"""Size limit of certificates, in bytes."""


class UnservableError(Exception):
    """A model cannot be served; the message says why."""


@dataclass(frozen=True)
class Slot:
    """An input or an output of the model. `shape` is the shape of one sample, without the batch."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements of a sample."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of a sample."""
        return self.size * self.dtype.itemsize

    def description(self) -> dict[str, Any]:
        """Return the description that clients receive."""
        return {"name": self.name, "type": str(self.dtype), "shape": list(self.shape)}


class Model:
    """An onnxruntime session on the CPU that computes a batch of samples at once."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        if not path.is_file():
            raise UnservableError("there is no such file")
        _check_certificate(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry(
            "session.force_spinning_stop", "1"
        )  # idle threads must not spin: other threads answer clients
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base class
            raise UnservableError(f"onnxruntime cannot load {path}: {error}") from None
        self.inputs = [_slot(value) for value in self._session.get_inputs()]
        self.outputs = [_slot(value) for value in self._session.get_outputs()]
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.labels = _labels(self.metadata, self.outputs[0])

    def run(self, samples: Sequence[Arrays]) -> list[Arrays]:
        """Return the outputs of each sample."""
        batch = {slot.name: np.stack([sample[slot.name] for sample in samples]) for slot in self.inputs}
        names = [slot.name for slot in self.outputs]
        columns = self._session.run(names, batch)
        return [dict(zip(names, row, strict=True)) for *row, _ in zip(*columns, samples, strict=True)]

    def warm_up(self, max_batch: int) -> None:
        """Run batches of zeros of size 1 and `most`, so that no client waits for first-time initialisation.

        Raises UnservableError if a batch cannot be computed.
        """
        zeros = {slot.name: np.zeros(slot.shape, slot.dtype) for slot in self.inputs}
        for size in (1, max_batch):
            try:
                self.run([zeros] * size)
            except Exception as error:
                raise UnservableError(f"it computes no batch of {size}: {error}") from None


def _slot(value: Any) -> Slot:
    if value.type not in _DTYPES:
        raise UnservableError(f"`{value.name}` is a {value.type}: there are {', '.join(_DTYPES)}")
    if [isinstance(size, int) for size in value.shape] != [False, *[True] * (len(value.shape) - 1)]:
        raise UnservableError(f"`{value.name}` has the shape {value.shape}: the batch, and it alone, must be dynamic")
    return Slot(value.name, tuple(value.shape[1:]), np.dtype(_DTYPES[value.type]))


def _labels(metadata: Mapping[str, str], output: Slot) -> list[str]:
    """Return the class names, one per element of the first output; [] if the model names none.

    They are a JSON list in the model's metadata. Elements after its end are named by their numbers: the training data
    had fewer classes than the network has outputs.
    """
    try:
        labels = json.loads(metadata.get("labels", "[]"))
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UnservableError("the metadata `labels` is not JSON list of strings")
    size = output.shape[0] if len(output.shape) == 1 else 0
    if len(labels) > size:
        raise UnservableError(f"there are {len(labels)} labels, but `{output.name}` has the shape {list(output.shape)}")
    return [*labels, *map(str, range(len(labels), size))] if labels else []


def _check_certificate(path: Path) -> None:
    """Raise UnservableError if the model's files differ from the certificate beside the model, if there is one."""
    certificate = path.with_name(f"{path.name}.json")
    if not certificate.exists():
        return
    try:
        if not certificate.is_file() or certificate.stat().st_size > _MAX_CERTIFICATE_BYTES:
            raise ValueError("it is not a file, or a large one")
        files = json.loads(certificate.read_text("utf-8"))["files"]
        changed = [name for name, facts in files.items() if _has_changed(path.parent / name, facts["sha256"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnservableError(f"{certificate} is not a certificate of it: {error}") from None
    if path.name not in files:
        raise UnservableError(f"{certificate} certifies {', '.join(files)}: a model keeps its name")
    if changed:
        raise UnservableError(f"not what {certificate} certifies: {', '.join(changed)}")


def _has_changed(path: Path, digest: str) -> bool:
    """True if a file is missing or its SHA-256 differs."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() != digest
