"""What was proved of a package, in a file beside it: `NAME.pt2.json` (see `archir.certificates`)."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch

from archir import __version__, certificates
from archir.certificates import SEED, Verified
from archir.comparison import random_inputs
from archir.errors import fail
from archir.types import TensorType
from archir_torch.package import TOLERANCE, Form, Report, Runner, runner


def certify(
    path: Path,
    report: Report,
    reference: Runner,
    inputs: Mapping[str, TensorType],
    metadata: Mapping[str, str],
) -> Path:
    """Write a package's certificate; its file."""
    computed = reference(random_inputs(inputs, 1, seed=SEED))
    content = {
        "files": {path.name: certificates.facts(path)},
        "model": {
            "form": report.form,
            "inputs": {name: {"shape": list(kind.shape), "dtype": kind.dtype} for name, kind in inputs.items()},
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


def look(path: Path, devices: Sequence[str] = ("cpu",)) -> Verified:
    """Compare a package with its certificate, and compute again what the network computed.

    The package is loaded, which runs code in it, once it is found to be the one that was certified. Raises ArchError:
    A0917 (the certificate), A0916 and A0918 (the file), A0914 (a device), A0913 (it computes something else).
    """
    if any(device != "cpu" for device in devices):
        raise fail("A0914", "packages are written for the CPU", None, "--on cpu")
    known = certificates.read(path)
    kinds = _inputs(known["model"].get("inputs"))
    form = known["model"].get("form")
    if path.name not in known["files"] or form not in get_args(Form) or kinds is None:
        raise fail("A0917", f"the certificate of {path} is one of something else")
    run = runner(path, form, [*kinds], [*known["computed"]["outputs"]])
    found = run(random_inputs(kinds, 1, seed=SEED))
    return Verified(tuple(known["files"]), {"torch CPU": certificates.compare(path, "CPU", found, known)}, known)


def _inputs(said: Any) -> dict[str, TensorType] | None:
    """The types of inputs; None if that is not what is said."""
    try:
        return {name: TensorType(tuple(map(int, one["shape"])), one["dtype"]) for name, one in said.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
