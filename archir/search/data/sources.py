"""Sources of images by their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from archir.base.errors import fail
from archir.search.data.readers import digits, folder, hub, idx, npz, parquet
from archir.search.data.readers.source import Source


def read(source: str, size: tuple[int, int, int]) -> Source:
    """A source by the form of its name; images of files are decoded as large as a net's input [C, H, W].

    Raises ArchError (A11xx).
    """
    if source == "digits":
        return digits.read()
    prefix, colon, rest = source.partition(":")
    form, name = (prefix, rest) if colon and prefix in _FORMS else (_form(Path(source)), source)
    return _FORMS[form](name, size)


def origin(source: str) -> str:
    """Where the images of a source are, however it is named: two sources with one origin have the same images."""
    prefix, colon, rest = source.partition(":")
    form, name = (prefix, rest) if colon and prefix in _FORMS else ("", source)
    name = name.partition("#")[0] if form in ("", "parquet", "hf") else name
    if form == "hf" or source == "digits":
        return source.partition("#")[0]
    try:
        return str(Path(name).resolve())
    except (OSError, ValueError):  # no path at all, which whoever reads it says
        return name


def _form(path: Path) -> str:
    if path.suffix in (".npz", ".parquet"):
        return path.suffix[1:]
    if not path.is_dir():
        hint = (
            f"data is `digits`, a file ending in .npz or .parquet, a folder, or begins with {', '.join(_FORMS)} and `:`"
        )
        raise fail("A1101", f"there is no folder {path}", None, hint)
    if idx.present(path):
        return "idx"
    return "parquet" if parquet.present(path) else "images"


def _parquet(name: str, size: tuple[int, int, int]) -> Source:
    path, _, column = name.partition("#")
    return parquet.read(_existing(path), size, column or None)


def _hub(name: str, size: tuple[int, int, int]) -> Source:
    name, _, column = name.partition("#")
    return hub.read(name, size, column or None)


def _existing(name: str) -> Path:
    if not Path(name).exists():
        raise fail("A1101", f"there is no file or folder {name}")
    return Path(name)


_FORMS: dict[str, Callable[[str, tuple[int, int, int]], Source]] = {
    "npz": lambda name, _: npz.read(Path(name)),
    "idx": lambda name, _: idx.read(_existing(name)),
    "parquet": _parquet,
    "images": lambda name, size: folder.read(_existing(name), size),
    "hf": _hub,
}
"""How sources are read, by what their names begin with."""
