"""An ONNX model, ready to run batches of samples."""

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


_MOST_CERTIFICATE = 1 << 23


class UnservableError(Exception):
    """A model that cannot be served, and why."""


@dataclass(frozen=True)
class Slot:
    """An input or an output; its shape is a sample's, without the batch."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The numbers of a sample."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of a sample."""
        return self.size * self.dtype.itemsize

    def described(self) -> dict[str, Any]:
        """As clients are told."""
        return {"name": self.name, "type": str(self.dtype), "shape": list(self.shape)}


class Model:
    """A session on the CPU: samples in, as many outputs out, computed as one batch."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        if not path.is_file():
            raise UnservableError("there is no such file")
        _certified(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.force_spinning_stop", "1")  # the other threads answer clients
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class of their own
            raise UnservableError(f"onnxruntime cannot load {path}: {error}") from None
        self.inputs = [_slot(one) for one in self._session.get_inputs()]
        self.outputs = [_slot(one) for one in self._session.get_outputs()]
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.labels = _labels(self.metadata, self.outputs[0])

    def run(self, samples: Sequence[Arrays]) -> list[Arrays]:
        """The outputs of each sample."""
        batch = {one.name: np.stack([sample[one.name] for sample in samples]) for one in self.inputs}
        names = [one.name for one in self.outputs]
        columns = self._session.run(names, batch)
        return [dict(zip(names, row, strict=True)) for *row, _ in zip(*columns, samples, strict=True)]

    def warm_up(self, most: int) -> None:
        """Run batches of zeros, the smallest and the largest, so that no client waits for what is done once.

        Raises UnservableError if there is not an answer for each sample.
        """
        zeros = {one.name: np.zeros(one.shape, one.dtype) for one in self.inputs}
        for size in (1, most):
            try:
                self.run([zeros] * size)
            except Exception as error:
                raise UnservableError(f"it computes no batch of {size}: {error}") from None


def _slot(one: Any) -> Slot:
    if one.type not in _DTYPES:
        raise UnservableError(f"`{one.name}` is a {one.type}: there are {', '.join(_DTYPES)}")
    if [isinstance(size, int) for size in one.shape] != [False, *[True] * (len(one.shape) - 1)]:
        raise UnservableError(f"`{one.name}` has the shape {one.shape}: the batch, and it alone, must be dynamic")
    return Slot(one.name, tuple(one.shape[1:]), np.dtype(_DTYPES[one.type]))


def _labels(metadata: Mapping[str, str], output: Slot) -> list[str]:
    """The names of classes, a JSON list in the model's metadata, if it has them: one per number of its first output."""
    try:
        labels = json.loads(metadata.get("labels", "[]"))
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UnservableError("the metadata `labels` is not a JSON list of strings")
    if labels and output.shape != (len(labels),):
        raise UnservableError(f"there are {len(labels)} labels, but `{output.name}` has the shape {list(output.shape)}")
    return labels


def _certified(path: Path) -> None:
    """Refuse files that are not those of the certificate beside a model, where `archir export` left one."""
    certificate = path.with_name(f"{path.name}.json")
    if not certificate.exists():
        return
    try:
        if not certificate.is_file() or certificate.stat().st_size > _MOST_CERTIFICATE:
            raise ValueError("it is no file, or a large one")
        files = json.loads(certificate.read_text("utf-8"))["files"]
        changed = [name for name, facts in files.items() if _changed(path.parent / name, facts["sha256"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnservableError(f"{certificate} is no certificate of it: {error}") from None
    if path.name not in files:
        raise UnservableError(f"{certificate} certifies {', '.join(files)}: a model keeps its name")
    if changed:
        raise UnservableError(f"not what {certificate} certifies: {', '.join(changed)}")


def _changed(path: Path, digest: str) -> bool:
    """Whether a file is not there, or its SHA-256 is another one."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() != digest
