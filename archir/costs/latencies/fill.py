"""Filling tables of latencies, and asking how well they predict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from archir.costs.latencies.table import Correction, Device, Entry, LatencyTable
from archir.costs.latencies.timing import USUAL, Effort, Timed, Timing, measure, measure_in_turns
from archir.costs.latencies.workloads import Workload, chain
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph

Watch = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Shows how far along a list of so many items is: `watch(items, total, what)` yields the items."""

TURNS = 20
"""Networks that are in memory at once, and take turns."""
SAVE_EVERY = 5.0
"""Seconds of measuring that a killed process may lose."""


class Bench(Protocol):
    """A device at a batch size, made ready by a backend."""

    @property
    def machine(self) -> dict[str, str]:
        """What tells one device and its software from another."""
        ...

    @property
    def threads(self) -> int:
        """How many threads compute."""
        ...

    def free(self, graph: Graph) -> bool:
        """Whether lowering leaves nothing to do of a network."""
        ...

    def timed(self, graph: Graph) -> Timed:
        """Times a network without choices, with new weights, on random inputs."""
        ...


def unwatched(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
    """The items."""
    return items


def start(device: Device, batch: int, bench: Bench, effort: Effort = USUAL) -> LatencyTable:
    """A table that knows its device and what a call costs there, and no operation yet."""
    timings = dict(measure_in_turns([bench.timed(chain(1)), bench.timed(chain(2))], effort))
    one, two = timings[0], timings[1]
    overhead = Entry(
        median=max(0.0, 2 * one.median - two.median),
        spread=2 * one.spread + two.spread,
        samples=min(one.samples, two.samples),
    )
    return LatencyTable(
        schema_version=1,
        device=device,
        batch=batch,
        threads=bench.threads,
        machine=bench.machine,
        overhead=overhead,
    )


def belongs(table: LatencyTable, device: Device, batch: int, bench: Bench) -> None:
    """Raise ArchError (A1503) if a table was made elsewhere, naming what differs."""
    was = {"device": table.device, "batch": str(table.batch), "threads": str(table.threads), **table.machine}
    now = {"device": device, "batch": str(batch), "threads": str(bench.threads), **bench.machine}
    other = [
        f"{name} {was.get(name, '-')}, here {now.get(name, '-')}"
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name)
    ]
    if other:
        raise fail("A1503", f"the latency table was measured elsewhere: {'; '.join(other)}")


def fill(
    table: LatencyTable,
    found: Mapping[str, Workload],
    bench: Bench,
    *,
    save: Callable[[LatencyTable], None],
    watch: Watch = unwatched,
    effort: Effort = USUAL,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure what a table lacks, and how many that were. What was measured is saved, also when this is interrupted."""
    missing = [one for key, one in found.items() if key not in table.entries]
    saved = clock()
    try:
        for one in watch(missing, len(missing), "measuring"):
            table.entries[one.key] = _entry(one.graph(), bench, table.overhead.median, effort)
            if clock() - saved >= SAVE_EVERY:
                save(table)
                saved = clock()
    finally:
        save(table)
    return len(missing)


def _entry(graph: Graph, bench: Bench, overhead: float, effort: Effort) -> Entry:
    if bench.free(graph):
        return Entry(median=0, spread=0, samples=1)
    timing = measure(bench.timed(graph), effort)
    return Entry(median=max(0.0, timing.median - overhead), spread=timing.spread, samples=timing.samples)


@dataclass(frozen=True)
class Network:
    """A network's latency in nanoseconds: the table's sum, and as measured."""

    predicted: float
    measured: Timing


@dataclass(frozen=True)
class Validation:
    """How well a table's sums predict what whole networks take."""

    networks: tuple[Network, ...]

    def __repr__(self) -> str:
        return f"<Validation on {len(self.networks):,} networks: mean error {self.error:.1%}>"

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's, ties averaged; None where it is not defined, because all of a side are equal."""
        return spearman(self._predicted, self._measured)

    @property
    def error(self) -> float:
        """Mean absolute error of the sums, relative to what was measured."""
        return _relative_error(self._predicted, self._measured)

    @property
    def corrected_error(self) -> float | None:
        """The same after the affine correction; each network is predicted by the fit to all others (leave-one-out)."""
        x, y = self._predicted, self._measured
        others = [np.arange(len(x)) != i for i in range(len(x))]
        lines = [fit(x[rest], y[rest]) for rest in others]
        if not lines or None in lines:
            return None
        found = np.array([line[0] * value + line[1] for line, value in zip(lines, x, strict=True) if line])
        return _relative_error(found, y)

    def correction(self) -> Correction:
        """The least-squares line of all networks whose offset is at least 0.

        Raises ArchError (A1504) if it does not rise.
        """
        line = fit(self._predicted, self._measured)
        if line is None or line[0] <= 0:
            hint = "take more networks (-n), of a space whose networks differ more"
            raise fail("A1504", "no rising line leads from the table's sums to what was measured", None, hint)
        return Correction(scale=line[0], offset=line[1], networks=len(self.networks))

    @property
    def _predicted(self) -> Any:
        return np.array([one.predicted for one in self.networks])

    @property
    def _measured(self) -> Any:
        return np.array([one.measured.median for one in self.networks])


def validate(
    table: LatencyTable, graphs: Sequence[Graph], bench: Bench, *, watch: Watch = unwatched, effort: Effort = USUAL
) -> Validation:
    """Measure networks without choices, and compare with what a table says. Raises ArchError (A1502, A1503)."""
    belongs(table, table.device, table.batch, bench)
    predicted = [table.total(graph) for graph in graphs]
    return Validation(tuple(map(Network, predicted, times(graphs, bench, watch=watch, effort=effort))))


def times(graphs: Sequence[Graph], bench: Bench, *, watch: Watch = unwatched, effort: Effort = USUAL) -> list[Timing]:
    """What whole networks without choices take, which are measured in turns."""
    found = dict(watch(_measured(graphs, bench, effort), len(graphs), "measuring"))
    return [found[i] for i in range(len(graphs))]


def _measured(graphs: Sequence[Graph], bench: Bench, effort: Effort) -> Iterator[tuple[int, Timing]]:
    for begin in range(0, len(graphs), TURNS):
        ready = [bench.timed(graph) for graph in graphs[begin : begin + TURNS]]
        for position, timing in measure_in_turns(ready, effort):
            yield begin + position, timing


def fit(x: Any, y: Any) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line whose intercept is at least 0; None if all x are equal."""
    if len(x) < 2 or np.ptp(x) == 0:
        return None
    centred = x - x.mean()
    slope = float(centred @ (y - y.mean()) / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    return (slope, intercept) if intercept >= 0 else (float(x @ y / (x @ x)), 0.0)


def spearman(x: Any, y: Any) -> float | None:
    """The correlation of ranks; None if all of a side are equal."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: Any) -> Any:
    """Positions in sorted order; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def _relative_error(found: Any, wanted: Any) -> float:
    return float(np.mean(np.abs(found - wanted) / wanted))
