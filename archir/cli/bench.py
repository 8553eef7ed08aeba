"""Command `archir bench`: measure networks side by side."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path
from typing import Any

import click

from archir.api import measurement
from archir.backends.speed.measurements import NOISE_THRESHOLD, Speed, Speeds, count_threads
from archir.backends.speed.picture import picture
from archir.backends.speed.subjects import NO_GPU, TARGETS
from archir.cli.net_arguments import select_network
from archir.cli.options import NET_PARAMETERS, SEED, force_option, json_option, net_options, refuse
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, Number, OutputFile, PathParam
from archir.cli.progress import track_progress
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.utils.files import require_writable, write_atomic

_MILLI, _MICRO = 1e6, 1e3
"""Nanoseconds per millisecond (_MILLI) and per microsecond (_MICRO)."""


def show(speeds: Speeds, as_json: bool, file: Path | None) -> None:
    """Print the measurements, and write a chart of them if `file` is set."""
    if as_json:
        emit(speeds.as_json())
    else:
        _print(speeds)
    if file is not None:
        write_atomic(file, picture(speeds).encode())
        if not as_json:
            say(f"wrote {file}")


def _print(speeds: Speeds) -> None:
    shown, unit = unit_of(max(speed.latency.percentile(50) for speed in speeds.measurements))
    batches = len({speed.subject.batch for speed in speeds.measurements}) > 1
    counts = len({speed.subject.threads for speed in speeds.measurements}) > 1
    columns = ["on", *["batch"] * batches, *["threads"] * counts]
    columns += [f"{name}, {shown}" for name in ("p50", "p95", "p99")] + ["per s", "MB"]
    for name in dict.fromkeys(speed.subject.name for speed in speeds.measurements):
        rows = [_row(speed, batches, counts, unit) for speed in speeds.measurements if speed.subject.name == name]
        table(name, columns, rows, right=range(1, len(columns)))
    facts = ", ".join(f"{name} {value}" for name, value in speeds.machine.items())
    say(f"{'' if counts else count_threads(speeds.measurements[0].subject.threads) + '; '}{facts}")
    for (name, on, batch), speed in speeds.recommended_threads.items():
        size = f", batch {batch}" * batches
        say(f"recommended for {name} on {on}{size}: {count_threads(speed.subject.threads)}")
    missing = dict.fromkeys(speed.subject.on for speed in speeds.left_out if speed.reason == NO_GPU)
    if missing:
        say(f"left out: {', '.join(missing)}: {NO_GPU}", err=True)
    for skipped in speeds.left_out:
        if skipped.reason != NO_GPU:
            say(f"left out: {skipped.subject}: {skipped.reason}", err=True)
    say_noise(sum(speed.latency.is_noisy for speed in speeds.measurements), len(speeds.measurements))


def say_noise(noisy: int, count: int) -> None:
    """Print how many of the measurements are noisy, if there are any."""
    if noisy:
        text = f"{noisy} of {count} measurements vary by more than {NOISE_THRESHOLD:.0%}: is the machine busy?"
        say(f"{text} Medians (p50) still compare", err=True)


def unit_of(nanoseconds: float) -> tuple[str, float]:
    """Return the unit in which times up to the given one are printed, ms or us, and its nanoseconds."""
    return ("ms", _MILLI) if nanoseconds >= _MILLI else ("us", _MICRO)


def _row(speed: Speed, with_batch: bool, with_threads: bool, unit: float) -> list[str]:
    latency, subject = speed.latency, speed.subject
    times = [with_margin(latency.percentile(percent), latency.margin(percent), unit) for percent in (50, 95)]
    memory = "-" if speed.memory is None else f"{speed.memory / 1e6:,.0f}"
    settings = [str(subject.batch)] * with_batch + [str(subject.threads)] * with_threads
    times.append(_number(latency.percentile(99) / unit))
    return [subject.on, *settings, *times, _number(speed.throughput), memory]


def with_margin(time: float, margin: float | None, unit: float) -> str:
    """Format a time with half the width of its 95% interval."""
    return _number(time / unit) + ("" if margin is None else f" ± {_number(margin / unit, 2)}")


def _number(value: float, digits: int = 4) -> str:
    """Format a number with some significant digits, but keep all integer digits and at most three decimals."""
    return f"{value:,.{min(3, max(0, digits - 1 - floor(log10(value))))}f}" if value else "0"


@click.command("bench")
@click.argument("files", metavar="FILE[:NET]...", nargs=-1, required=True)
@click.option(
    "--on",
    "where",
    multiple=True,
    type=click.Choice(list(TARGETS)),
    help="Runtime and device to measure on [all available]; may be repeated.",
)
@click.option(
    "--batch",
    multiple=True,
    type=Integer(1, 2**20),
    default=(1,),
    help="Batch size [1]; may be repeated.",
)
@click.option(
    "--threads",
    multiple=True,
    type=Integer(1, 2**16),
    help="Number of CPU threads [one per core]; may be repeated, to learn which is best.",
)
@click.option("--seconds", type=Number(0.01), default=2.0, show_default=True, help="Seconds to run each network for.")
@force_option
@click.option("--picture", type=OutputFile(), help="Also write a chart to this SVG file.")
@click.option(
    "--arch", type=PathParam(dir_okay=False, allow_dash=True), help="Architecture file, for FILEs that are spaces."
)
@click.option("--seed", type=SEED, help="Seed of the sampled architecture [0].")
@net_options
@json_option
def bench_command(
    files: tuple[str, ...], where: tuple[str, ...], batch: tuple[int, ...], threads: tuple[int, ...], seconds: float,
    picture: Path | None, arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Benchmark networks (.arch and .onnx files) side by side: latency, throughput, memory.

    \b
    archir bench net.arch net.onnx --batch 1 --batch 8          on all available devices
    archir bench net.onnx --threads 1 --threads 2               how many threads to use
    archir bench space.arch --seed 0 --on torch --on onnxruntime-cpu --picture speed.svg

    With p50 and p95 is half the width of their 95% interval.

    To predict the latency of every architecture of a space, see `archir latency`.
    """
    if picture is not None and picture.suffix != ".svg":
        raise click.UsageError(f"--picture writes SVG: {picture} does not end in .svg")
    if picture is not None:
        require_writable(picture)
    if all(file.endswith(".onnx") for file in files):
        refuse(NET_PARAMETERS | {"arch", "seed"}, "only applies to nets, not to ONNX models")
    networks = {file: _network(file, arch, seed, parameters, root, limits) for file in files}
    speeds = measurement.bench(
        networks, on=where, batches=batch, threads=threads, seconds=seconds, progress=track_progress
    )
    show(speeds, as_json, picture)


def _network(
    file: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> Graph | Path:
    """Return the path itself if it is an ONNX model, else the graph of the selected network of an .arch file."""
    return Path(file) if file.endswith(".onnx") else select_network(file, arch, seed, parameters, root, limits)[0]
