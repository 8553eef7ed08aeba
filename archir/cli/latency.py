"""Commands `archir latency table`, `fit` and `check`: predict the latency of every architecture of a space."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import measurement, searching
from archir.backends.latency_benches import BENCHES
from archir.cli.net_arguments import space_of
from archir.cli.options import SEED, force_option, json_option, net_options, where_option
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, OutputFile, PathParam
from archir.cli.progress import track_progress
from archir.diagnostics.errors import ArchError, fail
from archir.language.elaboration.context import Limits
from archir.utils.files import Outputs, require_writable

if TYPE_CHECKING:
    from archir.costs.latencies.measurement import Validation
    from archir.costs.latencies.model import HeldOut, LatencyModel
    from archir.costs.latencies.table import Conditions, LatencyTable
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

MAX_SHOWN = 10
"""Maximum number of operations that are printed, slowest first."""
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Nanoseconds per unit of time."""


@click.group("latency")
def latency_command() -> None:
    """Predict the latency of every architecture of a space on a device.

    `table` times each operation of the space, `fit` fits a model to measured networks, and `check` compares predictions
    with measurements. Both files can be used as a cost: `latency("FILE")`.

    \b
    archir latency fit space.arch -o cpu.json --device onnxruntime-cpu --threads 1
    archir count space.arch --where 'latency("cpu.json") <= 5ms'
    """


_FILE = click.argument("file", metavar="FILE[:NET]")
_DEVICE = click.option(
    "--device", type=click.Choice(list(BENCHES)), default="cpu", show_default=True, help="Device to measure on."
)
_BATCH = click.option("--batch", type=Integer(1, 2**20), default=1, show_default=True, help="Samples in a batch.")
_THREADS = click.option("--threads", type=Integer(1, 2**16), help="Number of CPU threads [one per core].")
_SEED = click.option("--seed", type=SEED, default=0, show_default=True, help="Seed that samples architectures.")


