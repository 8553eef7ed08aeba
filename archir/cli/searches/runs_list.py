"""`archir runs`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from archir.base.errors import fail
from archir.cli.kinds import Place
from archir.cli.options import json_option
from archir.cli.output import emit, say, table
from archir.search.fronts.figures import shown
from archir.search.runs import Summary, summaries

_USUAL = Path("runs")


@click.command("runs")
@click.argument("folder", type=Place(path_type=Path), default=_USUAL, metavar="[FOLDER]")
@json_option
def runs_command(folder: Path, as_json: bool) -> None:
    """List the runs in FOLDER: how far each came, and whether it is whole.

    Every file of every run is compared with the hash that was written down. FOLDER is `runs` if none is named, and may
    be a run itself. Scores are the last ones on held-out samples. States: running, interrupted (`archir search
    --resume` goes on with it), finished, damaged.
    """
    if not folder.is_dir() and folder != _USUAL:
        raise fail("A1801", f"there is no folder {folder}")
    found = summaries(folder)
    if as_json:
        emit([asdict(one) for one in found])
        return
    if not found:
        say(f"no runs of `archir search` in {folder}", err=True)
        return
    table("", ["run", "recipe", "phase", "epoch", "score", "state", "changed"], map(_cells, found), right=(3, 4))
    for one in found:
        if one.problem is not None:
            say(f"{one.name}: {one.problem}", err=True)


def _cells(one: Summary) -> list[str]:
    score = "" if one.score is None else shown(one.criterion, one.score)
    if score and one.criterion != "accuracy":
        score = f"{one.criterion} {score}"
    epoch = "" if one.epoch is None else str(one.epoch)
    when = datetime.fromisoformat(one.changed).astimezone().strftime("%Y-%m-%d %H:%M") if one.changed else ""
    return [one.name, one.recipe, one.phase or "", epoch, score, one.state, when]
