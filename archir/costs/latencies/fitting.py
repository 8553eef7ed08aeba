"""Fitting of latency models to measured networks.

The kind of model with the smallest leave-one-out error is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.latencies.counts import RunCounts
from archir.costs.latencies.gaussian_process import FittedProcess, Matrix, fit_process
from archir.costs.latencies.model import MAX_NETWORKS, MIN_NETWORKS, HeldOut, Kind, LatencyModel
from archir.costs.latencies.table import MAX_NANOSECONDS, Conditions, LatencyTable
from archir.diagnostics.errors import fail
from archir.utils.ranks import kendall, spearman

MAX_ROUNDS, TOLERANCE = 1000, 1e-7
"""Stopping criteria of least squares: number of steps, and change of the coefficients relative to the largest."""


class _FeatureBlock:
    """A block of features that are sums over operations.

    `values` [k, d] are the features of one execution of each operation, scaled by their standard deviation over
    networks. `rows` [n, d] are the centred features of the measured networks.
    """

    def __init__(self, values: Matrix, times: Matrix, reference: Matrix) -> None:
        totals = reference @ values
        spread = totals.std(0)
        scales = np.where(spread > 1e-9 * np.abs(totals).max(0, initial=1e-300), spread, np.inf)
        self.values = values / (scales * np.sqrt(int(np.isfinite(scales).sum()) or 1))
        self.mean = reference.mean(0) @ self.values
        self.rows = times @ self.values - self.mean


FOLDS = 5
"""Number of parts of the measured networks; each is predicted by a model fitted to the others."""


def fit_model(
    counts: RunCounts, measured: NDArray[np.float64], *, reference: RunCounts, table: LatencyTable | None = None,
    device: str = "", conditions: Conditions | None = None, seed: int = 0,
) -> LatencyModel:  # fmt: skip
    """Fit a latency model to networks that took `measured` nanoseconds [n].

    `reference` has the counts of other networks of the space for the same operations; these counts determine the scale
    of the features. `table` is an optional latency table of the single operations.

    The kinds of models are:

    - `costs`: a Gaussian process on multiply-accumulates, bytes moved and kernel launches;
    - `operations`: the same with the costs of each kind of operation apart, and one more term per operation;
    - `table` (only with a table): a line fitted to the table's sums;
    - `table and operations` (only with a table).

    The model with the smallest leave-one-out error is returned. Its error is that of predictions for networks that were
    held out, unless there are too few. Raises ArchError (A1502), and A1510 for too few networks or invalid times.
    """
    _check_latencies(measured)
    model = _fit(counts, measured, reference, table, seed)
    model = model.model_copy(update={"device": device, "conditions": conditions})
    parts = np.array_split(np.random.default_rng(seed).permutation(len(measured)), FOLDS)
    if len(measured) - len(parts[0]) < MIN_NETWORKS:
        return model
    predicted = _predict_held_out(parts, counts, measured, reference, table, seed)
    errors = predicted - measured
    inside = 0
    for part in parts:
        rest = np.delete(errors, part)
        margin = model.model_copy(update={"error": _root_mean_square(rest), "networks": len(rest)}).margin()
        inside += int((np.abs(errors[part]) <= margin).sum())
    held_out = HeldOut(networks=len(measured), inside=inside, rank_correlation=kendall(predicted, measured))
    return model.model_copy(update={"error": _root_mean_square(errors), "held_out": held_out})


def _predict_held_out(
    parts: Sequence[NDArray[np.int64]], counts: RunCounts, measured: NDArray[np.float64], reference: RunCounts,
    table: LatencyTable | None, seed: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Predict each of the parts of the networks [n] by a model fitted to the others."""
    predicted = np.empty(len(measured))
    for part in parts:
        rest = np.setdiff1d(np.arange(len(measured)), part)
        if np.ptp(measured[rest]) == 0:  # nothing to fit
            predicted[part] = measured[rest[0]]
            continue
        fitted = _fit(counts[rest], measured[rest], reference, table, seed)
        terms = np.array([fitted.entries[workload.key] for workload in counts.workloads], np.float64)
        predicted[part] = fitted.offset + counts.times[part] @ terms
    return predicted


def _root_mean_square(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt((errors**2).mean()))


