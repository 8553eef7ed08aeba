"""What was proved of an ONNX model, in a file beside it: `NAME.onnx.json` (see `archir.backends.certificates`)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx
import onnxruntime
from numpy.typing import NDArray

from archir import __version__
from archir.backends import certificates
from archir.backends.certificates import MOST_ELEMENTS, SEED, Verified
from archir.diagnostics.errors import fail
from archir_onnx.files import external
from archir_onnx.running.sessions import run, session
from archir_onnx.verification.probe import probe, shapes_of
from archir_onnx.verification.sandbox import computed, require_bounded
from archir_onnx.verification.verify import TOLERANCE, Report

Arrays = Mapping[str, NDArray[Any]]


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
    inputs = probe(model, sizes)
    names = [output.name for output in model.graph.output]
    computed = (run(session(path), inputs) if reference is None else reference(inputs)).values()
    content = {
        "files": {one.name: certificates.facts(one) for one in external.files(model, path)},
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
            "outputs": certificates.shown(dict(zip(names, computed, strict=True))),
        },
        "versions": {
            "archir": __version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    return certificates.write(path, content)


def look(path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verified:
    """Compare a model with its certificate, and compute again on each provider what the network computed.

    A child process computes, within limits: who wrote the model is not known.

    Raises ArchError: A0917 (the certificate), A0918 (a file was changed), A0916 and A0915 (the model), A0914 (a
    provider), A0913 (it computes something else).
    """
    known = certificates.read(path)
    model = external.read(path)
    if others := {file.name for file in external.files(model, path)} - known["files"].keys():
        raise fail("A0918", f"{path} has data in {', '.join(sorted(others))}, of which the certificate knows nothing")
    require_bounded(model, path)
    sizes = known["computed"].get("sizes")
    if not isinstance(sizes, dict) or not all(type(size) is int and size > 0 for size in sizes.values()):
        raise fail("A0917", f"the certificate of {path} is one of something else")
    elements = sum(prod(shape) for shape in shapes_of(model, sizes).values())
    if elements > MOST_ELEMENTS:
        raise fail("A0917", f"the certificate of {path} asks for inputs of more than {MOST_ELEMENTS:,} numbers")
    found = computed(path, providers, sizes, elements)
    differences = {provider: certificates.compare(path, provider, found[provider], known) for provider in providers}
    return Verified(tuple(known["files"]), differences, known)
