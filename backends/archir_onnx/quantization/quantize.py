"""Conversion of a float32 model to int8 or int4, with a report of the lost accuracy (`archir quantize`)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

import onnx

from archir.backends.samples import Arrays, Evaluator, Samples
from archir.data.metadata import labels_metadata
from archir.diagnostics.errors import ArchError, fail
from archir.utils.files import staged_output
from archir.utils.json_values import replace_nonfinite
from archir.utils.metrics import is_fraction
from archir_onnx.files import external
from archir_onnx.files.models import MAX_BYTES, report_path
from archir_onnx.quantization import layers as lay
from archir_onnx.quantization.batch_inference import ModelInterface, batches, run_batches
from archir_onnx.quantization.compact import compact
from archir_onnx.quantization.layers import ResolvedMode
from archir_onnx.quantization.quantizer import Quantizer
from archir_onnx.quantization.sensitivity import decibels, layer_errors, single_layer_errors, smallest_float_set
from archir_onnx.quantization.speed import Speedup, compare_speed
from archir_onnx.running.sessions import CPU, session
from archir_onnx.verification.certificate import certify
from archir_onnx.verification.sandbox import require_bounded, run_sandboxed
from archir_onnx.verification.verify import Report, check

Mode = Literal["auto", "static", "dynamic", "int4"]
"""Quantisation mode: `static` (int8 with calibrated activation ranges), `dynamic` (int8 with ranges computed at run
time), `int4` (weights of linear layers in 4 bits), or `auto`: static or dynamic."""

TOLERANCE = 0.05
"""Relative tolerance of int8 certificates.

A difference in the last bit of a float may round to the next of the 255 quantisation levels.
"""

MIN_OPSET = 13
"""Minimum opset of models to quantise: the first opset that supports one scale per channel."""

_ROUNDING = 1e-9
"""Amount by which the loss may exceed the maximum loss, to absorb rounding errors."""


@dataclass(frozen=True)
class Row:
    """Report entry for one layer. `why` is the reason why the layer stayed in float, or None if it is in int8.

    `error` is the relative error of the layer's output in the int8 model, and `snr` the same error as a
    signal-to-noise ratio in decibels. `alone` is the relative error of the network's output if only this layer is in
    int8, or None if it was not measured.
    """

    name: str
    operator: str
    weights: int
    why: str | None
    error: float
    snr: float | None
    alone: float | None


@dataclass(frozen=True)
class Quantised:
    """Result of a quantisation.

    `before` and `after` are the objective's measures on `held_out` samples, the criterion first; both are empty if
    nothing was measured. `chosen` is the number of other held-out samples, on which the layers to return to float
    were selected. `training` is the number of training samples that calibrated the activation ranges, and `rounds`
    the number of attempts with fewer int8 layers.
    """

    mode: ResolvedMode
    bytes_before: int
    bytes_after: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    criterion: str | None
    loss: float
    """Loss of the criterion: in points for a fraction, otherwise in percent of the float model's value."""
    training: int
    held_out: int
    chosen: int
    rounds: int
    layers: tuple[Row, ...]
    scales: Mapping[str, Mapping[str, Any] | None]
    """Normalisation of the samples by input: `mean`, `std` and `of`; None for inputs that the model normalises."""
    classes: tuple[str, ...]
    """Names of the classes of the samples, in the order of the model's outputs; empty if nothing was classified."""
    speed: Speedup | None = None
    """Speed on this machine; None if it was not measured."""
    unmeasured: str | None = None
    """Why the speed could not be measured; None if it was, or if it was not asked for."""
    files: tuple[Path, ...] = ()

    @property
    def weight_type(self) -> str:
        """Number type of the quantised weights."""
        return "int4" if self.mode == "int4" else "int8"

    @property
    def ratio(self) -> float:
        """Size of the quantised model divided by that of the original."""
        return self.bytes_after / self.bytes_before

    @property
    def in_float(self) -> list[str]:
        """Names of the layers that stayed in float."""
        return [row.name for row in self.layers if row.why is not None]


