"""What `archir bench` prints of whole networks."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path

from archir.backends.speed.figures import PERCENTILES, Speed, Speeds
from archir.backends.speed.picture import picture
from archir.backends.speed.subjects import NO_GPU
from archir.cli.output import emit, say, table
from archir.utils.files import write_atomic

_MILLI, _MICRO = 1e6, 1e3
"""In nanoseconds."""
_NOISY = 0.2
"""Interquartile range, relative to the median, that is worth a remark."""


def show(speeds: Speeds, as_json: bool, file: Path | None) -> None:
    """Print what was measured, and write its picture if a file is given."""
    if as_json:
        emit(speeds.as_json())
    else:
        _print(speeds)
    if file is not None:
        write_atomic(file, picture(speeds).encode())
        if not as_json:
            say(f"wrote {file}")


def _print(speeds: Speeds) -> None:
    unit = _MILLI if max(one.latency.percentile(50) for one in speeds.found) >= _MILLI else _MICRO
    batches = len({one.subject.batch for one in speeds.found}) > 1
    columns = ["on", *(["batch"] if batches else []), *(f"p{percent}" for percent in PERCENTILES), "min", "iqr"]
    columns += ["per s", "MB"]
    for name in dict.fromkeys(one.subject.name for one in speeds.found):
        rows = [_row(one, batches, unit) for one in speeds.found if one.subject.name == name]
        table(name, columns, rows, right=range(1, len(columns)))
    facts = ", ".join(f"{name} {value}" for name, value in speeds.machine.items())
    threads = speeds.found[0].threads
    say(f"{'micro' if unit == _MICRO else 'milli'}seconds of a run, {threads} thread{'s' * (threads > 1)}; {facts}")
    missing = dict.fromkeys(one.subject.on for one in speeds.left_out if one.reason == NO_GPU)
    if missing:
        say(f"left out: {', '.join(missing)}: {NO_GPU}", err=True)
    for one in speeds.left_out:
        if one.reason != NO_GPU:
            say(f"left out: {one.subject}: {one.reason}", err=True)
    noisy = sum(one.latency.spread > _NOISY * one.latency.percentile(50) for one in speeds.found)
    if noisy:
        say(f"{noisy} of {len(speeds.found)} spread by more than {_NOISY:.0%}: is the machine busy?", err=True)


def _row(one: Speed, with_batch: bool, unit: float) -> list[str]:
    latency = one.latency
    times = [*map(latency.percentile, PERCENTILES), latency.least, latency.spread]
    memory = "-" if one.memory is None else f"{one.memory / 1e6:,.0f}"
    batch = [str(one.subject.batch)] if with_batch else []
    return [one.subject.on, *batch, *(_number(time / unit) for time in times), _number(one.throughput), memory]


def _number(value: float) -> str:
    """Four digits, or all before the point, but no more than three behind it."""
    return f"{value:,.{min(3, max(0, 3 - floor(log10(value))))}f}" if value else "0"
