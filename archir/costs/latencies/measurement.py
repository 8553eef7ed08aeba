"""Measurement of operations for latency tables, and validation of tables against whole networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from archir.costs.latencies.model import MIN_NETWORKS, HeldOut, LatencyModel
from archir.costs.latencies.table import Conditions, Correction, Device, Entry, LatencyTable
from archir.costs.latencies.timing import DEFAULT_EFFORT, Effort, TimedRun, Timing, measure_in_visits
from archir.costs.latencies.workloads import Workload, chain_network
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.passes.cost import cost
from archir.utils.ranks import kendall, spearman
from archir.utils.student import t_quantile

ProgressWrapper = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Function that wraps an iterable to show progress.

It is called with the items, their number and a label, and yields the items.
"""

OPERATION_EFFORT = Effort(visits=10, max_visits=10, warm_ns=2e6)
"""How long to measure each operation of a table."""
MAX_OPERATIONS = 256
"""Maximum number of operations that are measured in turns; if the process is killed, their measurements are lost."""
MAX_BYTES = 2**32
"""Maximum size in float32 of the weights and activations of graphs that are measured in turns, and are all in memory
meanwhile."""


class Bench(Protocol):
    """A device at one batch size on which a backend can time networks."""

    @property
    def machine(self) -> dict[str, str]:
        """Names and versions that identify this device and its software."""
        ...

    @property
    def threads(self) -> int:
        """Number of threads that compute."""
        ...

    @property
    def batch(self) -> int:
        """Number of samples of the inputs."""
        ...

    @property
    def simplified(self) -> bool:
        """Whether networks are simplified before they run (see `execution_conditions`)."""
        ...

    def free(self, graph: Graph) -> bool:
        """Return whether a network takes no time because lowering removes all of its operations."""
        ...

    def timed(self, graph: Graph) -> TimedRun:
        """Return a timer for a network without choices, with newly initialised weights and random inputs."""
        ...