def quantize(
    path: Path,
    output: Path,
    samples: Samples,
    *,
    mode: Mode = "auto",
    keep: Sequence[str] = (),
    max_loss: float = 1.0,
    seconds: float = 2.0,
    labels: Sequence[str] = (),
) -> Quantised:
    """Write an int8 or int4 version of a model, its certificate and the report `NAME.onnx.int8.json`.

    Layers whose names match a pattern in `keep` stay in float. If the objective's criterion would lose more than
    `max_loss` (points for a fraction, otherwise percent), the most sensitive other layers also stay in float, as many
    as needed. The int8 and the float model are measured for `seconds` each, in turns; with 0, they are not measured.
    The mode `auto` keeps the fastest of the modes that are within `max_loss`. `labels` replaces the names of the
    classes in the metadata. Raises ArchError: A0914 to A0916 and
    A2801 (the model is invalid or cannot be run), A2802 (nothing to quantise), A2803 (the loss is too large), A2804 (a
    pattern in `keep` matches no layer).
    """
    model = external.load_model(path)
    size = sum(file.stat().st_size for file in external.model_files(model, path))
    if size > MAX_BYTES:
        raise fail("A2801", f"{path} is larger than 2 GB")
    require_bounded(model, path)
    run_sandboxed(path, (CPU,), {}, 0, execute=False)
    onnx.load_external_data_for_model(model, str(path.parent))
    _fix_weights(model)
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < MIN_OPSET:
        raise fail("A2801", f"the model has opset {opset}; per-channel scales need opset {MIN_OPSET} or later")
    lay.assign_names(model)
    modes = lay.candidate_modes(lay.layers(model)) if mode == "auto" else (mode,)
    if not seconds:
        modes = modes[:1]
    versions: list[tuple[Quantised, onnx.ModelProto]] = []
    errors: list[ArchError] = []
    for candidate in modes:
        try:
            versions.append(_quantize_in(candidate, model, path, size, samples, keep, max_loss))
        except ArchError as error:
            errors.append(error)
    if not versions:
        raise errors[0]
    report, int8_model = _fastest(path, versions, seconds)
    return _write_results(report, model, int8_model, output, labels)


def _fastest(
    path: Path, versions: Sequence[tuple[Quantised, onnx.ModelProto]], seconds: float
) -> tuple[Quantised, onnx.ModelProto]:
    """Return the fastest int8 version of a model with its report, to which the measured speed is added."""
    if not seconds:
        return versions[0]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{report.mode}.onnx" for report, _ in versions]
        for file, (_, int8_model) in zip(files, versions, strict=True):
            onnx.save(int8_model, file)
        try:
            speeds = compare_speed(path, files, seconds)
        except ArchError as error:
            report, int8_model = versions[0]
            return replace(report, unmeasured=error.diagnostics[0].message), int8_model
    speed, (report, int8_model) = min(zip(speeds, versions, strict=True), key=lambda pair: pair[0].after)
    return replace(report, speed=speed), int8_model


def _quantize_in(
    mode: ResolvedMode,
    model: onnx.ModelProto,
    path: Path,
    size: int,
    samples: Samples,
    keep: Sequence[str],
    max_loss: float,
) -> tuple[Quantised, onnx.ModelProto]:
    """Quantise a model in one mode; return the report and the int8 model. Raises ArchError (A2801 to A2804)."""
    model_interface, layer_list = ModelInterface.of(model), lay.layers(model)
    reasons = lay.excluded_layers(layer_list, mode, keep)
    names = [layer.name for layer in layer_list if layer.name not in reasons]
    if not names:
        raise fail("A2802", f"all {len(layer_list)} layers stay in float: {', '.join(sorted({*reasons.values()}))}")
    evaluator = samples.evaluator
    first_half, second_half = (None, None) if evaluator is None else evaluator.halves()
    with tempfile.TemporaryDirectory() as folder:
        calibration = (dict(arrays) for arrays, _ in batches(model_interface, samples.training, samples))
        search = _FloatLayerSearch(Quantizer(model, mode, calibration, Path(folder)), names, model_interface, samples)
        costs = {} if first_half is None else search.select_float_layers(model, path, first_half, max_loss)
        reasons |= dict.fromkeys(search.in_float, "costs too much")
        int8_model = search.quantize_except(search.in_float)
    layer_error = layer_errors(model, int8_model, layer_list, model_interface, samples)
    rows = tuple(
        Row(layer.name, layer.operator, layer.weights, reasons.get(layer.name), layer_error[layer.name],
            decibels(layer_error[layer.name]), costs.get(layer.name))
        for layer in layer_list
    )  # fmt: skip
    reporting = second_half if search.in_float else evaluator  # samples that selected layers must not report the loss
    before, after = (
        {} if reporting is None else search.measure(reporting, candidate) for candidate in (path, int8_model)
    )
    report = Quantised(
        mode, size, 0, before, after, None if reporting is None else reporting.criterion,
        0.0 if reporting is None else _criterion_loss(reporting, before, after),
        len(samples), 0 if reporting is None else len(reporting),
        len(first_half) if first_half is not None and search.in_float else 0, search.rounds, rows,
        {name: None if name in model_interface.raw else scale for name, scale in samples.scales.items()},
        samples.classes,
    )  # fmt: skip
    return report, compact(int8_model)


