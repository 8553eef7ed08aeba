"""Sessions of onnxruntime on just the devices that are asked for."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from archir.errors import fail

Arrays = Mapping[str, NDArray[Any]]

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
"""Execution providers by devices."""
CPU = PROVIDERS["cpu"]
_LIBRARIES = {
    "CUDAExecutionProvider": ("libcuda.so.1",),
    "TensorrtExecutionProvider": ("libcuda.so.1", "libnvinfer.so.10"),
}
_SETTINGS = {"CUDAExecutionProvider": {"use_tf32": "0"}}
"""Float32 products are computed in fewer digits on CUDA unless told not to be."""


NO_KERNEL = "onnxruntime lacks a kernel"
"""How the error of a model begins that needs an operator in a precision that a device does not have."""


def session(model: Path | bytes, providers: Sequence[str] = (CPU,), threads: int = 0) -> Any:
    """An onnxruntime session on just these providers. Raises ArchError (A0914) where one is not to be had.

    Asked for CUDA alone, onnxruntime would quietly run on the CPU; here that is an error.
    """
    if missing := next((name for name in providers if name not in present()), None):
        raise fail(
            "A0914", f"onnxruntime has no {missing} here: {_lacking(missing)}", None, "`archir doctor` says more"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = (
        threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    )
    # a session's threads spin for a while after a run, and would slow down what runs next
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if CPU not in providers:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    wanted = [(name, _SETTINGS[name]) if name in _SETTINGS else name for name in providers]
    try:
        made = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, wanted)
    except Exception as error:  # onnxruntime's errors have no common class of their own
        _, lacking, node = str(error).partition("NOT_IMPLEMENTED : ")
        if lacking:
            device = providers[0].removesuffix("ExecutionProvider")
            text = f"{NO_KERNEL} on {device} that the model needs: {node.strip()[:500]}"
            raise fail("A0914", text, None, "models in bfloat16 run on GPUs; for CPUs, export without --bf16") from None
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
    if made.get_providers()[:1] != [providers[0]]:
        raise fail("A0914", f"onnxruntime has no {providers[0]} here: {', '.join(made.get_providers())}")
    return made


@cache
def present() -> tuple[str, ...]:
    """The execution providers that can work here. onnxruntime names those it was built for, with or without a GPU."""
    return (CPU, *(name for name in onnxruntime.get_available_providers() if name != CPU and not _lacking(name)))


@cache
def _lacking(provider: str) -> str:
    """What a provider cannot do without and is not here, of what is known of it."""
    if provider not in onnxruntime.get_available_providers():
        return f"it was built for {', '.join(onnxruntime.get_available_providers())}"
    for library in _LIBRARIES.get(provider, ()) if sys.platform == "linux" else ():
        try:
            ctypes.CDLL(library)
        except OSError:
            return f"there is no {library}"
    return ""


def run(running: Any, given: Arrays, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """What a session computes: all outputs, or some. Raises ArchError (A0914) where it cannot."""
    asked = [*names] if names is not None else [output.name for output in running.get_outputs()]
    try:
        return dict(zip(asked, map(np.asarray, running.run(asked, dict(given))), strict=True))
    except Exception as error:  # onnxruntime's errors have no common class of their own
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
