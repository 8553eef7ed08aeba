"""A float32 model in int8, and what is known of it afterwards."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

import onnx

from archir.backends.samples import Arrays, Judge, Samples
from archir.diagnostics.errors import fail
from archir.search.fronts.figures import is_part
from archir.utils.files import drafts
from archir_onnx.files import external
from archir_onnx.files.models import MOST_BYTES
from archir_onnx.quantization import layers as lay
from archir_onnx.quantization.arithmetic import Quantizer
from archir_onnx.quantization.compact import compact
from archir_onnx.quantization.feeding import Entrance, batches, outputs
from archir_onnx.quantization.layers import Arithmetic
from archir_onnx.quantization.sensitivity import alone, decibels, errors, fewest
from archir_onnx.running.sessions import CPU, session
from archir_onnx.verification.certificate import certify
from archir_onnx.verification.sandbox import computed, require_bounded
from archir_onnx.verification.verify import Report, check

Mode = Literal["auto", "static", "dynamic"]

TOLERANCE = 0.05
"""Of what a certificate holds: a float that differs in its last bit may be rounded to the next of 255 steps."""

OLDEST = 13
"""The opset from which on there is one scale per channel."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Row:
    """A layer in the report; `why` it stayed in float, None for one in int8.

    `error` is the relative error of what it computes in the int8 model, `snr` the same as a ratio of signal to noise in
    decibels, `alone` that of the network's output where it alone is in int8, if that was measured.
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
    """What came of a model. `before` and `after` are what the objective measures on `held_out` samples, its criterion
    first: empty where nothing is measured; `chosen` others said which layers go back to float, if any had to;
    `training` samples gave the ranges of activations; `rounds` is how often layers were given back."""

    mode: Arithmetic
    bytes_before: int
    bytes_after: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    criterion: str | None
    loss: float
    """How much worse the criterion is: points of a measure that is a part of a whole, else percent of what it was."""
    training: int
    held_out: int
    chosen: int
    rounds: int
    layers: tuple[Row, ...]
    files: tuple[Path, ...] = ()

    @property
    def ratio(self) -> float:
        """The size, of what it was."""
        return self.bytes_after / self.bytes_before

    @property
    def in_float(self) -> list[str]:
        """The layers that stayed in float."""
        return [row.name for row in self.layers if row.why is not None]


def quantize(
    path: Path, output: Path, known: Samples, *, mode: Mode = "auto", keep: Sequence[str] = (), max_loss: float = 1.0
) -> Quantised:
    """Write a model in int8, its certificate, and a report `NAME.onnx.int8.json`; the report.

    Layers whose names match `keep` stay in float, and so do the costliest others, as many as it takes to lose at most
    `max_loss` points, or percent, of what the objective compares models by. Raises ArchError (A0914 to A0916 and A2801:
    the model; A2802: nothing to quantise; A2803: too much is lost; A2804: `keep`).
    """
    model = external.read(path)
    size = sum(file.stat().st_size for file in external.files(model, path))
    if size > MOST_BYTES:
        raise fail("A2801", f"{path} is larger than 2 GB")
    require_bounded(model, path)
    computed(path, (CPU,), {}, 0, run=False)
    onnx.load_external_data_for_model(model, str(path.parent))
    _fix_weights(model)
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST:
        raise fail("A2801", f"the model is of opset {opset}; scales per channel are from opset {OLDEST} on")
    entrance = Entrance.of(model)
    lay.named(model)
    found = lay.layers(model)
    arithmetic = lay.suited(found) if mode == "auto" else mode
    why = lay.kept(found, arithmetic, keep)
    names = [one.name for one in found if one.name not in why]
    if not names:
        raise fail("A2802", f"all {len(found)} layers stay in float: {', '.join(sorted({*why.values()}))}")
    judge = known.judge
    choosing, others = (None, None) if judge is None else judge.halves()
    with tempfile.TemporaryDirectory() as folder:
        given = (dict(arrays) for arrays, _ in batches(entrance, known.training, known))
        tries = _Tries(Quantizer(model, arithmetic, given, Path(folder)), names, entrance, known)
        costs = {} if choosing is None else tries.settle(model, path, choosing, max_loss)
        why |= dict.fromkeys(tries.back, "costs too much")
        made = tries.without(tries.back)
    off = errors(model, made, found, entrance, known)
    rows = tuple(
        Row(one.name, one.operator, one.weights, why.get(one.name), off[one.name], decibels(off[one.name]),
            costs.get(one.name))
        for one in found
    )  # fmt: skip
    last = others if tries.back else judge  # what chose says nothing of what was chosen
    before, after = ({} if last is None else tries.measured(last, one) for one in (path, made))
    report = Quantised(
        arithmetic, size, 0, before, after, None if last is None else last.criterion,
        0.0 if last is None else _lost(last, before, after), len(known), 0 if last is None else len(last),
        len(choosing) if choosing is not None and tries.back else 0, tries.rounds, rows,
    )  # fmt: skip
    return _written(report, model, compact(made), output)


def _fix_weights(model: onnx.ModelProto) -> None:
    """Remove weights from the inputs, by which a caller could replace them: version 4 of the IR and later allow it."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)


