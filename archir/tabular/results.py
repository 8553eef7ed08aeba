"""Measures of a space's architectures, looked up in a table of published results with a row for each training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.costs.tables import Codes
from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.diagnostics.escaping import escape_to_line
from archir.diagnostics.hints import suggest, suggest_file
from archir.diagrams.diagram import Choice, Label
from archir.search.candidate import Candidate, Scores
from archir.spaces.architecture import Architecture
from archir.spaces.rows import RowSampler
from archir.spaces.space import Space
from archir.tabular import columns, mapping
from archir.tabular.columns import Columns
from archir.tabular.mapping import Measure
from archir.utils.globs import capture_stars, fill_stars, matches
from archir.utils.toml import Document

UNKNOWN = -2
"""Outcome code of a cell that is not the label of any alternative."""
_BUDGET_TOLERANCE = 1e-9
"""Tolerance in the comparison of a budget with a fraction of the longest training."""


@dataclass(frozen=True)
class Results:
    """Measures of a space's architectures from a table; rows of the same architecture are averaged."""

    file: str
    directions: Mapping[str, bool]
    """For each measure by name, whether greater values are better."""
    rows: Mapping[tuple[int, ...], int]
    """Index of each architecture in the arrays of `values`, by its codes."""
    values: Mapping[str, Sequence[tuple[float, NDArray[np.float64]]]]
    """For each measure, pairs of a fraction of the full budget, in ascending order, and the values [architectures]."""
    row_count: int
    """Number of rows that the mapping selects."""
    outside_count: int
    """Number of these rows that are not architectures of the space, and are left out."""

    def __repr__(self) -> str:
        outside = f"; {self.outside}" if self.outside_count else ""
        measures = ", ".join(self.directions)
        return escape_to_line(f"<Results of {self.file}: {len(self):,} architectures, {measures}{outside}>")

    @property
    def outside(self) -> str:
        """Text that says how many rows are left out."""
        return f"{self.outside_count:,} of {self.row_count:,} rows are not architectures of the space"

    @property
    def criterion(self) -> str:
        """Name of the first measure, by which architectures are compared by default."""
        return next(iter(self.directions))

    @property
    def larger(self) -> bool:
        """Whether greater values of the criterion are better."""
        return self.directions[self.criterion]

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, architecture: Architecture) -> bool:
        return architecture.codes in self.rows

    def __call__(self, architecture: Architecture, budget: float = 1.0) -> dict[str, float]:
        """Return the measures of an architecture, by name, after a fraction of the full training budget.

        For each measure, the longest training within the budget is used, or the shortest one if all are longer. Raises
        ArchError (A2250) if the table lacks the architecture or a measure of it.
        """
        row = self.rows.get(architecture.codes)
        if row is None:
            hint = f"the table has {len(self):,} of this space's architectures"
            hint += f"; {self.outside}" if self.outside_count else ""
            raise fail("A2250", f"{self.file} has no row for this architecture", None, hint)
        scores = {}
        for name, trainings in self.values.items():
            affordable = [values for part, values in trainings if part <= budget + _BUDGET_TOLERANCE]
            value = float((affordable[-1] if affordable else trainings[0][1])[row])
            if not np.isfinite(value):
                raise fail("A2250", f"{self.file} has no `{name}` for this architecture", None, _MEASURES_HINT)
            scores[name] = value
        return scores

    def scored(self, batch: Sequence[Candidate]) -> list[tuple[Candidate, Scores | None]]:
        """Return pairs of a candidate and its scores, as a strategy's `tell` takes them.

        The scores are None if the table lacks the candidate.
        """
        return [(candidate, self._scores(candidate)) for candidate in batch]

    def _scores(self, candidate: Candidate) -> Scores | None:
        try:
            return self(candidate.architecture, candidate.budget)
        except ArchError:
            return None


_MEASURES_HINT = "read only the measures that all rows have: list their names in `measures`"


