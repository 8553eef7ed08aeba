"""What was proved of a package, in a file beside it: `NAME.pt2.json` (see `archir.certificates`)."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from archir import __version__, certificates
from archir.certificates import SEED, SHOWN, Verified
from archir.errors import fail
from archir.types import TensorType
from archir_torch.package import TOLERANCE, Report, Runner, random_inputs, runner


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
            "outputs": {
                name: [float(value) for value in np.asarray(array, np.float64).reshape(-1)[:SHOWN]]
                for name, array in computed.items()
            },
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
    if path.name not in known["files"] or "form" not in known["model"]:
        raise fail("A0917", f"the certificate of {path} is one of something else")
    computed, inputs = known["computed"], known["model"]["inputs"]
    kinds = {name: TensorType(tuple(one["shape"]), one["dtype"]) for name, one in inputs.items()}
    run = runner(path, known["model"]["form"], [*kinds], [*computed["outputs"]])
    worst = 0.0
    for name, array in run(random_inputs(kinds, 1, seed=computed["seed"])).items():
        wanted = np.array(computed["outputs"][name])
        found = np.asarray(array, np.float64).reshape(-1)[:SHOWN]
        if wanted.shape != found.shape:
            raise fail("A0918", f"{path} has an output `{name}` that is not the one that was certified")
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-12)
        worst = max(worst, float(np.abs(found - wanted).max(initial=0)) / scale)
    if not worst <= computed["tolerance"]:
        raise fail("A0913", f"{path} computes something else: {worst:.2e} relative")
    return Verified(tuple(known["files"]), {"torch CPU": worst}, known)
