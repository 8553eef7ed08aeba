"""Fitting models of latencies to measured networks, and choosing the best by leaving one out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.latencies.counts import Counts
from archir.costs.latencies.fill import spearman
from archir.costs.latencies.model import FEWEST, MOST, Kind, LatencyModel
from archir.costs.latencies.process import Fitted, Matrix, fitted
from archir.costs.latencies.table import LatencyTable
from archir.diagnostics.errors import fail

MOST_NETWORKS = 2_000
"""Networks that a model is fitted to: the work grows with their cube."""
MOST_ROUNDS, CLOSE = 500, 1e-6
"""Rounds of coordinate descent, and the greatest relative change of a coefficient that ends them."""


class _Block:
    """Features that are sums over operations: `values` [k, d] of one run of each, scaled by how networks differ."""

    def __init__(self, values: Matrix, times: Matrix, usual: Matrix) -> None:
        totals = usual @ values
        spread = totals.std(0)
        scales = np.where(spread > 1e-9 * np.abs(totals).max(0, initial=1e-300), spread, np.inf)
        self.values = values / (scales * np.sqrt(int(np.isfinite(scales).sum()) or 1))
        self.middle = usual.mean(0) @ self.values
        self.rows = times @ self.values - self.middle


def fit(
    counts: Counts, measured: NDArray[np.float64], *, usual: Counts, table: LatencyTable | None = None,
    device: str = "", seed: int = 0,
) -> LatencyModel:  # fmt: skip
    """A model of networks that took `measured` nanoseconds [n]. Other networks of the space, `usual`, with the same
    operations, say how much features differ. A table of single operations is taken into account.

    Models are `costs` (a Gaussian process on multiply-accumulates, bytes moved and kernels), `operations` (the same,
    and what each operation adds by itself), and with a table `table` (a line from its sums) and `table and operations`.
    The best by leaving one out is fitted. Raises ArchError: A1510 for too few networks or times that are none, A1502.
    """
    _check(measured)
    between = np.concatenate([counts.times, usual.times])
    costs, own = (_Block(values, counts.times, between) for values in (counts.costs, np.eye(len(counts.workloads))))
    models: dict[Kind, list[_Block]] = {"costs": [costs], "operations": [costs, own]}
    if table is not None:
        keys = [one.key for one in counts.workloads]
        table.need(keys)
        known = np.array([[table.entries[key].median] for key in keys])
        line = _Block(known, counts.times, between)
        models |= {"table": [line], "table and operations": [line, costs, own]}
    tried = {
        name: _added(blocks, fitted([block.rows for block in blocks], measured, np.random.default_rng(seed)), between)
        for name, blocks in models.items()
    }
    rounding = float((counts.times**2).sum(1).mean()) / 12  # entries are whole nanoseconds
    errors = {name: float(np.sqrt((one.errors**2).mean() + rounding)) for name, one in tried.items()}
    best = min(errors, key=errors.__getitem__)
    found = tried[best]
    return LatencyModel(
        schema_version=1, model=best, device=device, networks=len(measured), error=errors[best],
        rank_correlation=spearman(measured - found.errors, measured), tried=errors, offset=round(float(found.adds[0])),
        entries={one.key: round(float(value)) for one, value in zip(counts.workloads, found.adds[1:], strict=True)},
    )  # fmt: skip


def _check(measured: NDArray[np.float64]) -> None:
    if not FEWEST <= len(measured) <= MOST_NETWORKS:
        text = f"a latency model is fitted to {FEWEST} to {MOST_NETWORKS:,} networks, not {len(measured):,}"
        raise fail("A1510", text, None, "measure more of them: -n 30" if len(measured) < FEWEST else None)
    if not (np.isfinite(measured).all() and (measured > 0).all() and (measured < MOST / 1000).all()):
        raise fail("A1510", "measured latencies are positive numbers of at most a quarter of an hour")
    if np.ptp(measured) == 0:
        raise fail("A1510", "all networks took the same time, from which no model can be told")


@dataclass(frozen=True)
class _Added:
    """What a network and each of its operations add [1 + k], and the error for each measured network, left out [n]."""

    adds: Matrix
    errors: Matrix


def _added(blocks: list[_Block], found: Fitted, between: Matrix) -> _Added:
    """A process as numbers that are not negative; `between` are the times of the networks that they are fitted on, the
    measured ones first."""
    adds = sum(block.values @ weights for block, weights in zip(blocks, found.weights, strict=True))
    middle = sum(float(block.middle @ weights) for block, weights in zip(blocks, found.weights, strict=True))
    free = np.concatenate([[found.constant - middle], np.asarray(adds)])
    runs = np.concatenate([np.ones((len(between), 1)), between], axis=1)
    kept = nonnegative(runs, runs @ free, free)
    return _Added(kept, found.errors - (runs @ (kept - free))[: len(found.errors)])


def nonnegative(rows: Matrix, wanted: Matrix, start: Matrix) -> Matrix:
    """Least squares of `rows` [n, k] times coefficients of at least 0, from `start` on, by coordinate descent."""
    if start.min() >= 0:
        return start
    found, scales = np.maximum(start, 0), (rows**2).sum(0)
    rest = wanted - rows @ found
    for _ in range(MOST_ROUNDS):
        before = found.copy()
        for column in np.flatnonzero(scales):
            value = max(found[column] + float(rows[:, column] @ rest) / scales[column], 0.0)
            rest -= rows[:, column] * (value - found[column])
            found[column] = value
        if np.abs(found - before).max() <= CLOSE * np.abs(found).max():
            break
    return found
