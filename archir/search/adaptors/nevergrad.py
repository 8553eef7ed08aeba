"""Nevergrad decides the choices of a space: `parametrization(space)` is what an optimizer varies, and
`architecture(values, space)` the architecture of what it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from archir.diagnostics.errors import fail
from archir.search.adaptors.asking import asked
from archir.search.surrogates.encoding import ordered
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


def parametrization(space: Space) -> Any:
    """A `Dict` of Nevergrad with the number of an outcome for each choice, by path; of numbers that ascend,
    neighbours are likelier. Raises ArchError (A2602) without Nevergrad."""
    try:
        p = import_module("nevergrad").p
    except ImportError as error:
        text = f"the package `nevergrad` is missing: {error}"
        raise fail("A2602", text, None, "pip install nevergrad") from None
    kinds = {choice.path: p.TransitionChoice if ordered(choice) else p.Choice for choice in space.choices}
    return p.Dict(**{one.path: kinds[one.path](range(one.outcomes)) for one in space.choices if one.outcomes > 1})


def architecture(values: Mapping[str, int], space: Space) -> Architecture:
    """The architecture of a candidate's value, within all bounds of the space; choices that are not active are ignored.

    Where a requirement rules out what is proposed, or a bound on costs is broken, it is one near to it.
    """
    return asked(space, lambda choice: int(values.get(choice.path, 0)))
