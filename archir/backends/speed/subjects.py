"""Targets on which networks can be measured, and the measurement of networks on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from archir import __version__, backends
from archir.backends.speed.measurements import LeftOut, Speeds, Subject
from archir.backends.speed.turns import Task, measure
from archir.costs.latencies.machine import cores, gpu, processor
from archir.costs.latencies.measurement import ProgressWrapper
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph

T = TypeVar("T")

TARGETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "torch": ("torch", {"device": "cpu"}),
    "torch-compile": ("torch", {"device": "cpu", "compiled": True}),
    "onnxruntime-cpu": ("onnx", {"device": "cpu"}),
    "torch-cuda": ("torch", {"device": "cuda"}),
    "torch-compile-cuda": ("torch", {"device": "cuda", "compiled": True}),
    "onnxruntime-cuda": ("onnx", {"device": "cuda"}),
    "tensorrt": ("onnx", {"device": "tensorrt"}),
}
"""Targets by name, each with its backend and the options for the backend's `runs`."""
NO_GPU = "no NVIDIA GPU is seen here"
"""Reason given for GPU targets that are left out."""


def speeds(
    networks: Mapping[str, Graph | Path],
    on: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
    seconds: float,
    track: ProgressWrapper,
) -> Speeds:
    """Measure networks on each of the targets `on`.

    If `on` is empty, all suitable targets are measured, and unavailable ones left out. `batches` are batch sizes,
    `seconds` is the measuring time per subject, `threads` the numbers of CPU threads (by default, one per core), and
    `track` wraps the steps to report progress. Raises ArchError: A1505 (unknown target), A1508 (a network cannot
    be measured), and errors of backends.
    """
    for name in on:
        if name not in TARGETS:
            hint = suggest(name, TARGETS) or f"targets are {', '.join(TARGETS)}"
            raise fail("A1505", f"there is no `{name}` to measure on", None, hint)
        if networks and all(not _can_run(name, network) for network in networks.values()):
            raise fail("A1508", f"{name} runs no ONNX file", None, "name an .arch file, or measure on onnxruntime-cpu")
    has_gpu = bool(gpu())
    tasks: list[Task] = []
    left_out: list[LeftOut] = []
    with TemporaryDirectory() as folder:
        prepare = _Preparation(Path(folder))
        for batch, (name, network), target, count in product(
            _distinct(batches), networks.items(), _distinct(on or TARGETS), _distinct(threads or [cores()])
        ):
            backend, options = TARGETS[target]
            subject = Subject(name, target, batch, count)
            if not _can_run(target, network):
                continue
            if not on and options["device"] != "cpu" and not has_gpu:
                left_out.append(LeftOut(subject, NO_GPU))
                continue
            options = {**options, "batch": batch, "threads": count}
            try:
                tasks.append(Task(subject, prepare(name, network, backend), backend, options, is_required=bool(on)))
            except ArchError as error:
                if on or isinstance(network, Path):
                    raise
                left_out.append(LeftOut(subject, error.diagnostics[0].message))
        measured, failed, versions = measure(tasks, seconds, track)
    left_out += failed
    if not measured:
        reasons = [f"{skipped.subject}: {skipped.reason}" for skipped in left_out if skipped.reason != NO_GPU]
        raise fail("A1508", "; ".join(reasons) or "there is nothing to measure")
    machine = {"processor": processor(), "cores": str(cores())} | ({"gpu": gpu()} if has_gpu else {})
    return Speeds(tuple(measured), tuple(left_out), {**machine, "archir": __version__, **versions})


class _Preparation:
    """Cached conversion of networks to the form that a backend measures; some backends need a file per network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prepared: dict[tuple[str, str], Graph | Path] = {}

    def __call__(self, name: str, network: Graph | Path, backend: str) -> Graph | Path:
        if (name, backend) not in self._prepared:
            prepare_network = getattr(backends.get(backend), "prepared", lambda network, _: network)
            self._prepared[name, backend] = prepare_network(network, self._folder / f"{len(self._prepared)}.onnx")
        return self._prepared[name, backend]


def _distinct(items: Iterable[T]) -> list[T]:
    """Return the distinct items in order of first appearance."""
    return list(dict.fromkeys(items))


def _can_run(where: str, network: Graph | Path) -> bool:
    """Return True if a target can run a network; ONNX files run on the onnx backend only."""
    return isinstance(network, Graph) or TARGETS[where][0] == "onnx"
