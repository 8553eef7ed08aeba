"""Latency of operations and of whole networks: latency tables, latency models, and side-by-side benchmarks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archir.api.loading import as_graph, require_space
from archir.backends.latency_benches import open_bench
from archir.diagnostics.errors import LimitError, fail
from archir.ir.graph import Constraint, Graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from archir.backends.speed.measurements import Speeds
    from archir.costs.latencies.counts import RunCounts
    from archir.costs.latencies.measurement import ProgressWrapper, Validation
    from archir.costs.latencies.model import LatencyModel
    from archir.costs.latencies.table import Conditions, Device, LatencyTable
    from archir.costs.tables import Codes
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

__all__ = [
    "bench", "fit_latency", "latency_model", "latency_table", "measure_operations", "measured_latency", "validate",
]  # fmt: skip

_REFERENCE_NETWORKS = 256
"""Number of random networks from which a latency model estimates how much each feature varies over the space."""
_ANCHORS = 5
"""Number of networks, from the fastest to the slowest, that a latency model keeps to tell the machine's speed later."""
_SAMPLES_PER_NETWORK = 4
"""Maximum number of architectures sampled for each one requested; duplicates among them are dropped."""


def measure_operations(
    space: Space | Graph,
    path: str | Path,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: ProgressWrapper | None = None,
) -> LatencyTable:
    """Time every operation of a space on a device and write a latency table.

    Args:
        space: A space or a graph.
        path: File of the table.
        device: `cpu`, `cuda`, `onnxruntime-cpu` or `onnxruntime-cuda`.
        batch: Number of samples of the inputs.
        threads: Number of CPU threads, by default one per core.
        resume: Add the operations that are missing from an existing table, by default with the table's number of
            threads.
        force: Replace an existing table, unless `resume` is set.
        progress: `progress(items, count, label)` wraps the iteration over operations, to report progress.

    Returns:
        The table, in nanoseconds.

    Raises:
        ArchError: A1501 (the existing file is not a table), A1503 (it was measured on another machine or with other
            settings), A1505 (no such device), A1506 (the file exists and neither `resume` nor `force` is
            set).

    Examples:
        >>> archir.measure_operations(space, "cpu.json", threads=1)
        <LatencyTable...>
    """
    from archir.costs.latencies import measurement as benches
    from archir.costs.latencies.workloads import space_workloads

    graph = as_graph(space)
    existing = None
    if not (resume or force) and Path(path).exists():
        hint = "continue it with --resume, replace it with --force, or name another file"
        raise fail("A1506", f"{path} exists already", None, hint)
    if resume and Path(path).exists():
        existing = latency_table(path)
        threads = threads or existing.threads
    with open_bench(device, batch, threads) as device_bench:
        if existing is not None:
            benches.check_same_machine(existing, device, device_bench)
        table = existing or benches.new_table(device, device_bench)
        benches.fill_table(
            table,
            space_workloads(graph, device_bench.simplified),
            device_bench,
            save=lambda current: current.write(path),
            progress=progress or benches.without_progress,
        )
    return table


def validate(
    predictor: LatencyTable | LatencyModel,
    space: Space,
    n: int = 20,
    *,
    where: str | None = None,
    seed: int = 0,
    progress: ProgressWrapper | None = None,
) -> Validation:
    """Compare the latencies that a latency table or model predicts with measurements of whole networks.

    Args:
        predictor: The table or model; the networks are measured under its conditions.
        space: The space.
        n: Number of random architectures, sampled within the bounds of the space.
        where: Further bounds on costs.
        seed: Seed that samples them.
        progress: `progress(items, count, label)` wraps the iteration over networks, to report progress.

    Returns:
        Predicted and measured latencies of the networks, their `rank_correlation` (Spearman's), their mean `error`, and
        whether the predictions are fit for bounds (`held_out`).

    Raises:
        ArchError: For example A1505, if the device is not available, and A1503, if this is another machine.

    Examples:
        >>> archir.validate(archir.measure_operations(space, "cpu.json", threads=1), space, n=4)
        <Validation on 4 networks: mean error ...>
    """
    from archir.costs.latencies import measurement as benches

    bounded, rng = _with_known_bounds(space, where), random.Random(seed)
    networks = [bounded.specialize(item) for item in _sample_distinct(bounded, n, rng)]
    anchors = predictor.anchors_of(bounded.unbounded.specialize)
    conditions = benches.conditions_of(predictor)
    with open_bench(conditions.device, conditions.batch, conditions.threads) as device_bench:
        return benches.validate(
            predictor, networks, device_bench, anchors=anchors, progress=progress or benches.without_progress
        )


