"""Timing networks in torch: eager, in inference mode, with inputs on the device already."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from archir.backends.ranges import ranged_inputs
from archir.costs.latencies.machine import clock, processor
from archir.costs.latencies.timing import Timed
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir_torch.lowering.module import lower

_DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "bool": torch.bool,
}  # fmt: skip

_LARGE = 2**25 - 2**16
"""Bytes: a little less than glibc's largest threshold, so that everything smaller is kept from then on."""


class TorchBench:
    """A device at a batch size."""

    def __init__(self, device: str, batch: int) -> None:
        self._device, self._batch = torch.device(device), batch
        self.threads = torch.get_num_threads()
        name, self._clock = clock(self.threads)
        self.machine = {"processor": processor(), "clock": name}
        if self._device.type == "cuda":
            cuda = f"{torch.version.cuda}, cudnn {torch.backends.cudnn.version()}"
            self.machine |= {"clock": "cuda events", "gpu": torch.cuda.get_device_name(self._device), "cuda": cuda}
        self.machine |= {"torch": torch.__version__, "python": platform.python_version()}

    def free(self, graph: Graph) -> bool:
        """Never: every step of a module costs a call."""
        return False

    def timed(self, graph: Graph) -> Timed:
        """Times a network without choices, with new weights, on random inputs."""
        module = lower(graph).eval().to(self._device)
        generator = torch.Generator().manual_seed(0)
        kinds = ranged_inputs(graph).values()
        inputs = [random_input(kind, self._batch, generator).to(self._device) for kind in kinds]

        def on_cpu(calls: int) -> float:
            with torch.inference_mode():
                begin = self._clock()
                for _ in range(calls):
                    module(*inputs)
                return float(self._clock() - begin)

        def on_cuda(calls: int) -> float:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.inference_mode(), torch.cuda.device(self._device):
                torch.cuda.synchronize()
                begin.record()
                for _ in range(calls):
                    module(*inputs)
                end.record()
                end.synchronize()
            return 1e6 * float(begin.elapsed_time(end))

        return on_cuda if self._device.type == "cuda" else on_cpu


@contextmanager
def bench(device: str, batch: int, threads: int | None) -> Iterator[TorchBench]:
    """A device, with so many threads while this lasts. Raises ArchError (A1505) if it is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise fail("A1505", "torch finds no CUDA device here", None, "`archir doctor` looks for the usual causes")
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    # glibc gives memory back to the system until a block as large as its limit was freed: page faults would come and go
    # with what the process did before
    torch.empty(_LARGE, dtype=torch.uint8)
    try:
        yield TorchBench(device, batch)
    finally:
        torch.set_num_threads(before)


def random_input(kind: TensorType, batch: int, generator: torch.Generator) -> Tensor:
    """A batch of normal numbers; of integers, those below what the type says, or else zeros and ones."""
    shape, dtype = (batch, *kind.shape), _DTYPES[kind.dtype]
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, kind.below or 2, shape, generator=generator).to(dtype)
