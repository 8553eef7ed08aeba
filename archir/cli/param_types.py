"""Click parameter types for options, stricter than click's own."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import click

from archir.utils.files import Outputs


class PathParam(click.Path):
    """Parameter type: path of a file or folder. An empty string is rejected, since it would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises a usage error if it is empty."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class OutputFile(PathParam):
    """Parameter type: path of a file to write.

    An existing file may be replaced only with --force, or if archir wrote it and it has not been changed since.
    `update` is the name of an eager flag; if that flag is set, the command continues the existing file.
    """

    def __init__(self, update: str = "") -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.update = update

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises ArchError (A0809) if an existing file may not be replaced."""
        path = super().convert(value, param, ctx)
        if ctx is not None and (outputs := ctx.find_object(Outputs)) is not None:
            outputs.add(path, update=bool(ctx.params.get(self.update)))
        return path


class FiniteFloat(click.types.FloatParamType):
    """Parameter type: finite floating-point number of any magnitude."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises a usage error if it is infinite or NaN."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class FiniteRange(click.FloatRange):
    """Parameter type: finite number in a range. In contrast, click's FloatRange accepts `nan` in any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises a usage error if it is out of range, infinite or NaN."""
        return super().convert(FiniteFloat().convert(value, param, ctx), param, ctx)


SAMPLE_COUNT = click.IntRange(1, 1_000_000)
"""Parameter type for the number of architectures to sample; it is bounded, as all of them are held in memory."""
