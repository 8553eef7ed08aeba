"""Reads data sources by name; the reader is selected by prefix, file suffix or folder content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from archir.data import python_data
from archir.data.inputs import Inputs, image_shape
from archir.data.matching import match_inputs
from archir.data.readers import digits, folder, hub, idx, npz, parquet, sound, table, windows
from archir.data.readers.source import SOURCES, Source
from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest


def read(source: Any, inputs: Inputs) -> Source:
    """Read a source and match it to the inputs of a net.

    `source` is a name (`digits`, a path, `PREFIX:REST` or `MODULE:FUNCTION`), a Path, or a Python object such as
    arrays or a dataset. Image files are decoded to the size of the net's input. Raises ArchError (A11xx).
    """
    if isinstance(source, PurePath):
        source = str(source)
    if not isinstance(source, str):
        return match_inputs(python_data.read(source, "`data`"), inputs, "`data`")
    return match_inputs(_read_named(source, inputs), inputs, f"`{source}`")


def source_label(source: Any) -> str:
    """Return the name of a source for use in messages."""
    return f"`{source}`" if isinstance(source, str | PurePath) else "`data`"


def _read_named(source: str, inputs: Inputs) -> Source:
    """Read a source given by name. Raises ArchError (A11xx)."""
    if source == "digits":
        image_shape(inputs, "`digits`")
        return digits.read()
    prefix, colon, location = source.partition(":")
    if module_of(source) is not None and not Path(source).exists():
        return python_data.call_function(source)
    format_name, name = (prefix, location) if colon and SOURCES.find(prefix) else (_detect_format(Path(source)), source)
    return python_data.read(SOURCES[format_name](name, inputs), f"`{source}`")


def module_of(source: Any) -> str | None:
    """Return the module of a source written `MODULE:FUNCTION`; None for any other source."""
    module, colon, function = source.partition(":") if isinstance(source, str) else ("", "", "")
    named = colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return module if named and SOURCES.find(module) is None else None


def origin(source: Any) -> str:
    """Return where a source's samples come from, without options such as target columns.

    Sources with the same origin have the same samples.
    """
    text = str(source) if isinstance(source, str | PurePath) else f"data {id(source)}"
    prefix, colon, location = text.partition(":")
    prefix_name, name = (prefix, location) if colon and SOURCES.find(prefix) else ("", text)
    name = name.partition("@")[0] if prefix_name == "series" else name
    name = name.partition("#")[0] if prefix_name in ("", "parquet", "hf", "csv", "series") else name
    if prefix_name == "hf" or text == "digits":
        return text.partition("#")[0]
    try:
        return str(Path(name).resolve())
    except (OSError, ValueError):  # not a path; the reader reports that
        return name


def _detect_format(path: Path) -> str:
    """Return the reader prefix for a path, based on its suffix or folder content. Raises ArchError (A1101)."""
    if path.suffix in (".npz", ".npy", ".parquet"):
        return path.suffix[1:]
    suffix = path.suffix.partition("#")[0]
    if suffix in (".csv", ".parquet"):
        return suffix[1:]
    if path.suffix == ".txt":
        return "text"
    folder, targets = table.split_targets(str(path))
    if targets and folder.is_dir() and not path.exists():
        return "parquet" if parquet.has_files(folder) else "csv"
    if not path.is_dir():
        hint = f"data is `digits`, a file, a folder, `MODULE:FUNCTION`, or begins with {', '.join(SOURCES)} and `:`"
        word, colon, _ = str(path).partition(":")
        correction = suggest(word, SOURCES if colon else ["digits"])
        raise fail(
            "A1101",
            f"there is no folder {path}",
            None,
            f"{correction} {hint[0].upper()}{hint[1:]}" if correction else hint,
        )
    if idx.has_files(path):
        return "idx"
    if npz.has_files(path):
        return "npy"
    if (path / "masks").is_dir() or (path / "train" / "masks").is_dir():
        return "masks"
    return "parquet" if parquet.has_files(path) else "images"


def _read_parquet(name: str, inputs: Inputs) -> Source:
    """Read a Parquet source: images with labels if the net takes a single image, otherwise a table."""
    path, _, column = name.partition("#")
    if len(inputs) != 1 or not inputs[0].is_image:
        return parquet.read_tabular(_existing_path(path), table.split_targets(name)[1])
    return parquet.read(_existing_path(path), image_shape(inputs, f"`{name}`"), column or None)


def _read_hub(name: str, inputs: Inputs) -> Source:
    """Read a data set of the Hugging Face hub."""
    name, _, columns = name.partition("#")
    return hub.read(name, inputs, table.split_targets(f"#{columns}")[1])


def _existing_path(name: str) -> Path:
    """Convert a name to a path. Raises ArchError (A1101) if it does not exist."""
    if not Path(name).exists():
        raise fail("A1101", f"there is no file or folder {name}")
    return Path(name)


_READERS: dict[str, Callable[[str, Inputs], Source]] = {
    "npz": lambda name, _: npz.read(Path(name)),
    "npy": lambda name, _: npz.memory_mapped(_existing_path(name)),
    "idx": lambda name, _: idx.read(_existing_path(name)),
    "parquet": _read_parquet,
    "images": lambda name, inputs: folder.read(_existing_path(name), image_shape(inputs, f"`{name}`")),
    "hf": _read_hub,
    "masks": lambda name, inputs: folder.read_masks(_existing_path(name), image_shape(inputs, f"`{name}`")),
    "csv": lambda name, _: table.read(name),
    "series": windows.read_series,
    "text": lambda name, inputs: windows.read_text(_existing_path(name), inputs),
    "wav": lambda name, inputs: sound.read(_existing_path(name), inputs),
}
"""Built-in readers, by the prefix in the source's name."""

for _prefix, _reader in _READERS.items():
    SOURCES.register(_prefix, _reader)
