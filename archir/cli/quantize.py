"""`archir quantize`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from archir import api
from archir.cli.kinds import Output, Place, Real
from archir.cli.options import SEED, SOURCES, force_option, json_option, objective_settings
from archir.cli.output import emit, say, table
from archir.search.fronts.figures import shown as figure

_WORST = 10
"""Layers in int8 that are shown."""


@click.command("quantize")
@click.argument("model", type=Place(dir_okay=False, path_type=Path))
@force_option
@click.option("-o", "--output", type=Output(), required=True, help="ONNX file to write.")
@click.option("--data", default="digits", show_default=True, help=f"What MODEL was trained on: {SOURCES}.")
@click.option(
    "--objective", callback=objective_settings,
    help="What is measured, as in training: a kind, or a TOML table [classification, where there are labels].",
)  # fmt: skip
@click.option("--mode", type=click.Choice(["auto", "static", "dynamic"]), default="auto", show_default=True)
@click.option("--keep", multiple=True, metavar="PATTERN", help="Layers to leave in float: *.stem.*; may be repeated.")
@click.option("--max-loss", type=Real(0), default=1.0, show_default=True, help="Points, or percent, to lose at most.")
@click.option(
    "--calibration", type=click.IntRange(1), default=256, show_default=True,
    help="Training samples that give the ranges of activations.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed that draws them.")
@json_option
def quantize_command(
    model: Path, output: Path, data: str, objective: dict[str, Any] | None,
    mode: Literal["auto", "static", "dynamic"], keep: tuple[str, ...],
    max_loss: float, calibration: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Write MODEL, an ONNX file of float32, in int8.

    Weights have one scale per channel. Ranges of activations come from training samples (static), or are found while
    the model runs (dynamic, for linear maps alone); auto takes dynamic for transformers. While more than --max-loss
    points of accuracy are lost, or of what the objective compares networks by (percent, where it is no part of a
    whole), the layers that cost most go back to float; half of the held-out samples decide that, and the others say
    what was lost.

    Beside the model are its certificate, for `archir verify`, and the report, OUTPUT.int8.json.
    """
    made = api.quantize(
        model,
        output,
        data=data,
        objective=objective,
        calibration=calibration,
        seed=seed,
        mode=mode,
        keep=keep,
        max_loss=max_loss,
    )
    if as_json:
        emit({**asdict(made), "ratio": made.ratio})
        return
    worst = sorted(made.layers, key=lambda row: -row.error)[:_WORST]
    shown = [row for row in made.layers if row.why or row in worst]
    table("", ["layer", "weights", "as", "error", "dB", "alone"], map(_row, shown), right=(1, 3, 4, 5))
    if others := len(made.layers) - len(shown):
        say(f"{others} more layers are in int8, with smaller errors; all of them: {made.files[-1]}")
    say(
        f"wrote {output}: int8 ({made.mode}), {len(made.layers) - len(made.in_float)} of {len(made.layers)} layers; "
        f"{made.bytes_before:,} -> {made.bytes_after:,} bytes ({made.ratio:.3f}x)"
    )
    if made.before:
        chosen = f"; {made.chosen:,} others chose what stays in float" if made.chosen else ""
        said = ", ".join(
            f"{name.replace('_', ' ')} {figure(name, value)} -> {figure(name, made.after[name])}"
            for name, value in made.before.items()
        )
        say(f"held-out {said}, of {made.held_out:,} samples{chosen}")


def _row(row: Any) -> list[str]:
    stored = f"float: {row.why}" if row.why else "int8"
    snr = "" if row.snr is None else f"{row.snr:.1f}"
    alone = "" if row.alone is None else f"{100 * row.alone:.2f}%"
    return [row.name, f"{row.weights:,}", stored, f"{100 * row.error:.2f}%", snr, alone]
