"""What is known of spaces and networks without running them: costs, warnings, differences, canonical forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.api.loading import graph_of, proved, source, space_of
from archir.diagnostics.errors import Diagnostics
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.printer import print_graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import Loader, split
from archir.passes import cost as costs

if TYPE_CHECKING:
    from archir.linting.subject import Purpose
    from archir.passes.cost import Cost
    from archir.spaces.architecture import Architecture, Written
    from archir.spaces.diff import Difference
    from archir.spaces.optimal.membership import Membership
    from archir.spaces.space import Space

__all__ = ["canonical_hash", "cost", "diff", "lint", "membership", "print_graph"]


def cost(network: Graph | Space) -> Cost:
    """Parameters and multiply-accumulates of a network, or a space, without choices. Raises ArchError (A0901)."""
    return costs.cost(graph_of(network))


def lint(
    path: str | Path,
    *,
    purpose: Purpose | None = None,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Diagnostics:
    """Warnings of what wrecks searches of a file's nets (see docs/lint.md); `purpose` is that of `linted`."""
    return linted(path, purpose=purpose, root=root, limits=limits, parameters=parameters)[1]


def linted(
    path: str | Path,
    *,
    purpose: Purpose | None = None,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[list[Graph], Diagnostics]:
    """The graphs of a file's nets, and warnings about them. Raises ArchError where there are errors.

    `purpose` is `"differentiable"` or `"shared"`, if the space is to be searched so.
    """
    from archir.linting.lint import lint

    file, net = split(str(path))
    text, folder = source(file)
    found = proved(text, folder, file, net, root, limits, parameters)
    module = Loader(root if root is not None else folder).load(text, file, folder)
    return found, Diagnostics(lint(module, found, purpose))


def membership(space: Space, network: Space) -> Membership:
    """Which architecture of a space computes the same as a network, a space without choices: its largest one, another
    one, or none. Raises ArchError (A1602)."""
    from archir.spaces.optimal.membership import membership

    return membership(space_of(space), graph_of(network))


def diff(one: Space | Architecture | Written, other: Space | Architecture | Written) -> list[Difference]:
    """What differs between two spaces, or between two architectures: nothing, if they are the same."""
    from archir.spaces.architecture import Architecture, Written
    from archir.spaces.diff import diff_architectures, diff_spaces
    from archir.spaces.space import Space

    if isinstance(one, Space) and isinstance(other, Space):
        return diff_spaces(one, other)
    if isinstance(one, (Architecture, Written)) and isinstance(other, (Architecture, Written)):
        return diff_architectures(one, other)
    kinds = f"{type(one).__name__} and {type(other).__name__}"
    raise TypeError(f"{kinds} cannot be compared: expected two spaces or two architectures")
