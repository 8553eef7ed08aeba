"""Default values for the parameters of blocks and operations.

A call omits each argument that equals the parameter's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from archir.language.decompiler.fusion_patterns import DEFAULTS
from archir.language.decompiler.program_tree import (
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
