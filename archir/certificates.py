"""What was proved of a model, in a JSON file beside it: `NAME.onnx.json`, `NAME.pt2.json`.

A certificate has the SHA-256 of the model's files, how it was verified and with what versions, and what the network
computed of some numbers, which anybody can compute again. Its own SHA-256 is in it, too. It shows that files belong
together and are whole; it is no signature: who may have written both is not known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from archir.comparison import Difference
from archir.errors import fail
from archir.files import sha256, write_atomic

SCHEMA = 2
SEED = 0
SHOWN = 64
"""Numbers of each output that are kept."""


@dataclass(frozen=True)
class Verified:
    """What came of a second look: the files that are as they were, and the largest relative difference by provider."""

    files: tuple[str, ...]
    differences: Mapping[str, float]
    certificate: Mapping[str, Any]


def beside(path: Path) -> Path:
    """Where a model's certificate is."""
    return path.with_name(f"{path.name}.json")


def facts(file: Path) -> dict[str, Any]:
    """The hash and the size of a file."""
    return {"sha256": sha256(file), "bytes": file.stat().st_size}


def shown(outputs: Mapping[str, ArrayLike]) -> dict[str, list[float]]:
    """What a certificate keeps of outputs."""
    return {name: np.asarray(array, np.float64).reshape(-1)[:SHOWN].tolist() for name, array in outputs.items()}


def compare(path: Path, where: str, found: Mapping[str, ArrayLike], known: Mapping[str, Any]) -> float:
    """The largest relative difference of outputs to those that a certificate knows.

    Raises ArchError: A0918 (they are others), A0913 (they differ by more than its tolerance).
    """
    wanted, worst = known["computed"]["outputs"], Difference()
    for name, numbers in {**dict.fromkeys(wanted), **shown(found)}.items():
        if numbers is None or len(numbers) != len(wanted.get(name, ())):
            raise fail("A0918", f"{path} has an output `{name}` that is not the one that was certified")
        worst |= Difference.of(numbers, wanted[name])
    if not worst.relative <= known["computed"]["tolerance"]:
        raise fail("A0913", f"{path} computes something else on {where}: {worst}")
    return worst.relative


def write(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a model's certificate; its file."""
    sealed = {"schema": SCHEMA, **content}
    write_atomic(beside(path), (json.dumps({**sealed, "sha256": _digest(sealed)}, indent=1) + "\n").encode())
    return beside(path)


def read(path: Path) -> dict[str, Any]:
    """The certificate of a model whose files are what they were. Raises ArchError (A0916 to A0918)."""
    if not path.is_file():
        raise fail("A0916", f"there is no model {path}")
    known = _read(beside(path))
    if path.name not in known["files"]:
        hint = "a model keeps the name that it was written under: give it back, or export it under this one"
        raise fail("A0917", f"{beside(path)} is the certificate of {', '.join(known['files'])}", None, hint)
    for name, wanted in known["files"].items():
        file = path.parent / name
        if not file.is_file() or facts(file) != wanted:
            hint = "export it again, or put back the file that was certified"
            raise fail("A0918", f"{file} is not the file that was certified", None, hint)
    return known


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """A certificate. Raises ArchError (A0917)."""
    hint = "`archir export` writes it beside the model"
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        text = f"cannot read the certificate {path}: {getattr(error, 'strerror', None) or error}"
        raise fail("A0917", text, None, hint) from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise fail("A0917", f"{path} is no certificate", None, hint)
    if content.pop("sha256", None) != _digest(content):
        raise fail("A0917", f"the certificate {path} was changed", None, hint)
    if not _whole(content):
        raise fail("A0917", f"{path} lacks what certificates have", None, hint)
    return content


def _whole(content: Mapping[str, Any]) -> bool:
    """Whether all that is read is there, and files are those of a folder: anybody can seal anything."""
    match content:
        case {
            "files": dict(files),
            "model": {"metadata": dict()},
            "computed": {"tolerance": int() | float(), "outputs": dict(outputs)},
            "versions": {"archir": str()},
        }:
            numbers = [one for values in outputs.values() for one in (values if isinstance(values, list) else [None])]
            return all(isinstance(one, int | float) for one in numbers) and all(
                PurePath(name).name == name for name in files
            )
    return False
