"""Modules that are named are found, and imported.

A plugin is a module or a package of the Python path, of the current folder, or of the folder of a file that a command
is about. Only who runs archir names one: what stands in files from elsewhere imports nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from archir.diagnostics.errors import ArchError, fail, listed, suggest
from archir.plugins import failing


@dataclass(frozen=True)
class Plugin:
    """A module that was named, and the files and folders that are its own."""

    name: str
    homes: tuple[Path, ...]
    folder: Path | None = None
    """Where it was found, if Python would not have found it there."""
    library: tuple[Path, ...] = ()
    """Folders whose `.arch` files can be imported by the name of the plugin: those of a package."""


_LOADED: dict[str, Plugin] = {}
_ASKED: set[str] = set()


def loaded() -> dict[str, Plugin]:
    """All plugins that were imported, by name."""
    return dict(_LOADED)


def asked(name: str, folders: Iterable[Path] = ()) -> None:
    """Import a module that whoever runs archir names, and not a recipe. Raises ArchError as `load` does."""
    load(name, folders)
    _ASKED.add(name)


def asked_for() -> set[str]:
    """The names of those: what is run from here on may need them."""
    return {*_ASKED}


def allowed(name: str) -> bool:
    """Whether code of a module may be called that a file names: the module was named to archir, or imported in Python.

    Modules of Python's own library are there without anybody having imported them.
    """
    return name in _LOADED or (name in sys.modules and name.partition(".")[0] not in sys.stdlib_module_names)


def homes() -> dict[str, Path | None]:
    """The names of all that were imported, and the folders in which workers find them."""
    return {plugin.name: plugin.folder for plugin in _LOADED.values()}


def load(name: str, folders: Iterable[Path] = (), what: str = "plugin") -> Plugin:
    """Import a module, which may lie in one of these folders or in the current one, unless that was done.

    `what` is the word for it where it cannot be.

    Raises ArchError: A3101 (there is none), A3102 (it cannot be imported), A3104 (there are several).
    """
    if name in _LOADED:
        return _LOADED[name]
    where = list(dict.fromkeys(folder.resolve() for folder in (Path.cwd(), *folders)))
    top = name.partition(".")[0]
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        plain = Path(name).stem
        hint = f"modules are named as `import` does: `{plain}`" if plain.isidentifier() else None
        raise fail("A3101", f"`{name}` is no name of a module", None, hint)
    folder = _found(top, where, what)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # at the end, so that it hides nothing
        importlib.invalidate_caches()
    return imported(name, lambda: _module(name, where, what), name, folder, what)


def imported(
    name: str, do: Callable[[], ModuleType], shown: str, folder: Path | None = None, what: str = "plugin"
) -> Plugin:  # fmt: skip
    """The plugin of a module that is imported by a function. Raises ArchError (A3102), with a place in its files."""
    homes = _homes(name.partition(".")[0], folder)
    try:
        module = do()
    except ArchError as error:
        span = failing.place(error, homes)
        raise ArchError(*(replace(one, span=one.span or span) for one in error.diagnostics)) from error
    except (Exception, SystemExit) as error:
        text = f"the {what} `{shown}` cannot be imported: {failing.said(error)}"
        raise fail("A3102", text, failing.place(error, homes)) from error
    _LOADED[name] = Plugin(name, tuple(homes), folder, tuple(Path(part) for part in getattr(module, "__path__", ())))
    return _LOADED[name]


def _module(name: str, folders: Sequence[Path], what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that it needs is not there
        raise _missing(name, folders, what) from error


def _missing(name: str, folders: Sequence[Path], what: str) -> ArchError:
    near = suggest(name, {path.stem for folder in folders for path in folder.glob("*.py")})
    places = listed([str(folder) for folder in folders], 3)
    hint = near or f"archir looks where Python finds modules, and in {places}: PYTHONPATH=FOLDER adds another folder"
    why = ": no module has this name" if what != "module" else ""
    return fail("A3101", f"there is no {what} `{name}`{why}", None, hint)


def _found(top: str, folders: Sequence[Path], what: str) -> Path | None:
    """The folder that a module is in, None if Python finds it without. Raises ArchError (A3101, A3104)."""
    files: dict[Path | None, Path | None] = {}
    spaces: list[Path | None] = []
    for folder in (None, *folders):
        spec = _spec(top, folder)
        if spec is None:
            continue
        if spec.loader is None or (spec.origin is None and spec.submodule_search_locations is not None):
            spaces.append(folder)  # a folder without __init__.py
            continue
        files.setdefault(Path(spec.origin).resolve() if spec.has_location and spec.origin else None, folder)
    if len(files) > 1:
        found = listed([str(file or "one of Python itself") for file in files])
        text = f"several modules are named `{top}`: {found}"
        raise fail("A3104", text, None, "name yours otherwise, or work in another folder")
    if files:
        return next(iter(files.values()))
    if spaces:
        return spaces[0]
    if top in sys.modules:  # made by hand
        return None
    raise _missing(top, folders, what)


def _spec(top: str, folder: Path | None) -> ModuleSpec | None:
    if folder is not None:
        return PathFinder.find_spec(top, [str(folder)])
    try:
        return importlib.util.find_spec(top)
    except ValueError:  # a module that was made by hand
        return None


def _homes(top: str, folder: Path | None) -> list[Path]:
    """The files and folders whose code is a plugin's own."""
    spec = _spec(top, None)
    found = [Path(part) for part in (spec.submodule_search_locations or ())] if spec is not None else []
    if spec is not None and spec.has_location and spec.origin:
        found.append(Path(spec.origin))
    return [*found, *([folder] if folder is not None else [])]


def blamed(error: BaseException) -> ArchError | None:
    """What is said of an exception that came through the code of a plugin (A3106), None of others."""
    homes = [home for plugin in _LOADED.values() for home in plugin.homes]
    span = failing.place(error, homes)
    if span is None:
        return None
    file = Path(span.source.name).resolve()
    whose = max(
        (home for home in homes if file.is_relative_to(home)), key=lambda home: len(home.parts)
    )  # a file of its own rather than the folder of another one
    name = next(plugin.name for plugin in _LOADED.values() if whose in plugin.homes)
    return fail("A3106", f"the plugin `{name}` failed: {failing.said(error)}", span)
