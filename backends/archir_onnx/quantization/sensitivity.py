"""How far a layer in int8 is from the same in float32, and which layers cost most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.samples import Arrays, Samples
from archir_onnx.quantization.feeding import BATCH, Entrance, batches, outputs
from archir_onnx.quantization.layers import Layer
from archir_onnx.running.sessions import run, session

MOST = 2 * BATCH
"""Samples that errors are measured on."""

_FEW = 8
"""Of which so many at a time, where what all layers compute is kept."""


def relative(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    """The root mean square of a difference, relative to what is wanted."""
    scale = float(np.linalg.norm(wanted.astype(np.float64)))
    return float(np.linalg.norm(found.astype(np.float64) - wanted)) / max(scale, 1e-30)


def decibels(error: float) -> float | None:
    """A relative error as the ratio of signal to quantisation noise; None where nothing differs."""
    return -20 * log10(error) if error else None


def errors(
    floating: onnx.ModelProto, quantised: onnx.ModelProto, layers: Sequence[Layer], entrance: Entrance, known: Samples
) -> dict[str, float]:
    """The relative error of what each layer computes, after everything before it was quantised, too.

    Read it before small names replace those of the layers.
    """
    pair = [_exposed(model, layers) for model in (floating, quantised)]
    off, whole = np.zeros(len(layers)), np.zeros(len(layers))
    for given, count in batches(entrance, _few(known), known, most=_FEW):
        wanted, found = (run(running, dict(given), names).values() for running, names in pair)
        for position, (one, other) in enumerate(zip(wanted, found, strict=True)):
            off[position] += np.square(other[:count] - one[:count], dtype=np.float64).sum()
            whole[position] += np.square(one[:count], dtype=np.float64).sum()
    ratios = np.sqrt(off / np.maximum(whole, 1e-60))
    return {one.name: float(ratio) for one, ratio in zip(layers, ratios, strict=True)}


def alone(
    floating: onnx.ModelProto,
    quantize: Callable[[Sequence[str]], onnx.ModelProto],
    names: Sequence[str],
    entrance: Entrance,
    known: Samples,
) -> dict[str, float]:
    """How far the network's outputs move when one layer alone is in int8: the relative error, by layer."""
    few = _few(known)

    def computed(model: onnx.ModelProto) -> NDArray[Any]:
        return next(iter(outputs(session(model.SerializeToString()), entrance, few, known).values()))

    wanted = computed(floating)
    return {name: relative(computed(quantize([name])), wanted) for name in names}


def _few(known: Samples) -> Arrays:
    return {name: array[:MOST] for name, array in known.training.items()}


def fewest(costs: Mapping[str, float], loses: Callable[[Sequence[str]], bool]) -> list[str] | None:
    """The fewest of the costliest layers that have to be left in float; None if it were all of them.

    `loses` says whether too much is lost with some layers in float. It is asked for 1, 2, 4, ... layers, and then
    between the last two: at most 2 log2(n) times.
    """
    order = sorted(costs, key=lambda name: -costs[name])
    low, high = 0, 1
    while high < len(order) and loses(order[:high]):
        low, high = high, 2 * high
    if high >= len(order):
        high = len(order)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if loses(order[:middle]) else (low, middle)
    return order[:high] if high < len(order) else None


def _exposed(model: onnx.ModelProto, layers: Sequence[Layer]) -> tuple[Any, list[str]]:
    """A session of a model that can also give what layers compute, and what that is called."""
    results = {node.name: node.output[0] for node in model.graph.node}
    names = [results.get(one.name, one.output) for one in layers]
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {one.name for one in made.graph.output}
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return session(made.SerializeToString()), names
