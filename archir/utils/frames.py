"""Results that consist of rows, and their data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from archir.diagnostics.errors import fail


class Framed:
    """Base class of results that consist of rows."""

    __slots__ = ()

    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns of equal length, by name."""
        return {}

    def to_frame(self) -> Any:
        """The rows as a pandas data frame, or as a pyarrow table if pandas is not installed.

        Columns are typed (integer, float, boolean or string) and may have missing values. Raises ArchError (A2602) if
        neither library is installed.
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
