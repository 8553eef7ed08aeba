"""What `archir bench` prints of whole networks."""

from __future__ import annotations

from pathlib import Path

import click

from archir.cli.output import emit, table
from archir.files import write_atomic
from archir.speed.figures import PERCENTILES, Speed, Speeds
from archir.speed.picture import milliseconds, picture

_NOISY = 0.2
"""Interquartile range, relative to the median, that is worth a remark."""


def show(speeds: Speeds, as_json: bool, file: Path | None) -> None:
    """Print what was measured, and write its picture if a file is given."""
    if file is not None:
        write_atomic(file, picture(speeds).encode())
    if as_json:
        emit(speeds.as_json())
        return
    batches = len({one.subject.batch for one in speeds.found}) > 1
    heads = [*(f"p{percent}" for percent in PERCENTILES), "min", "iqr", "per s", "MB"]
    columns = ["on", *(["batch"] if batches else []), *heads]
    for name in dict.fromkeys(one.subject.name for one in speeds.found):
        rows = [_row(one, batches) for one in speeds.found if one.subject.name == name]
        table(name, columns, rows, right=range(1, len(columns)))
    facts = ", ".join(f"{name} {value}" for name, value in speeds.machine.items())
    threads = speeds.found[0].threads
    click.echo(f"milliseconds of a run, {threads} thread{'s' * (threads > 1)}; {facts}")
    for reason in dict.fromkeys(one.reason for one in speeds.left_out):
        where = dict.fromkeys(one.subject.on for one in speeds.left_out if one.reason == reason)
        click.echo(f"left out: {', '.join(where)}: {reason}", err=True)
    noisy = sum(one.latency.spread > _NOISY * one.latency.percentile(50) for one in speeds.found)
    if noisy:
        click.echo(f"{noisy} of {len(speeds.found)} spread by more than {_NOISY:.0%}: is the machine busy?", err=True)
    if file is not None:
        click.echo(f"wrote {file}")


def _row(one: Speed, with_batch: bool) -> list[str]:
    latency = one.latency
    times = [*map(latency.percentile, PERCENTILES), latency.least, latency.spread]
    per_second = f"{one.throughput:,.0f}" if one.throughput >= 100 else f"{one.throughput:.2f}"
    memory = "-" if one.memory is None else f"{one.memory / 1e6:,.1f}"
    batch = [str(one.subject.batch)] if with_batch else []
    return [one.subject.on, *batch, *map(milliseconds, times), per_second, memory]
