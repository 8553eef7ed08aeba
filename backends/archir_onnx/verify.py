"""Proof that a model computes what the network computes: the checker, and onnxruntime against a reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from archir.errors import fail
from archir.types import TensorType

Arrays = Mapping[str, NDArray[Any]]
Reference = Callable[[Arrays], Arrays]

TOLERANCE = 1e-4
"""Largest difference, relative to the largest magnitude of an output."""

_DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}


@dataclass(frozen=True)
class Report:
    """What a verification found: the largest differences over all outputs and batches, and what it was run on."""

    absolute: float
    relative: float
    batches: tuple[int, ...]
    providers: tuple[str, ...]
    nodes: int
    files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        if not self.batches:
            return f"{self.nodes} nodes, checked, not compared"
        device = self.providers[0].removesuffix("ExecutionProvider")
        batches = ", ".join(map(str, self.batches))
        return (
            f"{self.nodes} nodes, checked; largest difference to torch {self.absolute:.1e} "
            f"({self.relative:.1e} relative) at batches of {batches} on onnxruntime {device}"
        )


def session(model: Path | bytes, providers: Sequence[str] = ("CPUExecutionProvider",), threads: int = 0) -> Any:
    """An onnxruntime session on just these providers. Raises ArchError (A0914) where one is not to be had.

    Asked for CUDA alone, onnxruntime would quietly run on the CPU; here that is an error.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = (
        threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    )
    # a session's threads spin for a while after a run, and would slow down what runs next
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if "CPUExecutionProvider" not in providers:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        made = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, list(providers))
    except Exception as error:  # onnxruntime's errors have no common class of their own
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
    if made.get_providers()[:1] != [providers[0]]:
        raise fail("A0914", f"onnxruntime has no {providers[0]} here: {', '.join(made.get_providers())}")
    return made


def check(model: onnx.ModelProto | Path) -> None:
    """The checker, with full shape inference. Raises ArchError (A0915)."""
    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else str(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, UnicodeDecodeError) as error:
        raise fail("A0915", f"the ONNX checker refuses the model: {error}") from None


def verify(
    path: Path,
    reference: Reference,
    inputs: Mapping[str, TensorType],
    *,
    batches: Sequence[int] = (1, 3),
    seed: int = 0,
    tolerance: float = TOLERANCE,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> Report:
    """Check a model file and compare it with a reference on random inputs. Raises ArchError (A0913 to A0915)."""
    check(path)
    running = session(path, providers)
    rng = np.random.default_rng(seed)
    absolute, relative = 0.0, 0.0
    names = [output.name for output in running.get_outputs()]
    for batch in batches:
        given = {name: random_input(rng, batch, kind) for name, kind in inputs.items()}
        for found, wanted in zip(running.run(names, given), reference(given).values(), strict=True):
            difference = float(np.abs(found - wanted).max(initial=0))
            absolute = max(absolute, difference)
            relative = max(relative, difference / max(float(np.abs(wanted).max(initial=0)), 1e-12))
    if not relative <= tolerance:
        raise fail(
            "A0913",
            f"{path} differs from the network by {relative:.2e} relative ({absolute:.2e} absolute), "
            f"more than {tolerance:.0e}",
        )
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return Report(absolute, relative, tuple(batches), tuple(running.get_providers()), nodes)


def random_input(rng: np.random.Generator, batch: int, kind: TensorType) -> NDArray[Any]:
    """A batch of normal numbers, or of zeros and ones where the type holds integers."""
    if kind.dtype.startswith(("i", "b")) and kind.dtype != "bf16":
        return rng.integers(0, 2, (batch, *kind.shape)).astype(_DTYPES[kind.dtype])
    return rng.standard_normal((batch, *kind.shape)).astype(_DTYPES[kind.dtype])
