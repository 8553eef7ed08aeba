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

    Args:
        network: A graph, or a space without choices.

    Returns:
        The costs: `params`, `macs`, `activation_bytes`, `kernels` and `peak_bytes`, for one sample.

    Raises:
        ArchError: A0901: choices are left.

    Examples:
        >>> archir.cost(network)
        Cost(params=..., macs=..., activation_bytes=..., kernels=..., peak_bytes=...)
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
    """Return warnings about constructs that harm a search, for all nets of a file (docs/lint.md).

    Args:
        path: A file, or `FILE:NET` for a single net.
        purpose: The kind of search that the space is meant for: `"differentiable"`, `"shared"` (shared weights), or
            None for any.
        root: Folder that relative imports must stay inside, by default the file's folder.
        limits: Bounds on the size of the program and on the work of checking it.
        parameters: Values for parameters of the net.

    Returns:
        The warnings, an empty list if there are none.

    Raises:
        ArchError: The file has errors.

    Examples:
        >>> {warning.code for warning in archir.lint("space.arch", purpose="differentiable")}
        {'A1404'}
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

    Args:
        space: The space.
        network: A space without choices.

    Returns:
        In `architecture` the architecture found, or None; `largest` is True if it is the space's largest architecture.
        If there is none, `closest` is the architecture with the most operations in common with the network, among those
        compared, and `differences` lists how the two differ.

    Raises:
        ArchError: A1602: the decision diagrams of the space's choices become too large.

    Examples:
        >>> same = archir.membership(space, network).architecture
        >>> space.canonical(same) == archir.canonical_hash(network)
        True
    """
    from archir.spaces.optimal.membership import membership

    return membership(require_space(space), as_graph(network))


def diff(
    first: Space | Architecture | ArchitectureFile, second: Space | Architecture | ArchitectureFile
) -> list[Difference]:
    """Return the differences between two spaces, or between two architectures.

    Args:
        first: A space or an architecture, as an object or as a file that was read.
        second: The other one, of the same type.

    Returns:
        The differences, each with `kind`, `scope`, `name`, `before` and `after`; an empty list if there are none.

    Raises:
        TypeError: The arguments are not two spaces, or two architectures.

    Examples:
        >>> small, large = archir.load("space.arch"), archir.load("space.arch", width=16)
        >>> [(item.name, item.before, item.after) for item in archir.diff(small, large)][:1]
        [('width', '8', '16')]
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
