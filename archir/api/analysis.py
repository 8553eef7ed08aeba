"""Analysis of spaces and networks without running them: costs, lint warnings, differences, canonical forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.api.loading import as_graph, load_checked, read_source, require_space
from archir.diagnostics.errors import Diagnostics
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.printer import print_graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import Loader, split_net
from archir.passes import cost as costs

if TYPE_CHECKING:
    from archir.linting.subject import Purpose
    from archir.passes.cost import Cost
    from archir.spaces.architecture import Architecture, ArchitectureFile
    from archir.spaces.diff import Difference
    from archir.spaces.optimal.membership import Membership
    from archir.spaces.space import Space

__all__ = ["canonical_hash", "cost", "diff", "lint", "membership", "print_graph"]


def cost(network: Graph | Space) -> Cost:
    """Return the parameters and multiply-accumulates of a network.

    `network` is a graph, or a space without choices. Raises ArchError (A0901) if choices are left.
    """
    return costs.cost(as_graph(network))


def lint(
    path: str | Path,
    *,
    purpose: Purpose | None = None,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Diagnostics:
    """Return warnings about constructs that harm a search, for all nets of a file (see docs/lint.md).

    `path` is a file, or `FILE:NET` for a single net. `purpose` is the kind of search that the space is meant for:
    `"differentiable"`, `"shared"` (shared weights), or None for any. Relative imports must stay inside the folder
    `root`, by default the file's folder. `limits` bound the size of the program and the work of checking it.
    `parameters` maps parameters of the net to values. Returns `Diagnostics`, which is empty if there is nothing to warn
    about. Raises ArchError if the file has errors.
    """
    return linted(path, purpose=purpose, root=root, limits=limits, parameters=parameters)[1]


def linted(
    path: str | Path,
    *,
    purpose: Purpose | None = None,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[list[Graph], Diagnostics]:
    """Return the graphs of a file's nets, and the lint warnings about them.

    The arguments are the same as for `lint`. Raises ArchError if the file has errors.
    """
    from archir.linting.lint import lint

    file, net = split_net(str(path))
    text, folder = read_source(file)
    nets = load_checked(text, folder, file, net, root, limits, parameters)
    module = Loader(root if root is not None else folder).load(text, file, folder)
    return nets, Diagnostics(lint(module, nets, purpose))


def membership(space: Space, network: Space) -> Membership:
    """Find the architecture of a space that computes the same function as a network.

    `network` is a space without choices. In the returned `Membership`, `architecture` is the architecture found, or
    None, and `largest` is True if it is the space's largest architecture. If there is none, `closest` is the
    architecture with the most operations in common with the network, among those compared, and `differences` lists how
    the two differ. Raises ArchError (A1602) if the decision diagrams of the space's choices become too large.
    """
    from archir.spaces.optimal.membership import membership

    return membership(require_space(space), as_graph(network))


def diff(
    first: Space | Architecture | ArchitectureFile, second: Space | Architecture | ArchitectureFile
) -> list[Difference]:
    """Return the differences between two spaces, or between two architectures; an empty list if there are none.

    `first` and `second` are both spaces, or both architectures: objects, or architecture files as read. Raises
    TypeError for any other combination.
    """
    from archir.spaces.architecture import Architecture, ArchitectureFile
    from archir.spaces.diff import diff_architectures, diff_spaces
    from archir.spaces.space import Space

    if isinstance(first, Space) and isinstance(second, Space):
        return diff_spaces(first, second)
    if isinstance(first, (Architecture, ArchitectureFile)) and isinstance(second, (Architecture, ArchitectureFile)):
        return diff_architectures(first, second)
    kinds = f"{type(first).__name__} and {type(second).__name__}"
    raise TypeError(f"{kinds} cannot be compared: expected two spaces or two architectures")
