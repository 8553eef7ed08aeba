"""Command `archir quantize`: quantize an ONNX model to int8 or int4."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import click

from archir.api import lowering
from archir.backends.speed.measurements import count_threads
from archir.cli.bench import say_noise, unit_of, with_margin
from archir.cli.onnx_files import NORMALIZATION, Normalization, parse_normalization
from archir.cli.options import SEED, SOURCES, force_option, json_option, labels_option, objective_settings
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, Number, OutputFile, PathParam
from archir.diagnostics.errors import ArchError
from archir.runs.verdicts import chance_verdict
from archir.utils.metrics import format_metric as figure
from archir.utils.metrics import is_fraction

_MAX_SHOWN = 10
"""Maximum number of int8 layers that are printed, those with the largest errors, and of classes."""
_DEFAULT_DATA = "digits"
_DATA_HINT = "--data was left out, so the bundled digits were used: name the data that the model was trained on"


@click.command("quantize")
@click.argument("model", type=PathParam(dir_okay=False, path_type=Path))
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="ONNX file to write.")
@click.option("--data", metavar="SOURCE", help=f"Data set MODEL was trained on: {SOURCES} [the bundled digits].")
@click.option(
    "--pixels", metavar="MEAN/STD", callback=parse_normalization,
    help=f"How images are normalised for MODEL: {NORMALIZATION}; 0/1 only scales [by those of the training images].",
)  # fmt: skip
@labels_option
@click.option(
    "--objective", metavar="OBJECTIVE", callback=objective_settings,
    help="Objective to measure, as in training: a kind, or a TOML table [classification, if the data has labels].",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["auto", "static", "dynamic", "int4"]), default="auto", show_default=True,
    help="int8 with ranges of activations calibrated (static) or computed at run time (dynamic); weights in int4.",
)  # fmt: skip
@click.option(
    "--keep", multiple=True, metavar="PATTERN", help="Layers to leave in float, such as *.stem.*; may be repeated."
)
@click.option(
    "--max-loss",
    type=Number(0),
    default=1.0,
    show_default=True,
    help="Maximum loss of accuracy, in points (other measures: percent).",
)
@click.option(
    "--calibration", type=Integer(1), default=256, show_default=True,
    help="Number of training samples to measure activation ranges on.",
)  # fmt: skip
@click.option(
    "--seconds", type=Number(0), default=2.0, show_default=True,
    help="Time to measure the speed of each model; 0: not measured.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the sampling of calibration data.")
@json_option
def quantize_command(
    model: Path, output: Path, data: str | None, pixels: Normalization | None, labels: tuple[str, ...],
    objective: dict[str, Any] | None, mode: Literal["auto", "static", "dynamic", "int4"], keep: tuple[str, ...],
    max_loss: float, calibration: int, seconds: float, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Quantize MODEL, a float32 ONNX file, to int8 or int4.

    \b
    archir quantize net.onnx --data cifar/ -o net.int8.onnx
    archir quantize net.onnx --data photos/ --pixels 0.5/0.25 --labels car,horse,ship -o net.int8.onnx
    archir quantize net.onnx --max-loss 0.5 --keep "*.stem.*" -o net.int8.onnx

    Weights have one scale per channel. Activation ranges are calibrated on training samples (static), or computed while
    the model runs (dynamic, for linear layers only); auto tries both for transformers, and keeps the faster one. For
    language models in onnxruntime, int4 stores weights of linear layers in 4 bits and computes in float32. If
    accuracy, or the objective's measure, drops by more than --max-loss (in points if the measure is a fraction,
    otherwise in percent), the most sensitive layers stay in float. One half of the held-out samples determines which
    layers these are; the loss is reported on the other half.

    Images are normalised as --pixels says, unless the model normalises them itself; the numbers must be those that the
    model was trained with. Folders of images are matched with the model's classes by name if the model or --labels
    names the classes, and otherwise are numbered in alphabetical order.

    Both models are measured in turns on this machine. If the new one is not faster, a warning says why.

    The certificate for `archir verify` and the report OUTPUT.int8.json are written next to the model.
    """
    try:
        done = lowering.quantize(
            model, output, data=data or _DEFAULT_DATA, pixels=pixels, labels=labels, objective=objective,
            calibration=calibration, seed=seed, mode=mode, keep=keep, max_loss=max_loss, seconds=seconds,
        )  # fmt: skip
    except ArchError as error:
        if data is not None or not any(diagnostic.code.startswith("A11") for diagnostic in error.diagnostics):
            raise
        raise ArchError(*(replace(diagnostic, hint=_DATA_HINT) for diagnostic in error.diagnostics)) from None
    if as_json:
        emit({**asdict(done), "ratio": done.ratio})
        return
    worst = sorted(done.layers, key=lambda row: -row.error)[:_MAX_SHOWN]
    shown = [row for row in done.layers if row.why or row in worst]
    columns = ["layer", "weights", "as", "error", "dB", "alone"]
    if all(row.alone is None for row in shown):  # no sensitivities were needed
        columns.remove("alone")
    rows = [_row(row, done.weight_type)[: len(columns)] for row in shown]
    table("", columns, rows, right=[1, *range(3, len(columns))])
    if hidden_count := len(done.layers) - len(shown):
        stored = f"{hidden_count} more layers are in {done.weight_type}"
        say(f"{stored}, with smaller errors; {done.files[-1]} lists all layers")
    kind = "int4" if done.mode == "int4" else f"int8 ({done.mode})"
    say(
        f"wrote {output}: {kind}, {len(done.layers) - len(done.in_float)} of {len(done.layers)} layers; "
        f"{done.bytes_before:,} -> {done.bytes_after:,} bytes ({done.ratio:.3f}x)"
    )
    _say_data(done, data, pixels)
    if done.before:
        selection_note = (
            f"; {done.chosen:,} other samples selected the layers that stay in float" if done.chosen else ""
        )
        measures = ", ".join(
            f"{name.replace('_', ' ')} {figure(name, value)} -> {figure(name, done.after[name])}"
            for name, value in done.before.items()
        )
        say(f"held-out {measures}, on {done.held_out:,} samples{selection_note}")
        if is_fraction(str(done.criterion)) and 100 / done.held_out > max_loss:
            share = f"one of {done.held_out:,} samples is {100 / done.held_out:.2g} points"
            say(f"{share}, more than --max-loss {max_loss:g}: hold out more samples to measure it (docs/data.md)")
    if done.criterion == "accuracy" and done.classes:
        verdict = chance_verdict("", "the float model", done.before["accuracy"], done.held_out, len(done.classes))
        if verdict is not None:
            say(f"warning: {verdict.claim}: {verdict.evidence}. {_chance_reasons(done, data)}", err=True)
    if done.speed is not None:
        _say_speed(done.speed, done.weight_type)
    if done.unmeasured is not None:
        say(f"the speed could not be measured: {done.unmeasured}", err=True)


