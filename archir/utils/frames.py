"""Results that consist of rows, and their conversion to data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from archir.diagnostics.errors import fail


class Tabular:
    """Base class of results that consist of rows."""

    __slots__ = ()

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns of equal length, by name."""
        return {}

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame, or as a pyarrow table if pandas is not installed.

        Columns are typed (integer, float, boolean or string) and may have missing values. Raises ArchError (A2602)
        if neither library is installed.
        """
        columns = {name: _typed_column(values) for name, values in self.columns().items()}
        try:
            import pandas
        except ImportError:
            return _arrow_table(columns)
        return pandas.DataFrame(
            {name: pandas.Series(values, dtype=_PANDAS_TYPES[kind]) for name, (kind, values) in columns.items()}
        )


def _arrow_table(columns: Mapping[str, tuple[type, Sequence[Any]]]) -> Any:
    try:
        import pyarrow
    except ImportError:
        hint = "pip install pandas, or: pip install pyarrow"
        raise fail("A2602", "data frames need pandas or pyarrow, and neither is installed", None, hint) from None
    return pyarrow.table(
        {name: pyarrow.array(values, type=_ARROW_TYPES[kind]) for name, (kind, values) in columns.items()}
    )


_PANDAS_TYPES = {float: "float64", int: "Int64", bool: "boolean", str: "string"}
_ARROW_TYPES = {float: "double", int: "int64", bool: "bool", str: "string"}


def _typed_column(values: Sequence[Any]) -> tuple[type, list[Any]]:
    """Return a column's type, and its values converted to that type; a mix of numbers and texts becomes texts."""
    plain = [float(value) if isinstance(value, Fraction) else value for value in values]
    kinds = {type(value) for value in plain if value is not None}
    kind = next((kind for kind in _PANDAS_TYPES if kinds <= {kind}), float if kinds == {int, float} else str)
    if kind is int and any(abs(value) >= 2**63 for value in plain if value is not None):
        kind = float
    return kind, [None if value is None else _text(value) if kind is str else kind(value) for value in plain]


def _text(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
