"""The folders that a server may look into, and the programs in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail
from archir.diagnostics.work import anew, bounded
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import read, split
from archir.spaces.space import Space
from archir.tools.lsp.checking import Place
from archir.utils.files import within

MOST_PATH = 4_096


@dataclass(frozen=True)
class Program:
    """A text, where its relative imports start, and the net of it that is meant."""

    text: str
    name: str
    folder: Path | None
    root: Path | None
    net: str | None


@dataclass(frozen=True)
class Room:
    """Folders, and what one request may cost. The first folder is that of paths that are not absolute."""

    folders: tuple[Path, ...]
    limits: Limits = field(default_factory=Limits)

    @staticmethod
    def of(folders: Sequence[Path]) -> Room:
        """The room of these folders. Raises ArchError (A2606) for what is none."""
        for folder in folders:
            if not folder.is_dir():
                raise fail("A2606", f"{folder} is no folder")
        return Room(tuple(folder.resolve() for folder in folders))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Nothing is read or written meanwhile that is not in the folders, and work has an end."""
        with within(self.folders), bounded(self.limits.work), anew():
            yield

    def located(self, path: str) -> tuple[Path, Path]:
        """A file or folder of the room, and the folder that it is in. Raises ArchError (A2606)."""
        if not path or "\0" in path or len(path) > MOST_PATH:
            raise fail("A2606", "a path must be a name of a file in the folders of the server")
        try:
            real = (self.folders[0] / path).resolve()
        except (OSError, RuntimeError, UnicodeEncodeError):
            real = None
        for folder in self.folders if real is not None else ():
            if real is not None and real.is_relative_to(folder):
                return real, folder
        hint = f"paths are those below {', '.join(map(str, self.folders))}"
        raise fail("A2606", f"{path!r} lies outside of the folders of the server", None, hint)

    def program(self, path: str | None, text: str | None, net: str | None = None) -> Program:
        """A file of the room, or a text, which can import the library alone. Raises ArchError (A2606, A0801)."""
        if (path is None) == (text is None):
            raise fail("A2606", "give either `path` or `text`")
        if text is not None:
            return Program(text, "<text>", None, None, net)
        assert path is not None
        file, named = split(path)
        real, root = self.located(file)
        return Program(read(real, shown=file), file, real.parent, root, net or named)

    def place(self, program: Program) -> Place:
        """Where the program stands, for the checker."""
        return Place(program.name, program.folder, program.root, program.net, self.limits)

    def space(self, program: Program, parameters: Mapping[str, Any] | None = None, where: str | None = None) -> Space:
        """The space of a program's net, within further bounds. Raises ArchError."""
        graph = elaborate(
            program.text, program.name, folder=program.folder, root=program.root, net=program.net,
            parameters=dict(parameters or {}), limits=self.limits,
        )  # fmt: skip
        space = Space(graph)
        return space if where is None else space.where(where)
