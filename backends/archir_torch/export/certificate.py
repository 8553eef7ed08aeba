"""What was proved of a package, in a file beside it: `NAME.pt2.json` (see `archir.backends.certificates`)."""

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
from archir.backends.certificates import MOST_ELEMENTS, SEED, Verified
from archir.backends.comparison import random_inputs
from archir.diagnostics.errors import fail
from archir.ir.types import DTYPES, TensorType
from archir.utils.files import reading
from archir_torch.export.archive import MOST_AXES, require_as_described
from archir_torch.export.package import TOLERANCE, Form, Report, Runner, runner


def certify(
    path: Path,
    report: Report,
    reference: Runner,
    inputs: Mapping[str, TensorType],
    metadata: Mapping[str, str],
) -> Path:
    """Write a package's certificate; its file. Raises ArchError (A0919) for one that nobody could verify."""
    computed = reference(random_inputs(inputs, 1, seed=SEED))
    require_as_described(path, report.form, inputs, [*computed], metadata)
    content = {
        "files": {path.name: certificates.facts(path)},
        "model": {
            "form": report.form,
            "inputs": {name: _said(kind) for name, kind in inputs.items()},
            "metadata": dict(metadata),
        },
        "verified": None if not report.batches else {
            "absolute": report.absolute, "relative": report.relative, "batches": list(report.batches),
        },
        "computed": {
            "seed": SEED, "tolerance": TOLERANCE,
            "outputs": certificates.shown(computed),
        },
        "versions": {"archir": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }  # fmt: skip
    return certificates.write(path, content)


def _said(kind: TensorType) -> dict[str, Any]:
    """A type as a certificate has it."""
    return {"shape": list(kind.shape), "dtype": kind.dtype} | ({} if kind.below is None else {"below": kind.below})


def look(path: Path, devices: Sequence[str] = ("cpu",), trust: str | None = None) -> Verified:
    """Compare a package with its certificate; with the SHA-256 of one that is trusted, compute again what it computed.

    Loading a package runs code in it, and a certificate does not say who wrote it. So a package is loaded only if it is
    the one with that SHA-256; without, there are no differences in what is returned. Raises ArchError: A0917 (the
    certificate), A0916, A0918 and A0919 (the file), A0920 (not the one that is trusted), A0914 (a device), A0913 (it
    computes something else).
    """
    if any(device != "cpu" for device in devices):
        raise fail("A0914", "packages are written for the CPU", None, "--on cpu")
    known = certificates.read(path)
    kinds = _inputs(known["model"].get("inputs"))
    form = known["model"].get("form")
    if path.name not in known["files"] or form not in get_args(Form) or kinds is None:
        raise fail("A0917", f"the certificate of {path} is one of something else")
    outputs = known["computed"]["outputs"]
    require_as_described(path, form, kinds, [*outputs], known["model"]["metadata"])
    if trust is None:
        return Verified(tuple(known["files"]), {}, known)
    with _trusted(path, trust) as copy:
        found = runner(copy, form, [*kinds], [*outputs])(random_inputs(kinds, 1, seed=SEED))
    return Verified(tuple(known["files"]), {"torch CPU": certificates.compare(path, "CPU", found, known)}, known)


@contextmanager
def _trusted(path: Path, digest: str) -> Iterator[Path]:
    """A copy of a file, which nobody can exchange any more. Raises ArchError (A0920) unless it has this SHA-256."""
    with tempfile.TemporaryDirectory() as folder, reading(path) as stream:
        copy, hashed = Path(folder) / path.name, sha256()
        with copy.open("wb") as out:
            while part := stream.read(1 << 20):
                hashed.update(part)
                out.write(part)
        if hashed.hexdigest() != digest.lower():
            hint = "take it from whoever made the package, not from where the package lies"
            raise fail("A0920", f"{path} is not the package with the SHA-256 {digest}: it is not loaded", None, hint)
        yield copy


def _inputs(said: Any) -> dict[str, TensorType] | None:
    """The types of inputs; None if that is not what is said."""
    match said:
        case dict() if said and all(_is_input(one) for one in said.values()):
            kinds = {
                name: TensorType(tuple(one["shape"]), one["dtype"], below=one.get("below"))
                for name, one in said.items()
            }
            return kinds if sum(prod(kind.shape) for kind in kinds.values()) <= MOST_ELEMENTS else None
    return None


def _is_input(said: Any) -> bool:
    match said:
        case {"shape": list(shape), "dtype": str(dtype)}:
            sizes = all(type(size) is int and 0 < size <= MOST_ELEMENTS for size in shape)
            below = said.get("below")
            ranged = below is None or (type(below) is int and 0 < below < 2**63)
            return sizes and ranged and len(shape) <= MOST_AXES and dtype in DTYPES
    return False
