"""Timing networks in onnxruntime: one session each, inputs and outputs bound to the device's memory."""

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
from archir.backends.ranges import ranged_inputs
from archir.costs.latencies.machine import clock, cores, gpu, processor
from archir.costs.latencies.timing import Timed
from archir.ir.graph import Graph, state_name
from archir.ir.op import Weight
from archir.ir.typing import infer
from archir.passes.expand import expand
from archir_onnx.lowering.model import build
from archir_onnx.running.sessions import session


class OnnxBench:
    """An execution provider at a batch size."""

    def __init__(self, device: str, batch: int, threads: int) -> None:
        self._device, self._batch, self.threads = device, batch, threads
        name, self._clock = clock(threads if device == "cpu" else 0)
        self.machine = {"processor": processor(), "clock": name} | ({"gpu": gpu()} if device == "cuda" else {})
        self.machine |= {"onnxruntime": onnxruntime.__version__, "python": platform.python_version()}

    def free(self, graph: Graph) -> bool:
        """Whether a model only copies its inputs to its outputs: within a larger one, nothing is left of it."""
        return all(node.op_type == "Identity" for node in _model(graph).graph.node)

    def timed(self, graph: Graph) -> Timed:
        """Times a network without choices, with new weights, on random inputs."""
        running = session(_model(graph).SerializeToString(), [PROVIDERS[self._device]], self.threads)
        rng = np.random.default_rng(0)
        binding = running.io_binding()
        for name, kind in ranged_inputs(graph).items():
            array = random_input(rng, self._batch, kind)
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, self._device, 0))
        for output in running.get_outputs():
            binding.bind_output(output.name, self._device)

        def timed(calls: int) -> float:
            begin = self._clock()
            for _ in range(calls):
                running.run_with_iobinding(binding)
            binding.synchronize_outputs()
            return float(self._clock() - begin)

        return timed


@contextmanager
def bench(device: str, batch: int, threads: int | None) -> Iterator[OnnxBench]:
    """An execution provider; sessions on one that is not there raise ArchError (A0914)."""
    yield OnnxBench(device, batch, threads or cores())


def _model(graph: Graph) -> onnx.ModelProto:
    graph = expand(graph)
    return build(graph, new_weights(graph)).whole()


def new_weights(graph: Graph) -> dict[str, NDArray[Any]]:
    """Random weights by state-dict names, of the sizes that initial ones have."""
    types, rng = infer(graph), np.random.default_rng(0)
    return {
        state_name(graph[number].scope, name): _initial(weight, rng)
        for number in types
        for name, weight in graph[number].op.weights(*(types[o] for o in graph.operands(number))).items()
    }


def _initial(weight: Weight, rng: np.random.Generator) -> NDArray[Any]:
    match weight.init:
        case "zeros":
            return np.zeros(weight.shape, np.float32)
        case "ones":
            return np.ones(weight.shape, np.float32)
    scale = np.float32(weight.fan_in**-0.5)
    return scale * rng.standard_normal(weight.shape, np.float32)
