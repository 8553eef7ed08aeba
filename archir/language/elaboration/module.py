"""Parsed program files and what they define: modules, blocks, cells, and imported libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from archir.diagrams.diagram import Value
from archir.language.elaboration.name_analysis import assigned
from archir.language.syntax import ast
from archir.utils.files import read_bytes

MAX_IMPORTS = 64
"""Maximum number of imported files, and of files per folder that are read for hints."""
_MAX_HINT_BYTES = 2**16
"""Maximum size in bytes of a file that is read for hints."""


@dataclass(eq=False)
class Module:
    """A parsed program file.

    `names` maps the file's own definitions and constants to their values; `imported` maps each imported name to the
    defining module. Relative imports are resolved in `folder`; if `folder` is None, relative imports are not allowed.
    """

    path: str
    tree: ast.File
    folder: Path | None
    names: dict[str, Value] = field(default_factory=dict)
    imported: dict[str, Module | Library] = field(default_factory=dict)
    nets: dict[str, ast.Definition] = field(default_factory=dict)
    imports: list[Module] = field(default_factory=list)
    library: bool = False
    """True for one of archir's own libraries; errors in it are reported at the user's call."""
    incomplete: bool = False
    """True if an import failed; unknown names are then not reported, because that import might define them."""

    def lookup(self, name: str) -> Value | None:
        """Return the value of a name at the top level of the file; None if it is not defined."""
        home = self if name in self.names else self.imported.get(name)
        return home.names.get(name) if isinstance(home, Module) else home

    def exported_names(self) -> Iterator[str]:
        """Yield the names that become available to a file that imports this one."""
        yield from self.names
        yield from (const.name.text for const in self.constants() if const.name.text not in self.names)

    @cached_property
    def sibling_programs(self) -> dict[str, str]:
        """Texts of the other programs in the module's folder, by file name."""
        return {name: text for name, text in self._texts("*.arch").items() if name != Path(self.path).name}

    @cached_property
    def sibling_python(self) -> dict[str, str]:
        """Texts of the Python files in the module's folder, by file name; they are not executed."""
        return self._texts("*.py")

    def _texts(self, pattern: str) -> dict[str, str]:
        """Return the texts of matching files in the module's folder, by file name: the first `MAX_IMPORTS` files,
        except those that are large or not readable as UTF-8."""
        if self.folder is None:
            return {}
        texts: dict[str, str] = {}
        with suppress(OSError, ValueError):
            for path in sorted(self.folder.glob(pattern))[:MAX_IMPORTS]:
                with suppress(OSError, ValueError):
                    if path.is_file() and path.stat().st_size <= _MAX_HINT_BYTES:
                        texts[path.name] = read_bytes(path, _MAX_HINT_BYTES).decode("utf-8")
        return texts

    def definitions(self) -> list[ast.Definition]:
        """Return the definitions of all blocks, cells and nets."""
        return [item for item in self.tree.items if isinstance(item, ast.Definition)]

    def constants(self) -> list[ast.Const]:
        """Return the definitions of all constants."""
        return [item for item in self.tree.items if isinstance(item, ast.Const)]


@dataclass(frozen=True, eq=False)
class Block:
    """A `block` or `cell` as a value, with the module that defines it."""

    definition: ast.Definition
    module: Module

    @property
    def name(self) -> str:
        """Name of the block."""
        return self.definition.name.text

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names that are assigned anywhere in the body."""
        return frozenset(assigned(self.definition.body))


@dataclass(frozen=True, eq=False)
class Library:
    """An imported file as a value, if it was imported under an alias."""

    module: Module
