"""The table of the published spaces, in docs/zoo.md: what is measured of them, and how long they are.

python docs/zoo.py [--measure] [NAME ...]

The table is made of zoo.json, of zoo.toml, and of the first lines of the files. With `--measure`, zoo.json is written
first: how many architectures each space has that satisfy its requirements, and what none costs less or more than; of
all spaces, or of those of these names. That takes minutes.
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
MOST_DIGITS = 10**13
COSTS = {"params": "parameters", "macs": "multiply-accumulates"}
HEADS = [
    "space", "paper", "published size", "size in archir", *COSTS.values(), "published costs of its networks", "lines",
    "lines of Python",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A space: its file below `examples`, and what is known of it."""

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
        """What it is called in zoo.json."""
        return Path(self.file.partition(":")[0]).stem

    @property
    def path(self) -> Path:
        """Its file."""
        return EXAMPLES / self.file.partition(":")[0]


def rows() -> list[Row]:
    """All spaces: those in folders, then those of the zoo."""
    told = tomllib.loads((DOCS / "zoo.toml").read_text("utf-8"))
    folders = [_row(one["file"], one["name"], one["paper"], one.get("published", ""), one) for one in told["space"]]
    zoo = []
    for path in sorted((EXAMPLES / "zoo").glob("*.arch")):
        name, paper, published = headed(path.read_text("utf-8"))
        zoo.append(_row(f"zoo/{path.name}", name, paper, published, told["zoo"].get(path.stem, {})))
    return folders + zoo


def _row(file: str, name: str, paper: str, published: str, told: dict[str, Any]) -> Row:
    lines = str(told["lines"]) if "lines" in told else ""
    return Row(
        file, name, paper, published, lines, told.get("code", ""), told.get("costs", ""), told.get("parameters", {})
    )


def headed(text: str) -> tuple[str, str, str]:
    """What the first lines of a file say: a name, a paper, and after `Published size:` a sentence."""
    head = " ".join(line.removeprefix("# ") for line in text.partition("\n\n")[0].splitlines())
    name, _, rest = head.partition(" (")
    size = re.search(r"Published size: (.*?)\.(?= [A-Z]|$)", head)
    return name, re.split(r"[,;)]", rest)[0], size[1] if size else ""


def measured(row: Row) -> dict[str, Any]:
    """The size of a space, and what no architecture costs less or more than; left out where it takes too much work."""
    space = archir.load(f"{EXAMPLES}/{row.file}", limits=LIMITS, **row.parameters)
    found: dict[str, Any] = {"size": str(space.satisfying)}
    with work_budget(LIMITS.work):
        for name in COSTS:
            try:
                found[name] = [end.bound for end in space.account.extremes(name)]
            except ArchError as refused:
                print(row.key, name, refused)
    return found


def table_rows() -> list[list[str]]:
    """The cells of the table."""
    known = json.loads(FIGURES.read_text("utf-8"))
    return [_cells(row, known.get(row.key, {})) for row in rows()]


def _cells(row: Row, found: dict[str, Any]) -> list[str]:
    name = f"[{row.name}](../examples/{row.path.relative_to(EXAMPLES).as_posix()})"
    python = f"{row.lines} ({row.code})" if row.lines else "not available"
    size = _size(int(found["size"])) if found else ""
    costs = [" to ".join(dict.fromkeys(map(_rounded, found.get(cost, [])))) for cost in COSTS]
    return [name, row.paper, row.published, size, *costs, row.costs, str(lines_of(row.path)), python]


def lines_of(path: Path) -> int:
    """Lines that are neither blank nor comments."""
    return sum(1 for line in path.read_text("utf-8").splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _size(size: int) -> str:
    return f"{size:,}" if size < MOST_DIGITS else f"10^{log10(size):.1f}"


def _rounded(cost: int) -> str:
    cost = int(float(f"{cost:.2e}"))  # so that 999.9 M is 1 G
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "K")):
        if cost >= unit:
            return f"{cost / unit:.3g} {name}"
    return str(cost)


def updated() -> str:
    """The page with the table as it is now."""
    before, mark, _ = PAGE.read_text("utf-8").partition("<!-- generated -->\n")
    cells = [HEADS, ["---"] * len(HEADS), *table_rows()]
    return f"{before}{mark}\n" + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def main() -> None:
    """Measure what is wanted, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure first")
    parser.add_argument("names", nargs="*", metavar="NAME", help="spaces, by the names of their files")
    given = parser.parse_args()
    if given.measure:
        _measure(given.names)
    PAGE.write_text(updated(), "utf-8")


def _measure(wanted: list[str]) -> None:
    known = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    all_rows = rows()
    for row in all_rows:
        if not wanted or row.key in wanted:
            known[row.key] = measured(row)
            print(row.key, known[row.key], flush=True)
            kept = {key: known[key] for key in sorted(known) if key in {one.key for one in all_rows}}
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
