"""Write the table of the published spaces in docs/zoo.md, with sizes, costs and lengths of their programs.

python docs/zoo.py [--measure] [NAME ...]

The table comes from zoo.json, zoo.toml, and the first lines of the spaces' files. `--measure` first writes zoo.json:
the number of architectures that satisfy each space's requirements, and bounds of their costs, for all spaces or those
of the given names. That takes minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

import archir
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import work_budget
from archir.language.elaboration.context import Limits

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
FIGURES, PAGE = DOCS / "zoo.json", DOCS / "zoo.md"
LIMITS = Limits(nodes=10**6, work=3 * 10**7)
"""Limits of nodes and of work while a space is measured."""
MIN_ROUNDED = 10**13
"""Sizes from here on are written as powers of ten."""
COSTS = {"params": "parameters", "macs": "multiply-accumulates"}
HEADS = [
    "space", "paper", "published size", "size in archir", *COSTS.values(), "published costs of its networks", "lines",
    "lines of Python",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of the table: a space, its file below `examples`, and the texts about it."""

    file: str
    name: str
    paper: str
    published: str
    lines: str
    code: str
    costs: str
    parameters: dict[str, Any]

    @property
    def key(self) -> str:
        """The space's key in zoo.json."""
        return Path(self.file.partition(":")[0]).stem

    @property
    def path(self) -> Path:
        """The space's file."""
        return EXAMPLES / self.file.partition(":")[0]


def rows() -> list[Row]:
    """Return all spaces: those with folders of their own, then those of the zoo."""
    texts = tomllib.loads((DOCS / "zoo.toml").read_text("utf-8"))
    folders = [
        _row(entry["file"], entry["name"], entry["paper"], entry.get("published", ""), entry)
        for entry in texts["space"]
    ]
    zoo = []
    for path in sorted((EXAMPLES / "zoo").glob("*.arch")):
        name, paper, published = read_head(path.read_text("utf-8"))
        zoo.append(_row(f"zoo/{path.name}", name, paper, published, texts["zoo"].get(path.stem, {})))
    return folders + zoo


def _row(file: str, name: str, paper: str, published: str, texts: dict[str, Any]) -> Row:
    lines = str(texts["lines"]) if "lines" in texts else ""
    return Row(
        file, name, paper, published, lines, texts.get("code", ""), texts.get("costs", ""), texts.get("parameters", {})
    )


def read_head(text: str) -> tuple[str, str, str]:
    """Return the name, the paper and the published size of a space from the first lines of its file."""
    head = " ".join(line.removeprefix("# ") for line in text.partition("\n\n")[0].splitlines())
    name, _, details = head.partition(" (")
    size = re.search(r"Published size: (.*?)\.(?= [A-Z]|$)", head)
    return name, re.split(r"[,;)]", details)[0], size[1] if size else ""


def measure_space(row: Row) -> dict[str, Any]:
    """Return the size of a space and the bounds of its costs; costs that exceed the work limit are left out."""
    space = archir.load(f"{EXAMPLES}/{row.file}", limits=LIMITS, **row.parameters)
    figures: dict[str, Any] = {"size": str(space.satisfying)}
    with work_budget(LIMITS.work):
        for name in COSTS:
            try:
                figures[name] = [extreme.bound for extreme in space.account.extremes(name)]
            except ArchError as error:
                print(row.key, name, error)
    return figures


def table_rows() -> list[list[str]]:
    """Return the cells of the table."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    return [_cells(row, figures.get(row.key, {})) for row in rows()]


def _cells(row: Row, figures: dict[str, Any]) -> list[str]:
    name = f"[{row.name}](../examples/{row.path.relative_to(EXAMPLES).as_posix()})"
    python = f"{row.lines} ({row.code})" if row.lines else "not available"
    size = _size(int(figures["size"])) if figures else ""
    costs = [" to ".join(dict.fromkeys(map(_rounded, figures.get(cost, [])))) for cost in COSTS]
    return [name, row.paper, row.published, size, *costs, row.costs, str(lines_of(row.path)), python]


def lines_of(path: Path) -> int:
    """Return the number of lines that are neither blank nor comments."""
    return sum(1 for line in path.read_text("utf-8").splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _size(size: int) -> str:
    return f"{size:,}" if size < MIN_ROUNDED else f"10^{log10(size):.1f}"


def _rounded(cost: int) -> str:
    cost = int(float(f"{cost:.2e}"))  # so that 999.9 M is 1 G
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "K")):
        if cost >= unit:
            return f"{cost / unit:.3g} {name}"
    return str(cost)


def updated() -> str:
    """Return the text of the page with the table up to date."""
    before, mark, _ = PAGE.read_text("utf-8").partition("<!-- generated -->\n")
    cells = [HEADS, ["---"] * len(HEADS), *table_rows()]
    return f"{before}{mark}\n" + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def main() -> None:
    """Measure spaces if asked to, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure first")
    parser.add_argument("names", nargs="*", metavar="NAME", help="spaces, by the names of their files")
    arguments = parser.parse_args()
    if arguments.measure:
        _measure(arguments.names)
    PAGE.write_text(updated(), "utf-8")


def _measure(names: list[str]) -> None:
    """Measure spaces of some names, or all, and write zoo.json after each."""
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    all_rows = rows()
    for row in all_rows:
        if not names or row.key in names:
            figures[row.key] = measure_space(row)
            print(row.key, figures[row.key], flush=True)
            kept = {key: figures[key] for key in sorted(figures) if key in {row.key for row in all_rows}}
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
