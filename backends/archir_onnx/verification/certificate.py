"""Certificates of ONNX models, stored beside them as `NAME.onnx.json` (see `archir.backends.certificates`)."""

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
from archir.backends.certificates import MAX_ELEMENTS, SEED, Verification
from archir.diagnostics.errors import fail
from archir_onnx.files import external
from archir_onnx.running.sessions import run, session
from archir_onnx.verification.probe import input_shapes, probe_inputs
from archir_onnx.verification.sandbox import require_bounded, run_sandboxed
from archir_onnx.verification.verify import TOLERANCE, Report

Arrays = Mapping[str, NDArray[Any]]


def certify(
    path: Path,
    report: Report,
    reference: Callable[[Arrays], Arrays] | None = None,
    tolerance: float = TOLERANCE,
    sizes: Mapping[str, int] = MappingProxyType({}),
    *others: Mapping[str, int],
) -> Path:
    """Write the certificate of a model and return its path.

    The certified outputs are those of `reference`, or by default those of onnxruntime. `tolerance` is the maximum
    difference allowed in later verifications, relative to the largest magnitude of an output. `sizes` maps the names
    of dynamic axes to the sizes for which outputs are computed; the batch size is 1 unless `sizes` contains it.
    `others` are further such sizes, at most MAX_OTHERS.
    """
    model = external.load_model(path)
    names = [output.name for output in model.graph.output]

    def first_outputs(input_sizes: Mapping[str, int]) -> dict[str, list[float]]:
        inputs = probe_inputs(model, input_sizes)
        outputs = (run(session(path), inputs) if reference is None else reference(inputs)).values()
        return certificates.first_values(dict(zip(names, outputs, strict=True)))

    content = {
        "files": {file.name: certificates.file_facts(file) for file in external.model_files(model, path)},
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
            "seed": SEED, "tolerance": tolerance, "sizes": dict(sizes), "outputs": first_outputs(sizes),
            "others": [{"sizes": dict(other), "outputs": first_outputs(other)} for other in others],
        },
        "versions": {
            "archir": __version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    return certificates.write(path, content)


def check_certificate(path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verification:
    """Verify a model against its certificate, and recompute the certified outputs on each provider.

    The model runs in a child process with resource limits, because it may come from an untrusted source.

    Raises ArchError: A0917 (invalid certificate), A0918 (a file was changed), A0916 and A0915 (invalid model), A0914 (a
    provider is missing or fails), A0913 (different outputs).
    """
    certificate = certificates.read(path)
    model = external.load_model(path)
    if uncertified := {file.name for file in external.model_files(model, path)} - certificate["files"].keys():
        raise fail(
            "A0918", f"{path} stores data in {', '.join(sorted(uncertified))}, which the certificate does not list"
        )
    require_bounded(model, path)
    differences = dict.fromkeys(providers, 0.0)
    for record in (certificate["computed"], *certificate["computed"].get("others", ())):
        sizes = record.get("sizes")
        if not isinstance(sizes, dict) or not all(type(size) is int and size > 0 for size in sizes.values()):
            raise fail("A0917", f"the certificate of {path} has invalid sizes")
        elements = sum(prod(shape) for shape in input_shapes(model, sizes).values())
        if elements > MAX_ELEMENTS:
            raise fail("A0917", f"the certificate of {path} needs inputs with more than {MAX_ELEMENTS:,} numbers")
        outputs = run_sandboxed(path, providers, sizes, elements)
        for provider in providers:
            difference = certificates.compare(path, provider, outputs[provider], certificate, record)
            differences[provider] = max(differences[provider], difference)
    return Verification(tuple(certificate["files"]), differences, certificate)
