"""Timed runs of networks in torch: eager or compiled, in inference mode, with inputs that are already on the
device."""

from __future__ import annotations

import platform

import torch

from archir.backends.input_ranges import ranged_inputs
from archir.ir.graph import Graph
from archir_torch.lowering.devices import resolve_device
from archir_torch.lowering.module import lower
from archir_torch.measuring.latency import random_input


class TorchRuns:
    """Runnable module for a graph without choices, with freshly initialised weights and random inputs.

    Raises ArchError (A1505) if the device does not exist.
    """

    def __init__(self, graph: Graph, device: str, batch: int, threads: int, compiled: bool) -> None:
        self._device = torch.device(resolve_device(device))
        torch.set_num_threads(threads)
        module = lower(graph).eval().to(self._device)
        self._module = torch.compile(module, dynamic=False) if compiled else module
        types, generator = ranged_inputs(graph).values(), torch.Generator().manual_seed(0)
        self._inputs = [random_input(tensor_type, batch, generator).to(self._device) for tensor_type in types]

    @property
    def machine(self) -> dict[str, str]:
        """Versions of torch, Python and CUDA."""
        versions = {"torch": torch.__version__, "python": platform.python_version()}
        return versions | ({"cuda": str(torch.version.cuda)} if self._device.type == "cuda" else {})

    def run(self) -> None:
        """Run one batch, and wait until the device has finished."""
        with torch.inference_mode():
            self._module(*self._inputs)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def memory(self) -> int | None:
        """Return the peak memory in bytes that torch allocated on a GPU; None on a CPU."""
        return torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else None