def _say_data(done: Any, data: str | None, pixels: Normalization | None) -> None:
    """Print which data were used, how they were normalised, and how their classes were numbered."""
    source = f"data: {data}" if data is not None else "data: the bundled digits, since --data was left out"
    notes = []
    for name, scale in done.scales.items():
        subject = "pixels" if len(done.scales) == 1 and scale is not None and scale["of"] == "pixels" else f"`{name}`"
        if scale is None:
            notes.append(f"`{name}` is normalised inside the model")
        elif scale["of"] == "numbers":
            notes.append(f"{subject} normalised with mean and deviation of the training samples")
        else:
            mean, std = (", ".join(f"{number:.3g}" for number in scale[key]) for key in ("mean", "std"))
            origin = "--pixels" if pixels is not None else "those of the training images; --pixels sets the model's own"
            notes.append(f"{subject} normalised with mean {mean} and deviation {std} ({origin})")
    say("; ".join([source, *notes]))
    if done.classes and done.classes != tuple(map(str, range(len(done.classes)))):
        shown = [f"{number} {name}" for number, name in enumerate(done.classes[:_MAX_SHOWN])]
        hidden = len(done.classes) - len(shown)
        say(f"classes: {', '.join(shown)}{f' and {hidden} more' if hidden else ''}")


def _chance_reasons(done: Any, data: str | None) -> str:
    """Return what may be wrong if a model is no better than guessing."""
    if data is None:
        return "--data names the data that the model was trained on"
    reasons = ["--pixels: it may have been trained with another normalisation"] * any(done.scales.values())
    return "; ".join([*reasons, "--labels: its classes may be in another order"])


def _say_speed(speed: Any, weight_type: str) -> None:
    """Print how fast the quantised model is, and if it is not faster, why."""
    threads = count_threads(speed.threads)
    unit, nanoseconds = unit_of(max(speed.before, speed.after))
    before, after = (
        with_margin(time, margin, nanoseconds)
        for time, margin in ((speed.before, speed.before_margin), (speed.after, speed.after_margin))
    )
    settings = f"batch {speed.batch}, {threads}, measured in turns on this machine"
    say(f"median time of a run {before} -> {after} {unit} ({speed.ratio:.2f}x), {settings}")
    say_noise(speed.noisy, 2)
    if speed.reasons:
        say(
            f"warning: {weight_type} is not faster here: {'; '.join(speed.reasons)}; to save time, deploy the float "
            "model, or try another --mode",
            err=True,
        )


def _row(row: Any, weight_type: str) -> list[str]:
    """Return the table row that describes a layer."""
    stored = f"float: {row.why}" if row.why else weight_type
    snr = "" if row.snr is None else f"{row.snr:.1f}"
    single_layer_error = "" if row.alone is None else f"{100 * row.alone:.2f}%"
    return [row.name, f"{row.weights:,}", stored, f"{100 * row.error:.2f}%", snr, single_layer_error]
