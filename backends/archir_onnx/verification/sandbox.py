"""Sandbox for untrusted models: static limits on their content, and a child process with resource limits.

onnxruntime evaluates constants while it loads a model, so even a small model can take any amount of time and memory.
Therefore a child process with limits loads and runs untrusted models, and the parent process reads only the child's
answer. Quantisation runs the model in its own process once the child could load it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends import certificates
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.utils import parent
from archir_onnx.files import external
from archir_onnx.running.sessions import CPU, Arrays, run, session
from archir_onnx.verification.probe import probe_inputs
from archir_onnx.verification.verify import check

TIME_LIMIT = 60
"""Maximum wall-clock seconds for checking, loading and running a model."""
MAX_NODES = 1_000_000
"""Maximum number of nodes of a model after all functions are inlined."""
MAX_BYTES = 3 << 28
"""Memory limit of the child process in bytes, in addition to the memory for weights and inputs."""

STACK_BYTES = 1 << 24
"""Memory in bytes, for each core, for the stacks of the threads that libraries start."""

_CONTROL_FLOW = {"Loop", "Scan", "SequenceMap", "If"}


def require_bounded(model: onnx.ModelProto, path: Path) -> None:
    """Raise ArchError (A0916) if a model has control flow, or more than `MAX_NODES` nodes after inlining functions.

    Models written by `archir export` and `archir quantize` satisfy these limits.
    """
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Sequence[onnx.NodeProto], call_stack: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if node.domain in ("", "ai.onnx") and node.op_type in _CONTROL_FLOW:
                raise fail("A0916", f"{path} contains `{node.op_type}`: models with control flow are not supported")
            if key in call_stack or len(call_stack) > _MAX_CALL_DEPTH:
                raise fail("A0916", f"{path} has a function `{node.op_type}` with recursive or too deeply nested calls")
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key].node, (*call_stack, key))
            total += sizes.get(key, 1)
        if total > MAX_NODES:
            raise fail("A0916", f"{path} has more than {MAX_NODES:,} nodes after its functions are inlined")
        return total

    size(model.graph.node, ())


_MAX_CALL_DEPTH = 50
"""Maximum depth of nested function calls."""


def run_sandboxed(
    path: Path, providers: Sequence[str], sizes: Mapping[str, int], elements: int, execute: bool = True
) -> dict[str, dict[str, list[float]]]:
    """Run a model in a child process on the random inputs of a certificate, and return its outputs by provider.

    The ONNX checker runs first. With `execute=False`, the model is only checked and loaded. Raises ArchError: A0915
    (the checker rejects the model), A0914 (a provider is missing, or a limit is exceeded), A0916 (invalid model).
    """
    memory = _memory_limit(external.load_model(path), path, elements) if [*providers] == [CPU] else None
    request = {"path": str(path), "providers": [*providers], "sizes": dict(sizes), "memory": memory, "run": execute}
    outputs: dict[str, dict[str, list[float]]] = _answer(request)
    return outputs


def run_on_arrays(model: onnx.ModelProto, path: Path, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """Run a part of a model file in a child process, on arrays by input name; return its outputs by name.

    `model` is the part, whose external data is beside `path`. Raises ArchError: A0914 (it cannot be run, or a limit is
    exceeded), A0916 (it has control flow or too many nodes).
    """
    require_bounded(model, path)
    memory = _memory_limit(model, path, sum(x.size for x in inputs.values()))
    with TemporaryDirectory() as folder:
        (Path(folder) / "model").write_bytes(model.SerializeToString())
        np.savez(Path(folder) / "inputs.npz", *inputs.values())
        names = _answer({"path": str(path), "part": folder, "inputs": [*inputs], "memory": memory})
        with np.load(Path(folder) / "outputs.npz") as arrays:
            return {name: arrays[f"arr_{i}"] for i, name in enumerate(names)}


def _memory_limit(model: onnx.ModelProto, path: Path, elements: int) -> int:
    """Return the memory limit in bytes for a model that runs on inputs with this number of elements in total."""
    stacks = STACK_BYTES * (os.cpu_count() or 1)
    return (
        MAX_BYTES + stacks + 8 * sum(file.stat().st_size for file in external.model_files(model, path)) + 64 * elements
    )


def _answer(request: Mapping[str, Any]) -> Any:
    """Start a child process, and return its answer to a request.

    Raises ArchError: all errors of the child, and A0914 if it exceeds a limit.
    """
    path, memory = request["path"], request["memory"]
    code = "from archir_onnx.verification.sandbox import child_main; child_main()"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=paths,
    ) as child:  # fmt: skip
        answer_text = _ask_child(child, json.dumps(request))
    if answer_text is None:
        raise fail("A0914", f"{path} was stopped: it took more than {TIME_LIMIT} seconds")
    try:
        answer_data: dict[str, Any] = json.loads(answer_text)
    except ValueError:
        memory_hint = "" if memory is None else f", or the memory limit of {memory >> 20:,} MB was exceeded"
        text = (
            f"the process that ran {path} ended without an answer (status {child.returncode}): an error in onnxruntime"
        )
        raise fail("A0914", f"{text}{memory_hint}") from None
    if "diagnostics" in answer_data:
        raise ArchError(*(Diagnostic(*entry) for entry in answer_data["diagnostics"]))
    return answer_data["outputs"]


def _ask_child(child: subprocess.Popen[str], request: str) -> str | None:
    """Send a request to the child process; return its answer, or None if the time limit is exceeded.

    The child's standard input stays open until the answer arrives, because the child exits when its input is closed.
    """
    questions, child.stdin = child.stdin, None
    assert questions is not None
    try:
        with suppress(BrokenPipeError), questions:
            print(request, file=questions, flush=True)
            return child.communicate(timeout=TIME_LIMIT)[0]
    except subprocess.TimeoutExpired:
        return None
    finally:
        child.kill()
    return ""  # it ended before it read anything


def child_main() -> None:
    """Entry point of the child process: run the model described on standard input, and print its outputs."""
    request = json.loads(next(parent.parent_lines()))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to standard error
    _limit_resources(request["memory"])
    try:
        answer_data: dict[str, Any] = {"outputs": (_run_part if "part" in request else _run_request)(request)}
    except ArchError as error:
        answer_data = {
            "diagnostics": [
                [diagnostic.code, diagnostic.message, None, diagnostic.hint] for diagnostic in error.diagnostics
            ]
        }
    except MemoryError:
        text = f"{request['path']} needs more memory than the limit of {request['memory'] >> 20:,} MB"
        answer_data = {"diagnostics": [["A0914", text, None, None]]}
    out.write(json.dumps(answer_data))
    out.flush()
    os._exit(0)


def _run_request(request: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Check, load and run the model of a request; return its outputs by provider."""
    path = Path(request["path"])
    check(path)
    outputs = {}
    inputs = probe_inputs(external.load_model(path), request["sizes"]) if request["run"] else {}
    for provider in request["providers"]:
        runtime = session(path, (provider,))
        if request["run"]:
            outputs[provider] = certificates.first_values(run(runtime, inputs))
    return outputs


def _run_part(request: Mapping[str, Any]) -> list[str]:
    """Run the model in the folder of a request on the inputs there; write its outputs there, and return their names."""
    folder = Path(request["part"])
    with np.load(folder / "inputs.npz") as arrays:
        inputs = {name: arrays[f"arr_{i}"] for i, name in enumerate(request["inputs"])}
    runtime = session((folder / "model").read_bytes(), data_folder=Path(request["path"]).parent)
    outputs = run(runtime, inputs)
    if any(array.dtype == object for array in outputs.values()):
        raise fail("A0914", f"{request['path']} computes strings, which cannot be compared")
    np.savez(folder / "outputs.npz", *outputs.values())
    return [*outputs]


def _limit_resources(memory: int | None) -> None:
    """Limit this process's CPU time, memory and core dumps, if the operating system supports it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT * (os.cpu_count() or 1), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
