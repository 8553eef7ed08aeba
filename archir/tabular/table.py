"""A space scored from a table of results: a row for each architecture that somebody trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed, suggest
from archir.diagnostics.visible import one_line
from archir.diagrams.cases import Choice, Label
from archir.search.candidate import Candidate, Scores
from archir.spaces.architecture import Architecture
from archir.spaces.rows import Codes, Rows
from archir.spaces.space import Space
from archir.tabular import columns, mapping
from archir.tabular.columns import Columns
from archir.tabular.mapping import Measure
from archir.utils.globs import captured, filled, matches
from archir.utils.toml import Document

UNKNOWN = -2
"""The outcome of a cell that no alternative is called."""
_SLACK = 1e-9
"""By how much a budget may be rounded down."""


@dataclass(frozen=True)
class Results:
    """What a table says of a space's architectures. Rows of one architecture are averaged."""

    file: str
    directions: Mapping[str, bool]
    """Measures, and whether more of each is better."""
    rows: Mapping[tuple[int, ...], int]
    """Of the values, by the codes of architectures."""
    values: Mapping[str, Sequence[tuple[float, NDArray[np.float64]]]]
    """Of each measure for parts of the full budget, the least first."""

    def __repr__(self) -> str:
        return one_line(f"<Results of {self.file}: {len(self):,} architectures, {', '.join(self.directions)}>")

    @property
    def criterion(self) -> str:
        """The first measure: what architectures are compared by where nobody says otherwise."""
        return next(iter(self.directions))

    @property
    def larger(self) -> bool:
        """Whether more of the criterion is better."""
        return self.directions[self.criterion]

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, architecture: Architecture) -> bool:
        return architecture.codes in self.rows

    def __call__(self, architecture: Architecture, budget: float = 1.0) -> dict[str, float]:
        """The measures of an architecture after a part of the full budget: of the longest training that is no longer,
        or else the shortest one. Raises ArchError (A2250) for what the table does not have."""
        row = self.rows.get(architecture.codes)
        if row is None:
            hint = f"it has {len(self):,} of this space's architectures"
            raise fail("A2250", f"{self.file} has no row for this architecture", None, hint)
        found = {}
        for name, trainings in self.values.items():
            fitting = [values for part, values in trainings if part <= budget + _SLACK]
            value = float((fitting[-1] if fitting else trainings[0][1])[row])
            if not np.isfinite(value):
                raise fail("A2250", f"{self.file} has no `{name}` for this architecture", None, _FEWER)
            found[name] = value
        return found

    def scored(self, batch: Sequence[Candidate]) -> list[tuple[Candidate, Scores | None]]:
        """Candidates and their scores, as `tell` takes them: none for what the table does not have."""
        return [(one, self._known(one)) for one in batch]

    def _known(self, candidate: Candidate) -> Scores | None:
        try:
            return self(candidate.architecture, candidate.budget)
        except ArchError:
            return None


_FEWER = "`measures` names those that are wanted"


def results(file: Path, about: Path | None, space: Space, measures: Sequence[str] = ()) -> Results:
    """The results of a file, as the mapping `about` says, which is by default beside it, and called `.toml`.

    Of several `measures`, those that are named, in this order. Raises ArchError: A2251 (the mapping does not fit),
    A2252 (no row is of this space), A1101, A1102, A1112 (the file cannot be read).
    """
    table, said, document = _opened(file, about or file.with_suffix(".toml"))
    problems: list[Diagnostic] = []
    wanted = _wanted(said.measures, measures)
    with document.blamed("choices"):
        codes = _Cells(table, document, space, problems).codes(said)
    values = {}
    for name, measure in wanted.items():
        with _collecting(problems, document, "measures", name):
            values[name] = [(part, _mean(table.several(one)) * measure.scale) for part, one in measure.budgets]
    if problems:
        raise ArchError(*problems)
    rows, groups = _unique(codes)
    if not rows:
        text = f"none of the {table.rows:,} rows of {table.file} is an architecture of `{space.name}`"
        raise fail("A2252", text, None, _odd(space, codes))
    averaged = {
        name: [(part, _grouped(each, groups, len(rows))) for part, each in trainings]
        for name, trainings in values.items()
    }
    return Results(table.file, {name: one.best == "max" for name, one in wanted.items()}, rows, averaged)


def rows_of(file: Path, about: Path, space: Space) -> Codes:
    """The architecture of each row of a file, as codes; `UNKNOWN` stands for what the space does not have. Raises
    ArchError (A2251, A11xx)."""
    table, said, document = _opened(file, about)
    problems: list[Diagnostic] = []
    codes = _Cells(table, document, space, problems).codes(said)
    if problems:
        raise ArchError(*problems)
    return codes


def _opened(file: Path, about: Path) -> tuple[Columns, mapping.Mapping, Document]:
    """The rows of a file that are meant, and what its columns are."""
    said, document = mapping.read(about)
    table = columns.read(file)
    for name, cell in said.rows.items():
        with document.blamed("rows", name):
            table = table.where(name, cell)
    return table, said, document


