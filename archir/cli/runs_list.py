"""`archir runs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from archir.cli.kinds import Output, Place
from archir.cli.options import force_option, json_option
from archir.cli.output import emit, say, table
from archir.diagnostics.errors import fail
from archir.runs import Summary
from archir.runs.compared import compared, number, score
from archir.runs.report.together import together
from archir.runs.summaries import placed
from archir.utils.files import write_atomic

_USUAL = Path("runs")


SORTS: Mapping[str, Callable[[Summary], Any]] = {
    "name": lambda one: one.name,
    "score": lambda one: (one.score is None, -(one.score or 0.0) if one.larger else one.score),
    "seed": lambda one: (one.seed is None, one.seed),
    "params": lambda one: (one.params is None, one.params),
    "macs": lambda one: (one.macs is None, one.macs),
    "changed": lambda one: one.changed,
}
_COLUMNS = ("run", "recipe", "seed", "phase", "epoch", "score", "params", "MACs", "state", "changed", "set")
_SPARE = ("set", "seed", "recipe", "changed", "MACs", "params")
"""What narrow terminals have no room for; `--json` and `--compare` have it."""
_NUMBERS = {"seed", "epoch", "score", "params", "MACs"}


@click.command("runs")
@click.argument("folders", type=Place(path_type=Path), nargs=-1, metavar="[FOLDER]...")
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="The best, or the least, first."
)
@click.option(
    "--compare", is_flag=True, help="Show the settings in which runs differ, and what they came to; of seeds, the mean."
)
@force_option
@click.option("-o", "--output", type=Output(), help="With --compare: write a page of it, HTML.")
@click.option("--serve", is_flag=True, help="Show them in a browser on this machine, as they go on, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="With --serve; 0: any.")
@json_option
def runs_command(
    folders: tuple[Path, ...], sort: str, compare: bool, output: Path | None, serve: bool, port: int, as_json: bool
) -> None:  # fmt: skip
    """List the runs in each FOLDER: how far each came, what it came to, and whether it is whole.

    Every file of every run is compared with the hash that was written down. FOLDER is `runs` if none is named, and may
    be a run itself. Scores are the last ones on held-out samples, parameters and MACs those of the network that was
    trained last; `set` is what was set instead of what the recipe says. States: running, interrupted (`archir search
    --resume` goes on with it), finished, damaged.
    """
    if output is not None and not compare:
        raise click.UsageError("--output goes with --compare")
    folders = folders or (_USUAL,)
    for folder in folders:
        if not folder.is_dir() and folder != _USUAL:
            raise fail("A1801", f"there is no folder {folder}")
    if serve:
        _serve(folders, port)
        return
    once = {path.resolve(): (path, one) for folder in folders for path, one in placed(folder)}
    found = sorted(once.values(), key=lambda pair: SORTS[sort](pair[1]))
    whole = [(path, one) for path, one in found if one.state != "damaged"]
    if output is not None and len(whole) < 2:
        raise click.UsageError(f"runs side by side are two at least: here {'is one' if whole else 'is none'}")
    if output is not None:
        write_atomic(output, together(whole).encode())
    if compare:
        _compare(whole, as_json)
        if output is not None and not as_json:
            say(f"wrote {output}")
    elif as_json:
        emit([asdict(one) for _, one in found])
    elif not found:
        say(f"no runs of `archir search` in {', '.join(map(str, folders))}", err=True)
    else:
        _list([one for _, one in found])
    for _, one in found:
        if one.problem is not None and not as_json:
            say(f"{one.name}: {one.problem}", err=True)


def _serve(folders: Sequence[Path], port: int) -> None:
    """Answer a browser until somebody stops it."""
    from archir.cli.serving import Server

    try:
        server = Server(port, folders)
    except OSError as error:
        raise click.UsageError(f"port {port} cannot be used: {error.strerror}; name another --port") from None
    with server:
        say(f"runs: {server.address} (Ctrl-C ends this)", err=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _list(found: Sequence[Summary]) -> None:
    """A table, without the columns that no run has anything for."""
    rows = [_cells(one) for one in found]
    kept = [i for i in range(len(_COLUMNS)) if any(row[i] for row in rows)]
    right = [place for place, i in enumerate(kept) if _COLUMNS[i] in _NUMBERS]
    table("", [_COLUMNS[i] for i in kept], ([row[i] for i in kept] for row in rows), right, _SPARE)


def _compare(found: Sequence[tuple[Path, Summary]], as_json: bool) -> None:
    """What runs were told otherwise, and what they came to."""
    said = compared(found)
    if as_json:
        emit({"runs": [asdict(one) for _, one in found], "differences": said.told})
    else:
        table("", said.head, said.rows, right=range(1, len(said.head)))


def _cells(one: Summary) -> list[str]:
    when = datetime.fromisoformat(one.changed).astimezone().strftime("%Y-%m-%d %H:%M") if one.changed else ""
    told = ", ".join(f"{key}={value}" for key, value in one.overrides.items())
    seed, epoch = ("" if number is None else str(number) for number in (one.seed, one.epoch))
    numbers = [epoch, score(one), number(one.params), number(one.macs)]
    return [one.name, one.recipe, seed, one.phase or "", *numbers, one.state, when, told]
