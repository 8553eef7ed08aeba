"""`archir quantize`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from archir import api
from archir.cli.options import SOURCES, json_option
from archir.cli.output import emit, table


@click.command("quantize")
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="ONNX file to write."
)
@click.option("--data", default="digits", show_default=True, help=f"What MODEL was trained on: {SOURCES}.")
@click.option("--mode", type=click.Choice(["auto", "static", "dynamic"]), default="auto", show_default=True)
@click.option("--keep", multiple=True, metavar="PATTERN", help="Layers to leave in float: *.stem.*; may be repeated.")
@click.option(
    "--max-loss", type=click.FloatRange(0), default=1.0, show_default=True, help="Points of accuracy to lose at most."
)
@click.option(
    "--calibration", type=click.IntRange(1), default=256, show_default=True,
    help="Training images that give the ranges of activations.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is held out, as in training.")
@json_option
def quantize_command(
    model: Path, output: Path, data: str, mode: Literal["auto", "static", "dynamic"], keep: tuple[str, ...],
    max_loss: float, calibration: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Write MODEL, an ONNX file of float32, in int8.

    Weights have one scale per channel. Ranges of activations come from training images (static), or are found while the
    model runs (dynamic, linear maps alone); auto takes static where most weights are those of convolutions. While
    more than --max-loss points of held-out accuracy are lost, the layers that cost most go back to float.

    Beside the model are its certificate, for `archir verify`, and the report, OUTPUT.int8.json.
    """
    made = api.quantize(
        model, output, data=data, calibration=calibration, seed=seed, mode=mode, keep=keep, max_loss=max_loss
    )
    if as_json:
        emit({**asdict(made), "ratio": made.ratio, "loss": made.loss})
        return
    table(
        "", ["layer", "operator", "weights", "as", "error", "dB", "alone"], map(_row, made.layers), right=(2, 4, 5, 6)
    )
    click.echo(
        f"wrote {output}: int8 ({made.mode}), {len(made.layers) - len(made.in_float)} of {len(made.layers)} layers; "
        f"{made.bytes_before:,} -> {made.bytes_after:,} bytes ({made.ratio:.3f}x)"
    )
    click.echo(
        f"held-out accuracy {100 * made.accuracy_before:.2f}% -> {100 * made.accuracy_after:.2f}%, "
        f"of {made.held_out:,} images"
    )


def _row(row: Any) -> list[str]:
    kept = f"float: {row.why}" if row.why else "int8"
    alone = "" if row.alone is None else f"{100 * row.alone:.2f}%"
    return [row.name, row.operator, f"{row.weights:,}", kept, f"{100 * row.error:.2f}%", f"{row.noise:.1f}", alone]
