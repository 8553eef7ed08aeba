"""Import of plugins by name, and location of the exceptions that they raise.

A plugin is a module or package on the Python path, in the current folder, or in the folder of the file that a command
works on. Only the user who runs archir names plugins: files from other people cannot cause an import.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from traceback import FrameSummary, extract_tb, format_exception_only
from types import ModuleType

from archir.diagnostics.errors import ArchError, Source, Span, fail, join_names
from archir.diagnostics.hints import suggest
from archir.plugins import loading


@dataclass(frozen=True)
class Plugin:
    """An imported plugin, with the files and folders that contain its code."""

    name: str
    own_paths: tuple[Path, ...]
    folder: Path | None = None
    """The folder that was appended to `sys.path` to import the plugin; None if no folder had to be appended."""
    library_folders: tuple[Path, ...] = ()
    """Folders whose `.arch` files programs can import under the plugin's name; only packages have any."""


_LOADED: dict[str, Plugin] = {}
"""Imported plugins, by name."""
_REQUESTED: set[str] = set()
"""Names of the plugins that the user named on the command line or in Python, not those named in recipes."""


def loaded() -> dict[str, Plugin]:
    """Return all imported plugins, by name."""
    return dict(_LOADED)


def load_requested(name: str, folders: Iterable[Path] = ()) -> None:
    """Import a plugin that the user (not a recipe) named. Raises ArchError as `load` does."""
    load(name, folders)
    _REQUESTED.add(name)


def requested_names() -> set[str]:
    """Return the names of the plugins that the user named.

    Runs that this process starts may need these plugins, too.
    """
    return {*_REQUESTED}


def is_allowed(name: str) -> bool:
    """Return whether a file may make archir call code of this module.

    It may if the module is a loaded plugin or was imported by Python code. Modules of Python's standard library are
    excluded, because they may be in `sys.modules` although the user never imported them.
    """
    return name in _LOADED or (name in sys.modules and name.partition(".")[0] not in sys.stdlib_module_names)


def worker_folders() -> dict[str, Path | None]:
    """Return, for each loaded plugin, the folder in which worker processes find it, by name.

    None stands for the Python path.
    """
    return {plugin.name: plugin.folder for plugin in _LOADED.values()}


def load(name: str, folders: Iterable[Path] = (), noun: str = "plugin") -> Plugin:
    """Import a plugin module unless it is already loaded.

    The module is searched for on the Python path, in the current folder and in `folders`. `noun` is the word for the
    module in error messages. Raises ArchError: A3101 (there is no such module), A3102 (importing the module fails),
    A3104 (several modules have this name).
    """
    if name in _LOADED:
        return _LOADED[name]
    search_folders = list(dict.fromkeys(folder.resolve() for folder in (Path.cwd(), *folders)))
    top_level = name.partition(".")[0]
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        stem = Path(name).stem
        hint = f"modules are named as `import` does: `{stem}`" if stem.isidentifier() else None
        raise fail("A3101", f"`{name}` is not a module name", None, hint)
    folder = _find_folder(top_level, search_folders, noun)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # at the end, so that it shadows no other module
        importlib.invalidate_caches()
    return import_plugin(name, lambda: _import_module(name, search_folders, noun), name, folder, noun)


def import_plugin(
    name: str, importer: Callable[[], ModuleType], shown_name: str, folder: Path | None = None, noun: str = "plugin"
) -> Plugin:  # fmt: skip
    """Import a plugin by calling `importer`, and record it as loaded.

    Raises ArchError (A3102), located in the plugin's files, if the import fails.
    """
    own_paths = _own_paths(name.partition(".")[0], folder)
    try:
        module = importer()
    except ArchError as error:
        span = loading.plugin_span(error, own_paths)
        raise ArchError(
            *(replace(diagnostic, span=diagnostic.span or span) for diagnostic in error.diagnostics)
        ) from error
    except (Exception, SystemExit) as error:
        text = f"the {noun} `{shown_name}` cannot be imported: {loading.describe_exception(error)}"
        raise fail("A3102", text, loading.plugin_span(error, own_paths)) from error
    _LOADED[name] = Plugin(
        name, tuple(own_paths), folder, tuple(Path(part) for part in getattr(module, "__path__", ()))
    )
    return _LOADED[name]


