"""Load the space or the network selected by a command's FILE argument and options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import loading
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.parameters import parse_parameter
from archir.utils.counts import count_noun

if TYPE_CHECKING:
    from archir.spaces.architecture import Architecture, ArchitectureFile
    from archir.spaces.space import Space


def space_of(
    file: str, parameters: dict[str, Any], root: Path | None, limits: Limits, where: str | None = None
) -> Space:
    """Return the search space of a FILE[:NET] argument, restricted to the cost bounds `where` if given."""
    from archir.spaces.space import Space

    if file.endswith((".onnx", ".pt2", ".py", ".safetensors")):
        hint = f", or write one with `archir import {file} -o net.arch`" if file.endswith(".onnx") else ""
        raise click.UsageError(f"{file} is an exported model or weights file; name the network's .arch file{hint}")
    space = Space(loading.graph(file, root=root, limits=limits, parameters=parameters))
    return space if where is None else space.where(where)


def select_network(
    file: str,
    arch: str | None,
    seed: int | None,
    parameters: dict[str, Any],
    root: Path | None,
    limits: Limits,
    where: str | None = None,
) -> tuple[Graph, Architecture, Space]:
    """Return the selected network as a graph, with its architecture and its space.

    The network is a net without choices, the architecture stored in the file `arch`, or an architecture sampled with
    `seed`. Raises ArchError (A1203) if the net has choices and neither `arch` nor `seed` is given.
    """
    if arch is not None and seed is not None:
        raise click.UsageError("--arch and --seed exclude each other")
    stored = None
    if arch is not None:
        from archir.runs.hashes import require_unchanged_file

        require_unchanged_file(Path(arch))
        stored = loading.architecture(arch)
        parameters = {**stored_parameters(stored), **parameters}
    space = space_of(file, parameters, root, limits, where)
    if stored is not None:
        architecture = space.architecture(stored.choices)
    elif seed is not None or not space.choices:
        architecture = space.sample(seed or 0)
    else:
        hint = "name an architecture: --arch FILE, or sample one: --seed 0"
        raise fail("A1203", f"`{space.name}` has {count_noun(len(space.choices), 'open choice')}", None, hint)
    return space.specialize(architecture), architecture, space


def stored_parameters(stored: ArchitectureFile) -> dict[str, Any]:
    """Return the net parameters that are stored in an architecture file."""
    return {name: _parameter_value(value) for name, value in stored.parameters.items()}


def _parameter_value(value: Any) -> Any:
    """Convert a parameter value of an architecture file: fractions are stored as strings such as "1/4"."""
    if isinstance(value, str) and "/" in value:
        return parse_parameter(f"x={value}")[1]
    return value
