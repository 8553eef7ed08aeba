"""Loading and checking of programs: from files and text to spaces, graphs and architectures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError, Diagnostic, Diagnostics
from archir.diagnostics.work import work_budget
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir.language.elaboration.files import read_program, read_standard_input, split_net
from archir.language.elaboration.recursion import without_gc
from archir.language.file_kinds import require_kind
from archir.plugins import loading

if TYPE_CHECKING:
    from archir.spaces.architecture import ArchitectureFile
    from archir.spaces.space import Space

__all__ = ["check", "format", "load", "loads", "plugin"]


def load(path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any) -> Space:
    """Load the space of a net from a file.

    Args:
        path: The file: `"space.arch"`, or `"spaces.arch:name"` if it has several nets.
        root: Folder that relative imports must stay inside, by default the file's folder.
        limits: Bounds on the size of the program and on the work of elaborating it.
        **parameters: Values for parameters of the net.

    Returns:
        The space; a net without choices is a space of one architecture.

    Raises:
        ArchError: The program has errors; `diagnostics` has all of them.

    Examples:
        >>> archir.load("space.arch", width=16)
        <Space space: 20 architectures, 5 choices, image f32[1, 8, 8] -> logits>
    """
    from archir.spaces.space import Space

    return Space(graph(path, root=root, limits=limits, parameters=parameters))


def loads(text: str, *, name: str = "<text>", net: str | None = None, **parameters: Any) -> Space:
    r"""Load the space of a net from the text of a program, which can import the standard library, but no files.

    Args:
        text: The program.
        name: Name that stands for the file in error messages.
        net: Name of the net, if the text has several.
        **parameters: Values for parameters of the net.

    Returns:
        The space; a net without choices is a space of one architecture.

    Raises:
        ArchError: The program has errors; `diagnostics` has all of them.

    Examples:
        >>> archir.loads("net n {\n input x: f32[4]\n output y = x |> linear(choose width(2, 4))\n}").size
        2
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
    """Elaborate a net from a file and return its graph; the path `-` reads standard input.

    The arguments are the same as for `load`, except that `parameters` is a mapping. Raises ArchError if the program has
    errors.
    """
    file, net = split_net(str(path))
    text, folder = read_source(file)
    return elaborate(text, file, folder=folder, root=root, net=net, parameters=parameters, limits=limits)


def plugin(name: str, *, folder: str | Path | None = None) -> None:
    """Import a plugin module, as the command-line option `--plugin` does.

    Afterwards, everything that the plugin registers is available, including its library files.

    Args:
        name: Name of the module, which may lie in the current folder or in `folder`.
        folder: Another folder to look in.

    Raises:
        ArchError: A3101 to A3106: the module does not exist, or cannot be imported.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("my_plugin.py").write_text("LOADED = True")
        >>> archir.plugin("my_plugin")
    """
    loading.load_requested(name, () if folder is None else (Path(folder),))


def read_source(file: str) -> tuple[str, Path | None]:
    """Return the text of a program, and the folder that its relative imports refer to.

    The file `-` is standard input. The folder is None for standard input. Raises ArchError (A0801, A0105, A0107) if the
    file cannot be read.
    """
    if file == "-":
        return read_standard_input(), None
    require_kind(Path(file), ".arch", "A0801")
    return read_program(Path(file)), Path(file).resolve().parent


def check(
    path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any
) -> Diagnostics:
    """Check all nets of a file and return a diagnostic for every error.

    Every net is elaborated, and the shapes of all its architectures are checked.

    Args:
        path: The file, or `FILE:NET` for a single net.
        root: Folder that relative imports must stay inside, by default the file's folder.
        limits: Bounds on the size of the program and on the work of checking it.
        **parameters: Values for parameters of the net.

    Returns:
        The diagnostics of the errors, an empty list if the file is correct.

    Examples:
        >>> archir.check("space.arch")
        []
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
    """Elaborate and fully check the nets of a program text, or only `net`; return their graphs.

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
    """Read an architecture file without resolving its labels in a space; the path `-` reads standard input.

    Raises ArchError.
    """
    from archir.spaces.architecture import read_architecture

    return read_architecture(read_standard_input() if str(path) == "-" else read_program(Path(path)), str(path))


def format(text: str, name: str = "<text>") -> str:
    r"""Return a program in the canonical layout: the same tokens and comments, with normalized whitespace.

    Args:
        text: The program.
        name: Name that stands for the file in error messages.

    Returns:
        The formatted program.

    Raises:
        ArchError: A01xx: the text cannot be parsed.

    Examples:
        >>> print(archir.format("net n{input x:f32[4]\noutput y=x}"), end="")
        net n {
            input x: f32[4]
            output y = x
        }
    """
    from archir.language.formatter import canonical

    return canonical(require_text(text), name)


def as_graph(network: Graph | Space) -> Graph:
    """Return a graph unchanged, or the graph of a space, which may contain choices.

    Raises TypeError for other values.
    """
    return network if isinstance(network, Graph) else require_space(network, "a graph or a space").graph


def require_space(space: Space, expected: str = "a space") -> Space:
    """Return the argument if it is a space.

    Raises TypeError, with `expected` in its message, if it is anything else.
    """
    from archir.spaces.space import Space

    if not isinstance(space, Space):
        raise TypeError(f"expected {expected}, such as `archir.load(path)` returns, and got {type(space).__name__}")
    return space


def require_text(text: str) -> str:
    """Return the argument if it is a string. Raises TypeError if it is anything else."""
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a program, and got {type(text).__name__}")
    return text
