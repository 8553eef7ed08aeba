"""What parameters of blocks and of operations are by default, which calls need not give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from archir.language.decompiler.operations import DEFAULTS
from archir.language.decompiler.outline import Column, First, Item, Many, Name, Size, Step, Times, Up, steps

Defaults = Mapping[str, Mapping[str, Any]]


def same(value: Any, default: Any) -> bool:
    """Whether a value is the default, of its kind too: 1 is not true."""
    return (
        default is not MISSING
        and type(value) in (type(default), int, float)
        and value == default
        and (isinstance(value, bool) == isinstance(default, bool))
    )


def defaults_of(name: str, parameters: Iterable[str], calls: Sequence[Step]) -> dict[str, Any]:
    """What a block's parameters are by default: what most calls give, if they are several. Those without come first."""
    found: dict[str, Any] = {}
    for parameter in parameters:
        given = [call.arguments[parameter] for call in calls]
        plain = [one for one in given if not isinstance(one, Name | Size | Times | First | Column | Up | Many | tuple)]
        usual = max(plain, key=lambda v: sum(same(v, o) for o in plain)) if plain else MISSING
        often = sum(same(usual, one) for one in plain) if plain else 0
        found[parameter] = usual if len(given) > 2 and 2 * often > len(given) else MISSING
    order = sorted(found, key=lambda parameter: (found[parameter] is not MISSING, not parameter.startswith("width")))
    return {parameter: found[parameter] for parameter in order}


def calls_of(name: str, bodies: Iterable[Sequence[Item]]) -> list[Step]:
    """The calls of a block in these bodies."""
    return [step for items in bodies for step in steps(items) if step.callee == name]


def library_defaults() -> dict[str, Mapping[str, Any]]:
    """Of the library's blocks."""
    return {name: dict(given) for name, given in DEFAULTS.items()}
