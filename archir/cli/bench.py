"""Command `archir bench`: benchmark networks, time operations, and fit latency models."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import measurement, searching
from archir.backends.speed.subjects import TARGETS
from archir.cli.net_arguments import select_network, space_of
from archir.cli.options import NET_PARAMETERS, SEED, force_option, json_option, net_options, refuse
from archir.cli.output import emit, say, table
from archir.cli.param_types import FiniteRange, OutputFile, PathParam
from archir.cli.progress import track_progress
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.utils.files import require_writable

if TYPE_CHECKING:
    from archir.costs.latencies.measurement import Validation
    from archir.costs.latencies.model import LatencyModel
    from archir.costs.latencies.table import LatencyTable
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space
from math import floor, log10

from archir.backends.speed.measurements import PERCENTILES, Speed, Speeds
from archir.backends.speed.picture import picture
from archir.backends.speed.subjects import NO_GPU
from archir.utils.files import write_atomic

_MILLI, _MICRO = 1e6, 1e3
"""Nanoseconds per millisecond (_MILLI) and per microsecond (_MICRO)."""
_NOISE_THRESHOLD = 0.2
"""Interquartile range, relative to the median, above which a measurement is reported as noisy."""


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
    unit = _MILLI if max(speed.latency.percentile(50) for speed in speeds.measurements) >= _MILLI else _MICRO
    batches = len({speed.subject.batch for speed in speeds.measurements}) > 1
    columns = ["on", *(["batch"] if batches else []), *(f"p{percent}" for percent in PERCENTILES), "min", "iqr"]
    columns += ["per s", "MB"]
    for name in dict.fromkeys(speed.subject.name for speed in speeds.measurements):
        rows = [_row(speed, batches, unit) for speed in speeds.measurements if speed.subject.name == name]
        table(name, columns, rows, right=range(1, len(columns)))
    facts = ", ".join(f"{name} {value}" for name, value in speeds.machine.items())
    threads = speeds.measurements[0].threads
    say(f"{'micro' if unit == _MICRO else 'milli'}seconds of a run, {threads} thread{'s' * (threads > 1)}; {facts}")
    missing = dict.fromkeys(speed.subject.on for speed in speeds.left_out if speed.reason == NO_GPU)
    if missing:
        say(f"left out: {', '.join(missing)}: {NO_GPU}", err=True)
    for speed in speeds.left_out:
        if speed.reason != NO_GPU:
            say(f"left out: {speed.subject}: {speed.reason}", err=True)
    noisy = sum(speed.latency.spread > _NOISE_THRESHOLD * speed.latency.percentile(50) for speed in speeds.measurements)
    if noisy:
        say(
            f"{noisy} of {len(speeds.measurements)} measurements vary by more than {_NOISE_THRESHOLD:.0%}: "
            "is the machine busy?",
            err=True,
        )


def _row(speed: Speed, with_batch: bool, unit: float) -> list[str]:
    latency = speed.latency
    times = [*map(latency.percentile, PERCENTILES), latency.least, latency.spread]
    memory = "-" if speed.memory is None else f"{speed.memory / 1e6:,.0f}"
    batch = [str(speed.subject.batch)] if with_batch else []
    return [speed.subject.on, *batch, *(_number(time / unit) for time in times), _number(speed.throughput), memory]


def _number(value: float) -> str:
    """Format a number with four significant digits, but keep all integer digits and at most three decimals."""
    return f"{value:,.{min(3, max(0, 3 - floor(log10(value))))}f}" if value else "0"


_MAX_SHOWN = 10
"""Maximum number of operations that are printed, slowest first."""
_NOISE_THRESHOLD = 0.2
"""Interquartile range, relative to the median, above which a measurement is reported as noisy."""
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Nanoseconds per unit of time."""
_MODE_OPTIONS = {
    "--table": {"device", "batch", "threads", "resume"},
    "--validate": {"count", "seed", "calibrate"},
    "--fit without --measured": {"device", "batch", "threads", "count", "seed", "operations"},
    "--fit with --measured": {"seed", "operations", "measured", "about", "measure", "unit"},
    "measuring whole networks": {"where", "batch", "threads", "seconds", "picture", "arch", "seed"},
}
"""Options that are valid only in some modes, by mode; all other options are accepted in every mode."""


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
    type=click.IntRange(1, 2**20),
    default=(1,),
    help="Batch size [1]; may be repeated.",
)
@click.option("--threads", type=click.IntRange(1, 2**16), help="Number of threads [all, or that of the table].")
@click.option(
    "--seconds", type=FiniteRange(0.01), default=2.0, show_default=True, help="Seconds to run each network for."
)
@force_option
@click.option("--picture", type=OutputFile(), help="Also write a chart to this SVG file.")
@click.option(
    "--arch", type=PathParam(dir_okay=False, allow_dash=True), help="Architecture file, for FILEs that are spaces."
)
@click.option(
    "--seed", type=SEED, help="Seed of the sampled architecture; with --validate and --fit, of all of them [0]."
)
@click.option(
    "--table",
    "output",
    type=OutputFile("resume"),
    help="Time the operations of a space instead, and write them to this JSON file.",
)
@click.option(
    "--device",
    type=click.Choice(list(measurement.BENCHES)),
    default="cpu",
    show_default=True,
    help="Device of --table and --fit.",
)
@click.option(
    "--resume", is_flag=True, is_eager=True, help="With --table: measure only the operations the table lacks."
)
@click.option(
    "--validate",
    "check",
    type=PathParam(dir_okay=False, path_type=Path),
    help="Compare this latency table with measurements of whole networks.",
)
@click.option("-n", "count", type=click.IntRange(1), help="Number of networks for --validate [20] and --fit [30].")
@click.option(
    "--fit",
    "model",
    type=OutputFile(),
    help="Fit a latency model to measured networks instead, and write it to this JSON file.",
)
@click.option(
    "--measured",
    type=PathParam(dir_okay=False, path_type=Path),
    help="With --fit: read architectures and latencies from this table instead of measuring.",
)
@click.option(
    "--map",
    "about",
    type=PathParam(dir_okay=False, path_type=Path),
    help="With --measured: column mapping of the table [the .toml next to it].",
)
@click.option("--measure", help="With --measured: name of the measure that is the latency [the first one].")
@click.option(
    "--unit",
    type=click.Choice(list(_UNITS)),
    default="ms",
    show_default=True,
    help="With --measured: unit of the latencies.",
)
@click.option(
    "--operations",
    type=PathParam(dir_okay=False, path_type=Path),
    help="With --fit: latency table to combine with the measurements.",
)
@click.option("--calibrate", is_flag=True, help="With --validate: store the fitted correction in the table.")
@net_options
@json_option
@click.pass_context
def bench_command(
    context: click.Context, files: tuple[str, ...], where: tuple[str, ...], batch: tuple[int, ...],
    threads: int | None, seconds: float, picture: Path | None, arch: str | None, seed: int | None,
    output: Path | None, device: Any, resume: bool, check: Path | None, count: int | None,
    model: Path | None, measured: Path | None, about: Path | None, measure: str | None, unit: str,
    operations: Path | None, calibrate: bool,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Benchmark networks (.arch and .onnx files) side by side: latency, throughput, memory.

    \b
    archir bench net.arch net.onnx --batch 1 --batch 8          on all available devices
    archir bench space.arch --seed 0 --on torch --on onnxruntime-cpu --picture speed.svg

    With --table, time every operation of a space once on a device. The latency of any architecture is then estimated as
    a sum.

    \b
    archir bench --table cpu.json --device cpu --threads 1 space.arch
    archir bench --validate cpu.json space.arch -n 20 --calibrate

    With --fit, fit a latency model to random architectures that are measured as whole networks, or to a table of
    measurements. The model's error is reported, and cost bounds can require a confidence level.

    \b
    archir bench --fit cpu.json space.arch -n 30 --threads 1
    archir bench --fit phone.json space.arch --measured phone.csv --unit ms

    An interrupted --table keeps its measurements; continue it with --resume. --validate measures random architectures
    on the table's device, with its batch size and threads, and reports how well the sums predict their latencies.
    """
    modes = {"--table": output, "--validate": check, "--fit": model}
    selected_modes = [name for name, file in modes.items() if file is not None]
    if len(selected_modes) > 1:
        raise click.UsageError(f"give one of {' and '.join(selected_modes)}")
    mode = selected_modes[0] if selected_modes else "measuring whole networks"
    mode += "" if model is None else f" {'without' if measured is None else 'with'} --measured"
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if is_given and option.name in set().union(*_MODE_OPTIONS.values()) - _MODE_OPTIONS[mode]:
            raise click.UsageError(f"{option.opts[0]} does not apply to {mode}")
    if picture is not None and picture.suffix != ".svg":
        raise click.UsageError(f"--picture writes SVG: {picture} does not end in .svg")
    for file in (picture, output, model):
        if file is not None:
            require_writable(file)
    if all(file.endswith(".onnx") for file in files):
        refuse(NET_PARAMETERS | {"arch", "seed"}, "only applies to nets, not to ONNX models")
    if not selected_modes:
        networks = {file: _network(file, arch, seed, parameters, root, limits) for file in files}
        speeds = measurement.measure(
            networks, on=where, batches=batch, threads=threads, seconds=seconds, progress=track_progress
        )
        show(speeds, as_json, picture)
        return
    if len(files) > 1 or len(batch) > 1:
        raise click.UsageError(f"{mode} takes one FILE and one --batch")
    space = space_of(files[0], parameters, root, limits)
    if output is not None:
        try:
            latency_table = measurement.bench(
                space, output, device=device, batch=batch[0], threads=threads, resume=resume, progress=track_progress
            )
        except KeyboardInterrupt:
            say(f"stopped; {output} holds the measurements so far: continue with --resume", err=True)
            raise click.Abort from None
        _print_table(output, latency_table, as_json)
    elif check is not None:
        _validate_table(check, space, count or 20, seed or 0, calibrate, as_json)
    elif model is not None:
        operation_table = None if operations is None else measurement.latency_table(operations)
        if measured is None:
            architectures, times = measurement.measured_latency(
                space,
                count or 30,
                device=device,
                batch=batch[0],
                threads=threads,
                seed=seed or 0,
                progress=track_progress,
            )
            on = f"{device}, batch {batch[0]}"
        else:
            architectures, times, on = _read_measured(space, measured, about, measure, unit)
        fitted = measurement.fit_latency(
            space, architectures, times, model, operations=operation_table, device=on, seed=seed or 0
        )
        _print_model(model, fitted, as_json)


def _read_measured(
    space: Space, file: Path, about: Path | None, measure: str | None, unit: str
) -> tuple[list[Architecture], list[float], str]:
    """Read architectures and their measured latencies from a table of results.

    Returns the architectures, the latency of each in nanoseconds, and the name of the measure.
    """
    measured_table = searching.results(file, space, map=about, measures=[measure] if measure else ())
    name = measured_table.criterion
    _, values = measured_table.values[name][-1]
    rows = [(codes, float(values[row])) for codes, row in measured_table.rows.items()]
    pairs = [(space.decode(codes), value * _UNITS[unit]) for codes, value in rows if isfinite(value)]
    return [architecture for architecture, _ in pairs], [value for _, value in pairs], f"{name} of {file.name}"


def _print_model(path: Path, model: LatencyModel, as_json: bool) -> None:
    """Print the error of every candidate latency model, and a summary of the selected one."""
    margin = model.margin()
    if as_json:
        facts = model.model_dump(include={"model", "device", "networks", "error", "rank_correlation", "tried"})
        emit({"fitted": str(path), **facts, "margin": margin, "operations": len(model.entries)})
        return
    rows = [(("* " if name == model.model else "  ") + name, _us(error)) for name, error in model.tried.items()]
    table("", ["model", "error, us"], rows, right=(1,))
    rank = model.rank_correlation
    say(f"{path}: `{model.model}`, fitted to {model.networks:,} networks ({model.device})")
    say(f"leave-one-out: rank correlation {'-' if rank is None else f'{rank:.3f}'}, error {_us(model.error)} us")
    say(f"95% of new networks are expected within {_us(margin)} us of the prediction")


def _us(nanoseconds: float) -> str:
    """Format nanoseconds as microseconds."""
    return f"{nanoseconds / 1000:,.1f}"


def _network(
    file: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> Graph | Path:
    """Return the path itself if it is an ONNX model, else the graph of the selected network of an .arch file."""
    return Path(file) if file.endswith(".onnx") else select_network(file, arch, seed, parameters, root, limits)[0]


def _print_table(path: Path, latency_table: LatencyTable, as_json: bool) -> None:
    """Print the slowest operations of a latency table and a summary."""
    slowest = sorted(latency_table.entries.items(), key=lambda item: -item[1].median)
    if as_json:
        facts = latency_table.model_dump(include={"device", "batch", "threads", "machine", "overhead"})
        emit({"table": str(path), **facts, "operations": len(slowest)})
        return
    rows = [
        (key, f"{timing.median / 1000:,.1f}", f"{timing.spread / 1000:,.1f}") for key, timing in slowest[:_MAX_SHOWN]
    ]
    table("", ["slowest operations", "us", "spread"], rows, right=(1, 2))
    on = (
        f"{latency_table.device}, {latency_table.threads} thread{'s' * (latency_table.threads > 1)}, batch "
        f"{latency_table.batch}"
    )
    say(f"{path}: {len(slowest):,} operations on {on}; a call costs {latency_table.overhead.median / 1000:.1f} us")
    noisy = sum(
        entry.spread > _NOISE_THRESHOLD * (entry.median + latency_table.overhead.median)
        for entry in latency_table.entries.values()
    )
    if noisy:
        say(f"{noisy:,} of them vary by more than {_NOISE_THRESHOLD:.0%}: is the machine busy?", err=True)


def _validate_table(path: Path, space: Space, count: int, seed: int, calibrate: bool, as_json: bool) -> None:
    """Compare the predictions of a latency table with measurements of whole networks, and print the errors."""
    latency_table = measurement.latency_table(path)
    validation = measurement.validate(latency_table, space, count, seed=seed, progress=track_progress)
    if calibrate:
        latency_table.correction = validation.correction()
        latency_table.write(path)
    if as_json:
        emit(
            {
                "table": str(path),
                "networks": [
                    {"predicted": network.predicted, "measured": network.measured.median}
                    for network in validation.networks
                ],
                "rank_correlation": validation.rank_correlation,
                "error": validation.error,
                "corrected_error": validation.corrected_error,
                "correction": latency_table.correction and latency_table.correction.model_dump(),
            }
        )
        return
    table("", ["", ""], _validation_rows(validation), right=(1,))
    if latency_table.correction is not None and calibrate:
        line = latency_table.correction
        say(f"wrote {path}: latency is {line.scale:.3f} x sum {line.offset / 1000:+,.1f} us")


def _validation_rows(validation: Validation) -> list[tuple[str, str]]:
    """Return the rows of the printed summary of a validation."""
    measured = sorted(network.measured.median / 1000 for network in validation.networks)
    corrected = validation.corrected_error
    return [
        ("networks", f"{len(validation.networks)}"),
        ("measured, us", f"{measured[0]:,.0f} to {measured[-1]:,.0f}"),
        (
            "rank correlation (Spearman)",
            "-" if validation.rank_correlation is None else f"{validation.rank_correlation:.3f}",
        ),
        ("mean error of the sums", f"{100 * validation.error:.1f}%"),
        ("after an affine correction (leave-one-out)", "-" if corrected is None else f"{100 * corrected:.1f}%"),
    ]
