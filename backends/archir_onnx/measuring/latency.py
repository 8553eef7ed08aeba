"""Latency measurement of networks in onnxruntime.

Each network gets a session whose inputs and outputs are bound to the device's memory.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from archir.backends.certificates import PROVIDERS
from archir.backends.comparison import random_input
from archir.backends.input_ranges import ranged_inputs
from archir.costs.latencies.machine import clock, cores, gpu, processor
from archir.costs.latencies.timing import TimedRun
from archir.ir.graph import Graph, state_name
from archir.ir.op import Weight
from archir.ir.typing import infer
from archir.passes.deploy import deploy
from archir.passes.expand import expand
from archir_onnx.lowering.model import build
from archir_onnx.running.sessions import session


class OnnxBench:
    """Timing of networks in onnxruntime on one device, with a fixed batch size."""

    simplified = True

    def __init__(self, device: str, batch: int, threads: int) -> None:
        self._device, self.batch, self.threads = device, batch, threads
        name, self._clock = clock(threads if device == "cpu" else 0)
        self.machine = {"processor": processor(), "clock": name} | (
            {"gpu": gpu() or "unknown"} if device == "cuda" else {}
        )
        self.machine |= {"onnxruntime": onnxruntime.__version__, "python": platform.python_version()}

    def free(self, graph: Graph) -> bool:
        """Return True if a graph's model consists of copies only, which onnxruntime removes inside larger models."""
        return all(node.op_type == "Identity" for node in _model(graph).graph.node)

    def timed(self, graph: Graph) -> TimedRun:
        """Return a function that times a network without choices, using random weights and inputs."""
        runtime = session(_model(graph).SerializeToString(), [PROVIDERS[self._device]], self.threads)
        rng = np.random.default_rng(0)
        binding = runtime.io_binding()
        for name, kind in ranged_inputs(graph).items():
            array = random_input(rng, self.batch, kind)
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, self._device, 0))
        for output in runtime.get_outputs():
            binding.bind_output(output.name, self._device)

        def timed(calls: int) -> float:
            """Run the network `calls` times and return the total time in nanoseconds."""
            begin = self._clock()
            for _ in range(calls):
                runtime.run_with_iobinding(binding)
            binding.synchronize_outputs()
            return float(self._clock() - begin)

        return timed


@contextmanager
def bench(device: str, batch: int, threads: int | None) -> Iterator[OnnxBench]:
    """Context manager that sets up a device for timing.

    Creating a session raises ArchError (A0914) if the device's execution provider is not available.
    """
    yield OnnxBench(device, batch, threads or cores())


def _model(graph: Graph) -> onnx.ModelProto:
    """Return the ONNX model of a graph with random weights, simplified as it is exported."""
    return build(*deploy(graph, random_weights(expand(graph)))).to_proto()


def random_weights(graph: Graph) -> dict[str, NDArray[Any]]:
    """Return random weights by state-dict name, with the variance of initial weights."""
    types, rng = infer(graph), np.random.default_rng(0)
    return {
        state_name(graph[number].scope, name): _initial(weight, rng)
        for number in types
        for name, weight in graph[number].op.weights(*(types[o] for o in graph.operands(number))).items()
    }


def _initial(weight: Weight, rng: np.random.Generator) -> NDArray[Any]:
    """Return a random initial value for a weight."""
    match weight.init:
        case "zeros":
            return np.zeros(weight.shape, np.float32)
        case "ones":
            return np.ones(weight.shape, np.float32)
    scale = np.float32(weight.fan_in**-0.5)
    return scale * rng.standard_normal(weight.shape, np.float32)
