"""Data frames of what consists of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from archir.base.errors import fail

if TYPE_CHECKING:
    from archir.base.names.above import Framed


def to_frame(self: Framed) -> Any:
    """The rows as a data frame of pandas; where pandas is not there, as a table of pyarrow.

    Columns have types: whole numbers, numbers and texts, each of which may be missing. Raises ArchError (A2602) where
    neither is there.
    """
    columns = {name: _typed(values) for name, values in self.columns().items()}
    try:
        import pandas
    except ImportError:
        return _table(columns)
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=_IN_PANDAS[kind]) for name, (kind, values) in columns.items()}
    )


def _table(columns: Mapping[str, tuple[type, Sequence[Any]]]) -> Any:
    try:
        import pyarrow
    except ImportError:
        hint = "pip install pandas, or: pip install pyarrow"
        raise fail("A2602", "data frames need pandas or pyarrow, and neither is there", None, hint) from None
    return pyarrow.table(
        {name: pyarrow.array(values, type=_IN_ARROW[kind]) for name, (kind, values) in columns.items()}
    )


_IN_PANDAS = {float: "float64", int: "Int64", bool: "boolean", str: "string"}
_IN_ARROW = {float: "double", int: "int64", bool: "bool", str: "string"}


def _typed(values: Sequence[Any]) -> tuple[type, list[Any]]:
    """The type of a column, and its values as such: of numbers and texts together, texts."""
    plain = [float(one) if isinstance(one, Fraction) else one for one in values]
    kinds = {type(one) for one in plain if one is not None}
    kind = next((kind for kind in _IN_PANDAS if kinds <= {kind}), float if kinds == {int, float} else str)
    if kind is int and any(abs(one) >= 2**63 for one in plain if one is not None):
        kind = float
    return kind, [None if one is None else _text(one) if kind is str else kind(one) for one in plain]


def _text(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
