"""Mapping of a results table: which columns are choices, and which are measures.

It is a small TOML file beside the table.

    [choices]
    "cell.edge[*].op" = "op_*"
    depth = "depth"

    [rows]                                            # rows with other values are left out
    seed = 1

    [labels]                                          # if cells are indices of alternatives instead of labels
    "*.op" = ["none", "skip", "conv"]

    [measures]
    accuracy = { column = "accuracy_*", scale = 0.01 }
    latency = { column = "latency_ms", best = "min" }
    loss = { best = "min", epochs = { 12 = "loss_12", 200 = "loss_200" } }

In `[choices]`, a star stands for the same text in the path and in the column name. `name[2]` is the third column of a
two-dimensional array `name`. In `[measures]`, a star matches any text; all matching columns are averaged, and so are
all columns of a two-dimensional array.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from archir.diagnostics.errors import describe_error, fail
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import ListAsTuple, Settings, parse_settings
from archir.utils.toml import Document


class Measure(Settings):
    """Source of a measure: one column, or one column for each number of epochs that the networks were trained for."""

    column: str | None = None
    epochs: dict[str, str] = Field(default_factory=dict)
    best: Literal["max", "min"] = "max"
    """Whether greater (`max`) or smaller (`min`) values are better."""
    scale: float = 1.0
    """Factor by which the numbers in the table are multiplied."""

    @model_validator(mode="after")
    def _check_source(self) -> Measure:
        """Reject a measure with both or neither of `column` and `epochs`, or with numbers of epochs below 1."""
        if (self.column is None) == (not self.epochs):
            raise ValueError("a measure needs either a `column` or `epochs`")
        if any(not name.isdecimal() or int(name) < 1 for name in self.epochs):
            raise ValueError('`epochs` maps numbers of epochs to columns: { 12 = "accuracy_12" }')
        return self

    @property
    def budgets(self) -> list[tuple[float, str]]:
        """Columns of the measure, shortest training first.

        Each column has the fraction of the longest training to which its values belong.
        """
        if self.column is not None:
            return [(1.0, self.column)]
        numbers = sorted((int(name), column) for name, column in self.epochs.items())
        return [(number / numbers[-1][0], column) for number, column in numbers]


class TableMapping(Settings):
    """Mapping of a table: what its columns mean."""

    choices: dict[str, str]
    """Column of each choice: maps patterns of the choices' paths to column names. The last matching pattern applies."""
    measures: dict[str, Measure] = Field(min_length=1)
    labels: dict[str, Annotated[tuple[str | int | bool, ...], ListAsTuple]] = Field(default_factory=dict)
    """Labels that the cells 0, 1, 2, ... stand for, by patterns of the choices' paths."""
    rows: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Rows to read: the values that columns must have. By default, all rows are read."""

    @model_validator(mode="before")
    @classmethod
    def _expand_measures(cls, data: Any) -> Any:
        """Replace a measure that is given as a column name by a table with this `column`."""
        measures = data.get("measures") if isinstance(data, dict) else None
        if not isinstance(measures, dict):
            return data
        return {**data, "measures": {k: {"column": v} if isinstance(v, str) else v for k, v in measures.items()}}


def read_mapping(path: Path) -> tuple[TableMapping, Document]:
    """Read a mapping; return it with its TOML document, which locates errors. Raises ArchError (A2251, A1109)."""
    try:
        text = read_bytes(path, toml.MAX_CHARACTERS).decode()
    except (OSError, ValueError) as error:
        hint = "a mapping says which columns are choices and which are measures (docs/results.md)"
        raise fail("A2251", f"cannot read the mapping {path}: {describe_error(error)}", None, hint) from None
    document = toml.parse_toml(text, str(path), "A2251")
    return parse_settings(TableMapping, document.data, "", document.span), document