@latency_command.command("table")
@_FILE
@click.option("-o", "--output", type=OutputFile("resume"), required=True, help="JSON file of the table.")
@_DEVICE
@_BATCH
@_THREADS
@click.option("--resume", is_flag=True, is_eager=True, help="Measure only the operations that the table lacks.")
@force_option
@net_options
@json_option
@click.pass_obj
def table_command(
    outputs: Outputs, file: str, output: Path, device: Any, batch: int, threads: int | None, resume: bool,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Time every operation of a space once, and write the times to a table.

    The predicted latency of an architecture is the sum over its operations. After an interruption, continue with
    --resume; to replace an existing table, use --force.

    \b
    archir latency table space.arch -o cpu.json --device onnxruntime-cpu --threads 1
    """
    require_writable(output)
    space = space_of(file, parameters, root, limits)
    try:
        latency_table = measurement.measure_operations(
            space, output, device=device, batch=batch, threads=threads, resume=resume, force=outputs.force,
            progress=track_progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        if output.exists():
            say(f"stopped; {output} holds the measurements so far: continue with --resume", err=True)
        raise click.Abort from None
    _print_table(output, latency_table, as_json)


@latency_command.command("fit")
@_FILE
@click.option("-o", "--output", type=OutputFile(), required=True, help="JSON file of the model.")
@click.option("-n", "count", type=Integer(1), default=40, show_default=True, help="Number of networks to measure.")
@_DEVICE
@_BATCH
@_THREADS
@where_option
@_SEED
@click.option(
    "--add",
    "runs",
    multiple=True,
    type=PathParam(file_okay=False, path_type=Path),
    help="Also measure and fit to the candidates that this run of `archir search` measured; may be repeated.",
)
@click.option(
    "--measured",
    type=PathParam(dir_okay=False, path_type=Path),
    help="Read architectures and latencies from this table instead of measuring.",
)
@click.option(
    "--map",
    "about",
    type=PathParam(dir_okay=False, path_type=Path),
    help="With --measured: column mapping of the table [the .toml next to it].",
)
@click.option(
    "--measure", metavar="MEASURE", help="With --measured: name of the measure that is the latency [the first one]."
)
@click.option(
    "--unit",
    type=click.Choice(list(UNITS)),
    default="ms",
    show_default=True,
    help="With --measured: unit of the latencies.",
)
@click.option(
    "--operations",
    type=PathParam(dir_okay=False, path_type=Path),
    help="Table of `archir latency table` to combine with the measurements.",
)
@force_option
@net_options
@json_option
@click.pass_context
def fit_command(
    context: click.Context, file: str, output: Path, count: int, device: Any, batch: int, threads: int | None,
    where: str | None, seed: int, runs: tuple[Path, ...], measured: Path | None, about: Path | None,
    measure: str | None, unit: str, operations: Path | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Fit a latency model to random networks that are measured as a whole, or to a table of measurements.

    Networks are sampled within the bounds of the space and --where, since a model predicts networks like those it was
    fitted to. Parts of the networks are held out to check the predictions; if these are not fit for bounds, the exit
    code is 1.

    \b
    archir latency fit space.arch -o cpu.json --device onnxruntime-cpu --threads 1
    archir latency fit space.arch -o better.json --device onnxruntime-cpu --add runs/fast
    archir latency fit space.arch -o phone.json --measured phone.csv --unit ms
    """
    from archir.costs.latencies.fitting import check_count

    _refuse_unused(context, measured is not None)
    require_writable(output)
    space = space_of(file, parameters, root, limits)
    operation_table = None if operations is None else measurement.latency_table(operations)
    if operation_table is not None:
        operation_table.check_covers(space.graph)
    conditions = None
    if measured is None:
        added = {candidate: None for run in runs for candidate in _measured_candidates(run, space)}
        check_count(count + len(added))
        architectures, times, conditions = measurement.measured_latency(
            space, count, also=[*added], where=where, device=device, batch=batch, threads=threads, seed=seed,
            path=output, progress=track_progress,
        )  # fmt: skip
        on = _describe_conditions(conditions)
    else:
        architectures, times, on = _read_measured(space, measured, about, measure, unit)
    model = measurement.fit_latency(
        space, architectures, times, output, operations=operation_table, device=on, conditions=conditions, seed=seed
    )
    _print_model(output, model, as_json)
    if model.held_out is not None and model.held_out.weaknesses:
        context.exit(1)


def _refuse_unused(context: click.Context, reads_table: bool) -> None:
    """Raise UsageError for options that were given but have no effect."""
    unused = {"count", "device", "batch", "threads", "where", "runs"} if reads_table else {"about", "measure", "unit"}
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if is_given and option.name in unused:
            raise click.UsageError(f"{option.opts[0]} has no effect with{'' if reads_table else 'out'} --measured")


@latency_command.command("check")
@_FILE
@click.argument("predictor", metavar="LATENCY.json", type=PathParam(dir_okay=False, path_type=Path))
@click.option("-n", "count", type=Integer(1), default=20, show_default=True, help="Number of networks to measure.")
@where_option
@_SEED
@click.option("--calibrate", is_flag=True, help="Store the fitted correction in the table.")
@net_options
@json_option
@click.pass_context
def check_command(
    context: click.Context, file: str, predictor: Path, count: int, where: str | None, seed: int, calibrate: bool,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Compare the predictions of a latency table or model with measurements of whole networks.

    Random networks within the bounds of the space and --where are measured on the device, with the batch size and
    threads of the table or model. The exit code is 1 if the predictions are not fit for bounds on the latency.

    \b
    archir latency check space.arch cpu.json -n 20 --calibrate
    """
    from archir.costs.latencies.files import read_latency_file
    from archir.costs.latencies.table import LatencyTable

    read = read_latency_file(predictor)
    if calibrate and not isinstance(read, LatencyTable):
        raise click.UsageError(f"--calibrate needs a table; {predictor} is a model")
    space = space_of(file, parameters, root, limits)
    validation = measurement.validate(read, space, count, where=where, seed=seed, progress=track_progress)
    line, held_out = None, validation.held_out_calibrated if calibrate else validation.held_out
    try:
        if calibrate and isinstance(read, LatencyTable):
            read.correction = line = validation.correction()
            read.write(predictor)
    except ArchError as error:  # the networks were measured nevertheless
        if not as_json:
            table("", ["", ""], _validation_rows(validation), right=(1,))
            raise
        diagnostics = [diagnostic.as_json() for diagnostic in error.diagnostics]
        emit({**_validation_json(predictor, read, validation, held_out), "diagnostics": diagnostics})
        context.exit(1)
    if as_json:
        emit(_validation_json(predictor, read, validation, held_out))
    else:
        table("", ["", ""], _validation_rows(validation), right=(1,))
    if not as_json:
        if line is not None:
            say(f"wrote {predictor}: latency is {line.scale:.3f} x sum {line.offset / 1000:+,.1f} us")
        _print_verdict(held_out, len(validation.networks))
        once_calibrated = validation.held_out_calibrated if isinstance(read, LatencyTable) else None
        if held_out and held_out.weaknesses and once_calibrated and not once_calibrated.weaknesses:
            say("fit for bounds once it is calibrated: --calibrate")
    if held_out is not None and held_out.weaknesses:
        context.exit(1)


def _measured_candidates(folder: Path, space: Space) -> list[Architecture]:
    """Return the candidates that a search measured.

    Raises ArchError (A1511) if there are none, and errors of architectures that do not belong to the space.
    """
    from archir.runs import Run
    from archir.runs.folder import SUMMARY

    run = Run.open(folder)
    summary = json.loads(run.content(SUMMARY)) if SUMMARY in run.entries else {}
    measured = [labels for finalists in summary.get("latency", {}).values() for labels in finalists["architectures"]]
    if not measured:
        hint = "a search measures its best candidates if it bounds a latency that archir measured on this machine"
        raise fail("A1511", f"{folder} measured no candidates", None, hint)
    return [space.architecture(labels) for labels in measured]


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
    pairs = [(space.decode(codes), value * UNITS[unit]) for codes, value in rows if isfinite(value)]
    return [architecture for architecture, _ in pairs], [value for _, value in pairs], f"{name} of {file.name}"


def _describe_conditions(conditions: Conditions) -> str:
    """Return device, threads and batch size for a message."""
    threads = f"{conditions.threads} thread{'s' * (conditions.threads > 1)}"
    return f"{conditions.device}, {threads}, batch {conditions.batch}"


def _us(nanoseconds: float) -> str:
    """Format nanoseconds as microseconds."""
    return f"{nanoseconds / 1000:,.1f}"


def _print_table(path: Path, latency_table: LatencyTable, as_json: bool) -> None:
    """Print the slowest operations of a latency table and a summary."""
    slowest = sorted(latency_table.entries.items(), key=lambda item: -item[1].mean)
    if as_json:
        facts = latency_table.model_dump(include={"device", "batch", "threads", "machine", "overhead"})
        emit({"table": str(path), **facts, "operations": len(slowest)})
        return
    rows = [(key, _us(timing.mean), _us(timing.spread)) for key, timing in slowest[:MAX_SHOWN]]
    table("", ["slowest operations", "us", "spread, us"], rows, right=(1, 2))
    overhead = latency_table.overhead.mean
    say(
        f"{path}: {len(slowest):,} operations on {_describe_conditions(latency_table)}; a call costs {_us(overhead)} us"
    )


def _print_model(path: Path, model: LatencyModel, as_json: bool) -> None:
    """Print the error of every candidate latency model, a summary of the selected one, and if it is fit for bounds."""
    if as_json:
        facts = model.model_dump(
            include={"model", "device", "networks", "error", "rank_correlation", "tried", "held_out"}
        )
        fit = {} if model.held_out is None else {"fit_for_bounds": not model.held_out.weaknesses}
        emit({"fitted": str(path), **facts, "margin": model.margin(), "operations": len(model.entries), **fit})
        return
    rows = [(("* " if name == model.model else "  ") + name, _us(error)) for name, error in model.tried.items()]
    table("", ["model", "error, us"], rows, right=(1,))
    rank = model.rank_correlation
    say(f"{path}: `{model.model}`, fitted to {model.networks:,} networks ({model.device})")
    spearman = "-" if rank is None else f"{rank:.3f}"
    say(f"leave-one-out: rank correlation {spearman} (Spearman), error {_us(model.tried[model.model])} us")
    say(f"95% of new networks are expected within {_us(model.margin())} us of the prediction")
    _print_verdict(model.held_out, model.networks)


def _print_verdict(held_out: HeldOut | None, networks: int) -> None:
    """Print whether predictions are fit for bounds, and why; `networks` is the number of measured networks."""
    if held_out is None:
        say(f"{networks:,} networks are too few to hold some out: whether this is fit for bounds is unknown")
        return
    if held_out.weaknesses:
        say(f"not fit for bounds: {'; '.join(held_out.weaknesses)}")
        return
    say(
        f"fit for bounds: {held_out.inside} of {held_out.networks} held-out networks are inside their 95% interval, "
        f"rank correlation {held_out.rank_correlation:.2f} (Kendall)"
    )


def _validation_json(
    path: Path, predictor: LatencyTable | LatencyModel, validation: Validation, held_out: HeldOut | None
) -> dict[str, Any]:
    """Return the JSON data of a check; times are nanoseconds."""
    correction = getattr(predictor, "correction", None)
    return {
        "latency": str(path),
        "networks": [
            {"predicted": network.predicted, "measured": network.measured.mean} for network in validation.networks
        ],
        "rank_correlation": validation.rank_correlation,
        "speed": validation.speed,
        "error": validation.error,
        "corrected_error": validation.corrected_error,
        "correction": correction and correction.model_dump(),
        "held_out": held_out and held_out.model_dump(),
        "fit_for_bounds": held_out and not held_out.weaknesses,
    }


def _validation_rows(validation: Validation) -> list[tuple[str, str]]:
    """Return the rows of the printed summary of a check."""
    measured = sorted(network.measured.mean / 1000 for network in validation.networks)
    corrected = validation.corrected_error
    rank = validation.rank_correlation
    rows = [
        ("networks", f"{len(validation.networks)}"),
        ("measured, us", f"{measured[0]:,.0f} to {measured[-1]:,.0f}"),
        ("rank correlation (Spearman)", "-" if rank is None else f"{rank:.3f}"),
        ("mean error of the predictions", f"{100 * validation.error:.1f}%"),
    ]
    if validation.speed != 1:
        rows.insert(1, ("speed relative to that during the fit", f"{validation.speed:.2f}"))
    if validation.margin is None:
        error = "-" if corrected is None else f"{100 * corrected:.1f}%"
        rows.append(("after an affine correction (leave-one-out)", error))
    return rows