def _lost(judge: Judge, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How much worse a criterion is, in points or percent; infinite where it is no number any more."""
    name = judge.criterion
    worse = 100 * (before[name] - after[name] if judge.larger else after[name] - before[name])
    found = worse if is_part(name) else worse / max(abs(before[name]), 1e-12)
    return found if isfinite(found) else inf


@dataclass
class _Tries:
    """Models with more or fewer layers in float: which went back to it, and how often that was tried."""

    quantizer: Quantizer
    names: Sequence[str]
    entrance: Entrance
    known: Samples
    back: Sequence[str] = ()
    rounds: int = 0

    def without(self, back: Container[str]) -> onnx.ModelProto:
        """The model with all layers in int8 but some."""
        return self.quantizer.quantize([name for name in self.names if name not in back])

    def measured(self, judge: Judge, model: Path | onnx.ModelProto) -> dict[str, float]:
        """What a model comes to."""
        running = session(model if isinstance(model, Path) else model.SerializeToString())

        def call(arrays: Arrays) -> Arrays:
            return outputs(running, self.entrance, arrays, self.known)

        return judge.measured(call)

    def settle(self, model: onnx.ModelProto, path: Path, judge: Judge, most: float) -> dict[str, float]:
        """Give layers back to float, until at most so much is lost; what each layer costs, if that was needed.

        Raises ArchError (A2803) if it takes all layers.
        """
        before = self.measured(judge, path)

        def loss(back: Sequence[str]) -> float:
            return _lost(judge, before, self.measured(judge, self.without(back)))

        if loss(()) <= most + _ROUNDING:
            return {}

        def loses(back: Sequence[str]) -> bool:
            self.rounds += 1
            return loss(back) > most + _ROUNDING

        costs = alone(model, self.quantizer.quantize, self.names, self.entrance, self.known)
        back = fewest(costs, loses)
        if back is None:
            unit = "points" if is_part(judge.criterion) else "percent"
            text = f"no layer can be in int8 without losing more than {most:g} {unit} of {judge.criterion}"
            raise fail("A2803", text, None, "allow more with --max-loss, or train the network again")
        self.back = back
        return costs


def _written(report: Quantised, original: onnx.ModelProto, model: onnx.ModelProto, output: Path) -> Quantised:
    """Write model, certificate and report, if onnxruntime runs the model as it is written."""
    model.producer_name, model.producer_version = original.producer_name, original.producer_version
    metadata = {entry.key: _dense(entry.value) for entry in original.metadata_props}
    held_out = {name: [value, report.after[name]] for name, value in report.before.items()}
    int8: dict[str, Any] = {"mode": report.mode, "layers": len(report.layers), "in_float": len(report.in_float)}
    int8 |= {"held_out": held_out} if held_out else {}
    onnx.helper.set_model_props(model, {**metadata, "int8": _dense(json.dumps(int8))})
    content = model.SerializeToString()
    with drafts(output) as draft:
        draft.write_bytes(content)
        check(draft)
        nothing = Report(float("nan"), float("nan"), (), (), len(model.graph.node))
        certificate = certify(draft, nothing, tolerance=TOLERANCE)
        beside = report_of(draft)
        files = tuple(output.with_name(file.name) for file in (draft, certificate, beside))
        made = replace(report, bytes_after=len(content), files=files)
        facts = {**asdict(made), "ratio": made.ratio, "files": [file.name for file in files]}
        beside.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return made


def report_of(path: Path) -> Path:
    """The file of the report on a model."""
    return path.with_name(f"{path.name}.int8.json")


def _dense(text: str) -> str:
    """JSON without blanks; other texts as they are."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except ValueError:
        return text
