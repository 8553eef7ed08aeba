"""Command `archir runs`: list and serve runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from archir.cli.options import json_option, refuse
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, PathParam
from archir.diagnostics.errors import describe_error, fail
from archir.diagnostics.hints import suggest_file
from archir.runs import Summary
from archir.runs.summaries import located_summaries, short_number

_DEFAULT_FOLDER = Path("runs")
"""Folder whose runs are listed by default."""


SORTS: Mapping[str, Callable[[Summary], Any]] = {
    "name": lambda run: run.name,
    "score": lambda run: (run.score is None, (run.score or 0.0) * (-1 if run.larger else 1)),
    "seed": lambda run: (run.seed is None, run.seed),
    "params": lambda run: (run.params is None, run.params),
    "macs": lambda run: (run.macs is None, run.macs),
    "changed": lambda run: run.changed,
}
"""Sort key of a run by the value of --sort; runs that lack the value come last."""
_COLUMNS = ("run", "recipe", "seed", "phase", "epoch", "score", "params", "MACs", "state", "changed", "set")
_OPTIONAL_COLUMNS = ("set", "seed", "recipe", "changed", "MACs", "params")
"""Columns that are dropped, in this order, if the terminal is too narrow; `--json` keeps them."""
_NUMBERS = {"seed", "epoch", "score", "params", "MACs"}


@click.command("runs")
@click.argument("folders", type=PathParam(path_type=Path), nargs=-1, metavar="[FOLDER]...")
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
    default="name",
    show_default=True,
    help="Sort order: best score first, other keys in ascending order.",
)
@click.option("--serve", is_flag=True, help="Show the runs live in a browser on this machine, until Ctrl-C.")
@click.option(
    "--port",
    type=Integer(0, 65535),
    default=8765,
    show_default=True,
    help="Port of --serve; 0 picks a free one.",
)
@json_option
def runs_command(folders: tuple[Path, ...], sort: str, serve: bool, port: int, as_json: bool) -> None:
    """List the searches and trainings in each FOLDER: progress, results, and whether their files are intact.

    \b
    archir runs --sort score
    archir runs results --serve                 live, in a browser

    Every file of every run is checked against its recorded hash. FOLDER defaults to `runs`, and may itself be a run.
    The score is the latest one on held-out samples; parameters and MACs are those of the network that was trained last;
    `set` lists the settings that override the recipe. States: running, interrupted (continue with `archir search
    --resume` or `archir train --resume`), finished, damaged.
    """
    if not serve:
        refuse({"port"}, "needs --serve")
    folders = folders or (_DEFAULT_FOLDER,)
    for folder in folders:
        if not folder.is_dir() and folder != _DEFAULT_FOLDER:
            raise fail("A1801", f"there is no folder {folder}", None, suggest_file(folder))
    if serve:
        _serve(folders, port)
        return
    runs = sorted((summary for _, summary in located_summaries(*folders)), key=SORTS[sort])
    if as_json:
        emit([asdict(summary) for summary in runs])
    elif not runs:
        say(f"no runs of `archir search` or `archir train` in {', '.join(map(str, folders))}", err=True)
    else:
        _list(runs)
    for summary in runs:
        if summary.problem is not None and not as_json:
            say(f"{summary.name}: {summary.problem}", err=True)


def _serve(folders: Sequence[Path], port: int) -> None:
    """Serve the runs over HTTP until the user presses Ctrl-C."""
    from archir.cli.runs_server import Server

    try:
        server = Server(port, folders)
    except OSError as error:
        raise click.UsageError(f"port {port} cannot be used: {describe_error(error)}; name another --port") from None
    with server:
        say(f"runs: {server.address} (Ctrl-C ends this)", err=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _list(runs: Sequence[Summary]) -> None:
    """Print a table of runs, leaving out columns that are empty for all of them."""
    rows = [_cells(summary) for summary in runs]
    kept = [i for i in range(len(_COLUMNS)) if any(row[i] for row in rows)]
    right = [position for position, i in enumerate(kept) if _COLUMNS[i] in _NUMBERS]
    table("", [_COLUMNS[i] for i in kept], ([row[i] for i in kept] for row in rows), right, _OPTIONAL_COLUMNS)


def _cells(summary: Summary) -> list[str]:
    when = datetime.fromisoformat(summary.changed).astimezone().strftime("%Y-%m-%d %H:%M") if summary.changed else ""
    overrides = ", ".join(f"{key}={value}" for key, value in summary.overrides.items())
    seed, epoch = ("" if number is None else str(number) for number in (summary.seed, summary.epoch))
    numbers = [epoch, summary.score_text, short_number(summary.params), short_number(summary.macs)]
    return [summary.name, summary.recipe, seed, summary.phase or "", *numbers, summary.state, when, overrides]
