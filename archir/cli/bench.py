"""`archir bench`."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.backends.speed.subjects import ON
from archir.cli.kinds import Output, Place, Real
from archir.cli.options import OF_NETS, SEED, force_option, json_option, net_options, refuse
from archir.cli.output import emit, say, table
from archir.cli.progress import tracked
from archir.cli.speed import show
from archir.cli.subject import picked, space_of
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.utils.files import require_writable

if TYPE_CHECKING:
    from archir.costs.latencies.fill import Validation
    from archir.costs.latencies.model import LatencyModel
    from archir.costs.latencies.table import LatencyTable
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

_SHOWN = 10
_NOISY = 0.2
"""Interquartile range, relative to the median, that is worth a remark."""
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_MODES = {
    "--table": {"device", "batch", "threads", "resume"},
    "--validate": {"count", "seed", "calibrate"},
    "--fit": {"device", "batch", "threads", "count", "seed", "operations", "measured", "about", "measure", "unit"},
    "measuring whole networks": {"where", "batch", "threads", "seconds", "picture", "arch", "seed"},
}
"""The options of what the command does, besides those that are always to be had."""


@click.command("bench")
@click.argument("files", metavar="FILE[:NET]...", nargs=-1, required=True)
@click.option(
    "--on",
    "where",
    multiple=True,
    type=click.Choice(list(ON)),
    help="What to measure on [all there is]; may be repeated.",
)
@click.option(
    "--batch",
    multiple=True,
    type=click.IntRange(1, 2**20),
    default=(1,),
    help="Samples in a run [1]; may be repeated.",
)
@click.option("--threads", type=click.IntRange(1, 2**16), help="Threads that compute [all, or the table's].")
@click.option("--seconds", type=Real(0.01), default=2.0, show_default=True, help="How long to run each.")
@force_option
@click.option("--picture", type=Output(), help="An SVG file to write, too.")
@click.option("--arch", type=Place(dir_okay=False, allow_dash=True), help="The architecture of a space.")
@click.option("--seed", type=SEED, help="Sample the architecture with this seed; of --validate: all of them [0].")
@click.option(
    "--table",
    "output",
    type=Output("resume"),
    help="Time operations instead; the JSON file to write.",
)
@click.option("--device", type=click.Choice(list(api.BENCHES)), default="cpu", show_default=True, help="Of --table.")
@click.option("--resume", is_flag=True, is_eager=True, help="Go on with a table: measure what it lacks.")
@click.option(
    "--validate",
    "check",
    type=Place(dir_okay=False, path_type=Path),
    help="A table to compare with whole networks.",
)
@click.option("-n", "count", type=click.IntRange(1), help="Networks of --validate [20] and --fit [30].")
@click.option(
    "--fit",
    "model",
    type=Output(),
    help="Fit a model to measured networks instead; the JSON file to write.",
)
@click.option(
    "--measured",
    type=Place(dir_okay=False, path_type=Path),
    help="Of --fit: a table of architectures and latencies, and nothing is measured.",
)
@click.option("--map", "about", type=Place(dir_okay=False, path_type=Path), help="Its mapping [beside it, .toml].")
@click.option("--measure", help="The measure of the mapping that is the latency [the first].")
@click.option(
    "--unit", type=click.Choice(list(_UNITS)), default="ms", show_default=True, help="What the table counts in."
)
@click.option(
    "--operations", type=Place(dir_okay=False, path_type=Path), help="Of --fit: a latency table to make use of."
)
@click.option("--calibrate", is_flag=True, help="Write the fitted correction into the validated table.")
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
    """Measure networks, .arch and .onnx files, side by side: latency, throughput, memory.

    \b
    archir bench net.arch net.onnx --batch 1 --batch 8          on all there is
    archir bench space.arch --seed 0 --on torch --on onnxruntime-cpu --picture speed.svg

    With --table, time every operation of a space on a device, once, so that any architecture's latency can be added up.

    \b
    archir bench --table cpu.json --device cpu --threads 1 space.arch
    archir bench --validate cpu.json space.arch -n 20 --calibrate

    With --fit, fit a model of the latency to random architectures that are measured whole, or to a table of measured
    ones. It says how wrong it is, and bounds can ask for its confidence.

    \b
    archir bench --fit cpu.json space.arch -n 30 --threads 1
    archir bench --fit phone.json space.arch --measured phone.csv --unit ms

    An interrupted run of --table keeps what it measured, and goes on with --resume. --validate measures random
    architectures on the table's device, with its batch size and threads, and says how well its sums predict them.
    """
    modes = {"--table": output, "--validate": check, "--fit": model}
    asked = [name for name, file in modes.items() if file is not None]
    if len(asked) > 1:
        raise click.UsageError(f"give one of {' and '.join(asked)}")
    mode = asked[0] if asked else "measuring whole networks"
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and option.name in set().union(*_MODES.values()) - _MODES[mode]:
            raise click.UsageError(f"{option.opts[0]} is no option of {mode}")
    if picture is not None and picture.suffix != ".svg":
        raise click.UsageError(f"--picture writes SVG: its name ends in .svg, that of {picture} does not")
    for file in (picture, output, model):
        if file is not None:
            require_writable(file)
    if all(file.endswith(".onnx") for file in files):
        refuse(OF_NETS | {"arch", "seed"}, "is for nets, not for ONNX models")
    if not asked:
        networks = {file: _network(file, arch, seed, parameters, root, limits) for file in files}
        found = api.measure(networks, on=where, batches=batch, threads=threads, seconds=seconds, watch=tracked)
        show(found, as_json, picture)
        return
    if len(files) > 1 or len(batch) > 1:
        raise click.UsageError(f"{mode} takes one FILE and one --batch")
    space = space_of(files[0], parameters, root, limits)
    if output is not None:
        try:
            made = api.bench(
                space, output, device=device, batch=batch[0], threads=threads, resume=resume, watch=tracked
            )
        except KeyboardInterrupt:
            say(f"stopped; {output} holds what was measured: go on with --resume", err=True)
            raise click.Abort from None
        _made(output, made, as_json)
    elif check is not None:
        _validated(check, space, count or 20, seed or 0, calibrate, as_json)
    elif model is not None:
        known = None if operations is None else api.latency_table(operations)
        if measured is None:
            drawn, times = api.measured_latency(
                space, count or 30, device=device, batch=batch[0], threads=threads, seed=seed or 0, watch=tracked
            )
            on = f"{device}, batch {batch[0]}"
        else:
            drawn, times, on = _read(space, measured, about, measure, unit)
        made_of = api.fit_latency(space, drawn, times, model, operations=known, device=on, seed=seed or 0)
        _fitted(model, made_of, as_json)


def _read(
    space: Space, file: Path, about: Path | None, measure: str | None, unit: str
) -> tuple[list[Architecture], list[float], str]:
    """Architectures of a table, and nanoseconds of each."""
    found = api.results(file, space, map=about, measures=[measure] if measure else ())
    name = found.criterion
    _, values = found.values[name][-1]
    rows = [(codes, float(values[row])) for codes, row in found.rows.items()]
    known = [(space.decode(codes), value * _UNITS[unit]) for codes, value in rows if isfinite(value)]
    return [one for one, _ in known], [value for _, value in known], f"{name} of {file.name}"


def _fitted(path: Path, model: LatencyModel, as_json: bool) -> None:
    margin = model.margin()
    if as_json:
        facts = model.model_dump(include={"model", "device", "networks", "error", "rank_correlation", "tried"})
        emit({"fitted": str(path), **facts, "margin": margin, "operations": len(model.entries)})
        return
    rows = [(("* " if name == model.model else "  ") + name, _us(error)) for name, error in model.tried.items()]
    table("", ["model", "error, us"], rows, right=(1,))
    rank = model.rank_correlation
    say(f"{path}: `{model.model}`, fitted to {model.networks:,} networks ({model.device})")
    say(f"networks left out: rank correlation {'-' if rank is None else f'{rank:.3f}'}, error {_us(model.error)} us")
    say(f"95% of new networks are expected within {_us(margin)} us of the prediction")


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.1f}"


def _network(
    file: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> Graph | Path:
    return Path(file) if file.endswith(".onnx") else picked(file, arch, seed, parameters, root, limits)[0]


def _made(path: Path, made: LatencyTable, as_json: bool) -> None:
    dearest = sorted(made.entries.items(), key=lambda item: -item[1].median)
    if as_json:
        facts = made.model_dump(include={"device", "batch", "threads", "machine", "overhead"})
        emit({"table": str(path), **facts, "operations": len(dearest)})
        return
    rows = [(key, f"{one.median / 1000:,.1f}", f"{one.spread / 1000:,.1f}") for key, one in dearest[:_SHOWN]]
    table("", ["dearest operations", "us", "spread"], rows, right=(1, 2))
    on = f"{made.device}, {made.threads} thread{'s' * (made.threads > 1)}, batch {made.batch}"
    say(f"{path}: {len(dearest):,} operations on {on}; a call costs {made.overhead.median / 1000:.1f} us")
    noisy = sum(entry.spread > _NOISY * (entry.median + made.overhead.median) for entry in made.entries.values())
    if noisy:
        say(f"{noisy:,} of them spread by more than {_NOISY:.0%}: is the machine busy?", err=True)


def _validated(path: Path, space: Space, count: int, seed: int, calibrate: bool, as_json: bool) -> None:
    made = api.latency_table(path)
    found = api.validate(made, space, count, seed=seed, watch=tracked)
    if calibrate:
        made.correction = found.correction()
        made.write(path)
    if as_json:
        emit(
            {
                "table": str(path),
                "networks": [{"predicted": one.predicted, "measured": one.measured.median} for one in found.networks],
                "rank_correlation": found.rank_correlation,
                "error": found.error,
                "corrected_error": found.corrected_error,
                "correction": made.correction and made.correction.model_dump(),
            }
        )
        return
    table("", ["", ""], _rows(found), right=(1,))
    if made.correction is not None and calibrate:
        line = made.correction
        say(f"wrote {path}: latency is {line.scale:.3f} x sum {line.offset / 1000:+,.1f} us")


def _rows(found: Validation) -> list[tuple[str, str]]:
    measured = sorted(one.measured.median / 1000 for one in found.networks)
    corrected = found.corrected_error
    return [
        ("networks", f"{len(found.networks)}"),
        ("measured, us", f"{measured[0]:,.0f} to {measured[-1]:,.0f}"),
        ("rank correlation (Spearman)", "-" if found.rank_correlation is None else f"{found.rank_correlation:.3f}"),
        ("mean error of the sums", f"{100 * found.error:.1f}%"),
        ("after an affine correction (leave-one-out)", "-" if corrected is None else f"{100 * corrected:.1f}%"),
    ]