def _fix_weights(model: onnx.ModelProto) -> None:
    """Remove weights from the model's inputs, so that callers cannot override them; allowed since IR version 4."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value_info for value_info in model.graph.input if value_info.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)


def _criterion_loss(evaluator: Evaluator, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return the loss of the criterion, in points or percent; infinite if the criterion is no longer finite."""
    name = evaluator.criterion
    decrease = 100 * (before[name] - after[name] if evaluator.larger else after[name] - before[name])
    loss = decrease if is_fraction(name) else decrease / max(abs(before[name]), 1e-12)
    return loss if isfinite(loss) else inf


@dataclass
class _FloatLayerSearch:
    """Search for the layers that must stay in float.

    `in_float` lists the layers found so far, and `rounds` is the number of attempts.
    """

    quantizer: Quantizer
    names: Sequence[str]
    model_interface: ModelInterface
    samples: Samples
    in_float: Sequence[str] = ()
    rounds: int = 0

    def quantize_except(self, in_float: Container[str]) -> onnx.ModelProto:
        """Return the model with all candidate layers in int8, except those in `in_float`."""
        return self.quantizer.quantize([name for name in self.names if name not in in_float])

    def measure(self, evaluator: Evaluator, model: Path | onnx.ModelProto) -> dict[str, float]:
        """Run a model on the evaluator's samples and return the objective's measures."""
        runtime = session(model if isinstance(model, Path) else model.SerializeToString())

        def call(arrays: Arrays) -> Arrays:
            return run_batches(runtime, self.model_interface, arrays, self.samples)

        return evaluator.measured(call)

    def select_float_layers(
        self, model: onnx.ModelProto, path: Path, evaluator: Evaluator, max_loss: float
    ) -> dict[str, float]:
        """Select layers to keep in float until the loss is at most `max_loss`; return the sensitivity of each layer.

        The result is empty if all layers can be in int8. Raises ArchError (A2803) if all layers would have to be in
        float.
        """
        before = self.measure(evaluator, path)

        def loss(float_layers: Sequence[str]) -> float:
            return _criterion_loss(evaluator, before, self.measure(evaluator, self.quantize_except(float_layers)))

        if loss(()) <= max_loss + _ROUNDING:
            return {}

        def loses(float_layers: Sequence[str]) -> bool:
            self.rounds += 1
            return loss(float_layers) > max_loss + _ROUNDING

        costs = single_layer_errors(model, self.quantizer.quantize, self.names, self.model_interface, self.samples)
        float_layers = smallest_float_set(costs, loses)
        if float_layers is None:
            unit = "points" if is_fraction(evaluator.criterion) else "percent"
            text = f"no layer can be quantised without losing more than {max_loss:g} {unit} of {evaluator.criterion}"
            raise fail("A2803", text, None, "allow more with --max-loss, or train the network again")
        self.in_float = float_layers
        return costs


def _write_results(
    result: Quantised, original: onnx.ModelProto, model: onnx.ModelProto, output: Path, labels: Sequence[str]
) -> Quantised:
    """Write model, certificate and report, and keep these files only if onnxruntime can run the written model."""
    model.producer_name, model.producer_version = original.producer_name, original.producer_version
    metadata = {entry.key: _compact_json(entry.value) for entry in original.metadata_props} | labels_metadata(labels)
    held_out = {name: [value, result.after[name]] for name, value in result.before.items()}
    int8: dict[str, Any] = {"mode": result.mode, "layers": len(result.layers), "in_float": len(result.in_float)}
    int8 |= {"held_out": held_out} if held_out else {}
    onnx.helper.set_model_props(model, {**metadata, "int8": _compact_json(json.dumps(int8))})
    content = model.SerializeToString()
    with staged_output(output) as draft:
        draft.write_bytes(content)
        check(draft)
        unverified = Report(float("nan"), float("nan"), (), (), len(model.graph.node))
        certificate = certify(draft, unverified, tolerance=TOLERANCE)
        report_file = report_path(draft)
        files = tuple(output.with_name(file.name) for file in (draft, certificate, report_file))
        final = replace(result, bytes_after=len(content), files=files)
        record = {**asdict(final), "ratio": final.ratio, "files": [file.name for file in files]}
        report_file.write_text(json.dumps(replace_nonfinite(record), indent=1, allow_nan=False) + "\n", "utf-8")
    return final


def _compact_json(text: str) -> str:
    """Return a JSON text without whitespace; texts that are not JSON are returned unchanged."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except ValueError:
        return text
