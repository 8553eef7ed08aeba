"""What was proved of a model, in a JSON file beside it: `NAME.onnx.json`, `NAME.pt2.json`.

A certificate has the SHA-256 of the model's files, how it was verified and with what versions, and what the network
computed of some numbers, which anybody can compute again. Its own SHA-256 is in it, too. It shows that files belong
together and are whole; it is no signature: who may have written both is not known. So what a certificate says is
believed of nothing but these files, and no code is run because of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from archir.backends.comparison import Difference
from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes, sha256, write_atomic

SCHEMA = 2
SEED = 0
SHOWN = 64
"""Numbers of each output that are kept."""
MOST_BYTES = 1 << 23
MOST_TOLERANCE = 0.1
"""What may be certified at most, relative to the largest magnitude of an output: more would say nothing."""
MOST_ELEMENTS = 1 << 25
"""Numbers that a model is asked for a second look."""

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
"""Where models are computed: onnxruntime's execution providers, by the devices that options name."""

_HASH = re.compile("[0-9a-f]{64}")
_FILE = re.compile(r"(?!\.\.?$)[^/\\:\0]{1,255}")


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
        raise fail("A0916", f"{path} is no file" if path.exists() else f"there is no model {path}")
    known = _read(beside(path))
    if path.name not in known["files"]:
        hint = "a model keeps the name that it was written under: give it back, or export it under this one"
        raise fail("A0917", f"{beside(path)} is the certificate of {', '.join(known['files'])}", None, hint)
    for name, wanted in known["files"].items():
        if not _is(path.parent / name, wanted):
            hint = "export it again, or put back the file that was certified"
            raise fail("A0918", f"{path.parent / name} is not the file that was certified", None, hint)
    return known


def _is(file: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether a file is the one that a certificate knows."""
    try:
        return facts(file) == wanted
    except OSError:
        return False


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """A certificate. Raises ArchError (A0917)."""
    hint = "`archir export` writes it beside the model"
    try:
        content = json.loads(read_bytes(path, MOST_BYTES).decode(), parse_constant=_refuse)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise fail("A0917", f"{path} is no certificate", None, hint)
        seal, digest = content.pop("sha256", None), _digest(content)
    except (OSError, ValueError, RecursionError) as error:
        text = f"cannot read the certificate {path}: {getattr(error, 'strerror', None) or error}"
        raise fail("A0917", text, None, hint) from None
    if seal != digest:
        raise fail("A0917", f"the certificate {path} was changed", None, hint)
    if wrong := next((what for what, right in _parts(content).items() if not right), None):
        raise fail("A0917", f"{path} is no certificate: {wrong} is not what it must be", None, hint)
    return content


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _parts(content: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each part of a certificate is what it must be: anybody can seal anything."""
    files, model, computed = (_object(content.get(name)) for name in ("files", "model", "computed"))
    return {
        "`files`": bool(files) and all(_FILE.fullmatch(name) and _is_facts(known) for name, known in files.items()),
        "`model.metadata`": _is_texts(model.get("metadata")),
        "`computed.tolerance`": _is_number(computed.get("tolerance")) and 0 <= computed["tolerance"] <= MOST_TOLERANCE,
        "`computed.outputs`": isinstance(computed.get("outputs"), dict)
        and all(isinstance(one, list) and len(one) <= SHOWN and all(map(_is_number, one))
                for one in computed["outputs"].values()),
        "`versions`": _is_texts(content.get("versions")) and "archir" in content["versions"],
    }  # fmt: skip


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, of which floats hold something."""
    return isfinite(value) if type(value) is float else type(value) is int and abs(value) < 2**63


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(one) is str for one in value.values())


def _is_facts(value: Any) -> bool:
    match value:
        case {"sha256": str(digest), "bytes": int(size)}:
            return len(value) == 2 and bool(_HASH.fullmatch(digest)) and type(size) is int and size >= 0
    return False
