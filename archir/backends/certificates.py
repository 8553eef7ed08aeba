"""Certificates of exported models: JSON files `NAME.onnx.json` or `NAME.pt2.json` with the result of
verification.

A certificate has the SHA-256 of the model's files, the method and software versions of the verification, and
the network's outputs for reproducible inputs. It also contains its own SHA-256. A certificate shows that files belong
together and are intact, but it is not a signature: its author is unknown. A certificate is therefore trusted only
for files whose hashes it contains, and never causes code to be run.
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
from archir.diagnostics.errors import describe_error, fail
from archir.diagnostics.hints import suggest_file
from archir.utils.files import read_bytes, sha256, write_atomic

SCHEMA = 2
"""Format version of certificates."""
SEED = 0
"""Seed for the inputs whose outputs a certificate records."""
MAX_VALUES = 64
"""Maximum number of values that a certificate records per output."""
MAX_OTHERS = 2
"""Maximum number of other input sizes, besides a model's own, for which a certificate records outputs."""
MAX_BYTES = 1 << 23
"""Maximum size of a certificate in bytes."""
MAX_TOLERANCE = 0.1
"""Maximum tolerance in a certificate, relative to the largest magnitude of an output; a larger one would prove
nothing."""
MAX_ELEMENTS = 1 << 25
"""Maximum number of input elements for re-verifying a model."""

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
"""Maps the device option to the execution provider of onnxruntime."""

_HASH = re.compile("[0-9a-f]{64}")
"""Matches a hexadecimal SHA-256."""
_FILE = re.compile(r"(?!\.\.?$)[^/\\:\0]{1,255}")
"""Matches a file name without directory."""


@dataclass(frozen=True)
class Verification:
    """Result of re-verifying a model: its unchanged files, and the largest relative difference per execution
    provider."""

    files: tuple[str, ...]
    differences: Mapping[str, float]
    certificate: Mapping[str, Any]


def certificate_path(path: Path) -> Path:
    """Return the path of the certificate for a model."""
    return path.with_name(f"{path.name}.json")


def file_facts(file: Path) -> dict[str, Any]:
    """Return the SHA-256 and the size of a file."""
    return {"sha256": sha256(file), "bytes": file.stat().st_size}


def first_values(outputs: Mapping[str, ArrayLike]) -> dict[str, list[float]]:
    """Return the first values of each output, as recorded in certificates."""
    return {name: np.asarray(array, np.float64).reshape(-1)[:MAX_VALUES].tolist() for name, array in outputs.items()}


def compare(
    path: Path, provider: str, outputs: Mapping[str, ArrayLike], certificate: Mapping[str, Any],
    record: Mapping[str, Any] | None = None
) -> float:  # fmt: skip
    """Return the largest relative difference between outputs and those recorded in a certificate.

    `path` (the model) and `provider` (where it ran) are used in messages. `record` is one of the certificate's other
    input sizes, with its outputs; None: the model's own size. Raises ArchError: A0918 (other output
    names or sizes), A0913 (the difference exceeds the certificate's tolerance).
    """
    expected, worst = (certificate["computed"] if record is None else record)["outputs"], Difference()
    for name, numbers in {**dict.fromkeys(expected), **first_values(outputs)}.items():
        if numbers is None or len(numbers) != len(expected.get(name, ())):
            raise fail("A0918", f"the output `{name}` of {path} differs in name or size from the certified one")
        worst |= Difference.of(numbers, expected[name])
    if not worst.relative <= certificate["computed"]["tolerance"]:
        raise fail("A0913", f"{path} computes something else on {provider}: {worst}")
    return worst.relative


def write(path: Path, content: Mapping[str, Any]) -> Path:
    """Write the certificate of a model; return its path."""
    sealed = {"schema": SCHEMA, **content}
    write_atomic(certificate_path(path), (json.dumps({**sealed, "sha256": _digest(sealed)}, indent=1) + "\n").encode())
    return certificate_path(path)


def require_model(path: Path) -> None:
    """Raise ArchError (A0916) if there is no file at `path`."""
    if not path.is_file():
        text = f"{path} is not a file" if path.exists() else f"there is no model {path}"
        raise fail("A0916", text, None, suggest_file(path))


