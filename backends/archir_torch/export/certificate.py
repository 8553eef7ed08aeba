"""Certificates of torch packages, stored beside them as `NAME.pt2.json` (see `archir.backends.certificates`)."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, get_args

import torch

from archir import __version__
from archir.backends import certificates
from archir.backends.certificates import MAX_ELEMENTS, SEED, Verification
from archir.backends.comparison import random_inputs
from archir.diagnostics.errors import fail
from archir.ir.types import DTYPES, TensorType
from archir.utils.files import open_regular
from archir_torch.export.archive import MAX_AXES, require_matching
from archir_torch.export.package import TOLERANCE, PackageFormat, Report, Runner, runner


def certify(
    path: Path,
    report: Report,
    reference: Runner,
    inputs: Mapping[str, TensorType],
    metadata: Mapping[str, str],
) -> Path:
    """Write the certificate of a package and return its path.

    Raises ArchError (A0919) if the package would not pass a later verification.
    """
    computed = reference(random_inputs(inputs, 1, seed=SEED))
    require_matching(path, report.form, inputs, [*computed], metadata)
    content = {
        "files": {path.name: certificates.file_facts(path)},
        "model": {
            "form": report.form,
            "inputs": {name: _describe_type(kind) for name, kind in inputs.items()},
            "metadata": dict(metadata),
        },
        "verified": None if not report.batches else {
            "absolute": report.absolute, "relative": report.relative, "batches": list(report.batches),
        },
        "computed": {
            "seed": SEED, "tolerance": TOLERANCE,
            "outputs": certificates.first_values(computed),
        },
        "versions": {"archir": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }  # fmt: skip
    return certificates.write(path, content)


def _describe_type(kind: TensorType) -> dict[str, Any]:
    """Return the JSON description of an input type in a certificate."""
    return {"shape": list(kind.shape), "dtype": kind.dtype} | (
        {} if kind.integer_limit is None else {"below": kind.integer_limit}
    )


def verify_package(path: Path, devices: Sequence[str] = ("cpu",), trust: str | None = None) -> Verification:
    """Verify a package against its certificate; if the package is trusted, also run it and compare its outputs.

    Loading a package runs code in it, and a certificate does not prove who wrote it. A package is therefore loaded only
    if its SHA-256 is `trust`; otherwise the result has no differences. Raises ArchError: A0917 (invalid certificate),
    A0916, A0918 and A0919 (the file does not match), A0920 (the SHA-256 is not the trusted one), A0914 (unsupported
    device), A0913 (different outputs).
    """
    if any(device != "cpu" for device in devices):
        raise fail("A0914", "torch packages run on the CPU only", None, "use --on cpu")
    certificate = certificates.read(path)
    kinds = _inputs(certificate["model"].get("inputs"))
    form = certificate["model"].get("form")
    if path.name not in certificate["files"] or form not in get_args(PackageFormat) or kinds is None:
        raise fail("A0917", f"the certificate of {path} is not one of this package")
    outputs = certificate["computed"]["outputs"]
    require_matching(path, form, kinds, [*outputs], certificate["model"]["metadata"])
    if trust is None:
        return Verification(tuple(certificate["files"]), {}, certificate)
    with _trusted_copy(path, trust) as copy:
        computed = runner(copy, form, [*kinds], [*outputs])(random_inputs(kinds, 1, seed=SEED))
    return Verification(
        tuple(certificate["files"]),
        {"torch CPU": certificates.compare(path, "CPU", computed, certificate)},
        certificate,
    )


@contextmanager
def _trusted_copy(path: Path, digest: str) -> Iterator[Path]:
    """Context manager that copies a file to a private folder, so that nobody can replace it after the check.

    Raises ArchError (A0920) unless the file has the given SHA-256.
    """
    with tempfile.TemporaryDirectory() as folder, open_regular(path) as stream:
        copy, hashed = Path(folder) / path.name, sha256()
        with copy.open("wb") as out:
            while part := stream.read(1 << 20):
                hashed.update(part)
                out.write(part)
        if hashed.hexdigest() != digest.lower():
            hint = "get the SHA-256 from whoever created the package, not from where the package is stored"
            raise fail("A0920", f"{path} is not the package with the SHA-256 {digest}: it is not loaded", None, hint)
        yield copy


def _inputs(described: Any) -> dict[str, TensorType] | None:
    """Parse the input types in a certificate.

    Returns None if they are invalid or have more than MAX_ELEMENTS elements in total.
    """
    match described:
        case dict() if described and all(_is_input(entry) for entry in described.values()):
            kinds = {
                name: TensorType(tuple(entry["shape"]), entry["dtype"], integer_limit=entry.get("below"))
                for name, entry in described.items()
            }
            return kinds if sum(prod(kind.shape) for kind in kinds.values()) <= MAX_ELEMENTS else None
    return None


def _is_input(described: Any) -> bool:
    """Return whether a JSON value is a valid description of an input type."""
    match described:
        case {"shape": list(shape), "dtype": str(dtype)}:
            sizes = all(type(size) is int and 0 < size <= MAX_ELEMENTS for size in shape)
            below = described.get("below")
            valid_range = below is None or (type(below) is int and 0 < below < 2**63)
            return sizes and valid_range and len(shape) <= MAX_AXES and dtype in DTYPES
    return False
