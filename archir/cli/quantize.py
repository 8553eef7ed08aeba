"""Command `archir quantize`: quantize an ONNX model to int8 or int4."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from archir.api import lowering
from archir.backends.speed.picture import format_milliseconds
from archir.cli.options import SEED, SOURCES, force_option, json_option, objective_settings
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, Number, OutputFile, PathParam
from archir.search.fronts import format_metric as figure

_MAX_SHOWN = 10
"""Maximum number of int8 layers that are printed, largest error first."""


@click.command("quantize")
@click.argument("model", type=PathParam(dir_okay=False, path_type=Path))
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="ONNX file to write.")
@click.option(
    "--data", metavar="SOURCE", default="digits", show_default=True, help=f"Data set MODEL was trained on: {SOURCES}."
)
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
    model: Path, output: Path, data: str, objective: dict[str, Any] | None,
    mode: Literal["auto", "static", "dynamic", "int4"], keep: tuple[str, ...],
    max_loss: float, calibration: int, seconds: float, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Quantize MODEL, a float32 ONNX file, to int8 or int4.

    \b
    archir quantize net.onnx --data cifar/ -o net.int8.onnx
    archir quantize net.onnx --max-loss 0.5 --keep "*.stem.*" -o net.int8.onnx

    Weights have one scale per channel. Activation ranges are calibrated on training samples (static), or computed while
    the model runs (dynamic, for linear layers only); auto tries both for transformers, and keeps the faster one. For
    language models in onnxruntime, int4 stores weights of linear layers in 4 bits and computes in float32. If
    accuracy, or the objective's measure, drops by more than --max-loss (in points if the measure is a fraction,
    otherwise in percent), the most sensitive layers stay in float. One half of the held-out samples determines which
    layers these are; the loss is reported on the other half.

    Both models are measured in turns on this machine. If the new one is not faster, a warning says why.

    The certificate for `archir verify` and the report OUTPUT.int8.json are written next to the model.
    """
    done = lowering.quantize(
        model,
        output,
        data=data,
        objective=objective,
        calibration=calibration,
        seed=seed,
        mode=mode,
        keep=keep,
        max_loss=max_loss,
        seconds=seconds,
    )
    if as_json:
        emit({**asdict(done), "ratio": done.ratio})
        return
    worst = sorted(done.layers, key=lambda row: -row.error)[:_MAX_SHOWN]
    shown = [row for row in done.layers if row.why or row in worst]
    rows = [_row(row, done.weight_type) for row in shown]
    table("", ["layer", "weights", "as", "error", "dB", "alone"], rows, right=(1, 3, 4, 5))
    if hidden_count := len(done.layers) - len(shown):
        stored = f"{hidden_count} more layers are in {done.weight_type}"
        say(f"{stored}, with smaller errors; {done.files[-1]} lists all layers")
    kind = "int4" if done.mode == "int4" else f"int8 ({done.mode})"
    say(
        f"wrote {output}: {kind}, {len(done.layers) - len(done.in_float)} of {len(done.layers)} layers; "
        f"{done.bytes_before:,} -> {done.bytes_after:,} bytes ({done.ratio:.3f}x)"
    )
    if done.before:
        selection_note = (
            f"; {done.chosen:,} other samples selected the layers that stay in float" if done.chosen else ""
        )
        measures = ", ".join(
            f"{name.replace('_', ' ')} {figure(name, value)} -> {figure(name, done.after[name])}"
            for name, value in done.before.items()
        )
        say(f"held-out {measures}, on {done.held_out:,} samples{selection_note}")
    if done.speed is not None:
        _say_speed(done.speed, done.weight_type)


def _say_speed(speed: Any, weight_type: str) -> None:
    """Print how fast the quantised model is, and if it is not faster, why."""
    threads = f"{speed.threads} thread{'s' * (speed.threads > 1)}"
    times = f"{format_milliseconds(speed.before)} -> {format_milliseconds(speed.after)}"
    settings = f"batch {speed.batch}, {threads}, measured in turns on this machine"
    say(f"median time of a run {times} ms ({speed.ratio:.2f}x), {settings}")
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
