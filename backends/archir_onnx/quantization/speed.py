"""Speed of a quantised model compared with the float32 model, and reasons if the int8 model is not faster."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime

from archir.backends.speed.measurements import Latency, Subject
from archir.backends.speed.turns import Task, measure
from archir.costs.latencies.machine import cores
from archir.costs.latencies.measurement import without_progress
from archir_onnx.quantization.batch_inference import ModelInterface
from archir_onnx.quantization.layers import CONVOLUTIONS, PRODUCTS

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class Speedup:
    """Median times of a run of both models, in nanoseconds, measured in turns on all cores of this machine's CPU.

    The margins are half the widths of the 95% intervals of the medians; None if there were too few runs. `noisy` is the
    number of models whose times vary much.
    """

    before: float
    after: float
    batch: int
    threads: int
    reasons: tuple[str, ...] = ()
    """Reasons why the int8 model is not faster; empty if it is."""
    before_margin: float | None = None
    after_margin: float | None = None
    noisy: int = 0

    @property
    def ratio(self) -> float:
        """Time of the int8 model divided by that of the original."""
        return self.after / self.before


def compare_speed(original: Path, versions: Sequence[Path], seconds: float) -> list[Speedup]:
    """Measure a float32 model and int8 versions of it in turns, each for `seconds`.

    Raises ArchError if they cannot be measured.
    """
    batch = ModelInterface.of(onnx.load(original, load_external_data=False)).batch or 1
    options = {"device": "cpu", "batch": batch, "threads": cores()}
    tasks = [
        Task(Subject(path.name, "onnxruntime-cpu", batch, cores()), path, "onnx", options, is_required=True)
        for path in (original, *versions)
    ]
    speeds, _, _ = measure(tasks, seconds, without_progress)
    before, *latencies = (speed.latency for speed in speeds)
    return [speedup(before, after, batch, path) for path, after in zip(versions, latencies, strict=True)]


def speedup(before: Latency, after: Latency, batch: int, version: Path) -> Speedup:
    """Return the comparison of the latencies of the original and of an int8 version."""
    medians = before.percentile(50), after.percentile(50)
    reasons = () if medians[1] < medians[0] else reasons_for_slowness(version)
    noisy = before.is_noisy + after.is_noisy
    return Speedup(*medians, batch, cores(), reasons, before.margin(50), after.margin(50), noisy)


def reasons_for_slowness(model: Path) -> tuple[str, ...]:
    """Return what onnxruntime cannot run in int8 in a model, from the graph that it executes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "executed.onnx")
        onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])
        graph = onnx.load(options.optimized_model_filepath).graph
    weights = {tensor.name for tensor in graph.initializer}
    float_layers = sum(
        node.op_type.removeprefix("Fused") in CONVOLUTIONS + PRODUCTS and any(name in weights for name in node.input)
        for node in graph.node
    )
    dequantized = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    between = Counter(
        node.op_type
        for node in graph.node
        if node.op_type not in _CONVERSIONS and any(name in dequantized for name in node.input)
    )
    packed = sum(node.op_type == "MatMulNBits" for node in graph.node)
    conversions = sum(node.op_type in _CONVERSIONS for node in graph.node)
    reasons = []
    if float_layers:
        reasons.append(f"{float_layers} layers stay in float")
    if between:
        operators = ", ".join(name for name, _ in between.most_common(4))
        reasons.append(
            f"{conversions} conversions between int8 and float remain, around operators in float: {operators}"
        )
    if packed:
        text = (
            f"{packed} layers unpack 4-bit weights in each run, which saves time only if reading weights takes longest"
        )
        reasons.append(text)
    return tuple(reasons) or ("the layers are so small that int8 saves less time than the conversions take",)