def read(path: Path) -> dict[str, Any]:
    """Read the certificate of a model, and check that the model's files are unchanged. Raises ArchError (A0916 to
    A0918)."""
    require_model(path)
    certificate = _read(certificate_path(path))
    if path.name not in certificate["files"]:
        hint = "a certified model cannot be renamed: restore its name, or export it under the new one"
        raise fail(
            "A0917", f"{certificate_path(path)} is the certificate of {', '.join(certificate['files'])}", None, hint
        )
    for name, recorded in certificate["files"].items():
        if not _is_unchanged(path.parent / name, recorded):
            hint = "export it again, or put back the file that was certified"
            raise fail("A0918", f"{path.parent / name} is not the file that was certified", None, hint)
    return certificate


def _is_unchanged(file: Path, recorded: Mapping[str, Any]) -> bool:
    """Return True if a file has the recorded SHA-256 and size."""
    try:
        return file_facts(file) == recorded
    except OSError:
        return False


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a certificate's content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """Read and validate a certificate. Raises ArchError (A0917)."""
    hint = "`archir export` and `archir compile` write it beside the model, `archir.export` with certified=True"
    try:
        content = json.loads(read_bytes(path, MAX_BYTES).decode(), parse_constant=_reject_constant)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise fail("A0917", f"{path} is not a certificate", None, hint)
        seal, digest = content.pop("sha256", None), _digest(content)
    except (OSError, ValueError, RecursionError) as error:
        text = f"cannot read the certificate {path}: {describe_error(error)}"
        raise fail("A0917", text, None, hint) from None
    if seal != digest:
        raise fail("A0917", f"the certificate {path} was changed", None, hint)
    if wrong := next((what for what, right in _part_validity(content).items() if not right), None):
        raise fail("A0917", f"{path} is not a certificate: {wrong} is invalid", None, hint)
    return content


def _reject_constant(word: str) -> float:
    """Raise ValueError for NaN and infinities in JSON."""
    raise ValueError(f"{word} is not a number")


def _part_validity(content: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each part of a certificate is well-formed. A valid hash is not enough, since anyone can compute
    it."""
    files, model, computed = (_object(content.get(name)) for name in ("files", "model", "computed"))
    return {
        "`files`": bool(files) and all(_FILE.fullmatch(name) and _is_file_facts(recorded) for name,
        recorded in files.items()),
        "`model.metadata`": _is_string_map(model.get("metadata")),
        "`computed.tolerance`": _is_number(computed.get("tolerance")) and 0 <= computed["tolerance"] <= MAX_TOLERANCE,
        "`computed.outputs`": _are_outputs(computed.get("outputs")),
        "`computed.others`": _are_others(computed.get("others", [])),
        "`versions`": _is_string_map(content.get("versions")) and "archir" in content["versions"],
    }  # fmt: skip


def _are_outputs(value: Any) -> bool:
    """Return True for a JSON object with lists of numbers."""
    return isinstance(value, dict) and all(
        isinstance(values, list) and len(values) <= MAX_VALUES and all(map(_is_number, values))
        for values in value.values()
    )


def _are_others(value: Any) -> bool:
    """Return True for at most MAX_OTHERS records of outputs for other input sizes."""
    return (
        isinstance(value, list)
        and len(value) <= MAX_OTHERS
        and all(isinstance(record, dict) and _are_outputs(record.get("outputs")) for record in value)
    )


def _object(value: Any) -> Mapping[str, Any]:
    """Return a value if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    """Return True for finite floats, and for integers that fit into 64 bits."""
    return isfinite(value) if type(value) is float else type(value) is int and abs(value) < 2**63


def _is_string_map(value: Any) -> bool:
    """Return True for a JSON object whose values are strings."""
    return isinstance(value, dict) and all(type(text) is str for text in value.values())


def _is_file_facts(value: Any) -> bool:
    """Return True for a JSON object with exactly a SHA-256 and a size."""
    match value:
        case {"sha256": str(digest), "bytes": int(size)}:
            return len(value) == 2 and bool(_HASH.fullmatch(digest)) and type(size) is int and size >= 0
    return False