def without_progress(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
    """Return the items without showing progress."""
    return items


def conditions(device: Device, bench: Bench) -> Conditions:
    """Return the conditions of measurements on a bench."""
    return Conditions(
        device=device, batch=bench.batch, threads=bench.threads, machine=bench.machine, simplified=bench.simplified
    )


def new_table(device: Device, bench: Bench, effort: Effort = DEFAULT_EFFORT) -> LatencyTable:
    """Return a new table that contains no operations yet, only the measured overhead of a call on the device.

    The overhead is extrapolated from the times of two networks, one with one and one with two equal, cheap operations.
    """
    single, double = measure_networks([chain_network(1), chain_network(2)], bench, effort=effort)
    overhead = Entry(
        mean=max(0.0, 2 * single.mean - double.mean),
        spread=2 * single.spread + double.spread,
        samples=min(single.samples, double.samples),
    )
    return LatencyTable(schema_version=1, overhead=overhead, **dict(conditions(device, bench)))


def check_same_machine(table: Conditions, device: Device, bench: Bench) -> None:
    """Raise ArchError (A1503) if a table or model was measured on another device or with other software.

    The error lists the differences.
    """
    if differences := table.differences(conditions(device, bench)):
        text = f"the latencies were measured under other conditions: {'; '.join(differences)}"
        hint = "measure them anew; `archir latency table` with --force, without --resume, replaces a table"
        raise fail("A1503", text, None, hint)


def fill_table(
    table: LatencyTable,
    workloads: Mapping[str, Workload],
    bench: Bench,
    *,
    save: Callable[[LatencyTable], None],
    progress: ProgressWrapper = without_progress,
    effort: Effort = OPERATION_EFFORT,
) -> None:
    """Measure those operations of the space that are missing from a table, and subtract the overhead of a call.

    The table is saved after every MAX_OPERATIONS operations.
    """
    graphs = {key: workload.graph() for key, workload in workloads.items() if key not in table.entries}
    free = [key for key, graph in graphs.items() if bench.free(graph)]
    table.entries |= dict.fromkeys(free, Entry(mean=0, spread=0, samples=1))
    save(table)
    timed = [key for key in graphs if key not in table.entries]
    for start in range(0, len(timed), MAX_OPERATIONS):
        keys = timed[start : start + MAX_OPERATIONS]
        timings = measure_networks([graphs[key] for key in keys], bench, progress=progress, effort=effort)
        table.entries |= {
            key: Entry(mean=max(0.0, timing.mean - table.overhead.mean), spread=timing.spread, samples=timing.samples)
            for key, timing in zip(keys, timings, strict=True)
        }
        save(table)


@dataclass(frozen=True)
class MeasuredNetwork:
    """Predicted and measured latency of a network, in nanoseconds."""

    predicted: float
    """What bounds and searches use: a table's corrected sum, or the prediction of a model."""
    measured: Timing
    sum: float = 0.0
    """A table's sum without its correction."""


@dataclass(frozen=True)
class Validation:
    """How accurately a table or model predicts the latency of whole networks.

    `margin` is half the width of a model's 95% interval in nanoseconds, or None for a table. `speed` is that of the
    machine relative to its speed during the fit of a model, to which the measurements are converted.
    """

    networks: tuple[MeasuredNetwork, ...]
    margin: float | None = None
    speed: float = 1.0

    def __repr__(self) -> str:
        return f"<Validation on {len(self.networks):,} networks: mean error {self.error:.1%}>"

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's rank correlation with averaged ties; None if all predictions or all measurements are equal."""
        return spearman(self._predicted, self._measured)

    @property
    def error(self) -> float:
        """Mean absolute error of the predictions, relative to the measurements."""
        return _relative_error(self._predicted, self._measured)

    @property
    def corrected_error(self) -> float | None:
        """Mean relative error of a table's sums after affine correction; None if a line cannot be fitted.

        Each network's correction is fitted to all other networks (leave-one-out).
        """
        corrected = self._corrected()
        return None if corrected is None else _relative_error(corrected, self._measured)

    @property
    def held_out(self) -> HeldOut | None:
        """How well the latencies were predicted; None for too few networks.

        The interval around a table's prediction is that of a line fitted to the sums of the other networks (Student's
        t), so that a table whose sums are far from the measurements is outside of it.
        """
        return self._held_out(self._predicted)

    @property
    def held_out_calibrated(self) -> HeldOut | None:
        """The same of a table's sums after the affine correction, each by the line fitted to the other networks."""
        return self._held_out(self._corrected())

    def _held_out(self, predicted: Any) -> HeldOut | None:
        """Compare predicted nanoseconds [networks] with the measurements; `predicted` is None if there are none."""
        y, count = self._measured, len(self.networks)
        if count < MIN_NETWORKS:
            return None
        margins: Any = self.margin
        if margins is None:
            corrected = self._corrected()
            if predicted is None or corrected is None:
                return HeldOut(networks=count, inside=0, rank_correlation=None)
            squares = (corrected - y) ** 2
            margins = t_quantile(0.95, count - 3) * np.sqrt((squares.sum() - squares) / (count - 1) * (1 + 1 / count))
        inside = int((np.abs(predicted - y) <= margins + 1e-9 * y).sum())  # sums of floats are inexact
        return HeldOut(networks=count, inside=inside, rank_correlation=kendall(predicted, y))

    def _corrected(self) -> Any:
        """A table's sums [networks], each corrected by the line fitted to all other networks; None if a line cannot
        be fitted."""
        x, y = self._sums, self._measured
        lines = [fit_line(x[mask], y[mask]) for mask in ~np.eye(len(x), dtype=bool)]
        if not lines or None in lines:
            return None
        return np.array([line[0] * value + line[1] for line, value in zip(lines, x, strict=True) if line])

    def correction(self) -> Correction:
        """Return the affine correction: the least-squares line over all networks with an offset of at least 0.

        Raises ArchError (A1504) if the slope of the line is not positive.
        """
        line = fit_line(self._sums, self._measured)
        if line is None or line[0] <= 0:
            hint = "take more networks (-n), of a space whose networks differ more"
            raise fail("A1504", "cannot calibrate: measured latencies do not rise with the table's sums", None, hint)
        return Correction(scale=line[0], offset=line[1], networks=len(self.networks))

    @property
    def _predicted(self) -> Any:
        """Predicted nanoseconds, shape [networks]."""
        return np.array([network.predicted for network in self.networks])

    @property
    def _sums(self) -> Any:
        """A table's sums without its correction, in nanoseconds, shape [networks]."""
        return np.array([network.sum for network in self.networks])

    @property
    def _measured(self) -> Any:
        """Measured nanoseconds, shape [networks]."""
        return np.array([network.measured.mean for network in self.networks])


def conditions_of(predictor: LatencyTable | LatencyModel) -> Conditions:
    """Return the conditions under which a table or model was measured.

    Raises ArchError (A1503) for a model of latencies that were read from a table of results.
    """
    if isinstance(predictor, LatencyTable):
        return Conditions(**predictor.model_dump(include=set(Conditions.model_fields)))
    if predictor.conditions is None:
        text = "the model was fitted to measurements that archir did not make, so networks cannot be measured alike"
        raise fail("A1503", text, None, "`held_out` in its file says how it predicted networks that were held out")
    return predictor.conditions


def validate(
    predictor: LatencyTable | LatencyModel,
    graphs: Sequence[Graph],
    bench: Bench,
    *,
    anchors: Sequence[tuple[Graph, float]] = (),
    progress: ProgressWrapper = without_progress,
    effort: Effort = DEFAULT_EFFORT,
) -> Validation:
    """Measure networks without choices, and compare the latencies with the predictions of a table or model.

    For `anchors`, see `measure_with_anchors`. Raises ArchError (A1502, A1503).
    """
    recorded = conditions_of(predictor)
    check_same_machine(recorded, recorded.device, bench)
    predicted = [float(predictor.estimate(graph)) for graph in graphs]
    if isinstance(predictor, LatencyTable):
        sums, margin = [predictor.total(graph) for graph in graphs], None
    else:
        sums, margin = [0.0] * len(graphs), predictor.margin()
    measured, speed = measure_with_anchors(graphs, anchors, bench, progress=progress, effort=effort)
    return Validation(tuple(map(MeasuredNetwork, predicted, measured, sums)), margin, speed)


def measure_with_anchors(
    graphs: Sequence[Graph],
    anchors: Sequence[tuple[Graph, float]],
    bench: Bench,
    *,
    progress: ProgressWrapper = without_progress,
    effort: Effort = DEFAULT_EFFORT,
) -> tuple[list[Timing], float]:
    """Measure networks in turns with others that took the given nanoseconds at an earlier time.

    Returns the latencies of the networks, converted to the speed of the machine at that time, and the machine's speed
    now relative to that one. Without anchors, both are taken to be equal.
    """
    timings = measure_networks([*graphs, *(anchor for anchor, _ in anchors)], bench, progress=progress, effort=effort)
    now = sum(timing.mean for timing in timings[len(graphs) :])
    speed = sum(nanoseconds for _, nanoseconds in anchors) / now if now else 1.0
    converted = [
        replace(timing, mean=speed * timing.mean, spread=speed * timing.spread, error=speed * timing.error)
        for timing in timings[: len(graphs)]
    ]
    return converted, speed


def measure_networks(
    graphs: Sequence[Graph],
    bench: Bench,
    *,
    progress: ProgressWrapper = without_progress,
    effort: Effort = DEFAULT_EFFORT,
) -> list[Timing]:
    """Return the measured latencies of networks without choices, each by itself and warm.

    Networks that need more than MAX_BYTES together are measured in groups, one after the other.
    """
    visits = (
        timing
        for group in _groups(graphs, bench.batch)
        for timing in measure_in_visits([bench.timed(graph) for graph in group], effort)
    )
    measured = progress(visits, (effort.max_visits + 1) * len(graphs), "measuring")
    return [timing for timing in measured if timing is not None]


def _groups(graphs: Sequence[Graph], batch: int) -> Iterator[list[Graph]]:
    """Yield the graphs in groups that fit into MAX_BYTES, or one by one."""
    group: list[Graph] = []
    size = 0
    for graph in graphs:
        costs = cost(graph)
        needed = 4 * costs.params + batch * costs.peak_bytes
        if group and size + needed > MAX_BYTES:
            yield group
            group, size = [], 0
        group.append(graph)
        size += needed
    if group:
        yield group


def fit_line(x: Any, y: Any) -> tuple[float, float] | None:
    """Return slope and intercept of the least-squares line with intercept at least 0; None if all x are equal."""
    if len(x) < 2:
        return None
    centred = x - x.mean()
    if np.ptp(x) <= 1e-9 * np.abs(x).max() or centred @ centred == 0:
        return None
    slope = float(centred @ (y - y.mean()) / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    return (slope, intercept) if intercept >= 0 else (float(x @ y / (x @ x)), 0.0)


def _relative_error(predicted: Any, measured: Any) -> float:
    """Return the mean absolute error divided by the measurements."""
    return float(np.mean(np.abs(predicted - measured) / measured))
