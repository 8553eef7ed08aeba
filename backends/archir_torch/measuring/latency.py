"""Latency of networks in torch: eager, in inference mode, with inputs that are already on the device."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from archir.backends.input_ranges import ranged_inputs
from archir.costs.latencies.machine import clock, processor
from archir.costs.latencies.timing import TimedRun
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir_torch.lowering.devices import resolve_device, torch_threads
from archir_torch.lowering.module import lower

_DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "bool": torch.bool,
}  # fmt: skip

_LARGE_BLOCK = 2**25 - 2**16
"""Size in bytes just below glibc's maximum mmap threshold.

After a block of this size has been freed, glibc keeps the memory of all smaller blocks.
"""


class TorchBench:
    """Measures latency on a device at a batch size."""

    simplified = False

    def __init__(self, device: str, batch: int) -> None:
        self._device, self.batch = torch.device(device), batch
        self.threads = torch.get_num_threads()
        name, self._clock = clock(self.threads)
        self.machine = {"processor": processor(), "clock": name}
        if self._device.type == "cuda":
            cuda = f"{torch.version.cuda}, cudnn {torch.backends.cudnn.version()}"
            self.machine |= {"clock": "cuda events", "gpu": torch.cuda.get_device_name(self._device), "cuda": cuda}
        self.machine |= {"torch": torch.__version__, "python": platform.python_version()}

    def free(self, graph: Graph) -> bool:
        """Return False: no graph takes zero time, since every step of a module costs a call."""
        return False

    def timed(self, graph: Graph) -> TimedRun:
        """Return a function that runs a graph `calls` times and returns the total time in ns.

        The graph has no choices. Weights are freshly initialised, and inputs are random.
        """
        module = lower(graph).eval().to(self._device)
        generator = torch.Generator().manual_seed(0)
        types = ranged_inputs(graph).values()
        inputs = [random_input(tensor_type, self.batch, generator).to(self._device) for tensor_type in types]

        def on_cpu(calls: int) -> float:
            with torch.inference_mode():
                start = self._clock()
                for _ in range(calls):
                    module(*inputs)
                return float(self._clock() - start)

        def on_cuda(calls: int) -> float:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.inference_mode(), torch.cuda.device(self._device):
                torch.cuda.synchronize()
                start.record()
                for _ in range(calls):
                    module(*inputs)
                end.record()
                end.synchronize()
            return 1e6 * float(start.elapsed_time(end))

        return on_cuda if self._device.type == "cuda" else on_cpu


@contextmanager
def bench(device: str, batch: int, threads: int | None) -> Iterator[TorchBench]:
    """Context manager that yields a bench for a device, with the given number of CPU threads.

    Raises ArchError (A1505) if the device does not exist.
    """
    device = resolve_device(device)
    with torch_threads(threads):
        # glibc returns freed memory to the system until a block of the threshold's size was freed. Without this, the
        # number of page faults would depend on what the process did before
        torch.empty(_LARGE_BLOCK, dtype=torch.uint8)
        yield TorchBench(device, batch)


def random_input(tensor_type: TensorType, batch: int, generator: torch.Generator) -> Tensor:
    """Return a random batch of an input.

    Floating-point inputs are standard normal. Integer inputs are uniform below the type's limit or, if the type has
    no limit, 0 and 1.
    """
    shape, dtype = (batch, *tensor_type.shape), _DTYPES[tensor_type.dtype]
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, tensor_type.integer_limit or 2, shape, generator=generator).to(dtype)
