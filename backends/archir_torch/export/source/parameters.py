"""The parameters of a class: constants in which its calls differ, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from archir_torch.export.source.holes import Code, literal
from archir_torch.lowering.layers import Argument

LARGEST = 16
"""Largest numerator and denominator of a ratio that is taken for a rule, and no accident."""


class Parameters:
    """Parameters by name, each with its value for every call.

    Integers that are the same small multiple of the channels of the block's first input in all calls, or of another
    parameter, are written so: `4 * channels`, `channels // 8`.
    """

    def __init__(self, channels: Sequence[int | None]) -> None:
        self.values: dict[str, tuple[Any, ...]] = {}
        self._channels = tuple(channels)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [*self.values]

    def of(self, call: int) -> list[Argument]:
        """The arguments of one call."""
        return [Argument(name, values[call]) for name, values in self.values.items()]

    def expression(self, column: Sequence[Argument]) -> str:
        """The text for a constant: itself where all calls agree, or an expression of parameters.

        It is empty for what has its default in all calls, and is given by keyword.
        """
        first, values = column[0], tuple(argument.value for argument in column)
        if all(value == values[0] and type(value) is type(values[0]) for value in values):
            return "" if first.keyword and values[0] == first.default else literal(values[0])
        for name, known in self.values.items():
            if known == values and not isinstance(first.value, Code):  # two modules are never one
                return name
        for name, known in self.values.items():
            if text := _multiple(values, known, name):
                return text
        if self._channels != values and (text := _multiple(values, self._channels, name := self._free("channels"))):
            self.values[name] = self._channels
            return text
        name = self._free(first.name)
        self.values[name] = values
        return name

    def _free(self, name: str) -> str:
        base = re.sub(r"_\d+$", "", name)
        number, made = 2, base
        while made in self.values:
            made, number = f"{base}_{number}", number + 1
        return made


def _multiple(values: Sequence[Any], of: Sequence[Any], name: str) -> str:
    """`values` as a multiple of others: `3 * name`, `name // 4`, `3 * name // 4`; nothing if they are not."""
    if not all(type(value) is int and value > 0 for value in (*values, *of)):
        return ""
    ratios = {Fraction(value, other) for value, other in zip(values, of, strict=True)}
    if len(ratios) > 1:
        return ""
    (ratio,) = ratios
    if max(ratio.numerator, ratio.denominator) > LARGEST:
        return ""
    times = f"{ratio.numerator} * {name}" if ratio.numerator > 1 else name
    return f"{times} // {ratio.denominator}" if ratio.denominator > 1 else times
