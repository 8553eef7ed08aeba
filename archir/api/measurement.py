"""Latency of operations and of whole networks: latency tables, latency models, and side-by-side benchmarks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from archir import backends
from archir.api.loading import as_graph, require_space
from archir.diagnostics.errors import LimitError, fail
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from archir.backends.speed.measurements import Speeds
    from archir.costs.latencies.counts import RunCounts
    from archir.costs.latencies.measurement import Bench, ProgressWrapper, Validation
    from archir.costs.latencies.model import LatencyModel
    from archir.costs.latencies.table import Device, LatencyTable
    from archir.spaces.architecture import Architecture
    from archir.spaces.rows import Codes
    from archir.spaces.space import Space

__all__ = [
    "bench", "fit_latency", "latency_model", "latency_table", "measure", "measured_latency", "validate",
]  # fmt: skip

_REFERENCE_NETWORKS = 256
"""Number of random networks from which a latency model estimates how much each feature varies over the space."""
_SAMPLES_PER_NETWORK = 4
"""Number of architectures sampled for each one requested; duplicates among them are dropped."""

BENCHES = {
    "cpu": ("torch", "cpu"), "cuda": ("torch", "cuda"),
    "onnxruntime-cpu": ("onnx", "cpu"), "onnxruntime-cuda": ("onnx", "cuda"),
}  # fmt: skip
"""Maps each device name of latency tables to a backend, and to the name of the device in that backend."""


def bench(
    space: Space | Graph,
    path: str | Path,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    resume: bool = False,
    progress: ProgressWrapper | None = None,
) -> LatencyTable:
    """Time every operation of a space on a device and write a latency table.

    `space` is a space or a graph, `path` the file of the table. `device` is `cpu`, `cuda`, `onnxruntime-cpu` or
    `onnxruntime-cuda`. Operations are timed on inputs with `batch` samples and with `threads` CPU threads, by default
    the framework's own number. With `resume`, the operations missing from an existing table are added, by default with
    the table's number of threads. `progress(items, count, label)` wraps the iteration over operations, to report
    progress.

    Returns the table, in nanoseconds. Raises ArchError: A1501 (the existing file is not a table), A1503 (it was
    measured on another machine or with other settings), A1505 (no such device), A1506 (the file exists and `resume` is
    not set).
    """
    from archir.costs.latencies import measurement as benches
    from archir.costs.latencies.workloads import space_workloads

    graph = as_graph(space)
    existing = None
    if Path(path).exists():
        if not resume:
            raise fail("A1506", f"{path} exists already", None, "continue it with --resume, or name another file")
        existing = latency_table(path)
        threads = threads or existing.threads
    operations = space_workloads(graph)
    with _bench(device, batch, threads) as device_bench:
        if existing is not None:
            benches.check_same_machine(existing, device, batch, device_bench)
        table = existing or benches.new_table(device, batch, device_bench)
        benches.fill_table(
            table,
            operations,
            device_bench,
            save=lambda current: current.write(path),
            progress=progress or benches.without_progress,
        )
    return table


def validate(
    table: LatencyTable, space: Space, n: int = 20, *, seed: int = 0, progress: ProgressWrapper | None = None
) -> Validation:
    """Compare latencies predicted by a latency table, as sums over operations, with measurements of whole networks.

    `n` random architectures of the `space`, sampled with `seed`, are measured on the table's device.
    `progress(items, count, label)` wraps the iteration over networks, to report progress. Returns a `Validation` with
    predicted and measured latencies, their rank correlation and mean error. Raises ArchError, for example A1505 if the
    device is not available.
    """
    from archir.costs.latencies import measurement as benches

    rng = random.Random(seed)
    networks = [require_space(space).specialize(space.sample(rng)) for _ in range(n)]
    with _bench(table.device, table.batch, table.threads) as device_bench:
        return benches.validate(table, networks, device_bench, progress=progress or benches.without_progress)


def measure(
    networks: Graph | str | Path | Mapping[str, Graph | Path],
    *,
    on: Sequence[str] = (),
    batches: Sequence[int] = (1,),
    threads: int | None = None,
    seconds: float = 2.0,
    progress: ProgressWrapper | None = None,
) -> Speeds:
    """Measure latency, throughput and memory of whole networks, side by side.

    `networks` is a graph without choices, the path of an ONNX file, or a mapping from names to these. `on` lists the
    targets: `torch`, `torch-compile`, `onnxruntime-cpu`, `torch-cuda`, `torch-compile-cuda`, `onnxruntime-cuda` and
    `tensorrt`; by default all available ones. `batches` lists the batch sizes, each measured for `seconds` with
    `threads` CPU threads (by default one per core). `progress(steps, count, label)` wraps the iteration over steps, to
    report progress.

    Returns `Speeds`: `measurements`, and in `left_out` the targets that were not available. Raises TypeError if an
    argument is not a network. Raises ArchError: A1505 (no such target), A1508 (a network cannot be measured), and
    errors of backends.
    """
    from archir.backends.speed.subjects import speeds
    from archir.costs.latencies.measurement import without_progress

    if isinstance(networks, Graph):
        networks = {networks.name: networks}
    elif isinstance(networks, str | Path):
        networks = {str(networks): Path(networks)}
    elif not isinstance(networks, Mapping):
        raise TypeError(f"expected a graph without choices, or the path of a model, and got {type(networks).__name__}")
    return speeds(networks, on, batches, threads, seconds, progress or without_progress)


def latency_table(path: str | Path) -> LatencyTable:
    """Read a latency table from the file `path`. Raises ArchError (A1501) if the file is not a valid table."""
    from archir.costs.latencies import files

    return files.read_table(path)


def latency_model(path: str | Path) -> LatencyModel:
    """Read a latency model from a file written by `fit_latency`.

    Raises ArchError (A1501) if it is not a valid model.
    """
    from archir.costs.latencies import files

    return files.read_model(path)


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
    """Fit a model that predicts the latency of a space's networks to measured networks.

    `architectures` are n architectures of the `space`, and `nanoseconds` [n] their measured latencies. Several kinds of
    models are fitted, and the one with the lowest leave-one-out error is returned; if `operations`, a latency table of
    single operations, is given, the candidates include models that use it. `device` is a free-text note of where the
    networks were measured. `seed` generates the random networks from which the model estimates how much the networks of
    the space vary, and the hyperparameters over which the model averages. If `path` is given, the model is written to
    that file.

    Returns a `LatencyModel`, whose `margin(0.95)` is half the width of the interval around a prediction
    that contains the latency of a new network with a probability of 95%. Raises ArchError:
    A1510 (too few networks, or invalid times), A1502 (the table lacks operations).
    """
    import numpy as np

    from archir.costs.latencies.fitting import fit_model

    unbounded = require_space(space).unbounded  # a latency bound may refer to the file that this function writes
    reference = unbounded.sample_codes(_REFERENCE_NETWORKS, np.random.default_rng(seed))
    codes = np.array([architecture.codes for architecture in architectures], np.int16).reshape(
        len(architectures), len(space.order)
    )
    measured = np.asarray(nanoseconds, np.float64)
    if len(measured) != len(codes):
        raise fail("A1510", f"there are {len(codes):,} architectures, but {len(measured):,} times")
    counts = _counts(unbounded, np.concatenate([codes, reference]))
    model = fit_model(
        counts[: len(codes)], measured, reference=counts[len(codes) :], table=operations, device=device, seed=seed
    )
    if path is not None:
        model.write(path)
    return model


def _counts(space: Space, codes: Codes) -> RunCounts:
    """Count how often each operation runs in the network of each row of outcome codes.

    If the decision diagrams of the space's choices become too large (A1601, A1602), every network is built and counted.
    """
    from archir.costs.latencies.counts import counts_of_codes, counts_of_graphs

    try:
        return counts_of_codes(space.account, codes)
    except LimitError:
        return counts_of_graphs([space.specialize(space.decode(row)) for row in codes], space.graph)


def measured_latency(
    space: Space,
    n: int = 30,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    seed: int = 0,
    progress: ProgressWrapper | None = None,
) -> tuple[list[Architecture], list[float]]:
    """Measure the latency of random architectures of a space.

    `n` distinct architectures (fewer, if the space has fewer) are sampled with `seed`, ignoring the space's cost
    bounds, and timed alternately on inputs with `batch` samples. `device` is `cpu`, `cuda`, `onnxruntime-cpu` or
    `onnxruntime-cuda`; `threads` is the number of CPU threads, by default the framework's own. `progress(items, count,
    label)` wraps the iteration over networks, to report progress.

    Returns the architectures and the median latency of each in nanoseconds. Raises ArchError (A1505) if the device is
    unknown or unavailable.
    """
    from archir.costs.latencies import measurement as benches

    rng = random.Random(seed)
    unbounded = require_space(space).unbounded
    sampled = list(dict.fromkeys(unbounded.sample(rng) for _ in range(_SAMPLES_PER_NETWORK * n)))[:n]
    with _bench(device, batch, threads) as device_bench:
        graphs = [unbounded.specialize(item) for item in sampled]
        timings = benches.measure_networks(graphs, device_bench, progress=progress or benches.without_progress)
    return sampled, [item.median for item in timings]


def _bench(device: str, batch: int, threads: int | None) -> AbstractContextManager[Bench]:
    """Return the context manager that prepares a device for timing.

    Raises ArchError (A1505) if the device is unknown.
    """
    if device not in BENCHES:
        hint = suggest(device, BENCHES) or f"devices are {', '.join(BENCHES)}"
        raise fail("A1505", f"there is no device `{device}`", None, hint)
    backend, kind = BENCHES[device]
    ready: AbstractContextManager[Bench] = backends.get(backend).bench(kind, batch, threads)
    return ready
