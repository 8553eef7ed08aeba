"""Infers the parameters of a block: which arguments differ between its calls, and which of them follow from
others, and the defaults of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from fractions import Fraction
from typing import Any

from archir.ir.types import TensorType
from archir.language.decompiler.fusion_patterns import DEFAULTS
from archir.language.decompiler.program_tree import (
    WILD,
    Condition,
    Expr,
    FirstRound,
    Item,
    ListExpr,
    Multiple,
    Outer,
    ParameterRef,
    PerRound,
    Size,
    Step,
    steps,
)

MAX_RATIO_TERM = 8
"""Maximum numerator and denominator for writing one number as a ratio of another; larger ratios count as
coincidence."""
CHANNEL_ARGUMENTS = frozenset({"channels", "width", "inner", "hidden", "groups", "shape"})
"""Names of arguments that count channels, and may therefore be written as multiples of the input's channels."""
PARAMETER_NAMES = {"channels": "width", "shape": "size", "values": "numbers"}
"""Parameter names for arguments whose own name is not used as the parameter's."""


class Parameters:
    """Parameters of a block, each with its value in every call.

    A number that equals, in all calls, the same small multiple of another parameter or of the first input's
    channels is written as that multiple and needs no parameter.
    """

    def __init__(self, input_: int | None, types: Sequence[TensorType | None], taken: Sequence[str]) -> None:
        self.values: dict[str, tuple[Any, ...]] = {}
        self._input = input_
        self._sizes = tuple(type_.channels if type_ is not None and type_.rank else 0 for type_ in types)
        self._word = "channels" if types and types[0] is not None and types[0].rank >= 3 else "features"
        self._taken = set(taken)
        self.name = ""

    def expression(self, column: Sequence[Any]) -> Expr:
        """Return the expression for an argument, given its value in each call; add a parameter if necessary.

        The attribute `name` must hold the name of the argument.
        """
        concrete, name = [value for value in column if value is not WILD], self.name
        if not concrete:
            return WILD
        first = concrete[0]
        if name in CHANNEL_ARGUMENTS and all(type(value) is tuple and len(value) == len(first) for value in concrete):
            columns = [(WILD,) * len(first) if value is WILD else value for value in column]
            items = [self.expression(items) for items in zip(*columns, strict=True)]
            if any(isinstance(item, Size | Multiple | ParameterRef) for item in items):
                return ListExpr(tuple(items))
        is_constant = all(_is_identical(value, first) for value in concrete)
        if name in CHANNEL_ARGUMENTS and (
            multiple := self._input_multiple(column, 1 if name != "channels" or not is_constant else MAX_RATIO_TERM)
        ):
            return multiple
        if is_constant:
            return first
        if name == "full" and (test := self._find_condition(column)):
            return test
        for parameter, values in self.values.items():
            if all(_is_identical(a, b) for a, b in zip(column, values, strict=True) if a is not WILD):
                return ParameterRef(parameter)
        for parameter, values in self.values.items():
            ratio = _common_ratio(column, values)
            if ratio is not None:
                return Multiple(ParameterRef(parameter), ratio.numerator, ratio.denominator)
        if name in CHANNEL_ARGUMENTS and (multiple := self._input_multiple(column, MAX_RATIO_TERM, MAX_RATIO_TERM)):
            return multiple
        name = self._unused_name(PARAMETER_NAMES.get(name, name))
        self.values[name] = tuple(most_common(concrete) if value is WILD else value for value in column)
        return ParameterRef(name)

    def _find_condition(self, flags: Sequence[Any]) -> Expr | None:
        """Return a condition on parameters and input channels that holds in exactly the calls where the flag is true,
        or None."""
        tests: list[tuple[Expr, tuple[bool, ...]]] = []
        for name, values in self.values.items():
            if all(type(value) is int for value in values):
                tests.append((Condition("!=", (ParameterRef(name), 1)), tuple(value != 1 for value in values)))
        if self._input is not None:
            size = Size(self._input, self._word)
            for name, values in self.values.items():
                if all(type(value) is int for value in values):
                    for times in (1, 2, 4):
                        differs = tuple(times * a != b for a, b in zip(values, self._sizes, strict=True))
                        multiple = Multiple(ParameterRef(name), times) if times > 1 else ParameterRef(name)
                        tests.append((Condition("!=", (size, multiple)), differs))
        for test, truth in tests:
            if _matches(flags, truth):
                return test
            if _matches(flags, [not first for first in truth]):
                return Condition("==", test.sides)
        for i, (first, truth) in enumerate(tests):
            for second, other in tests[i + 1 :]:
                either = [a or b for a, b in zip(truth, other, strict=True)]
                if _matches(flags, either):
                    return Condition("or", (first, second))
                if _matches(flags, [not first for first in either]):
                    return Condition("and", (Condition("==", first.sides), Condition("==", second.sides)))
        return None

    def _input_multiple(self, column: Sequence[Any], max_factor: int, max_divisor: int = 1) -> Expr | None:
        """Return the values as a common multiple `factor * channels // divisor` of the input's channels.

        Returns None if there is no such multiple with a factor up to `max_factor` and a divisor up to `max_divisor`.
        """
        ratio = _common_ratio(column, self._sizes) if self._input is not None else None
        if (
            ratio is None
            or ratio.numerator > max_factor
            or ratio.denominator > max_divisor
            or min(v for v in column if v is not WILD) < 2
        ):
            return None
        assert self._input is not None
        size = Size(self._input, self._word)
        return size if ratio == 1 else Multiple(size, ratio.numerator, ratio.denominator)

    def _unused_name(self, preferred: str) -> str:
        """Return an unused parameter name."""
        name, number = preferred, 1
        while name in self.values or name in self._taken:
            number += 1
            name = f"{preferred}_{number}"
        return name


