"""Nevergrad as a sampler of architectures.

Optimise over `parametrization(space)`, and convert each candidate's value with `architecture(values, space)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from archir.diagnostics.errors import fail
from archir.search.adaptors import architecture_from_picks
from archir.search.surrogates.encoding import is_ordered
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


def parametrization(space: Space) -> Any:
    """Return a Nevergrad `Dict` that maps the path of each choice to an outcome index.

    For choices between ascending numbers, the optimizer prefers moves to adjacent outcomes.

    Args:
        space: The space.

    Returns:
        The parametrization, for Nevergrad's optimizers.

    Raises:
        ArchError: A2602: Nevergrad is not installed.
    """
    try:
        p = import_module("nevergrad").p
    except ImportError as error:
        text = f"the package `nevergrad` is missing: {error}"
        raise fail("A2602", text, None, "pip install nevergrad") from None
    kinds = {choice.path: p.TransitionChoice if is_ordered(choice) else p.Choice for choice in space.choices}
    return p.Dict(**{c.path: kinds[c.path](range(c.outcome_count)) for c in space.choices if c.outcome_count > 1})


def architecture(values: Mapping[str, int], space: Space) -> Architecture:
    """Convert the value of a Nevergrad candidate to an architecture within all bounds; inactive choices are ignored.

    If the proposed outcomes violate a constraint or break a cost bound, a similar architecture is returned.

    Args:
        values: Outcome indices by the paths of choices: the value of a candidate of Nevergrad.
        space: The space.

    Returns:
        The architecture.

    Examples:
        >>> archir.nevergrad.architecture({"depth": 0, "op[0]": 2}, space)
        <Architecture of space: depth=1, op[0]=skip>
    """
    return architecture_from_picks(space, lambda choice: int(values.get(choice.path, 0)))
