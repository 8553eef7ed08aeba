"""What options take, where click's own kinds take too much."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import click

from archir.utils.files import Outputs


class Place(click.Path):
    """A file or folder that has a name: an empty one would be the folder in which archir runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path that was given."""
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


class Output(Place):
    """A file to write. One that is there is replaced only if archir wrote it and nobody changed it, or with --force.

    With the eager flag `update`, the command goes on with the file that is there.
    """

    def __init__(self, update: str = "") -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.update = update

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path that was given. Raises ArchError (A0809) for a file that may not be replaced."""
        path = super().convert(value, param, ctx)
        if ctx is not None and (outputs := ctx.find_object(Outputs)) is not None:
            outputs.add(path, update=bool(ctx.params.get(self.update)))
        return path


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
