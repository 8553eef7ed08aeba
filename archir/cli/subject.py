"""What a command is about, as its options say: a space, or one network of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.cli.output import counted
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.parameters import parse_parameter

if TYPE_CHECKING:
    from archir.spaces.architecture import Architecture, Written
    from archir.spaces.space import Space


def space_of(
    file: str, parameters: dict[str, Any], root: Path | None, limits: Limits, where: str | None = None
) -> Space:
    """The space of a FILE argument."""
    from archir.spaces.space import Space

    if file.endswith((".onnx", ".pt2", ".py", ".safetensors")):
        raise click.UsageError(f"{file} is what archir writes of a network; name the .arch file of it")
    space = Space(api.graph(file, root=root, limits=limits, parameters=parameters))
    return space if where is None else space.where(where)


def picked(
    file: str,
    arch: str | None,
    seed: int | None,
    parameters: dict[str, Any],
    root: Path | None,
    limits: Limits,
    where: str | None = None,
) -> tuple[Graph, Architecture, Space]:
    """One network: a net without choices, the architecture of a file, or a sampled one. Raises ArchError (A1203)."""
    if arch is not None and seed is not None:
        raise click.UsageError("--arch and --seed exclude each other")
    written = None
    if arch is not None:
        from archir.runs.hashes import require_as_written

        require_as_written(Path(arch))
        written = api.architecture(arch)
        parameters = {**given_parameters(written), **parameters}
    space = space_of(file, parameters, root, limits, where)
    if written is not None:
        architecture = space.architecture(written.choices)
    elif seed is not None or not space.choices:
        architecture = space.sample(seed or 0)
    else:
        hint = "name an architecture: --arch FILE, or sample one: --seed 0"
        raise fail("A1203", f"`{space.name}` has {counted(len(space.choices), 'choice')} to make", None, hint)
    return space.specialize(architecture), architecture, space


def given_parameters(written: Written) -> dict[str, Any]:
    """The parameters of an architecture file's net."""
    return {name: _given(value) for name, value in written.parameters.items()}


def _given(value: Any) -> Any:
    """A parameter as an architecture file holds it: fractions are strings there."""
    if isinstance(value, str) and "/" in value:
        return parse_parameter(f"x={value}")[1]
    return value