def bench(
    networks: Graph | str | Path | Mapping[str, Graph | Path],
    *,
    on: Sequence[str] = (),
    batches: Sequence[int] = (1,),
    threads: int | Sequence[int] | None = None,
    seconds: float = 2.0,
    progress: ProgressWrapper | None = None,
) -> Speeds:
    """Measure latency, throughput and memory of whole networks, side by side.

    Args:
        networks: A graph without choices, the path of an ONNX file, or a mapping from names to these.
        on: Targets: `torch`, `torch-compile`, `onnxruntime-cpu`, `torch-cuda`, `torch-compile-cuda`, `onnxruntime-cuda`
            and `tensorrt`; by default all that are available.
        batches: Batch sizes.
        threads: Numbers of CPU threads, by default one per core.
        seconds: Time for which each combination of network, target, batch size and threads is measured.
        progress: `progress(steps, count, label)` wraps the iteration over steps, to report progress.

    Returns:
        The `measurements`, and in `left_out` the targets that were not available.

    Raises:
        TypeError: An argument is not a network.
        ArchError: A1505 (no such target), A1508 (a network cannot be measured), and errors of backends.

    Examples:
        >>> speeds = archir.bench(network, on=["torch"], seconds=0.1)
        >>> speeds.measurements[0].latency.percentile(50) > 0  # nanoseconds
        True
    """
    from archir.backends.speed.subjects import speeds
    from archir.costs.latencies.measurement import without_progress

    if isinstance(networks, Graph):
        networks = {networks.name: networks}
    elif isinstance(networks, str | Path):
        networks = {str(networks): Path(networks)}
    elif not isinstance(networks, Mapping):
        raise TypeError(f"expected a graph without choices, or the path of a model, and got {type(networks).__name__}")
    counts = () if threads is None else (threads,) if isinstance(threads, int) else threads
    return speeds(networks, on, batches, counts, seconds, progress or without_progress)


def latency_table(path: str | Path) -> LatencyTable:
    """Read a latency table.

    Args:
        path: The file, as `measure_operations` writes it.

    Returns:
        The table, in nanoseconds.

    Raises:
        ArchError: A1501: the file is not a valid table.

    Examples:
        >>> _ = archir.measure_operations(space, "cpu.json", threads=1)
        >>> archir.latency_table("cpu.json").device
        'cpu'
    """
    from archir.costs.latencies import files

    return files.read_table(path)


