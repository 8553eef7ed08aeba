"""Devices on which latency is measured, by the names that latency tables and models use."""

from __future__ import annotations

from contextlib import AbstractContextManager

from archir import backends
from archir.costs.latencies.machine import cores
from archir.costs.latencies.measurement import Bench
from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest

BENCHES = {
    "cpu": ("torch", "cpu"), "cuda": ("torch", "cuda"),
    "onnxruntime-cpu": ("onnx", "cpu"), "onnxruntime-cuda": ("onnx", "cuda"),
}  # fmt: skip
"""Maps each device name to a backend, and to the name of the device in that backend."""


def open_bench(device: str, batch: int, threads: int | None) -> AbstractContextManager[Bench]:
    """Return the context manager that prepares a device for timing, with one CPU thread per core by default.

    Raises ArchError (A1505) if the device is unknown; entering the context raises it if the device is not available.
    """
    if device not in BENCHES:
        hint = suggest(device, BENCHES) or f"devices are {', '.join(BENCHES)}"
        raise fail("A1505", f"there is no device `{device}`", None, hint)
    backend, kind = BENCHES[device]
    ready: AbstractContextManager[Bench] = backends.get(backend).bench(kind, batch, threads or cores())
    return ready
