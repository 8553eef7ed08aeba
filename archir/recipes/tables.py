"""Benchmark tables of recipes: copies them into a run and reads them.

Tables are copied when a run starts, so that the run stays complete if the original is changed or deleted.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from archir.diagnostics.errors import fail
from archir.recipes.recipe import Evaluate
from archir.runs import Run
from archir.spaces.space import Space
from archir.tabular.results import Results, read_results

FOLDER = "tables"
"""Folder for tables in a run."""


def table_files(table: Evaluate, folder: Path) -> dict[str, Path]:
    """Return the paths of a table and of its column map, by their names in a run; relative paths start in `folder`."""
    return {_name_in_run(path): folder / path for path in (table.table, _map_path(table))}


def results_from_files(table: Evaluate, folder: Path, space: Space) -> Results:
    """Read the results for a space's architectures from a table. Raises ArchError (A2251, A2252, A11xx)."""
    if not (folder / table.table).is_file():
        raise fail("A2251", f"there is no file {folder / table.table}")
    return read_results(folder / table.table, folder / _map_path(table), space, table.measures)


def results_from_run(run: Run, table: Evaluate, space: Space) -> Results:
    """Read the results for a space's architectures from a run's copy of a table. Raises ArchError (A2251, A2252,
    A11xx)."""
    return read_results(
        run.folder / _name_in_run(table.table), run.folder / _name_in_run(_map_path(table)), space, table.measures
    )


def _map_path(table: Evaluate) -> str:
    """Return the path of a table's column map: `map`, or the table's path with the suffix `.toml`."""
    return table.map or str(Path(table.table).with_suffix(".toml"))


def _name_in_run(path: str) -> str:
    """Return the name that a table or column map has in a run."""
    return f"{FOLDER}/{quote(path, safe='')}"
