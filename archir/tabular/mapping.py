"""Which columns of a table of results are choices, and which are measures: a small TOML beside the table.

    [choices]
    "cell.edge[*].op" = "op_*"
    depth = "depth"

    [rows]                                            # the table's other rows are left out
    seed = 1

    [labels]                                          # where cells are numbers of alternatives, and no labels
    "*.op" = ["none", "skip", "conv"]

    [measures]
    accuracy = { column = "accuracy_*", scale = 0.01 }
    latency = { column = "latency_ms", best = "min" }
    loss = { best = "min", epochs = { 12 = "loss_12", 200 = "loss_200" } }

A star stands for the same on both sides. `name[2]` is the third column of an array `name` of two dimensions. Of a
measure, a star stands for anything: columns that fit, and those of a whole array, are averaged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from archir.diagnostics.errors import fail
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import Many, Settings, parsed
from archir.utils.toml import Document


class Measure(Settings):
    """The column of a measure, or one for each number of epochs that networks were trained for."""

    column: str | None = None
    epochs: dict[str, str] = Field(default_factory=dict)
    best: Literal["max", "min"] = "max"
    """Whether more of it is better, or less."""
    scale: float = 1.0
    """What its numbers are multiplied by."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Measure:
        if (self.column is None) == (not self.epochs):
            raise ValueError("a measure has either a `column` or `epochs`")
        if any(not name.isdecimal() or int(name) < 1 for name in self.epochs):
            raise ValueError('`epochs` are numbers, each with its column: { 12 = "accuracy_12" }')
        return self

    @property
    def budgets(self) -> list[tuple[float, str]]:
        """Parts of the longest training, the shortest first, and their columns."""
        if self.column is not None:
            return [(1.0, self.column)]
        numbers = sorted((int(name), column) for name, column in self.epochs.items())
        return [(number / numbers[-1][0], column) for number, column in numbers]


class Mapping(Settings):
    """What a table's columns are."""

    choices: dict[str, str]
    """Columns by patterns of choices' paths, the last one that fits a choice being its."""
    measures: dict[str, Measure] = Field(min_length=1)
    labels: dict[str, Annotated[tuple[str | int | bool, ...], Many]] = Field(default_factory=dict)
    """What cells 0, 1, 2... stand for, by patterns of choices' paths."""
    rows: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """What columns have in the rows that are meant; by default all are."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        """A measure that is a column and nothing else is written as its name."""
        measures = given.get("measures") if isinstance(given, dict) else None
        if not isinstance(measures, dict):
            return given
        return {**given, "measures": {k: {"column": v} if isinstance(v, str) else v for k, v in measures.items()}}


def read(path: Path) -> tuple[Mapping, Document]:
    """The mapping of a file, and its text. Raises ArchError (A2251, A1109)."""
    try:
        text = read_bytes(path, toml.MOST_CHARACTERS).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "it says which columns are choices and which are measures (docs/results.md)"
        raise fail("A2251", f"cannot read the mapping {path}: {reason}", None, hint) from None
    document = toml.read(text, str(path), "A2251")
    return parsed(Mapping, document.data, "", document.span), document
