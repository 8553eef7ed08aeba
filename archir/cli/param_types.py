"""Click parameter types for options, stricter than click's own."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import click

from archir.diagnostics.hints import suggest_inside
from archir.utils.files import Outputs


class PathParam(click.Path):
    """Parameter type: path of a file or folder. An empty string is rejected, since it would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises a usage error if it is empty, or a folder in place of a file."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        if isinstance(param, click.Argument) and not self.dir_okay and Path(value).is_dir():
            hint = suggest_inside(Path(value), ".toml", ".onnx")
            self.fail(f"{value} is a folder{f'; {hint}' if hint else ''}", param, ctx)
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


class Number(click.types.FloatParamType):
    """Parameter type: finite number of at least `minimum` and at most `maximum`; None is no bound.

    Unlike click's ranges, help texts do not show the bounds, and NaN is never accepted.
    """

    name = "number"
    parse: Callable[[Any], float] = float
    description = "a number"

    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        self.minimum, self.maximum = minimum, maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises a usage error if it is out of bounds, infinite or NaN."""
        try:
            number = type(self).parse(value)
        except ValueError:
            self.fail(f"{value!r} is not {self.description}", param, ctx)
        if isinstance(number, float) and not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        if self.minimum is not None and number < self.minimum:
            self.fail(f"{value} is less than {self.minimum}, the minimum", param, ctx)
        if self.maximum is not None and number > self.maximum:
            self.fail(f"{value} is more than {self.maximum}, the maximum", param, ctx)
        return number


class Integer(Number):
    """Parameter type: integer of at least `minimum` and at most `maximum`; None is no bound."""

    name = "n"
    parse = int
    description = "an integer"


SAMPLE_COUNT = Integer(1, 1_000_000)
"""Parameter type for the number of architectures to sample; it is bounded, as all of them are held in memory."""
