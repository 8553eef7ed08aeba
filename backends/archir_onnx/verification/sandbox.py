"""Models that anybody may have written: how much is in them, and how they are run so that they end.

onnxruntime computes constants while it loads a model, and a small model can ask for any time and memory. So models of
others are loaded and run by a child process with limits; the process that reads its answer has none of the model.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx

from archir.backends import certificates
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.utils import parent
from archir_onnx.files import external
from archir_onnx.running.sessions import CPU, run, session
from archir_onnx.verification.probe import probe
from archir_onnx.verification.verify import check

SECONDS = 60
"""What a model may take, by the clock on the wall."""
MOST_NODES = 1_000_000
"""Nodes that functions may come to when they are written out."""
MOST_BYTES = 3 << 28
"""Memory of a child beside that for weights and inputs."""

_LOOPS = {"Loop", "Scan", "SequenceMap", "If"}


def require_bounded(model: onnx.ModelProto, path: Path) -> None:
    """Raise ArchError (A0916) for a model with loops, or whose functions come to more than `MOST_NODES` nodes.

    Nothing that `archir export` and `archir quantize` write has any of that.
    """
    functions = {(one.domain, one.name): one for one in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Sequence[onnx.NodeProto], inside: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if node.domain in ("", "ai.onnx") and node.op_type in _LOOPS:
                raise fail("A0916", f"{path} has a `{node.op_type}`: how long it runs is not known before")
            if key in inside or len(inside) > _DEEP:
                raise fail("A0916", f"{path} has a function `{node.op_type}` that calls itself, or calls too deep")
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key].node, (*inside, key))
            total += sizes.get(key, 1)
        if total > MOST_NODES:
            raise fail("A0916", f"{path} has functions that come to more than {MOST_NODES:,} nodes")
        return total

    size(model.graph.node, ())


_DEEP = 50


def computed(
    path: Path, providers: Sequence[str], sizes: Mapping[str, int], elements: int, run: bool = True
) -> dict[str, dict[str, list[float]]]:
    """What a model computes of the numbers that a certificate's seed gives, by provider; nothing if it is not to `run`.

    The checker looks at it first. Raises ArchError: A0915 (the checker), A0914 (a provider, or a limit), A0916.
    """
    beside = sum(file.stat().st_size for file in external.files(external.read(path), path))
    memory = MOST_BYTES + 8 * beside + 64 * elements if [*providers] == [CPU] else None
    asked = {"path": str(path), "providers": [*providers], "sizes": dict(sizes), "memory": memory, "run": run}
    code = "from archir_onnx.verification.sandbox import answer; answer()"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=paths,
    ) as child:  # fmt: skip
        said = _said(child, json.dumps(asked))
    if said is None:
        raise fail("A0914", f"{path} was stopped: it took more than {SECONDS} seconds")
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError:
        room = "" if memory is None else f", or the {memory >> 20:,} MB that such a model may take"
        text = (
            f"the process that ran {path} ended without an answer (status {child.returncode}): an error in onnxruntime"
        )
        raise fail("A0914", f"{text}{room}") from None
    if "diagnostics" in found:
        raise ArchError(*(Diagnostic(*one) for one in found["diagnostics"]))
    outputs: dict[str, dict[str, list[float]]] = found["outputs"]
    return outputs


def _said(child: subprocess.Popen[str], asked: str) -> str | None:
    """What a child answers; None if it takes too long. Its standard input is open until then: it ends with that."""
    questions, child.stdin = child.stdin, None
    assert questions is not None
    try:
        with suppress(BrokenPipeError), questions:
            print(asked, file=questions, flush=True)
            return child.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None
    finally:
        child.kill()
    return ""  # it ended before it read anything


def answer() -> None:
    """Run what standard input asks for, within limits, and print what came of it: in the child."""
    asked = json.loads(next(parent.lines()))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    _limit(asked["memory"])
    try:
        found: dict[str, Any] = {"outputs": _answer(asked)}
    except ArchError as error:
        found = {"diagnostics": [[one.code, one.message, None, one.hint] for one in error.diagnostics]}
    except MemoryError:
        text = f"{asked['path']} takes more than the {asked['memory'] >> 20:,} MB that such a model may take"
        found = {"diagnostics": [["A0914", text, None, None]]}
    out.write(json.dumps(found))
    out.flush()
    os._exit(0)


def _answer(asked: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    path = Path(asked["path"])
    check(path)
    found = {}
    inputs = probe(external.read(path), asked["sizes"]) if asked["run"] else {}
    for provider in asked["providers"]:
        running = session(path, (provider,))
        if asked["run"]:
            found[provider] = certificates.shown(run(running, inputs))
    return found


def _limit(memory: int | None) -> None:
    """Take no more than this from here on, where the system can say so."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS * (os.cpu_count() or 1), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
