"""Sensitivity of layers to quantisation, and the smallest set of layers that must stay in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.samples import Arrays, Samples
from archir_onnx.quantization.batch_inference import BATCH, ModelInterface, batches, run_batches
from archir_onnx.quantization.layers import Layer
from archir_onnx.running.sessions import run, session

MAX_SAMPLES = 2 * BATCH
"""Maximum number of training samples on which quantisation errors are measured."""

_ERROR_BATCH = 8
"""Batch size for runs that return the outputs of all layers; small, to save memory."""


def relative_error(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the root mean square of `actual - expected`, divided by that of `expected`."""
    scale = float(np.linalg.norm(expected.astype(np.float64)))
    return float(np.linalg.norm(actual.astype(np.float64) - expected)) / max(scale, 1e-30)


def decibels(error: float) -> float | None:
    """Convert a relative error to a signal-to-noise ratio in decibels; None if the error is 0."""
    return -20 * log10(error) if error else None


def layer_errors(
    floating: onnx.ModelProto,
    quantised: onnx.ModelProto,
    layers: Sequence[Layer],
    model_interface: ModelInterface,
    samples: Samples,
) -> dict[str, float]:
    """Return the relative error of each layer's output in the quantised model, with earlier layers' errors.

    Must be called before `compact`, which renames the layers' outputs.
    """
    pair = [_with_layer_outputs(model, layers) for model in (floating, quantised)]
    squared_errors, squared_values = np.zeros(len(layers)), np.zeros(len(layers))
    for batch, count in batches(model_interface, _error_samples(samples), samples, max_batch=_ERROR_BATCH):
        expected, actual = (run(runtime, dict(batch), names).values() for runtime, names in pair)
        for position, (layer_expected, layer_actual) in enumerate(zip(expected, actual, strict=True)):
            squared_errors[position] += np.square(layer_actual[:count] - layer_expected[:count], dtype=np.float64).sum()
            squared_values[position] += np.square(layer_expected[:count], dtype=np.float64).sum()
    ratios = np.sqrt(squared_errors / np.maximum(squared_values, 1e-60))
    return {layer.name: float(ratio) for layer, ratio in zip(layers, ratios, strict=True)}


def single_layer_errors(
    floating: onnx.ModelProto,
    quantize: Callable[[Sequence[str]], onnx.ModelProto],
    names: Sequence[str],
    model_interface: ModelInterface,
    samples: Samples,
) -> dict[str, float]:
    """Return, for each layer, the relative error of the network's output if only that layer is in int8."""
    samples_used = _error_samples(samples)

    def computed(model: onnx.ModelProto) -> NDArray[Any]:
        return next(
            iter(run_batches(session(model.SerializeToString()), model_interface, samples_used, samples).values())
        )

    expected = computed(floating)
    return {name: relative_error(computed(quantize([name])), expected) for name in names}


def _error_samples(samples: Samples) -> Arrays:
    """Return the training samples on which errors are measured."""
    return {name: array[:MAX_SAMPLES] for name, array in samples.training.items()}


def smallest_float_set(costs: Mapping[str, float], loses: Callable[[Sequence[str]], bool]) -> list[str] | None:
    """Return the most sensitive layers that must stay in float, as few as possible.

    Returns None if all layers would have to stay in float. `loses` takes the layers kept in float and returns True if
    the loss is too large. `loses` is called with the 1, 2, 4, ... most sensitive layers, and then by bisection: at
    most 2 log2(n) times.
    """
    by_sensitivity = sorted(costs, key=lambda name: -costs[name])
    low, high = 0, 1
    while high < len(by_sensitivity) and loses(by_sensitivity[:high]):
        low, high = high, 2 * high
    if high >= len(by_sensitivity):
        high = len(by_sensitivity)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if loses(by_sensitivity[:middle]) else (low, middle)
    return by_sensitivity[:high] if high < len(by_sensitivity) else None


def _with_layer_outputs(model: onnx.ModelProto, layers: Sequence[Layer]) -> tuple[Any, list[str]]:
    """Return a session of a model that also outputs the results of its layers, and the names of these outputs."""
    results = {node.name: node.output[0] for node in model.graph.node}
    names = [results.get(item.name, item.output) for item in layers]
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    output_names = {item.name for item in extended.graph.output}
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in output_names)
    return session(extended.SerializeToString()), names