def _matches(flags: Sequence[Any], truth: Sequence[bool]) -> bool:
    """Return True if every flag that is not a wildcard equals the corresponding truth value."""
    return all(flag is WILD or flag == expected for flag, expected in zip(flags, truth, strict=True))


def _is_identical(value: Any, other: Any) -> bool:
    return bool(value == other) and type(value) is type(other)


def _common_ratio(values: Sequence[Any], of: Sequence[Any]) -> Fraction | None:
    """Return the ratio of `values` to `of`; None if it differs between calls or exceeds MAX_RATIO_TERM."""
    pairs = [(value, other) for value, other in zip(values, of, strict=True) if value is not WILD]
    if not all(type(number) is int and number > 0 for pair in pairs for number in pair):
        return None
    ratios = {Fraction(value, other) for value, other in pairs}
    ratio = ratios.pop()
    return ratio if not ratios and max(ratio.numerator, ratio.denominator) <= MAX_RATIO_TERM else None


def most_common(values: Sequence[Any]) -> Any:
    """Return the most common value."""
    return max(values, key=lambda value: sum(_is_identical(value, other) for other in values))


Defaults = Mapping[str, Mapping[str, Any]]
"""Maps each block name to the defaults of its parameters by name; MISSING marks a required parameter."""


def is_default(value: Any, default: Any) -> bool:
    """Return True if `value` equals `default` and both or neither are bools, so that 1 does not match true."""
    return (
        default is not MISSING
        and type(value) in (type(default), int, float)
        and value == default
        and (isinstance(value, bool) == isinstance(default, bool))
    )


def infer_defaults(name: str, parameters: Iterable[str], calls: Sequence[Step]) -> dict[str, Any]:
    """Choose defaults for the parameters of block `name` from its calls. Required parameters (MISSING) come first.

    A parameter gets a constant as its default if the block has more than two calls and more than half of them
    pass that constant.
    """
    defaults: dict[str, Any] = {}
    for parameter in parameters:
        arguments = [call.arguments[parameter] for call in calls]
        constants = [
            constant
            for constant in arguments
            if not isinstance(
                constant, ParameterRef | Size | Multiple | FirstRound | PerRound | Outer | ListExpr | tuple
            )
        ]
        most_common = max(constants, key=lambda v: sum(is_default(v, o) for o in constants)) if constants else MISSING
        count = sum(is_default(most_common, constant) for constant in constants) if constants else 0
        defaults[parameter] = most_common if len(arguments) > 2 and 2 * count > len(arguments) else MISSING
    order = sorted(
        defaults, key=lambda parameter: (defaults[parameter] is not MISSING, not parameter.startswith("width"))
    )
    return {parameter: defaults[parameter] for parameter in order}


def calls_in(name: str, bodies: Iterable[Sequence[Item]]) -> list[Step]:
    """Return all calls of block `name` in the given bodies."""
    return [step for items in bodies for step in steps(items) if step.callee == name]


def library_defaults() -> dict[str, Mapping[str, Any]]:
    """Return the parameter defaults of the library blocks that the decompiler recognises."""
    return {name: dict(defaults) for name, defaults in DEFAULTS.items()}
