"""Workspace of the MCP server: the folders that it may access, and the programs in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail
from archir.diagnostics.work import fresh_budget, work_budget
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import read_program, split_net
from archir.spaces.space import Space
from archir.tools.lsp.checking import Checker
from archir.utils.files import confined_to

MAX_PATH = 4_096
"""Maximum number of characters of a path in a request."""


@dataclass(frozen=True)
class Program:
    """A program and how to elaborate it.

    Relative imports start in `folder` and must stay inside `root`; `net` is the net to use.
    """

    text: str
    name: str
    folder: Path | None
    root: Path | None
    net: str | None
    file: Path | None = None
    """Absolute path of the file that the text was read from; None if the text was passed."""


@dataclass(frozen=True)
class Workspace:
    """Folders that requests may access, and the limits of a request.

    Relative paths are resolved in the first folder.
    """

    folders: tuple[Path, ...]
    limits: Limits = field(default_factory=Limits)

    @staticmethod
    def open(folders: Sequence[Path]) -> Workspace:
        """Create a workspace of the given folders.

        Raises ArchError (A2606) if one of them does not exist or is not a folder.
        """
        for folder in folders:
            if not folder.is_dir():
                raise fail("A2606", f"{folder} is not a folder")
        return Workspace(tuple(folder.resolve() for folder in folders))

    @contextmanager
    def confined(self) -> Iterator[None]:
        """Context manager that confines file access to the workspace's folders, and work to the limits of a request."""
        with confined_to(self.folders), work_budget(self.limits.work), fresh_budget():
            yield

    def resolve(self, path: str) -> tuple[Path, Path]:
        """Return the absolute path of a file or folder, and the workspace folder that contains it.

        Raises ArchError (A2606) if the path is outside the workspace's folders.
        """
        if not path or "\0" in path or len(path) > MAX_PATH:
            raise fail("A2606", f"a path must have 1 to {MAX_PATH:,} characters, none of them NUL")
        try:
            real = (self.folders[0] / path).resolve()
        except (OSError, RuntimeError, UnicodeEncodeError):
            real = None
        for folder in self.folders if real is not None else ():
            if real is not None and real.is_relative_to(folder):
                return real, folder
        hint = f"the server can access files below {', '.join(map(str, self.folders))}"
        raise fail("A2606", f"{path!r} is outside of the server's folders", None, hint)

    def program(self, path: str | None, text: str | None, net: str | None = None) -> Program:
        """Return the program in a file, or given as text; exactly one of `path` and `text` must be set.

        A text can import archir's libraries only. Raises ArchError (A2606, A0801).
        """
        if (path is None) == (text is None):
            raise fail("A2606", "exactly one of `path` and `text` is required")
        if text is not None:
            return Program(text, "<text>", None, None, net)
        assert path is not None
        file, net_of_path = split_net(path)
        real, root = self.resolve(file)
        return Program(read_program(real, shown=file), file, real.parent, root, net or net_of_path, real)

    def checker(self, program: Program) -> Checker:
        """Return a checker for a program's text and for changed versions of it."""
        return Checker(program.name, program.folder, program.root, program.net, self.limits)

    def space(self, program: Program, parameters: Mapping[str, Any] | None = None, where: str | None = None) -> Space:
        """Return the space of a program's net, restricted to the bounds `where` if given.

        Raises ArchError if the program or the bounds have errors.
        """
        graph = elaborate(
            program.text, program.name, folder=program.folder, root=program.root, net=program.net,
            parameters=dict(parameters or {}), limits=self.limits,
        )  # fmt: skip
        space = Space(graph)
        return space if where is None else space.where(where)
