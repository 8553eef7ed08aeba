"""Benchmarking of model files, with inputs and outputs bound to the device's memory."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from archir.backends.certificates import PROVIDERS
from archir.diagnostics.errors import fail
from archir_onnx.lowering.interface import input_limit
from archir_onnx.running.sessions import session

_NAMES = {"float": "float32", "double": "float64"}


class OnnxRuns:
    """Loaded model file that can be run repeatedly on the same random inputs.

    Loading raises ArchError: A0914 (the device's execution provider is missing), A1508 (unsupported input shapes).
    """

    def __init__(self, path: Path, device: str, batch: int, threads: int) -> None:
        self._session = session(path, [PROVIDERS[device]], threads)
        self._binding = self._session.io_binding()
        memory = "cpu" if device == "cpu" else "cuda"
        for name, array in _random_inputs(self._session, batch):
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, memory, 0))
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name, memory)

    @property
    def machine(self) -> dict[str, str]:
        """Versions of onnxruntime and Python."""
        return {"onnxruntime": onnxruntime.__version__, "python": platform.python_version()}

    def run(self) -> None:
        """Run one batch and wait for the result."""
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def memory(self) -> int | None:
        """Return None, as onnxruntime does not report how much GPU memory it uses."""
        return None


def _random_inputs(runtime: Any, batch: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield pairs of input name and random array.

    Raises ArchError (A1508) if a size or an element type is not supported.
    """
    rng, metadata = np.random.default_rng(0), runtime.get_modelmeta().custom_metadata_map
    for node_arg in runtime.get_inputs():
        first, *shape = node_arg.shape or [batch]
        if isinstance(first, int) and first != batch:
            raise fail(
                "A1508", f"`{node_arg.name}` only accepts batches of {first}, not of {batch}: use --batch {first}"
            )
        if open_ := [str(size) for size in shape if not isinstance(size, int)]:
            hint = "export a model in which only the batch axis is open"
            raise fail(
                "A1508", f"`{node_arg.name}` has open axes {', '.join(open_)}: their sizes are unknown", None, hint
            )
        kind = node_arg.type.removeprefix("tensor(").removesuffix(")")
        try:
            dtype = np.dtype(_NAMES.get(kind, kind))
        except TypeError:
            raise fail(
                "A1508", f"`{node_arg.name}` has type {node_arg.type}, which cannot be filled with random numbers"
            ) from None
        full = [batch, *shape] if node_arg.shape else []
        numbers = (
            rng.standard_normal(full)
            if dtype.kind == "f"
            else rng.integers(0, input_limit(metadata, node_arg.name), full)
        )
        yield node_arg.name, np.asarray(numbers).astype(dtype)
