"""Compare published figures with computed ones: the tables in the examples' READMEs.

python examples/published.py [FOLDER ...] [--check]

Each folder has a `published.toml` with one `[[row]]` per model: `net` (a file of the folder, or one of its nets,
`file.arch:net`), `parameters` and `architecture` if it needs them, and the paper's figures: `params`, and `macs` or
`flops` (two per multiply-accumulate). A computed figure must round to the published one, or lie within the row's
`tolerance`. Figures that differ are declared in `reproduced`, and `note` says what was tried.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import archir
from archir.spaces.architecture import read_architecture

EXAMPLES = Path(__file__).resolve().parent
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9}
BEGIN, END = "<!-- published figures -->", "<!-- end -->"


@dataclass(frozen=True)
class Figure:
    """A published figure, the figure that archir computes, and the tolerance between them."""

    printed: str
    computed: int
    tolerance: float | None
    expected: bool

    @property
    def ok(self) -> bool:
        """True if the computed figure reproduces the published one."""
        if self.tolerance is not None:
            return abs(self.computed / self._value - 1) <= self.tolerance
        return self.rounded == self.printed

    @property
    def rounded(self) -> str:
        """The computed figure in the unit and with the digits of the published one."""
        number, unit = self._parts
        digits = len(number.partition(".")[2])
        if "," in number or not unit:
            return f"{self.computed:,}" if "," in number else str(self.computed)
        return f"{self.computed / UNITS[unit]:.{digits}f} {unit}"

    @property
    def _parts(self) -> tuple[str, str]:
        number, _, unit = self.printed.partition(" ")
        return number, unit

    @property
    def _value(self) -> float:
        number, unit = self._parts
        return float(number.replace(",", "")) * UNITS[unit]

    def __str__(self) -> str:
        """Return the computed figure for a table, with its deviation if it does not round to the published one."""
        if self.rounded == self.printed:
            return f"{self.computed:,}"
        return f"{self.computed:,} ({100 * (self.computed / self._value - 1):+.1f}%)"


@dataclass(frozen=True)
class Row:
    """A model of a paper's table."""

    model: str
    source: str
    figures: dict[str, Figure]
    note: str


@cache
def rows(folder: Path) -> tuple[Row, ...]:
    """Return the rows of a folder with their computed figures."""
    table_rows = []
    for row in tomllib.loads((folder / "published.toml").read_text("utf-8"))["row"]:
        total = archir.cost(_network(folder, row))
        computed = {"params": total.params, "macs": total.macs, "flops": 2 * total.macs}
        figures = {}
        for name, value in computed.items():
            if name in row:
                tolerance = row.get("tolerance", {}).get(name)
                expected = row.get("reproduced", {}).get(name, True)
                figures[name] = Figure(str(row[name]), value, tolerance, expected)
        table_rows.append(Row(row["model"], row.get("source", ""), figures, row.get("note", "")))
    return tuple(table_rows)


def _network(folder: Path, row: dict[str, Any]) -> archir.Graph:
    parameters = row.get("parameters", {})
    if "architecture" not in row:
        space = archir.load(f"{folder}/{row['net']}", **parameters)
        return space.specialize(space.architecture({}))
    architecture = read_architecture((folder / row["architecture"]).read_text("utf-8"), row["architecture"])
    space = archir.load(f"{folder}/{row['net']}", **{**architecture.parameters, **parameters})
    return space.specialize(space.architecture(architecture.choices))


def table(folder: Path) -> str:
    """Return the table of a folder, in Markdown."""
    table_rows = rows(folder)
    kinds = [kind for kind in ("params", "macs", "flops") if any(kind in row.figures for row in table_rows)]
    titles = {"params": "parameters", "macs": "multiply-accumulates", "flops": "FLOPs (2 per multiply-accumulate)"}
    heads = [
        "model",
        "where",
        *(f"{titles[kind]}, {who}" for kind in kinds for who in ("published", "computed")),
        "note",
    ]
    lines = [heads, ["---"] * len(heads)]
    for row in table_rows:
        cells = [row.model, row.source]
        for kind in kinds:
            figure = row.figures.get(kind)
            cells += (
                [figure.printed, str(figure) + ("" if figure.ok else " **not reproduced**")] if figure else ["", ""]
            )
        lines.append([*cells, row.note])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def updated(folder: Path) -> str:
    """Return the folder's README with its table up to date."""
    text = (folder / "README.md").read_text("utf-8")
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table(folder)}\n{END}", text)


def folders() -> list[Path]:
    """Return the folders of examples that have published figures."""
    return sorted(path.parent for path in EXAMPLES.glob("*/published.toml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a README is out of date")
    arguments = parser.parse_args()
    stale = [
        folder for folder in arguments.folders or folders() if updated(folder) != (folder / "README.md").read_text()
    ]
    for folder in stale:
        if not arguments.check:
            (folder / "README.md").write_text(updated(folder), "utf-8")
        print(f"{folder.name}/README.md {'is not up to date' if arguments.check else 'updated'}")
    raise SystemExit(1 if stale and arguments.check else 0)


if __name__ == "__main__":
    main()
