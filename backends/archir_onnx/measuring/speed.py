"""Models in onnxruntime, ready to run: inputs and outputs bound to the device's memory."""

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
from archir_onnx.lowering.interface import limit
from archir_onnx.running.sessions import session

_NAMES = {"float": "float32", "double": "float64"}


class OnnxRuns:
    """A model file on random inputs. Raises ArchError: A0914 (a provider), A1508 (its shapes)."""

    def __init__(self, path: Path, device: str, batch: int, threads: int) -> None:
        self._session = session(path, [PROVIDERS[device]], threads)
        self._binding = self._session.io_binding()
        memory = "cpu" if device == "cpu" else "cuda"
        for name, array in _inputs(self._session, batch):
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, memory, 0))
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name, memory)

    @property
    def machine(self) -> dict[str, str]:
        """Versions."""
        return {"onnxruntime": onnxruntime.__version__, "python": platform.python_version()}

    def run(self) -> None:
        """One batch: done when this returns."""
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def memory(self) -> int | None:
        """None: onnxruntime does not tell how much of a GPU's memory it uses."""
        return None


def _inputs(running: Any, batch: int) -> Iterator[tuple[str, NDArray[Any]]]:
    rng, metadata = np.random.default_rng(0), running.get_modelmeta().custom_metadata_map
    for one in running.get_inputs():
        first, *shape = one.shape or [batch]
        if isinstance(first, int) and first != batch:
            raise fail("A1508", f"`{one.name}` takes batches of {first} alone, not of {batch}: --batch {first}")
        if open_ := [str(size) for size in shape if not isinstance(size, int)]:
            hint = "write a model whose batch alone is open"
            raise fail("A1508", f"`{one.name}` leaves {', '.join(open_)} open: there is no size to measure", None, hint)
        kind = one.type.removeprefix("tensor(").removesuffix(")")
        try:
            dtype = np.dtype(_NAMES.get(kind, kind))
        except TypeError:
            raise fail("A1508", f"`{one.name}` is a {one.type}, for which there are no random numbers") from None
        full = [batch, *shape] if one.shape else []
        numbers = rng.standard_normal(full) if dtype.kind == "f" else rng.integers(0, limit(metadata, one.name), full)
        yield one.name, np.asarray(numbers).astype(dtype)
