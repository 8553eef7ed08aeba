"""Sessions of onnxruntime on just the devices that are asked for."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archir.backends.certificates import PROVIDERS
from archir.diagnostics.errors import ArchError, fail, listed
from archir_onnx.running.placement import elsewhere

Arrays = Mapping[str, NDArray[Any]]

CPU = PROVIDERS["cpu"]
_LIBRARIES = {
    "CUDAExecutionProvider": ("libcuda.so.1",),
    "TensorrtExecutionProvider": ("libcuda.so.1", "libnvinfer.so.10"),
}
_SETTINGS = {"CUDAExecutionProvider": {"use_tf32": "0"}}
"""Float32 products are computed in fewer digits on CUDA unless told not to be."""


_RECORD = "session.record_ep_graph_assignment_info"
_RECORDS = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
"""Whether this onnxruntime tells where it put a model's nodes. An older one can refuse any on the CPU, and no more."""

NO_KERNEL = "onnxruntime lacks a kernel"
"""How the error of a model begins that needs an operator in a precision that a device does not have."""


def session(model: Path | bytes, providers: Sequence[str] = (CPU,), threads: int = 0) -> Any:
    """An onnxruntime session on just these providers. Raises ArchError (A0914) where one is not to be had.

    Asked for CUDA alone, onnxruntime would quietly run on the CPU what CUDA cannot; here that is an error, but for what
    computes sizes.
    """
    if missing := next((name for name in providers if name not in present() and lacking(name)), None):
        raise fail("A0914", f"onnxruntime has no {missing} here: {lacking(missing)}", None, "`archir doctor` says more")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well
    options.intra_op_num_threads = (
        threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    )
    # a session's threads spin for a while after a run, and would slow down what runs next
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if CPU not in providers:
        _preload()
        options.add_session_config_entry(_RECORD if _RECORDS else "session.disable_cpu_ep_fallback", "1")
    wanted = [(name, _SETTINGS[name]) if name in _SETTINGS else name for name in providers]
    try:
        made = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, wanted)
    except Exception as error:  # onnxruntime's errors have no common class of their own
        _, unknown, node = str(error).partition("NOT_IMPLEMENTED : ")
        if unknown:
            device = providers[0].removesuffix("ExecutionProvider")
            text = f"{NO_KERNEL} on {device} that the model needs: {node.strip()[:500]}"
            raise fail("A0914", text, None, "models in bfloat16 run on GPUs; for CPUs, export without --bf16") from None
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
    if made.get_providers()[:1] != [providers[0]]:
        raise fail("A0914", f"onnxruntime has no {providers[0]} here: {', '.join(made.get_providers())}")
    if CPU not in providers and _RECORDS and (missed := elsewhere(made, providers, model)):
        device = providers[0].removesuffix("ExecutionProvider")
        hint = "kernels of newer operator sets may be missing on a device: an export with `--opset 21` may have them"
        raise fail("A0914", f"{NO_KERNEL} on {device} that the model needs: {listed(missed, 4)}", None, hint)
    return made


@cache
def _preload() -> None:
    """Load the CUDA libraries that pip installed, which onnxruntime does not look for; torch does when it is imported.

    What is not there, it prints; a session says it better.
    """
    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        with redirect_stdout(io.StringIO()), suppress(Exception):
            preload()


@cache
def present() -> tuple[str, ...]:
    """The execution providers of archir's devices that can work here.

    onnxruntime names those it was built for, with or without a GPU, and some that send models to a service.
    """
    return (CPU, *(name for name in PROVIDERS.values() if name != CPU and not lacking(name)))


def trouble(provider: str) -> str:
    """Why a provider does not work here, found out by a model of one operator; nothing if it does."""
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    x, y = (helper.make_value_info(name, kind) for name in "xy")
    graph = helper.make_graph([helper.make_node("Softplus", ["x"], ["y"])], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        run(session(model.SerializeToString(), (provider,)), {"x": np.zeros(1, np.float32)})
    except ArchError as error:
        return error.diagnostics[0].message
    return ""


@cache
def lacking(provider: str) -> str:
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
