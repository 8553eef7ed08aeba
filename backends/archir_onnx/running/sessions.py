"""onnxruntime sessions that run only on the requested devices."""

from __future__ import annotations

import ctypes
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archir.backends.certificates import PROVIDERS
from archir.diagnostics.errors import ArchError, fail, join_names

_FILL_OPERATORS = {"ConstantOfShape", "Expand", "Range", "Tile", "RandomNormal", "RandomUniform"}
"""Operators that create potentially large tensors from a few sizes."""


def misplaced_nodes(runtime: Any, providers: Sequence[str], model: Path | bytes) -> list[str]:
    """Return the nodes, as `operator name`, that were placed on a provider that was not requested.

    Nodes that compute shapes are left out: onnxruntime deliberately runs them on the CPU, because the CPU needs the
    shapes and would otherwise have to wait for the GPU.
    """
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    shape_node_names = shape_nodes(proto.graph)
    return [
        f"{node.op_type} {node.name}".strip()
        for part in runtime.get_provider_graph_assignment_info()
        if part.ep_name not in providers
        for node in part.get_nodes()
        if node.op_type != "Shape" and node.name not in shape_node_names
    ]


def shape_nodes(graph: onnx.GraphProto) -> set[str]:
    """Return the names of nodes that compute sizes only from shapes and constants."""
    constant = {tensor.name for tensor in graph.initializer} | {""}
    sizes: set[str] = set()
    names: set[str] = set()
    for node in graph.node:
        if node.op_type == "Constant":
            constant.update(node.output)
        elif node.op_type in ("Shape", "Size") or (
            node.op_type not in _FILL_OPERATORS
            and not sizes.isdisjoint(node.input)
            and all(name in sizes or name in constant for name in node.input)
        ):
            sizes.update(node.output)
            names.add(node.name)
    return names - {""}


Arrays = Mapping[str, NDArray[Any]]

CPU = PROVIDERS["cpu"]
"""Name of the CPU's execution provider."""
_LIBRARIES = {
    "CUDAExecutionProvider": ("libcuda.so.1",),
    "TensorrtExecutionProvider": ("libcuda.so.1", "libnvinfer.so.10"),
}
"""Shared libraries that must be present on Linux, by execution provider."""
_SETTINGS = {"CUDAExecutionProvider": {"use_tf32": "0"}}
"""Options by execution provider. TF32 is off: with it, CUDA would compute float32 products at reduced precision."""


_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
"""Session option with the folder of the external data of a model that is loaded from memory."""
_RECORD = "session.record_ep_graph_assignment_info"
"""Session option that makes onnxruntime record on which provider each node runs."""
_CAN_RECORD = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
"""True if this onnxruntime version can report the placement of nodes.

Older versions can only forbid any CPU fallback.
"""

NO_KERNEL = "onnxruntime lacks a kernel"
"""Start of the error message if the device lacks an operator in the model's precision."""
_MISSING_KERNEL = re.compile(r"(?s)NOT_IMPLEMENTED : (.*)|Provider type for (.* node with name '.*') is not set")
"""How onnxruntime 1.31 names a node for which no provider has a kernel."""


def session(
    model: Path | bytes, providers: Sequence[str] = (CPU,), threads: int = 0, data_folder: Path | None = None
) -> Any:
    """Create an onnxruntime session on exactly the given providers.

    `data_folder` is the folder of the external data of a model given as bytes.

    Raises ArchError (A0914) if such a session cannot be created. By default, onnxruntime silently falls back to the
    CPU for nodes that CUDA does not support. Here, such a fallback is an error, except for nodes that compute shapes.
    """
    if missing := next(
        (name for name in providers if name not in available_providers() and missing_requirement(name)), None
    ):
        raise fail(
            "A0914", f"onnxruntime has no {missing} here: {missing_requirement(missing)}", None, "see `archir doctor`"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well
    options.intra_op_num_threads = (
        threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    )
    # a session's threads spin for a while after a run, and would slow down what runs next
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if data_folder is not None:
        options.add_session_config_entry(_DATA_FOLDER, str(data_folder))
    if CPU not in providers:
        _preload()
        options.add_session_config_entry(_RECORD if _CAN_RECORD else "session.disable_cpu_ep_fallback", "1")
    provider_options = [(name, _SETTINGS[name]) if name in _SETTINGS else name for name in providers]
    try:
        created = onnxruntime.InferenceSession(
            model if isinstance(model, bytes) else str(model), options, provider_options
        )
    except Exception as error:  # onnxruntime's errors have no common class of their own
        if missing_kernel := _MISSING_KERNEL.search(str(error)):
            device = providers[0].removesuffix("ExecutionProvider")
            node = missing_kernel[missing_kernel.lastindex or 0].strip()[:500]
            hint = "the device may have this kernel for float16 or float32"
            if providers[0] == CPU:
                hint = "models in bfloat16 run on GPUs; for CPUs, export without --bf16"
            raise fail("A0914", f"{NO_KERNEL} on {device} that the model needs: {node}", None, hint) from None
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
    if created.get_providers()[:1] != [providers[0]]:
        raise fail("A0914", f"onnxruntime has no {providers[0]} here: {', '.join(created.get_providers())}")
    if CPU not in providers and _CAN_RECORD and (misplaced := misplaced_nodes(created, providers, model)):
        device = providers[0].removesuffix("ExecutionProvider")
        hint = "the device may lack kernels of newer opsets: try an export with `--for cuda`"
        raise fail("A0914", f"{NO_KERNEL} on {device} that the model needs: {join_names(misplaced, 4)}", None, hint)
    return created


@cache
def _preload() -> None:
    """Load the CUDA libraries installed by pip, which onnxruntime does not search for.

    Importing torch also loads these libraries. onnxruntime only prints a message if libraries are missing; the
    message is suppressed here, since creating a session then raises a better error.
    """
    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        with redirect_stdout(io.StringIO()), suppress(Exception):
            preload()


@cache
def available_providers() -> tuple[str, ...]:
    """Return the execution providers of archir's devices that can be used on this machine.

    onnxruntime's own list contains all providers it was built for, even without a GPU, and some that send models to a
    remote service.
    """
    return (CPU, *(name for name in PROVIDERS.values() if name != CPU and not missing_requirement(name)))


def provider_error(provider: str) -> str:
    """Run a model of one operator on a provider; return the error message, or "" if the provider works."""
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
def missing_requirement(provider: str) -> str:
    """Return a description of the first known requirement of a provider that is missing here, or "" if none is."""
    if provider not in onnxruntime.get_available_providers():
        return f"it was built for {', '.join(onnxruntime.get_available_providers())}"
    for library in _LIBRARIES.get(provider, ()) if sys.platform == "linux" else ():
        try:
            ctypes.CDLL(library)
        except OSError:
            return f"there is no {library}"
    return ""


def run(runtime: Any, inputs: Arrays, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Run a session; return all outputs by name, or only those in `names`.

    Raises ArchError (A0914) if the session fails.
    """
    output_names = [*names] if names is not None else [output.name for output in runtime.get_outputs()]
    try:
        return dict(zip(output_names, map(np.asarray, runtime.run(output_names, dict(inputs))), strict=True))
    except Exception as error:  # onnxruntime's errors have no common class of their own
        raise fail("A0914", f"onnxruntime cannot run the model: {str(error).strip()[:500]}") from None