def read_results(file: Path, mapping_file: Path | None, space: Space, measures: Sequence[str] = ()) -> Results:
    """Read a results file for a space.

    `mapping_file` says what the columns mean; by default, it is the file beside `file` with the suffix `.toml`. With
    `measures`, only these are read, in this order. Raises ArchError: A2251 (no such file, or the mapping does not fit),
    A2252 (no row is an architecture of this space), A1101, A1102, A1112 (the file cannot be read).
    """
    table, columns_map, document = _read_selected(file, mapping_file or file.with_suffix(".toml"))
    problems: list[Diagnostic] = []
    selected = _select_measures(columns_map.measures, measures)
    with document.with_span("choices"):
        codes = _CellDecoder(table, document, space, problems).codes(columns_map)
    values = {}
    for name, measure in selected.items():
        with _collect_errors(problems, document, "measures", name):
            values[name] = [
                (part, _row_means(table.number_columns(column)) * measure.scale) for part, column in measure.budgets
            ]
    if problems:
        raise ArchError(*problems)
    is_inside = (codes != UNKNOWN).all(1) & _satisfies_constraints(space, codes)
    rows, groups = _index_architectures(codes, is_inside)
    if not rows:
        text = f"none of the {table.row_count:,} rows of {table.file} is an architecture of `{space.name}`"
        raise fail("A2252", text, None, _outside_hint(space, codes))
    averaged = {
        name: [(part, _architecture_means(each, groups, len(rows))) for part, each in trainings]
        for name, trainings in values.items()
    }
    directions = {name: entry.best == "max" for name, entry in selected.items()}
    return Results(table.file, directions, rows, averaged, len(groups), int((groups < 0).sum()))


def read_codes(file: Path, mapping_file: Path, space: Space) -> Codes:
    """Return the architecture in each row of a results file as codes, shape [rows, choices].

    `UNKNOWN` marks cells that are not the label of any alternative in the space. Raises ArchError (A2251, A11xx).
    """
    table, columns_map, document = _read_selected(file, mapping_file)
    problems: list[Diagnostic] = []
    codes = _CellDecoder(table, document, space, problems).codes(columns_map)
    if problems:
        raise ArchError(*problems)
    return codes


def _read_selected(file: Path, mapping_file: Path) -> tuple[Columns, mapping.TableMapping, Document]:
    """Return the rows of a file that the mapping selects, the mapping, and the mapping's TOML document."""
    if not file.is_file():
        raise fail("A2251", f"there is no file {file}", None, suggest_file(file))
    columns_map, document = mapping.read_mapping(mapping_file)
    table = columns.read_columns(file)
    for name, cell in columns_map.rows.items():
        with document.with_span("rows", name):
            table = table.select_rows(name, cell)
    return table, columns_map, document


def _select_measures(measures: Mapping[str, Measure], names: Sequence[str]) -> Mapping[str, Measure]:
    """Return the measures with these names, or all if `names` is empty.

    Raises ArchError (A2251) for an unknown name.
    """
    for name in names:
        if name not in measures:
            hint = suggest(name, measures) or f"there are {join_names(list(measures))}"
            raise fail("A2251", f"the mapping has no measure `{name}`", None, hint)
    return {name: measures[name] for name in names} or measures


@contextmanager
def _collect_errors(problems: list[Diagnostic], document: Document, *path: str) -> Iterator[None]:
    """Append ArchErrors about one key of the mapping to `problems` instead of raising them."""
    try:
        with document.with_span(*path):
            yield
    except ArchError as error:
        problems.extend(error.diagnostics)