def _fit(
    counts: RunCounts, measured: NDArray[np.float64], reference: RunCounts, table: LatencyTable | None,
    seed: int,
) -> LatencyModel:  # fmt: skip
    """Return the model with the smallest leave-one-out error."""
    all_counts = np.concatenate([counts.times, reference.times])
    costs, *per_operation = (
        _FeatureBlock(values, counts.times, all_counts)
        for values in (counts.costs, counts.costs_by_kind, np.eye(len(counts.workloads)))
    )
    models: dict[Kind, list[_FeatureBlock]] = {"costs": [costs], "operations": [costs, *per_operation]}
    if table is not None:
        keys = [workload.key for workload in counts.workloads]
        table.check_keys(keys)
        means = np.array([[table.entries[key].mean] for key in keys])
        table_sum = _FeatureBlock(means, counts.times, all_counts)
        models |= {"table": [table_sum], "table and operations": [table_sum, costs, *per_operation]}
    tried = {
        name: _nonnegative_coefficients(
            blocks, fit_process([block.rows for block in blocks], measured, np.random.default_rng(seed)), all_counts
        )
        for name, blocks in models.items()
    }
    rounding = float((counts.times**2).sum(1).mean()) / 12  # entries are whole nanoseconds
    errors = {name: float(np.sqrt((result.errors**2).mean() + rounding)) for name, result in tried.items()}
    best = min(errors, key=errors.__getitem__)
    coefficients = tried[best]
    return LatencyModel(
        schema_version=1,
        model=best,
        device="",
        networks=len(measured),
        error=errors[best],
        rank_correlation=spearman(measured - coefficients.errors, measured),
        tried=errors,
        offset=round(float(coefficients.values[0])),
        entries={
            workload.key: round(float(value))
            for workload, value in zip(counts.workloads, coefficients.values[1:], strict=True)
        },
    )


def check_count(networks: int) -> None:
    """Raise ArchError (A1510) if no model can be fitted to this number of networks."""
    if not MIN_NETWORKS <= networks <= MAX_NETWORKS:
        text = f"a latency model needs {MIN_NETWORKS} to {MAX_NETWORKS:,} measured networks, not {networks:,}"
        raise fail("A1510", text, None, "measure more of them: -n 30" if networks < MIN_NETWORKS else None)


def _check_latencies(measured: NDArray[np.float64]) -> None:
    """Raise ArchError (A1510) if no model can be fitted to these latencies."""
    check_count(len(measured))
    if not (np.isfinite(measured).all() and (measured > 0).all() and (measured < MAX_NANOSECONDS / 1000).all()):
        raise fail("A1510", "measured latencies must be positive and shorter than 1,000 seconds")
    if np.ptp(measured) == 0:
        raise fail("A1510", "cannot fit a latency model: all measured networks took the same time")


@dataclass(frozen=True)
class _Coefficients:
    """Coefficients of a fit [1 + k] (offset, then what each operation adds), and leave-one-out errors [n]."""

    values: Matrix
    errors: Matrix


def _nonnegative_coefficients(blocks: list[_FeatureBlock], process: FittedProcess, all_counts: Matrix) -> _Coefficients:
    """Convert a fitted Gaussian process to non-negative coefficients of operations.

    The coefficients are fitted to the process's predictions for the networks with counts `all_counts` [m, k], of which
    the measured networks come first.
    """
    adds = sum(block.values @ weights for block, weights in zip(blocks, process.weights, strict=True))
    mean = sum(float(block.mean @ weights) for block, weights in zip(blocks, process.weights, strict=True))
    unconstrained = np.concatenate([[process.constant - mean], np.asarray(adds)])
    design = np.concatenate([np.ones((len(all_counts), 1)), all_counts], axis=1)
    coefficients = nonnegative_least_squares(design, design @ unconstrained, unconstrained)
    return _Coefficients(
        coefficients, process.errors - (design @ (coefficients - unconstrained))[: len(process.errors)]
    )


def nonnegative_least_squares(rows: Matrix, targets: Matrix, start: Matrix) -> Matrix:
    """Return the least-squares coefficients of `rows` [n, k] subject to being at least 0.

    Uses accelerated projected gradient descent from `start` (Beck and Teboulle 2009), which restarts its momentum
    whenever that points uphill (O'Donoghue and Candes 2015).
    """
    if start.min() >= 0:
        return start
    scales = np.sqrt((rows**2).sum(0))
    scales[scales == 0] = 1
    rows = rows / scales
    rate = 1 / np.linalg.norm(rows, 2) ** 2
    coefficients: Matrix = np.maximum(start * scales, 0)
    ahead, momentum = coefficients, 1.0
    for _ in range(MAX_ROUNDS):
        previous, coefficients = coefficients, np.maximum(ahead - rate * (rows.T @ (rows @ ahead - targets)), 0)
        change = coefficients - previous
        if np.abs(change).max() <= TOLERANCE * np.abs(coefficients).max():
            break
        if (ahead - coefficients) @ change > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, momentum = coefficients + (momentum - 1) / following * change, following
    result: Matrix = coefficients / scales
    return result
