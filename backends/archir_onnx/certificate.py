"""What was proved of a model, in a file beside it: `NAME.onnx.json`.

A certificate has the SHA-256 of the model's files, how it was verified and with what versions, and what the network
computed of some numbers, which anybody can compute again. Its own SHA-256 is in it, too.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from archir import __version__
from archir.errors import fail
from archir.files import sha256, write_atomic
from archir_onnx import external
from archir_onnx.verify import TOLERANCE, Report, check, session

SCHEMA = 1
SEED = 0
SHOWN = 64
"""Numbers of each output that are kept."""

Arrays = Mapping[str, NDArray[Any]]

_DTYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class Verified:
    """What came of a second look: the files that are as they were, and the largest relative difference by provider."""

    files: tuple[str, ...]
    differences: Mapping[str, float]
    certificate: Mapping[str, Any]


def beside(path: Path) -> Path:
    """Where a model's certificate is."""
    return path.with_name(f"{path.name}.json")


def certify(
    path: Path, report: Report, reference: Callable[[Arrays], Arrays] | None = None, tolerance: float = TOLERANCE
) -> Path:
    """Write a model's certificate; its file. Without a reference, it holds what onnxruntime computes.

    `tolerance` is how far from that a second look may be, relative to the largest magnitude of an output.
    """
    model = external.read(path)
    running = session(path)
    inputs = _probe(running)
    names = [output.name for output in running.get_outputs()]
    computed = list(reference(inputs).values()) if reference is not None else running.run(names, inputs)
    content = {
        "schema": SCHEMA,
        "files": {one.name: _facts(one) for one in external.files(model, path)},
        "model": {
            "nodes": len(model.graph.node),
            "opset": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
            "metadata": {entry.key: entry.value for entry in model.metadata_props},
        },
        "verified": None if not report.batches else {
            "absolute": report.absolute, "relative": report.relative, "batches": list(report.batches),
            "providers": list(report.providers),
        },
        "computed": {
            "seed": SEED, "tolerance": tolerance,
            "outputs": {
                name: [float(value) for value in np.asarray(array, np.float64).reshape(-1)[:SHOWN]]
                for name, array in zip(names, computed, strict=True)
            },
        },
        "versions": {
            "archir": __version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    write_atomic(beside(path), _sealed(content).encode())
    return beside(path)


def look(path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verified:
    """Compare a model with its certificate, and compute again on each provider what the network computed.

    Raises ArchError: A0917 (the certificate), A0918 (a file was changed), A0916 and A0915 (the model), A0914 (a
    provider), A0913 (it computes something else).
    """
    if not path.is_file():
        raise fail("A0916", f"there is no model {path}")
    known = _read(beside(path))
    for name, facts in known["files"].items():
        file = path.parent / name
        if not file.is_file() or _facts(file) != facts:
            hint = "export it again, or put back the file that was certified"
            raise fail("A0918", f"{file} is not the file that was certified", None, hint)
    model = external.read(path)
    if others := {file.name for file in external.files(model, path)} - known["files"].keys():
        raise fail("A0918", f"{path} has data in {', '.join(sorted(others))}, of which the certificate knows nothing")
    check(path)
    differences = {provider: _difference(path, provider, known) for provider in providers}
    return Verified(tuple(known["files"]), differences, known)


def _facts(file: Path) -> dict[str, Any]:
    return {"sha256": sha256(file), "bytes": file.stat().st_size}


def _difference(path: Path, provider: str, known: Mapping[str, Any]) -> float:
    running = session(path, (provider,))
    names = [output.name for output in running.get_outputs()]
    worst = 0.0
    computed = known["computed"]
    for name, array in zip(names, running.run(names, _probe(running)), strict=True):
        wanted = np.array(computed["outputs"].get(name, []))
        found = np.asarray(array, np.float64).reshape(-1)[:SHOWN]
        if wanted.shape != found.shape:
            raise fail("A0918", f"{path} has an output `{name}` that is not the one that was certified")
        worst = max(
            worst, float(np.abs(found - wanted).max(initial=0)) / max(float(np.abs(wanted).max(initial=0)), 1e-12)
        )
    if not worst <= computed["tolerance"]:
        raise fail("A0913", f"{path} computes something else on {provider}: {worst:.2e} relative")
    return worst


def _probe(running: Any) -> dict[str, NDArray[Any]]:
    """The numbers that are computed with: one sample, by a seed."""
    rng = np.random.default_rng(SEED)
    found = {}
    for one in running.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in one.shape]
        dtype = np.dtype(_DTYPES[one.type])
        numbers = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        found[one.name] = numbers.astype(dtype)
    return found


def _sealed(content: Mapping[str, Any]) -> str:
    return json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n"


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
    return content