def _wanted(known: Mapping[str, Measure], names: Sequence[str]) -> Mapping[str, Measure]:
    for name in names:
        if name not in known:
            hint = suggest(name, known) or f"there are {listed(list(known))}"
            raise fail("A2251", f"the mapping has no measure `{name}`", None, hint)
    return {name: known[name] for name in names} or known


@contextmanager
def _collecting(problems: list[Diagnostic], document: Document, *path: str) -> Iterator[None]:
    """Keep what is wrong with one key, and go on."""
    try:
        with document.blamed(*path):
            yield
    except ArchError as error:
        problems.extend(error.diagnostics)


class _Cells:
    """The cells of choices, as outcomes. What does not fit is in `problems`."""

    def __init__(self, table: Columns, document: Document, space: Space, problems: list[Diagnostic]) -> None:
        self.table, self.document, self.space, self.problems = table, document, space, problems

    def codes(self, said: mapping.Mapping) -> Codes:
        """A row for each of the table's: outcomes, -1 for choices that are not active, -2 for what is none."""
        order, rows = self.space.order, self.table.rows
        columns, labels = dict(self._columns(said.choices)), dict(self._labels(said.labels))
        missing = [choice.path for choice in self.space.choices if choice.path not in columns and choice.outcomes > 1]
        if missing and not self.problems:
            hint = f'a line says which: "{missing[0]}" = "COLUMN"'
            self.problems.append(Diagnostic("A2251", f"choices have no column: {listed(missing)}", None, hint))
        codes = np.full((rows, len(order)), -1, np.int16)
        everything, looking = np.arange(rows), Rows(order)
        for position, decision in enumerate(order):
            path = decision.choice.path
            own = np.zeros(rows, np.int16)
            if path in columns:
                own = _outcomes(decision.choice, columns[path], labels.get(path))
            active = looking.values(decision.active, codes, everything).astype(bool)
            codes[:, position] = np.where(active, own, -1)
        return codes

    def _columns(self, said: Mapping[str, str]) -> Iterator[tuple[str, NDArray[Any]]]:
        """The column of each choice."""
        for pattern, column in said.items():
            with _collecting(self.problems, self.document, "choices", pattern):
                for path in self._matching(pattern):
                    if "*" in column and column.count("*") != pattern.count("*"):
                        raise fail("A2251", f"`{pattern}` and `{column}` have not as many stars")
                    name = filled(column, captured(pattern, path) or ()) if "*" in column else column
                    yield path, self.table.one(name)

    def _labels(self, said: Mapping[str, Sequence[Label]]) -> Iterator[tuple[str, Sequence[Label]]]:
        for pattern, labels in said.items():
            with _collecting(self.problems, self.document, "labels", pattern):
                for path in self._matching(pattern):
                    yield path, labels

    def _matching(self, pattern: str) -> list[str]:
        """The choices of a pattern. Raises ArchError (A2251) if there is none."""
        known = [choice.path for choice in self.space.choices]
        found = [path for path in known if matches(pattern, path)]
        if not found:
            raise fail("A2251", f"`{self.space.name}` has no choice `{pattern}`", None, suggest(pattern, known))
        return found


def _outcomes(choice: Choice, cells: NDArray[Any], labels: Sequence[Label] | None) -> NDArray[np.int16]:
    """The outcomes that the cells of a column stand for."""
    different, places = np.unique(cells, return_inverse=True)
    found = [_outcome(choice, cell, labels) for cell in different.tolist()]
    return np.array(found, np.int16)[places]


def _outcome(choice: Choice, cell: Any, labels: Sequence[Label] | None) -> int:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if labels is not None:
        if not isinstance(cell, int) or not 0 <= cell < len(labels):
            return UNKNOWN
        cell = labels[cell]
    several = choice.take is not None and isinstance(cell, str)
    outcome = choice.outcome([one.strip() for one in cell.split(",")] if several else _text(cell, choice))
    return UNKNOWN if outcome is None else outcome


def _text(cell: Any, choice: Choice) -> Any:
    """A cell as labels are written: truths as this choice has them."""
    names = {str(one).lower(): one for one in choice.alternatives}
    return names.get(str(cell).lower(), cell)


def _unique(codes: Codes) -> tuple[dict[tuple[int, ...], int], NDArray[np.int64]]:
    """Architectures and their numbers; for each row of the table the number of its, -1 for none."""
    rows: dict[tuple[int, ...], int] = {}
    inside = (codes != UNKNOWN).all(1)
    groups = [
        rows.setdefault(tuple(row), len(rows)) if fits else -1
        for row, fits in zip(codes.tolist(), inside.tolist(), strict=True)
    ]
    return rows, np.array(groups, np.int64)


def _grouped(values: NDArray[np.float64], groups: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """The means of those rows of each architecture that have a value."""
    known = (groups >= 0) & np.isfinite(values)
    sums = np.bincount(groups[known], values[known], count)
    numbers = np.bincount(groups[known], minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / numbers, np.float64)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each row, without those that are missing [n, k] -> [n]."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(1) / known.sum(1), np.float64)


def _odd(space: Space, codes: Codes) -> str:
    """A choice that most rows have no label of."""
    worst = int((codes == UNKNOWN).sum(0).argmax())
    choice = space.choices[worst]
    return f"cells of `{choice.path}` are none of {listed([str(one) for one in choice.alternatives])}"