def latency_model(path: str | Path) -> LatencyModel:
    """Read a latency model.

    Args:
        path: The file, as `fit_latency` writes it.

    Returns:
        The model.

    Raises:
        ArchError: A1501: the file is not a valid model.

    Examples:
        >>> architectures, nanoseconds, _ = archir.measured_latency(space, 12, threads=1)
        >>> _ = archir.fit_latency(space, architectures, nanoseconds, "phone.json")
        >>> archir.latency_model("phone.json").estimate(network) > 0
        True
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
    conditions: Conditions | None = None,
    seed: int = 0,
) -> LatencyModel:
    """Fit a model that predicts the latency of a space's networks to measured networks.

    Several kinds of models are fitted, and the one with the lowest leave-one-out error is returned.

    Args:
        space: The space.
        architectures: n architectures of the space.
        nanoseconds: Their measured latencies [n].
        path: File to write the model to.
        operations: A latency table of single operations; the candidates then include models that use it.
        device: Free-text note of where the networks were measured.
        conditions: The same in detail, if archir measured them.
        seed: Seed of the random networks from which the model estimates how much the networks of the space vary, and of
            the hyperparameters over which the model averages.

    Returns:
        The model. Its `margin(0.95)` is half the width of the interval around a prediction that contains the latency of
        a new network with a probability of 95%, and its `held_out` says whether that held for networks that the
        prediction was not fitted to.

    Raises:
        ArchError: A1510 (too few networks, or invalid times), A1502 (the table lacks operations).

    Examples:
        >>> architectures, nanoseconds, _ = archir.measured_latency(space, 12, threads=1)
        >>> archir.fit_latency(space, architectures, nanoseconds, device="this computer")
        <LatencyModel...>
    """
    import numpy as np

    from archir.costs.latencies.fitting import fit_model
    from archir.costs.latencies.model import Anchor

    bounded = _with_known_bounds(space, None, path)
    unbounded = bounded.unbounded
    reference = bounded.sample_codes(_REFERENCE_NETWORKS, np.random.default_rng(seed))
    codes = np.array([architecture.codes for architecture in architectures], np.int16).reshape(
        len(architectures), len(space.order)
    )
    measured = np.asarray(nanoseconds, np.float64)
    if len(measured) != len(codes):
        raise fail("A1510", f"there are {len(codes):,} architectures, but {len(measured):,} times")
    simplified = conditions is not None and conditions.simplified
    counts = _counts(unbounded, np.concatenate([codes, reference]), simplified)
    model = fit_model(
        counts[: len(codes)],
        measured,
        reference=counts[len(codes) :],
        table=operations,
        device=device,
        conditions=conditions,
        seed=seed,
    )
    if conditions is not None:
        spread = np.argsort(measured)[np.linspace(0, len(measured) - 1, _ANCHORS).round().astype(int)]
        anchors = tuple(Anchor(choices=dict(architectures[i]), nanoseconds=float(measured[i])) for i in spread)
        model = model.model_copy(update={"anchors": anchors})
    if path is not None:
        model.write(path)
    return model


def _counts(space: Space, codes: Codes, simplified: bool) -> RunCounts:
    """Count how often each operation runs in the network of each row of outcome codes; see `counts_of_codes`.

    If the decision diagrams of the space's choices become too large (A1601, A1602), every network is built and counted.
    """
    from archir.costs.latencies.counts import counts_of_codes, counts_of_graphs

    try:
        return counts_of_codes(space.account, codes, simplified)
    except LimitError:
        networks = [space.specialize(space.decode(row)) for row in codes]
        return counts_of_graphs(networks, space.graph, simplified)


def measured_latency(
    space: Space,
    n: int = 40,
    *,
    also: Sequence[Architecture] = (),
    where: str | None = None,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    seed: int = 0,
    path: str | Path | None = None,
    progress: ProgressWrapper | None = None,
) -> MeasuredLatencies:
    """Measure the latency of random architectures of a space.

    Args:
        space: The space. Its bounds on latencies are ignored if their file is missing or is `path`.
        n: Number of distinct architectures; fewer, if random samples repeat too often.
        also: Further architectures to measure.
        where: Further bounds on costs.
        device: `cpu`, `cuda`, `onnxruntime-cpu` or `onnxruntime-cuda`.
        batch: Number of samples of the inputs.
        threads: Number of CPU threads, by default one per core.
        seed: Seed that samples the architectures.
        path: File to which a model of these measurements will be written.
        progress: `progress(items, count, label)` wraps the iteration over networks, to report progress.

    Returns:
        The architectures, the mean latency of each in nanoseconds, and the conditions. Each network is measured by
        itself and warm.

    Raises:
        ArchError: A1505: the device is unknown or unavailable.

    Examples:
        >>> architectures, nanoseconds, conditions = archir.measured_latency(space, 3, threads=1)
        >>> len(architectures), len(nanoseconds)
        (3, 3)
    """
    from archir.costs.latencies import measurement as benches

    bounded = _with_known_bounds(space, where, path)
    architectures = [*dict.fromkeys([*_sample_distinct(bounded, n, random.Random(seed)), *also])]
    with open_bench(device, batch, threads) as device_bench:
        graphs = [bounded.unbounded.specialize(architecture) for architecture in architectures]
        timings = benches.measure_networks(graphs, device_bench, progress=progress or benches.without_progress)
        conditions = benches.conditions(device, device_bench)
    return MeasuredLatencies(architectures, [item.mean for item in timings], conditions)


class MeasuredLatencies(NamedTuple):
    """Architectures, the latency of each in nanoseconds, and the conditions of the measurement."""

    architectures: list[Architecture]
    nanoseconds: list[float]
    conditions: Conditions


def _with_known_bounds(space: Space, where: str | None, path: str | Path | None = None) -> Space:
    """Return the space with bounds `where`, but without its own bounds on latencies whose file is missing or `path`."""
    from archir.language.elaboration.cost_names import latency_file
    from archir.spaces.space import Space

    graph = copy(require_space(space).graph)

    def is_known(bound: Constraint) -> bool:
        file = latency_file(bound.cost or "")
        if file is None:
            return True
        read_file = bound.table or Path(file)
        return read_file.exists() and (path is None or read_file.resolve() != Path(path).resolve())

    graph.constraints = [*filter(is_known, graph.constraints)]
    return Space(graph) if where is None else Space(graph).where(where)


def _sample_distinct(space: Space, n: int, rng: random.Random) -> list[Architecture]:
    """Return `n` distinct random architectures; fewer, if the samples repeat."""
    samples: dict[Architecture, None] = {}
    for _ in range(_SAMPLES_PER_NETWORK * n):
        samples[space.sample(rng)] = None
        if len(samples) == n:
            break
    return list(samples)
