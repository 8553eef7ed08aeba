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
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper

from archir import __version__
from archir.errors import fail
from archir.files import sha256, write_atomic
from archir_onnx import external
from archir_onnx.verify import TOLERANCE, Report, check, session

SCHEMA = 2
SEED = 0
SHOWN = 64
"""Numbers of each output that are kept."""

Arrays = Mapping[str, NDArray[Any]]


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
    path: Path,
    report: Report,
    reference: Callable[[Arrays], Arrays] | None = None,
    tolerance: float = TOLERANCE,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Path:
    """Write a model's certificate; its file. Without a reference, it holds what onnxruntime computes.

    `tolerance` is how far from that a second look may be, relative to the largest magnitude of an output; `sizes` are
    those of open axes, of which the batch is 1 unless it is among them.
    """
    model = external.read(path)
    inputs = _probe(model, sizes)
    names = [output.name for output in model.graph.output]
    computed = list(reference(inputs).values()) if reference is not None else session(path).run(names, inputs)
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
            "providers": list(report.providers), "real": report.real, "sizes": [list(size) for size in report.sizes],
        },
        "computed": {
            "seed": SEED, "tolerance": tolerance, "sizes": dict(sizes),
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
    inputs = _probe(model, known["computed"]["sizes"])
    differences = {provider: _difference(path, provider, inputs, known) for provider in providers}
    return Verified(tuple(known["files"]), differences, known)


def _facts(file: Path) -> dict[str, Any]:
    return {"sha256": sha256(file), "bytes": file.stat().st_size}


def _difference(path: Path, provider: str, inputs: Arrays, known: Mapping[str, Any]) -> float:
    running = session(path, (provider,))
    names = [output.name for output in running.get_outputs()]
    worst = 0.0
    computed = known["computed"]
    for name, array in zip(names, running.run(names, dict(inputs)), strict=True):
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


def _probe(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The numbers that are computed with, by a seed: normal ones, pixels, zeros and ones of other integers."""
    rng = np.random.default_rng(SEED)
    found = {}
    for one in model.graph.input:
        kind = one.type.tensor_type
        shape = [sizes.get(dim.dim_param, 1) if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        numbers = rng.integers(0, 256 if dtype == np.uint8 else 2, shape)
        found[one.name] = (rng.standard_normal(shape) if dtype.kind == "f" else numbers).astype(dtype)
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
