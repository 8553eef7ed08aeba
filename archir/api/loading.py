"""Loading and checking of programs: from files and text to spaces, graphs and architectures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError, Diagnostic, Diagnostics
from archir.diagnostics.work import work_budget
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir.language.elaboration.files import read_program, split_net
from archir.language.elaboration.recursion import without_gc
from archir.language.file_kinds import require_kind
from archir.plugins import loading

if TYPE_CHECKING:
    from archir.spaces.architecture import ArchitectureFile
    from archir.spaces.space import Space

__all__ = ["check", "format", "load", "loads", "plugin"]


def load(path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any) -> Space:
    """Load the space of a net from a file.

    `path` is `"space.arch"`, or `"spaces.arch:name"` if the file has several nets. `root` is the folder that relative
    imports may not leave, by default the file's folder. `limits` bound the size of the program and the work of
    elaborating it. All other keyword arguments are parameters of the net. Returns a `Space`. Raises ArchError if the
    program has errors.
    """
    from archir.spaces.space import Space

    return Space(graph(path, root=root, limits=limits, parameters=parameters))


def loads(text: str, *, name: str = "<text>", net: str | None = None, **parameters: Any) -> Space:
    """Load the space of a net from the text of a program, which can import the library, but no files.

    `net` selects a net if the text has several; `name` is the name of the text in error messages. All other keyword
    arguments are parameters of the net. Returns a `Space`. Raises ArchError if the program has errors.
    """
    from archir.spaces.space import Space

    return Space(elaborate(require_text(text), name, net=net, parameters=parameters))


def graph(
    path: str | Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Graph:
    """Return the graph of a net; the path `-` reads standard input.

    Arguments are as for `load`, except that `parameters` is a mapping. Raises ArchError.
    """
    file, net = split_net(str(path))
    text, folder = read_source(file)
    return elaborate(text, file, folder=folder, root=root, net=net, parameters=parameters, limits=limits)


def plugin(name: str, *, folder: str | Path | None = None) -> None:
    """Import a plugin, as the option `--plugin` does.

    `name` is the name of a module, which may lie in the current folder or in `folder`. Afterwards, everything that it
    registers is available, and so are its library files. Raises ArchError (A31xx) if it cannot be imported.
    """
    loading.load_requested(name, () if folder is None else (Path(folder),))


def read_source(file: str) -> tuple[str, Path | None]:
    """Return the text of a program, and the folder from which its relative imports start. `-` reads standard input.

    Raises ArchError (A0801).
    """
    if file == "-":
        return sys.stdin.read(), None
    require_kind(Path(file), ".arch", "A0801")
    return read_program(Path(file)), Path(file).resolve().parent


def check(
    path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any
) -> Diagnostics:
    """Check all nets of a file and return a diagnostic for every error.

    Every net is elaborated, and the shapes of all its architectures are checked. `path`, `root`, `limits` and
    `parameters` are as for `load`. Returns `Diagnostics`, which is empty if the file is correct.
    """
    try:
        graphs(path, root=root, limits=limits, parameters=parameters)
    except ArchError as error:
        return Diagnostics(error.diagnostics)
    return Diagnostics()


def graphs(
    path: str | Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[Graph]:
    """Return the graphs of all nets of a file, or of the single net that `path` names.

    Raises ArchError with the diagnostics of all nets.
    """
    file, net = split_net(str(path))
    return load_checked(*read_source(file), file, net, root, limits, parameters)


def load_checked(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    """Return the graphs of all nets of a text, or of a single one, after checking them completely.

    Raises ArchError with the diagnostics of all nets.
    """
    with work_budget((limits or Limits()).work), without_gc():
        return _elaborate_all(text, folder, file, net, root, limits, parameters)


def _elaborate_all(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    """Elaborate and check the nets of a text within the current work budget."""
    nets, warnings = ([net], []) if net is not None else survey(text, file, folder=folder, root=root)
    checked: list[Graph] = []
    problems: dict[Any, Diagnostic] = {(d.code, str(d.span), d.message): d for d in warnings}
    for name in nets:
        try:
            elaborated = elaborate(text, file, folder=folder, root=root, net=name, parameters=parameters, limits=limits)
            if elaborated.constraints:
                from archir.spaces.space import Space

                space = Space(elaborated)
                space.check_satisfiable()
                if space.has_cost_bounds:
                    space.check_bounds()
            checked.append(elaborated)
        except ArchError as error:
            problems.update({(d.code, str(d.span), d.message): d for d in error.diagnostics})
    if problems:
        raise ArchError(*problems.values())
    return checked


def architecture(path: str | Path) -> ArchitectureFile:
    """Read an architecture file without resolving it in a space; `-` reads standard input. Raises ArchError."""
    from archir.spaces.architecture import read_architecture

    return read_architecture(sys.stdin.read() if str(path) == "-" else read_program(Path(path)), str(path))


def format(text: str, name: str = "<text>") -> str:
    """Return a program in the canonical layout: the same tokens and comments with other white space.

    `text` is the program, `name` its name in error messages. Raises ArchError if it cannot be parsed.
    """
    from archir.language.formatter import canonical

    return canonical(require_text(text), name)


def as_graph(network: Graph | Space) -> Graph:
    """Return a graph unchanged, and the graph of a space; choices may be left. Raises TypeError for anything else."""
    return network if isinstance(network, Graph) else require_space(network, "a graph or a space").graph


def require_space(space: Space, expected: str = "a space") -> Space:
    """Return a space unchanged. Raises TypeError for anything else; `expected` describes it."""
    from archir.spaces.space import Space

    if not isinstance(space, Space):
        raise TypeError(f"expected {expected}, such as `archir.load(path)` returns, and got {type(space).__name__}")
    return space


def require_text(text: str) -> str:
    """Return a text unchanged. Raises TypeError for anything else."""
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a program, and got {type(text).__name__}")
    return text
