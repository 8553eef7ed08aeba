"""What options take, where click's own kinds take too much."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click


class Place(click.Path):
    """A file or folder that has a name: an empty one would be the folder in which archir runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path that was given."""
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


class Finite(click.types.FloatParamType):
    """A number, however large or small."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that was given."""
        found: float = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value} is no number", param, ctx)
        return found


class Real(click.FloatRange):
    """A number of a range: neither infinite nor `nan`, which is within any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number that was given."""
        return super().convert(Finite().convert(value, param, ctx), param, ctx)


DRAWS = click.IntRange(1, 1_000_000)
"""How many architectures are drawn, at once and in memory."""
