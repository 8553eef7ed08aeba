"""What a file's name says of what is written into it: by `archir compile`, `archir export` and `archir.export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from archir.diagnostics.errors import RuleError, suggest

COMPILED = {".onnx": ("onnx",), ".py": ("torch",), ".pt2": ("exported", "aot"), ".json": ("json",), ".ir": ("ir",)}
"""The forms of a suffix, the one that it stands for first."""
EXPORTED = {".onnx": ("onnx",), ".py": ("python",), ".pt2": ("exported", "aot"), ".arch": ("program",)}
ONNX = {".onnx": ("onnx",)}
_ELSE = {
    ".safetensors": "the name of a file of weights",
    ".arch": "the name of a program",
    ".pt": "the name of a file that torch.save writes",
    ".pth": "the name of a file that torch.save writes",
}
"""What names stand for that nothing of the forms here has."""
_NEEDED = ("exported", "aot", "program")
"""Forms whose files cannot be read again without their suffix."""


def form_of(to: str | None, output: Path, known: Mapping[str, tuple[str, ...]]) -> str:
    """The form that is asked for, or else that which the name of the file stands for.

    Raises RuleError for a name that stands for none, or for another one than is asked for.
    """
    suffix = output.suffix
    if to is not None:
        _require_fits(to, output, known)
        return to
    if suffix in known:
        return known[suffix][0]
    listed = ", ".join(f"{one} ({forms[0]})" for one, forms in known.items())
    if suffix == ".safetensors":
        said = f"{output} is {_ELSE[suffix]}, which are written beside a network"
    elif not suffix:
        said = f"{output} has no suffix to say what is to be written"
    else:
        near = suggest(suffix, known)
        said = f"{suffix} does not say what is to be written into {output}{f'; {near}' if near else ''}"
    raise RuleError(f"{said}: name it {listed}")


def _require_fits(form: str, output: Path, known: Mapping[str, tuple[str, ...]]) -> None:
    suffix = output.suffix
    ending = next((one for one, forms in known.items() if form in forms), None)
    if form in _NEEDED and suffix != ending:
        what = "a program" if form == "program" else "a package of torch"
        raise RuleError(f"the name of {what} ends in {ending}, that of {output} does not")
    if ending is None or suffix == ending:  # a backend of a plugin, whose files are called as it likes
        return
    if suffix in known:
        stands = f"{output} is the name of another kind of file, {known[suffix][0]}"
    elif suffix in _ELSE:
        stands = f"{output} is {_ELSE[suffix]}"
    else:
        return
    raise RuleError(f"{stands}; that of this one ends in {ending}")