def _import_module(name: str, folders: Sequence[Path], noun: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a module that the plugin imports is missing
        raise _not_found(name, folders, noun) from error


def _not_found(name: str, folders: Sequence[Path], noun: str) -> ArchError:
    suggestion = suggest(name, {path.stem for folder in folders for path in folder.glob("*.py")})
    folder_names = join_names([str(folder) for folder in folders], 3)
    hint = (
        suggestion
        or f"archir looks where Python finds modules, and in {folder_names}: PYTHONPATH=FOLDER adds another folder"
    )
    why = ": no module has this name" if noun != "module" else ""
    return fail("A3101", f"there is no {noun} `{name}`{why}", None, hint)


def _find_folder(top_level: str, folders: Sequence[Path], noun: str) -> Path | None:
    """Return the folder to append to `sys.path` so that Python finds a module; None if no folder is needed.

    Raises ArchError (A3101, A3104).
    """
    files: dict[Path | None, Path | None] = {}
    namespace_folders: list[Path | None] = []
    for folder in (None, *folders):
        spec = _find_spec(top_level, folder)
        if spec is None:
            continue
        if spec.loader is None or (spec.origin is None and spec.submodule_search_locations is not None):
            namespace_folders.append(folder)  # a folder without __init__.py
            continue
        files.setdefault(Path(spec.origin).resolve() if spec.has_location and spec.origin else None, folder)
    if len(files) > 1:
        file_names = join_names([str(file or "one of Python itself") for file in files])
        text = f"several modules are named `{top_level}`: {file_names}"
        raise fail("A3104", text, None, "rename your module, or work in another folder")
    if files:
        return next(iter(files.values()))
    if namespace_folders:
        return namespace_folders[0]
    if top_level in sys.modules:  # created by code, without a file
        return None
    raise _not_found(top_level, folders, noun)


def _find_spec(top_level: str, folder: Path | None) -> ModuleSpec | None:
    if folder is not None:
        return PathFinder.find_spec(top_level, [str(folder)])
    try:
        return importlib.util.find_spec(top_level)
    except ValueError:  # a module created by code has no spec
        return None


def _own_paths(top_level: str, folder: Path | None) -> list[Path]:
    """Return the files and folders that contain a plugin's own code."""
    spec = _find_spec(top_level, None)
    paths = [Path(part) for part in (spec.submodule_search_locations or ())] if spec is not None else []
    if spec is not None and spec.has_location and spec.origin:
        paths.append(Path(spec.origin))
    return [*paths, *([folder] if folder is not None else [])]


def plugin_error(error: BaseException) -> ArchError | None:
    """Return the error (A3106) that reports an exception raised in a plugin's code; None for any other exception."""
    own_paths = [own for plugin in _LOADED.values() for own in plugin.own_paths]
    span = loading.plugin_span(error, own_paths)
    if span is None:
        return None
    file = Path(span.source.name).resolve()
    owner = max(
        (own for own in own_paths if file.is_relative_to(own)), key=lambda own: len(own.parts)
    )  # the most specific path: the plugin's own file rather than a folder that another plugin owns
    name = next(plugin.name for plugin in _LOADED.values() if owner in plugin.own_paths)
    return fail("A3106", f"the plugin `{name}` failed: {loading.describe_exception(error)}", span)


_OWN_PACKAGES = {"archir", "archir_torch", "archir_onnx"}
_SITE_FOLDERS = {"site-packages", "dist-packages"}
_MAX_BYTES = 1 << 20


def describe_exception(error: BaseException) -> str:
    """Return the type and the message of an exception as one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return " ".join("".join(format_exception_only(type(error), error)).split())


def plugin_span(error: BaseException, own_paths: list[Path]) -> Span | None:
    """Return the span of the innermost traceback frame whose code lies in one of these files or folders, or None."""
    if isinstance(error, SyntaxError) and error.filename and _belongs_to(Path(error.filename), own_paths):
        return _line_span(error.filename, error.lineno or 1, (error.offset or 1) - 1, None)
    for frame in reversed([*_foreign_frames(error)]):
        if _belongs_to(Path(frame.filename), own_paths):
            return _line_span(frame.filename, frame.lineno or 1, frame.colno, frame.end_colno)
    return None


def _foreign_frames(error: BaseException) -> Iterator[FrameSummary]:
    own_folders = {
        str(Path(file).parent) for name in _OWN_PACKAGES if (file := getattr(sys.modules.get(name), "__file__", None))
    }
    for frame in extract_tb(error.__traceback__):
        if not any(Path(frame.filename).is_relative_to(folder) for folder in own_folders):
            yield frame


def _belongs_to(file: Path, own_paths: list[Path]) -> bool:
    """Return whether a file is a plugin's own code, and not a package installed inside the plugin's folder."""
    return any(
        file.is_relative_to(own) and not _SITE_FOLDERS & {*file.relative_to(own).parts} for own in own_paths
    )  # fmt: skip


def _line_span(name: str, line: int, begin: int | None, end: int | None) -> Span | None:
    try:
        text = Path(name).read_bytes()[:_MAX_BYTES].decode("utf-8", "replace")
    except OSError:
        return None
    path = Path(name)
    source = Source(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path), text)
    if line > len(source.line_starts):
        return None
    content = source.line(line)
    start = len(content) - len(content.lstrip()) if begin is None else min(begin, len(content))
    stop = len(content) if end is None or end <= start else min(end, len(content))
    return Span(source, source.line_starts[line - 1] + start, source.line_starts[line - 1] + stop)
