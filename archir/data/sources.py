"""Sources of data by their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from archir.data import objects
from archir.data.inputs import Inputs, image_of
from archir.data.matching import matched
from archir.data.readers import digits, folder, hub, idx, npz, parquet, sound, table, windows
from archir.data.readers.source import SOURCES, Source
from archir.diagnostics.errors import fail, suggest
from archir.plugins.bundled import import_all


def read(source: Any, inputs: Inputs) -> Source:
    """A source by the form of its name, or what Python has: arrays, a Path, a dataset (see `objects`).

    Its inputs are those that a net takes; images of files are decoded as large as its input. Raises ArchError (A11xx).
    """
    if isinstance(source, PurePath):
        source = str(source)
    if not isinstance(source, str):
        return matched(objects.read(source, "`data`"), inputs, "`data`")
    return matched(_read(source, inputs), inputs, f"`{source}`")


def called(source: Any) -> str:
    """What messages call a source."""
    return f"`{source}`" if isinstance(source, str | PurePath) else "`data`"


def _read(source: str, inputs: Inputs) -> Source:
    if source == "digits":
        image_of(inputs, "`digits`")
        return digits.read()
    prefix, colon, rest = source.partition(":")
    if module_of(source) is not None and not Path(source).exists():
        return objects.called(source)
    form, name = (prefix, rest) if colon and prefix in SOURCES else (_form(Path(source)), source)
    return objects.read(SOURCES[form](name, inputs), f"`{source}`")


def module_of(source: Any) -> str | None:
    """The module of a source that is written as `MODULE:FUNCTION`."""
    module, colon, function = source.partition(":") if isinstance(source, str) else ("", "", "")
    named = colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return module if named and module not in SOURCES else None


def origin(source: Any) -> str:
    """Where the images of a source are, however it is named: two sources with one origin have the same images."""
    written = str(source) if isinstance(source, str | PurePath) else f"data {id(source)}"
    prefix, colon, rest = written.partition(":")
    form, name = (prefix, rest) if colon and prefix in SOURCES else ("", written)
    name = name.partition("@")[0] if form == "series" else name
    name = name.partition("#")[0] if form in ("", "parquet", "hf", "csv", "series") else name
    if form == "hf" or written == "digits":
        return written.partition("#")[0]
    try:
        return str(Path(name).resolve())
    except (OSError, ValueError):  # no path at all, which whoever reads it says
        return name


def _form(path: Path) -> str:
    if path.suffix in (".npz", ".npy", ".parquet"):
        return path.suffix[1:]
    suffix = path.suffix.partition("#")[0]
    if suffix in (".csv", ".parquet"):
        return suffix[1:]
    if path.suffix == ".txt":
        return "text"
    folder, targets = table.parted(str(path))
    if targets and folder.is_dir() and not path.exists():
        return "parquet" if parquet.present(folder) else "csv"
    if not path.is_dir():
        hint = f"data is `digits`, a file, a folder, `MODULE:FUNCTION`, or begins with {', '.join(SOURCES)} and `:`"
        word, colon, _ = str(path).partition(":")
        near = suggest(word, SOURCES if colon else ["digits"])
        raise fail("A1101", f"there is no folder {path}", None, f"{near} {hint[0].upper()}{hint[1:]}" if near else hint)
    if idx.present(path):
        return "idx"
    if npz.present(path):
        return "npy"
    if (path / "masks").is_dir() or (path / "train" / "masks").is_dir():
        return "masks"
    return "parquet" if parquet.present(path) else "images"


def _parquet(name: str, inputs: Inputs) -> Source:
    path, _, column = name.partition("#")
    if len(inputs) != 1 or not inputs[0].is_image:
        return parquet.tabled(_existing(path), table.parted(name)[1])
    return parquet.read(_existing(path), image_of(inputs, f"`{name}`"), column or None)


def _hub(name: str, inputs: Inputs) -> Source:
    name, _, columns = name.partition("#")
    return hub.read(name, inputs, table.parted(f"#{columns}")[1])


def _existing(name: str) -> Path:
    if not Path(name).exists():
        raise fail("A1101", f"there is no file or folder {name}")
    return Path(name)


_FORMS: dict[str, Callable[[str, Inputs], Source]] = {
    "npz": lambda name, _: npz.read(Path(name)),
    "npy": lambda name, _: npz.mapped(_existing(name)),
    "idx": lambda name, _: idx.read(_existing(name)),
    "parquet": _parquet,
    "images": lambda name, inputs: folder.read(_existing(name), image_of(inputs, f"`{name}`")),
    "hf": _hub,
    "masks": lambda name, inputs: folder.masked(_existing(name), image_of(inputs, f"`{name}`")),
    "csv": lambda name, _: table.read(name),
    "series": windows.series,
    "text": lambda name, inputs: windows.text(_existing(name), inputs),
    "wav": lambda name, inputs: sound.read(_existing(name), inputs),
}
"""How archir's own sources are read, by what their names begin with."""

for _prefix, _reader in _FORMS.items():
    SOURCES.register(_prefix, _reader)

import_all("archir.data.readers")
