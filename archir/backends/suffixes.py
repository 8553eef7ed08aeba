"""Output formats by file suffix, for `archir compile`, `archir export` and `archir.export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from archir.diagnostics.errors import RuleError
from archir.diagnostics.hints import suggest

COMPILE_FORMATS = {
    ".onnx": ("onnx",),
    ".py": ("torch",),
    ".pt2": ("exported", "aot"),
    ".json": ("json",),
    ".ir": ("ir",),
}
"""Formats that `archir compile` can write, by suffix; the first is the default."""
EXPORT_FORMATS = {".onnx": ("onnx",), ".py": ("python",), ".pt2": ("exported", "aot"), ".arch": ("program",)}
"""Formats that `archir export` can write, by suffix; the first is the default."""
ONNX_FORMATS = {".onnx": ("onnx",)}
"""Formats that `archir.export` can write, by suffix."""
_OTHER_MEANINGS = {
    ".safetensors": "the name of a file of weights",
    ".arch": "the name of a program",
    ".pt": "the name of a file that torch.save writes",
    ".pth": "the name of a file that torch.save writes",
}
"""Descriptions of files with other well-known suffixes, for error messages."""
_SUFFIX_REQUIRED = ("exported", "aot", "program")
"""Formats whose files can be read back only if they have the right suffix."""


def output_format(to: str | None, output: Path, formats: Mapping[str, tuple[str, ...]]) -> str:
    """Return the requested format `to`, or, if that is None, the default format for the file's suffix.

    `formats` are the possible formats by suffix. Raises RuleError if the suffix has no format or does not fit
    `to`.
    """
    suffix = output.suffix
    if to is not None:
        _require_fits(to, output, formats)
        return to
    if suffix in formats:
        return formats[suffix][0]
    options = ", ".join(f"{ending} ({forms[0]})" for ending, forms in formats.items())
    if suffix == ".safetensors":
        problem = f"{output} is {_OTHER_MEANINGS[suffix]}, which are written beside a network"
    elif not suffix:
        problem = f"{output} has no suffix to say what is to be written"
    else:
        correction = suggest(suffix, formats)
        problem = f"{suffix} does not say what is to be written into {output}{f'; {correction}' if correction else ''}"
    raise RuleError(f"{problem}: name it {options}")


def _require_fits(form: str, output: Path, formats: Mapping[str, tuple[str, ...]]) -> None:
    """Raise RuleError if the suffix of a file does not fit the requested format."""
    suffix = output.suffix
    ending = next((candidate for candidate, forms in formats.items() if form in forms), None)
    if form in _SUFFIX_REQUIRED and suffix != ending:
        what = "a program" if form == "program" else "a package of torch"
        raise RuleError(f"the name of {what} ends in {ending}, that of {output} does not")
    if ending is None or suffix == ending:  # no suffix is defined for the formats of plugins
        return
    if suffix in formats:
        problem = f"{output} is the name of another kind of file, {formats[suffix][0]}"
    elif suffix in _OTHER_MEANINGS:
        problem = f"{output} is {_OTHER_MEANINGS[suffix]}"
    else:
        return
    raise RuleError(f"{problem}; that of this one ends in {ending}")
