"""`archir bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.build.context import Limits
from archir.cli.options import file_argument, json_option, net_options, seed_option, space_of
from archir.cli.output import emit, table
from archir.cli.progress import tracked

if TYPE_CHECKING:
    from archir.costs.bench import Validation
    from archir.costs.latency import LatencyTable
    from archir.search.space import Space

_SHOWN = 10
_NOISY = 0.2
"""Interquartile range, relative to the median, that is worth a remark."""
_OF_TABLE = {name: f"--{name}" for name in ("device", "batch", "threads", "resume")}
_OF_VALIDATE = {"count": "-n", "seed": "--seed", "calibrate": "--calibrate"}


@click.command("bench")
@file_argument
@click.option(
    "--table",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Time operations; the JSON file to write.",
)
@click.option(
    "--validate",
    "check",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A table to compare with whole networks.",
)
@click.option("--device", type=click.Choice(list(api.BENCHES)), default="cpu", show_default=True)
@click.option("--batch", type=click.IntRange(1, 2**20), default=1, show_default=True, help="Samples in a run.")
@click.option("--threads", type=click.IntRange(1, 2**16), help="Threads that compute [all, or the table's].")
@click.option("--resume", is_flag=True, help="Go on with a table: measure what it lacks.")
@click.option("-n", "count", type=click.IntRange(1), default=20, show_default=True, help="Networks to validate with.")
@seed_option
@click.option("--calibrate", is_flag=True, help="Write the fitted correction into the validated table.")
@net_options
@json_option
@click.pass_context
def bench_command(
    context: click.Context, file: str, output: Path | None, check: Path | None, device: Any, batch: int,
    threads: int | None, resume: bool, count: int, seed: int, calibrate: bool,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Time every operation of FILE on a device, once, so that any architecture's latency can be added up.

    \b
    archir bench --table cpu.json --device cpu --threads 1 space.arch
    archir bench --validate cpu.json space.arch -n 20 --calibrate

    An interrupted run keeps what it measured, and goes on with --resume. --validate measures random architectures on
    the table's device, with its batch size and threads, and says how well its sums predict them.
    """
    if (output is None) == (check is None):
        raise click.UsageError("give one of --table and --validate")
    mode, others = ("--table", _OF_VALIDATE) if check is None else ("--validate", _OF_TABLE)
    for name, option in others.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is no option of {mode}")
    space = space_of(file, parameters, root, limits)
    if output is not None:
        try:
            made = api.bench(space, output, device=device, batch=batch, threads=threads, resume=resume, watch=tracked)
        except KeyboardInterrupt:
            click.echo(f"stopped; {output} holds what was measured: go on with --resume", err=True)
            raise click.Abort from None
        _made(output, made, as_json)
    elif check is not None:
        _validated(check, space, count, seed, calibrate, as_json)


def _made(path: Path, made: LatencyTable, as_json: bool) -> None:
    dearest = sorted(made.entries.items(), key=lambda item: -item[1].median)
    if as_json:
        facts = made.model_dump(include={"device", "batch", "threads", "machine", "overhead"})
        emit({"table": str(path), **facts, "operations": len(dearest)})
        return
    rows = [(key, f"{one.median / 1000:,.1f}", f"{one.spread / 1000:,.1f}") for key, one in dearest[:_SHOWN]]
    table("", ["dearest operations", "us", "spread"], rows, right=(1, 2))
    on = f"{made.device}, {made.threads} thread{'s' * (made.threads > 1)}, batch {made.batch}"
    click.echo(f"{path}: {len(dearest):,} operations on {on}; a call costs {made.overhead.median / 1000:.1f} us")
    noisy = sum(entry.spread > _NOISY * (entry.median + made.overhead.median) for entry in made.entries.values())
    if noisy:
        click.echo(f"{noisy:,} of them spread by more than {_NOISY:.0%}: is the machine busy?", err=True)


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
        click.echo(f"wrote {path}: latency is {line.scale:.3f} x sum {line.offset / 1000:+,.1f} us")


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
