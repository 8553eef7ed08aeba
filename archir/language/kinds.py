"""What kinds of files there are, for commands that are given one of another kind than they take."""

from __future__ import annotations

from pathlib import Path

from archir.diagnostics.errors import fail

_KINDS = {
    ".arch": ("a space or a network", '`archir check {file}` proves it; a recipe names it, `space = "{name}"`'),
    ".toml": ("TOML, as recipes are", "`archir search {file}` runs a recipe, and with `--check` only checks it"),
    ".json": ("JSON, as architectures are", "`--arch {file}`, behind the space that it is one of"),
    ".onnx": ("an ONNX model", "`archir show {file}`, `archir verify {file}` and `archir bench {file}` take it"),
    ".pt2": ("a package of torch", "`archir verify {file}` takes it"),
    ".safetensors": ("a file of weights", "`archir compile NET.arch --weights {file}` takes it, with its network"),
    ".py": ("Python", "`archir import --torch {stem}:FUNCTION` takes a torch module"),
}  # fmt: skip
"""What a suffix stands for, and which command takes such a file."""
_WANTED = {".arch": "a program that ends in .arch", ".toml": "a recipe that ends in .toml"}


def other_kind(name: str) -> str | None:
    """What a file is by its name, for whoever expected JSON; None if its name does not say."""
    suffix = Path(name).suffix
    return _KINDS[suffix][0] if suffix in _KINDS and suffix != ".json" else None


def require_kind(path: Path, suffix: str, code: str) -> None:
    """Raise ArchError of the code for a file whose name says that it is of another kind than that of `suffix`.

    A file that is not there is left to whoever reads it.
    """
    if path.suffix == suffix or path.suffix not in _KINDS or not path.is_file():
        return
    what, taken = _KINDS[path.suffix]
    hint = taken.format(file=path, name=path.name, stem=path.stem)
    raise fail(code, f"{path} is {what}; this takes {_WANTED[suffix]}", None, hint)
