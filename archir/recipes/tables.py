"""The table that a recipe names: where it is in a run, and what it says of a space.

Tables are copied when a run begins, so that it stays whole whatever becomes of where they came from.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from archir.diagnostics.errors import fail
from archir.recipes.recipe import Evaluate
from archir.runs import Run
from archir.spaces.space import Space
from archir.tabular.table import Results, results

FOLDER = "tables"


def files(table: Evaluate, folder: Path) -> dict[str, Path]:
    """The files of a table and of what says what it is, by their names in a run; relative paths begin in a folder."""
    return {_name(one): folder / one for one in (table.table, _map(table))}


def of_files(table: Evaluate, folder: Path, space: Space) -> Results:
    """What a table says of a space. Raises ArchError (A2251, A2252, A11xx)."""
    if not (folder / table.table).is_file():
        raise fail("A2251", f"there is no file {folder / table.table}")
    return results(folder / table.table, folder / _map(table), space, table.measures)


def of_run(run: Run, table: Evaluate, space: Space) -> Results:
    """The same, of the copy in a run."""
    return results(run.folder / _name(table.table), run.folder / _name(_map(table)), space, table.measures)


def _map(table: Evaluate) -> str:
    return table.map or str(Path(table.table).with_suffix(".toml"))


def _name(path: str) -> str:
    return f"{FOLDER}/{quote(path, safe='')}"
