"""How long operations and whole networks take: latency tables, and networks side by side."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from archir import backends
from archir.api.loading import graph_of, space_of
from archir.diagnostics.errors import ArchError, fail, suggest
from archir.ir.graph import Graph
from archir.utils.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from archir.backends.speed.figures import Speeds
    from archir.costs.latencies.counts import Counts
    from archir.costs.latencies.fill import Bench, Validation, Watch
    from archir.costs.latencies.model import LatencyModel
    from archir.costs.latencies.table import Device, LatencyTable
    from archir.spaces.architecture import Architecture
    from archir.spaces.rows import Codes
    from archir.spaces.space import Space

__all__ = [
    "bench", "fit_latency", "latency_model", "latency_table", "measure", "measured_latency", "validate",
]  # fmt: skip

_USUAL = 256
"""Random networks by which a model knows how much features differ."""
_TRIES = 4
"""Draws for each architecture that is wanted, of which some are the same."""

BENCHES = {
    "cpu": ("torch", "cpu"), "cuda": ("torch", "cuda"),
    "onnxruntime-cpu": ("onnx", "cpu"), "onnxruntime-cuda": ("onnx", "cuda"),
}  # fmt: skip
"""The devices of latency tables: which backend has them, and how it calls them."""


def bench(
    space: Space | Graph,
    path: str | Path,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> LatencyTable:
    """Time every operation of a space on a device, once; the table of them, which is written to `path`, too.

    Each is timed on inputs of `batch` samples; `device` is one of `BENCHES`, `threads` those of the CPU, by default the
    framework's own number. With `resume`, a table that is there is gone on with, with its number of threads if none is
    given. `watch` is told what is timed. Figures are nanoseconds. Raises ArchError (A1501, A1503, A1505, A1506).
    """
    from archir.costs.latencies import fill as benches
    from archir.costs.latencies.workloads import workloads

    graph = graph_of(space)
    known = None
    if Path(path).exists():
        if not resume:
            raise fail("A1506", f"{path} is there already", None, "go on with it: --resume; or name another file")
        known = latency_table(path)
        threads = threads or known.threads
    todo = workloads(graph)
    with _bench(device, batch, threads) as ready:
        if known is not None:
            benches.belongs(known, device, batch, ready)
        table = known or benches.start(device, batch, ready)
        benches.fill(table, todo, ready, save=lambda one: one.write(path), watch=watch or benches.unwatched)
    return table


def validate(
    table: LatencyTable, space: Space, n: int = 20, *, seed: int = 0, watch: Watch | None = None
) -> Validation:
    """Measure `n` random architectures whole, on the table's device, against its sums.

    They are drawn by the `seed`; `watch` is told which is measured. Raises ArchError.
    """
    from archir.costs.latencies import fill as benches

    rng = random.Random(seed)
    networks = [space_of(space).specialize(space.sample(rng)) for _ in range(n)]
    with _bench(table.device, table.batch, table.threads) as ready:
        return benches.validate(table, networks, ready, watch=watch or benches.unwatched)


def measure(
    networks: Graph | str | Path | Mapping[str, Graph | Path],
    *,
    on: Sequence[str] = (),
    batches: Sequence[int] = (1,),
    threads: int | None = None,
    seconds: float = 2.0,
    watch: Watch | None = None,
) -> Speeds:
    """Measure whole networks, side by side: graphs without choices, and ONNX files; several have names.

    `on` are `torch`, `torch-compile`, `onnxruntime-cpu`, `torch-cuda`, `torch-compile-cuda`, `onnxruntime-cuda` and
    `tensorrt`; by default, all of them that are there. Each is measured for so many `seconds` at each size of
    `batches`, with so many `threads` of the CPU (by default a thread per core); `watch` is told how far it is. Raises
    ArchError (A1505, A1508, and what backends do).
    """
    from archir.backends.speed.subjects import speeds
    from archir.costs.latencies.fill import unwatched

    if isinstance(networks, Graph):
        networks = {networks.name: networks}
    elif isinstance(networks, str | Path):
        networks = {str(networks): Path(networks)}
    elif not isinstance(networks, Mapping):
        raise TypeError(f"expected a graph without choices, or the path of a model, and got {type(networks).__name__}")
    return speeds(networks, on, batches, threads, seconds, watch or unwatched)


def latency_table(path: str | Path) -> LatencyTable:
    """The latency table of a file. Raises ArchError (A1501)."""
    from archir.costs.latencies import files

    return files.table(path)


def latency_model(path: str | Path) -> LatencyModel:
    """The latency model of a file, as `fit_latency` writes it. Raises ArchError (A1501)."""
    from archir.costs.latencies import files

    return files.model(path)


def fit_latency(
    space: Space,
    architectures: Sequence[Architecture],
    nanoseconds: Sequence[float] | NDArray[np.float64],
    path: str | Path | None = None,
    *,
    operations: LatencyTable | None = None,
    device: str = "",
    seed: int = 0,
) -> LatencyModel:
    """A model of what a space's networks take on a device, fitted to some that were measured: n architectures, and
    nanoseconds [n] of each. It is written to `path`, if there is one.

    The best of several models by leaving one out; a latency table of single `operations` takes part if it is given, and
    `device` is a note of where they were measured.
    `model.margin(0.95)` says how far predictions are off. The `seed` draws networks that say how much a space's differ,
    and what is averaged over. Raises ArchError: A1510 for too few networks or for times that are none, A1502 if the
    table lacks operations.
    """
    from archir.costs.latencies.fitting import fit

    free = space_of(space).unbounded  # a bound on the latency may name the file that is made here
    usual = free.sample_codes(_USUAL, np.random.default_rng(seed))
    codes = np.array([one.codes for one in architectures], np.int16).reshape(len(architectures), len(space.order))
    measured = np.asarray(nanoseconds, np.float64)
    if len(measured) != len(codes):
        raise fail("A1510", f"there are {len(codes):,} architectures, and {len(measured):,} times")
    all_of_them = _counts(free, np.concatenate([codes, usual]))
    found = fit(
        all_of_them[: len(codes)], measured, usual=all_of_them[len(codes) :], table=operations, device=device, seed=seed
    )
    if path is not None:
        found.write(path)
    return found


def _counts(space: Space, codes: Codes) -> Counts:
    """How often rows of outcomes run each operation; network by network where choices are too entangled."""
    from archir.costs.latencies.counts import of_codes, of_graphs

    try:
        return of_codes(space.account, codes)
    except ArchError as error:
        if error.diagnostics[0].code not in ("A1601", "A1602"):
            raise
    return of_graphs([space.specialize(space.decode(row)) for row in codes], space.graph)


def measured_latency(
    space: Space,
    n: int = 30,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    seed: int = 0,
    watch: Watch | None = None,
) -> tuple[list[Architecture], list[float]]:
    """`n` random architectures, all different where there are so many, and the median of nanoseconds that each takes.

    They are drawn by the `seed`, whatever bounds on costs the space has, and are measured in turns on inputs of `batch`
    samples; `device` is one of `BENCHES`, `threads` those of the CPU, by default the framework's own number. `watch` is
    told which is measured. Raises ArchError (A1505).
    """
    from archir.costs.latencies import fill as benches

    rng = random.Random(seed)
    free = space_of(space).unbounded
    drawn = list(dict.fromkeys(free.sample(rng) for _ in range(_TRIES * n)))[:n]
    with _bench(device, batch, threads) as ready:
        graphs = [free.specialize(one) for one in drawn]
        found = benches.times(graphs, ready, watch=watch or benches.unwatched)
    return drawn, [one.median for one in found]


def _bench(device: str, batch: int, threads: int | None) -> AbstractContextManager[Bench]:
    if device not in BENCHES:
        hint = suggest(device, BENCHES) or f"devices are {', '.join(BENCHES)}"
        raise fail("A1505", f"there is no device `{device}`", None, hint)
    backend, kind = BENCHES[device]
    ready: AbstractContextManager[Bench] = backends.get(backend).bench(kind, batch, threads)
    return ready
