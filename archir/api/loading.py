"""From files and texts to spaces, graphs and architectures; and what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError, Diagnostic, Diagnostics
from archir.diagnostics.work import bounded
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir.language.elaboration.files import read, split
from archir.language.elaboration.recursion import keeping
from archir.language.formatter import canonical
from archir.language.kinds import require_kind
from archir.plugins import loading

if TYPE_CHECKING:
    from archir.spaces.architecture import Written
    from archir.spaces.space import Space

__all__ = ["check", "format", "load", "loads", "plugin"]


def load(path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any) -> Space:
    """The space of a net: `"space.arch"`, or `"spaces.arch:name"` where a file has several nets.

    `parameters` are the net's. Relative imports stay in `root`, by default the file's folder. Raises ArchError.
    """
    from archir.spaces.space import Space

    return Space(graph(path, root=root, limits=limits, parameters=parameters))


def loads(text: str, *, name: str = "<text>", net: str | None = None, **parameters: Any) -> Space:
    """The space of a net of a text, which can import the library but no files.

    `net` names it where the text has several; `name` is what the text is called in errors. Raises ArchError.
    """
    from archir.spaces.space import Space

    return Space(elaborate(text_of(text), name, net=net, parameters=parameters))


def graph(
    path: str | Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Graph:
    """The graph of a net, as `load` finds it; `-` reads standard input. Raises ArchError."""
    file, net = split(str(path))
    text, folder = source(file)
    return elaborate(text, file, folder=folder, root=root, net=net, parameters=parameters, limits=limits)


def plugin(name: str, *, folder: str | Path | None = None) -> None:
    """Import a plugin, as `--plugin` does: what it registers is known from there on, and so are its library files.

    It may lie in the current folder, and in `folder`. Raises ArchError (A31xx).
    """
    loading.asked(name, () if folder is None else (Path(folder),))


def source(file: str) -> tuple[str, Path | None]:
    """The text of a program, and the folder that its relative imports start from. Raises ArchError (A0801)."""
    if file == "-":
        return sys.stdin.read(), None
    require_kind(Path(file), ".arch", "A0801")
    return read(Path(file)), Path(file).resolve().parent


def check(
    path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any
) -> Diagnostics:
    """Everything that is wrong with a file: every net is elaborated, every architecture of it shape-checked."""
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
    """The graphs of all nets of a file (or of the one that the path names). Raises ArchError with all problems."""
    file, net = split(str(path))
    return proved(*source(file), file, net, root, limits, parameters)


def proved(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    """The graphs of all nets of a text, or of one. Raises ArchError with all problems."""
    with bounded((limits or Limits()).work), keeping():
        return _elaborated(text, folder, file, net, root, limits, parameters)


def _elaborated(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    nets, said = ([net], []) if net is not None else survey(text, file, folder=folder, root=root)
    found: list[Graph] = []
    problems: dict[Any, Diagnostic] = {(d.code, str(d.span), d.message): d for d in said}
    for name in nets:
        try:
            made = elaborate(text, file, folder=folder, root=root, net=name, parameters=parameters, limits=limits)
            if made.constraints:
                from archir.spaces.space import Space

                space = Space(made)
                space.prove_some()
                if space.bounded:
                    space.prove()
            found.append(made)
        except ArchError as error:
            problems.update({(d.code, str(d.span), d.message): d for d in error.diagnostics})
    if problems:
        raise ArchError(*problems.values())
    return found


def architecture(path: str | Path) -> Written:
    """An architecture file as it is written; `-` reads standard input. Raises ArchError."""
    from archir.spaces.architecture import read_architecture

    return read_architecture(sys.stdin.read() if str(path) == "-" else read(Path(path)), str(path))


def format(text: str, name: str = "<text>") -> str:
    """A text in the canonical layout: the same tokens and comments, other blanks and line breaks. Raises ArchError."""
    return canonical(text_of(text), name)


def graph_of(network: Graph | Space) -> Graph:
    """A graph, or that of a space; if it has choices left, whoever needs one network says so. Raises TypeError."""
    return network if isinstance(network, Graph) else space_of(network, "a graph or a space").graph


def space_of(space: Space, wanted: str = "a space") -> Space:
    """The space that was given. Raises TypeError for anything else."""
    from archir.spaces.space import Space

    if not isinstance(space, Space):
        raise TypeError(f"expected {wanted}, such as `archir.load(path)` returns, and got {type(space).__name__}")
    return space


def text_of(text: str) -> str:
    """The text that was given. Raises TypeError for anything else."""
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a program, and got {type(text).__name__}")
    return text
