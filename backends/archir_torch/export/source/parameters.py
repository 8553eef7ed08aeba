"""Parameters of an emitted class: constants in which its calls differ, and expressions derived from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from archir_torch.export.source.holes import Code, literal
from archir_torch.lowering.layers import Argument

MAX_RATIO = 16
"""Maximum numerator and denominator of a ratio for which a multiple is emitted instead of a new parameter."""


class Parameters:
    """Parameters of a class by name, each with its value in every call.

    An integer that in all calls is the same small multiple of another parameter, or of the channels of the block's
    first input, is emitted as that multiple: `4 * channels`, `channels // 8`.
    """

    def __init__(self, channels: Sequence[int | None]) -> None:
        self.values: dict[str, tuple[Any, ...]] = {}
        self._channels = tuple(channels)

    @property
    def names(self) -> list[str]:
        """Names of the parameters, in the order in which they were added."""
        return [*self.values]

    def arguments_of(self, call: int) -> list[Argument]:
        """Return the arguments by which one call constructs the class."""
        return [Argument(name, values[call]) for name, values in self.values.items()]

    def expression(self, column: Sequence[Argument]) -> str:
        """Return the expression for a constant, given its values in all calls.

        The result is a literal if the values agree, "" for a keyword argument that has its default in all calls, and
        otherwise an expression of parameters. A parameter is added if no existing one fits.
        """
        first, values = column[0], tuple(argument.value for argument in column)
        if all(value == values[0] and type(value) is type(values[0]) for value in values):
            return "" if first.keyword and values[0] == first.default else literal(values[0])
        for name, existing in self.values.items():
            if existing == values and not isinstance(first.value, Code):  # each module needs its own instance
                return name
        for name, existing in self.values.items():
            if text := _multiple(values, existing, name):
                return text
        if self._channels != values and (
            text := _multiple(values, self._channels, name := self._free_name("channels"))
        ):
            self.values[name] = self._channels
            return text
        name = self._free_name(first.name)
        self.values[name] = values
        return name

    def _free_name(self, name: str) -> str:
        """Return an unused parameter name."""
        base = re.sub(r"_\d+$", "", name)
        number, result = 2, base
        while result in self.values:
            result, number = f"{base}_{number}", number + 1
        return result


def _multiple(values: Sequence[Any], of: Sequence[Any], name: str) -> str:
    """Return `values` as a multiple of other values: `3 * name`, `name // 4`, `3 * name // 4`.

    Returns "" if `values` is not such a multiple.
    """
    if not all(type(value) is int and value > 0 for value in (*values, *of)):
        return ""
    ratios = {Fraction(value, other) for value, other in zip(values, of, strict=True)}
    if len(ratios) > 1:
        return ""
    (ratio,) = ratios
    if max(ratio.numerator, ratio.denominator) > MAX_RATIO:
        return ""
    product = f"{ratio.numerator} * {name}" if ratio.numerator > 1 else name
    return f"{product} // {ratio.denominator}" if ratio.denominator > 1 else product