class _CellDecoder:
    """Decoder that converts the table's cells to outcomes of choices; it appends errors to `problems`."""

    def __init__(self, table: Columns, document: Document, space: Space, problems: list[Diagnostic]) -> None:
        self.table, self.document, self.space, self.problems = table, document, space, problems

    def codes(self, columns_map: mapping.TableMapping) -> Codes:
        """Return the outcomes in each row: -1 for inactive choices, `UNKNOWN` for cells that are not an alternative's
        label."""
        order, rows = self.space.order, self.table.row_count
        columns, labels = dict(self._columns(columns_map.choices)), dict(self._labels(columns_map.labels))
        unmapped = [
            choice.path for choice in self.space.choices if choice.path not in columns and choice.outcome_count > 1
        ]
        if unmapped and not self.problems:
            hint = f'add a line to `[choices]` of the mapping: "{unmapped[0]}" = "COLUMN"'
            self.problems.append(Diagnostic("A2251", f"choices have no column: {join_names(unmapped)}", None, hint))
        codes = np.full((rows, len(order)), -1, np.int16)
        all_rows, activity = np.arange(rows), RowSampler(order)
        for position, decision in enumerate(order):
            path = decision.choice.path
            outcomes = np.zeros(rows, np.int16)
            if path in columns:
                outcomes = _decode_column(decision.choice, columns[path], labels.get(path))
            active = activity.evaluate(decision.active, codes, all_rows).astype(bool)
            codes[:, position] = np.where(active, outcomes, -1)
        return codes

    def _columns(self, choice_columns: Mapping[str, str]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the path of each mapped choice with its column."""
        for pattern, column in choice_columns.items():
            with _collect_errors(self.problems, self.document, "choices", pattern):
                for path in self._matching(pattern):
                    if "*" in column and column.count("*") != pattern.count("*"):
                        raise fail("A2251", f"`{pattern}` and `{column}` must have equally many stars")
                    name = fill_stars(column, capture_stars(pattern, path) or ()) if "*" in column else column
                    yield path, self.table.column(name)

    def _labels(self, labels_by_pattern: Mapping[str, Sequence[Label]]) -> Iterator[tuple[str, Sequence[Label]]]:
        """Yield the path of each choice whose cells are integers, with the labels that these stand for."""
        for pattern, labels in labels_by_pattern.items():
            with _collect_errors(self.problems, self.document, "labels", pattern):
                for path in self._matching(pattern):
                    yield path, labels

    def _matching(self, pattern: str) -> list[str]:
        all_paths = [choice.path for choice in self.space.choices]
        matching = [path for path in all_paths if matches(pattern, path)]
        if not matching:
            raise fail("A2251", f"`{self.space.name}` has no choice `{pattern}`", None, suggest(pattern, all_paths))
        return matching


def _decode_column(choice: Choice, cells: NDArray[Any], labels: Sequence[Label] | None) -> NDArray[np.int16]:
    """Return the outcomes that the cells of a choice's column stand for."""
    distinct, inverse = np.unique(cells, return_inverse=True)
    outcomes = [_decode_cell(choice, cell, labels) for cell in distinct.tolist()]
    return np.array(outcomes, np.int16)[inverse]


def _decode_cell(choice: Choice, cell: Any, labels: Sequence[Label] | None) -> int:
    """Return the outcome that a cell stands for; `UNKNOWN` if it is not an alternative's label."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if labels is not None:
        if not isinstance(cell, int) or not 0 <= cell < len(labels):
            return UNKNOWN
        cell = labels[cell]
    is_subset = choice.k is not None and isinstance(cell, str)
    outcome = choice.outcome([label.strip() for label in cell.split(",")] if is_subset else _match_label(cell, choice))
    return UNKNOWN if outcome is None else outcome


def _match_label(cell: Any, choice: Choice) -> Any:
    """Return the alternative whose text equals a cell, ignoring case (a cell `TRUE` is the alternative `true`).

    If there is none, returns the cell itself.
    """
    alternatives = {str(alternative).lower(): alternative for alternative in choice.alternatives}
    return alternatives.get(str(cell).lower(), cell)


def _satisfies_constraints(space: Space, codes: Codes) -> NDArray[np.bool_]:
    """Return a mask of the rows that satisfy all constraints on choices; rows with an `UNKNOWN` cell may have either
    value."""
    sampler, rows = RowSampler(space.order), np.arange(len(codes))
    conditions = [constraint.condition for constraint in space.graph.constraints if constraint.cost is None]
    masks = [sampler.evaluate(condition, codes, rows).astype(bool) for condition in conditions]
    return np.logical_and.reduce(masks, axis=0) if masks else np.ones(len(codes), bool)


def _index_architectures(
    codes: Codes, is_inside: NDArray[np.bool_]
) -> tuple[dict[tuple[int, ...], int], NDArray[np.int64]]:
    """Return an index for each distinct architecture, and for each row of the table the index of its architecture.

    Rows outside of the space have index -1.
    """
    rows: dict[tuple[int, ...], int] = {}
    groups = [
        rows.setdefault(tuple(row), len(rows)) if inside else -1
        for row, inside in zip(codes.tolist(), is_inside.tolist(), strict=True)
    ]
    return rows, np.array(groups, np.int64)


def _architecture_means(values: NDArray[np.float64], groups: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return the mean value of each architecture over those of its rows that have a value."""
    is_valid = (groups >= 0) & np.isfinite(values)
    sums = np.bincount(groups[is_valid], values[is_valid], count)
    counts = np.bincount(groups[is_valid], minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts, np.float64)


def _row_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each row [n, k] -> [n], ignoring missing values."""
    is_valid = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(is_valid, values, 0.0).sum(1) / is_valid.sum(1), np.float64)


def _outside_hint(space: Space, codes: Codes) -> str:
    """Return a hint that names the choice with the most cells that are not an alternative's label, if there are any."""
    unknown_counts = (codes == UNKNOWN).sum(0)
    if not unknown_counts.any():
        return "the rows break the constraints of the space"
    position = int(unknown_counts.argmax())
    choice = space.choices[position]
    labels = join_names([str(alternative) for alternative in choice.alternatives])
    return f"most cells of `{choice.path}` are not among its labels: {labels}"
