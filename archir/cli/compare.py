"""Command `archir compare`: compare runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from archir.cli.options import force_option, json_option
from archir.cli.output import emit, say, table
from archir.cli.param_types import OutputFile, PathParam
from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest_file
from archir.recipes.comparison import compare_runs, comparison_page
from archir.runs.summaries import located_summaries
from archir.utils.files import write_atomic


@click.command("compare")
@click.argument("folders", type=PathParam(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@force_option
@click.option("-o", "--output", type=OutputFile(), help="Also write the comparison to this HTML file.")
@json_option
def compare_command(folders: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Compare runs of `archir search` and `archir train`: the settings in which they differ, and their results.

    \b
    archir compare runs/a runs/b                    print settings and results
    archir compare runs/s* -o seeds.html            also write a page with their curves

    RUN is a run, or a folder of runs. If only the seed differs, mean and standard deviation of the scores are printed,
    too. Damaged runs are left out.
    """
    for folder in folders:
        if not folder.is_dir():
            raise fail("A1801", f"there is no folder {folder}", None, suggest_file(folder))
    located = located_summaries(*folders)
    runs = [(path, summary) for path, summary in located if summary.problem is None]
    for _, summary in located:
        if summary.problem is not None:
            say(f"{summary.name}: {summary.problem}", err=True)
    if len(runs) < 2:
        raise click.UsageError(f"a comparison needs at least two runs; found {len(runs)}")
    if output is not None:
        write_atomic(output, comparison_page(runs).encode())
    comparison = compare_runs(runs)
    if as_json:
        emit({"runs": [asdict(summary) for _, summary in runs], "differences": comparison.settings})
        return
    table("", comparison.head, comparison.rows, right=range(1, len(comparison.head)))
    if output is not None:
        say(f"wrote {output}")
