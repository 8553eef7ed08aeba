"""What networks can be measured on, and which subjects that makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from archir import __version__, backends
from archir.backends.speed.figures import LeftOut, Speeds, Subject
from archir.backends.speed.turns import Task, Watch, measure
from archir.costs.latencies.machine import cores, gpu, processor
from archir.diagnostics.errors import ArchError, fail, suggest
from archir.ir.graph import Graph

T = TypeVar("T")

ON: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "torch": ("torch", {"device": "cpu"}),
    "torch-compile": ("torch", {"device": "cpu", "compiled": True}),
    "onnxruntime-cpu": ("onnx", {"device": "cpu"}),
    "torch-cuda": ("torch", {"device": "cuda"}),
    "torch-compile-cuda": ("torch", {"device": "cuda", "compiled": True}),
    "onnxruntime-cuda": ("onnx", {"device": "cuda"}),
    "tensorrt": ("onnx", {"device": "tensorrt"}),
}
"""Each with its backend, and the options of the backend's `runs`."""
NO_GPU = "no NVIDIA GPU is seen here"


def speeds(
    networks: Mapping[str, Graph | Path],
    on: Sequence[str],
    batches: Sequence[int],
    threads: int | None,
    seconds: float,
    watch: Watch,
) -> Speeds:
    """Measure networks on each of `on`, by default on all that applies: what is not there is left out then.

    Raises ArchError: A1505 (no such device), A1508 (it cannot be measured), and what backends do.
    """
    for name in on:
        if name not in ON:
            raise fail("A1505", f"there is no `{name}` to measure on", None, suggest(name, ON) or f"{', '.join(ON)}")
        if all(not _applies(name, network) for network in networks.values()):
            raise fail("A1508", f"{name} runs no ONNX file", None, "name an .arch file, or measure on onnxruntime-cpu")
    has_gpu = gpu() != "unknown"
    tasks: list[Task] = []
    left_out: list[LeftOut] = []
    with TemporaryDirectory() as folder:
        prepare = _Preparation(Path(folder))
        for batch, (name, network), where in product(_once(batches), networks.items(), _once(on or ON)):
            backend, options = ON[where]
            subject = Subject(name, where, batch)
            if not _applies(where, network):
                continue
            if not on and options["device"] != "cpu" and not has_gpu:
                left_out.append(LeftOut(subject, NO_GPU))
                continue
            options = {**options, "batch": batch, "threads": threads or cores()}
            try:
                tasks.append(Task(subject, prepare(name, network, backend), backend, options, needed=bool(on)))
            except ArchError as error:
                if on or isinstance(network, Path):
                    raise
                left_out.append(LeftOut(subject, error.diagnostics[0].message))
        found, refused, versions = measure(tasks, seconds, watch)
    left_out += refused
    if not found:
        reasons = [f"{one.subject}: {one.reason}" for one in left_out if one.reason != NO_GPU]
        raise fail("A1508", "; ".join(reasons) or "there is nothing to measure")
    machine = {"processor": processor(), "cores": str(cores())} | ({"gpu": gpu()} if has_gpu else {})
    return Speeds(tuple(found), tuple(left_out), {**machine, "archir": __version__, **versions})


class _Preparation:
    """What processes are given of networks: backends that want files get one for each network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str], Graph | Path] = {}

    def __call__(self, name: str, network: Graph | Path, backend: str) -> Graph | Path:
        if (name, backend) not in self._made:
            made = getattr(backends.get(backend), "prepared", lambda network, _: network)
            self._made[name, backend] = made(network, self._folder / f"{len(self._made)}.onnx")
        return self._made[name, backend]


def _once(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _applies(where: str, network: Graph | Path) -> bool:
    return isinstance(network, Graph) or ON[where][0] == "onnx"
