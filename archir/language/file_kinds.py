"""Recognises file kinds by suffix, for error messages of commands that got a file of the wrong kind."""

from __future__ import annotations

from pathlib import Path

from archir.diagnostics.errors import fail

_KINDS = {
    ".arch": ("a space or a network", '`archir check {file}` proves it; a recipe names it, `space = "{name}"`'),
    ".toml": ("TOML, as recipes are", "`archir search {file}` runs a recipe, and with `--check` only checks it"),
    ".json": ("JSON, as architectures are", "`--arch {file}`, after the space that it belongs to"),
    ".onnx.json": ("a certificate", "`archir verify {model}` compares the model with it"),
    ".pt2.json": ("a certificate", "`archir verify {model}` compares the package with it"),
    ".onnx": (
        "an ONNX model",
        "`archir import {file} -o net.arch` writes a program; `archir show`, `verify` and `bench` take the model",
    ),
    ".pt2": ("a package of torch", "`archir verify {file}` takes it"),
    ".safetensors": ("a file of weights", "`archir compile NET.arch --weights {file}` takes it, with its network"),
    ".py": ("Python", "`archir import --torch {stem}:FUNCTION` takes a torch module"),
}  # fmt: skip
"""Maps each file suffix to a description and a hint naming the command that takes such files.

The hints are format strings with the fields `file` (path), `model` (path without the last suffix), `name` (file name)
and `stem` (file name without the last suffix).
"""
_EXPECTED = {
    ".arch": "a program that ends in .arch",
    ".toml": "a recipe that ends in .toml",
    ".onnx": "a model that ends in .onnx or .pt2",
}
"""Maps each suffix that `require_kind` can require to a description of such a file."""


def non_json_kind(name: str) -> str | None:
    """Return a description of a file that was expected to be JSON but has another known suffix; else None."""
    suffix = Path(name).suffix
    return _KINDS[suffix][0] if suffix in _KINDS and suffix != ".json" else None


def require_kind(path: Path, suffix: str, code: str) -> None:
    """Raise ArchError with `code` if an existing file has a suffix in `_KINDS` other than the given one.

    Missing files and unknown suffixes pass, because the function that reads the file reports them.
    """
    if path.suffix == suffix or path.suffix not in _KINDS or not path.is_file():
        return
    description, usage = _KINDS.get("".join(path.suffixes[-2:]), _KINDS[path.suffix])
    hint = usage.format(file=path, model=path.with_suffix(""), name=path.name, stem=path.stem)
    raise fail(code, f"{path} is {description}; this takes {_EXPECTED[suffix]}", None, hint)
