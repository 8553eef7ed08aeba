"""Numbers of times that networks execute each operation: the features of latency models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from archir.costs.account import Account
from archir.costs.latencies.workloads import Workload, expand_op, network_workloads, space_workloads
from archir.costs.symbolic import Rule
from archir.costs.tables import Codes
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import infer_op
from archir.passes.cost import cost_of


@dataclass(frozen=True)
class RunCounts:
    """Numbers of times `times` [n, k] that each of n networks executes each of k operations."""

    workloads: tuple[Workload, ...]
    times: NDArray[np.float64]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> RunCounts:
        """Return the counts of these networks only."""
        return RunCounts(self.workloads, self.times[rows])

    @property
    def costs(self) -> NDArray[np.float64]:
        """Costs [k, 3] of executing each operation once: multiply-accumulates, bytes moved, kernel launches.

        Bytes moved are those read and written.
        """
        return np.array([_run_costs(workload) for workload in self.workloads], np.float64).reshape(-1, 3)

    @property
    def costs_by_kind(self) -> NDArray[np.float64]:
        """The same costs [k, 3 * kinds], with three columns for each kind of operation, such as `conv`."""
        kinds = [workload.op.name for workload in self.workloads]
        is_of_kind = np.array([[kind == column for column in dict.fromkeys(kinds)] for kind in kinds], np.float64)
        return (is_of_kind[:, :, None] * self.costs[:, None, :]).reshape(len(kinds), -1)


@lru_cache(2**14)
def _run_costs(workload: Workload) -> tuple[int, int, int]:
    """Return the costs of executing an operation once: multiply-accumulates, bytes moved, kernel launches.

    Bytes are counted as 4 per element.
    """
    result = infer_op(workload.op, workload.types)
    cost = cost_of(workload.op, list(workload.types), result)
    moved = sum(x.elements for x in (*workload.types, result)) + sum(
        x.elements for x in workload.op.weights(*workload.types).values()
    )
    return cost.macs, 4 * moved, cost.kernels


def counts_of_codes(account: Account, codes: Codes, simplified: bool = False) -> RunCounts:
    """Return the counts for architectures that are given as rows of outcomes.

    With `simplified`, operations are counted as simplified networks execute them (see `execution_conditions`). Raises
    ArchError (A1602) if it cannot be determined exactly which nodes an architecture executes.
    """
    workload_index: dict[str, tuple[int, Workload]] = {}
    expansions: list[tuple[int, ...]] = [()]  # index 0: nodes that do not run
    expansion_index: dict[tuple[int, ...], int] = {}

    def expansion_id(op: Op, *types: TensorType) -> int:
        """Return the index of the list of workloads that an operation expands to; equal lists have one index."""
        indices = tuple(
            workload_index.setdefault(workload.key, (len(workload_index), workload))[0]
            for workload in expand_op(op, types)
        )
        if indices not in expansion_index:
            expansion_index[indices] = len(expansions)
            expansions.append(indices)
        return expansion_index[indices]

    node_groups = list(account.distinct_node_costs(Rule(expansion_id, simplified=simplified), codes))
    times = np.zeros((len(codes), len(workload_index)))
    for node_count, expansion_ids in node_groups:
        for expansion in np.unique(expansion_ids):
            rows = expansion_ids == expansion
            for column in expansions[expansion]:
                times[rows, column] += node_count
    return RunCounts(tuple(workload for _, workload in workload_index.values()), times)


def counts_of_graphs(graphs: Sequence[Graph], space: Graph, simplified: bool = False) -> RunCounts:
    """Return the counts for networks without choices, all from the same space; see `counts_of_codes`."""
    executed = space_workloads(space, simplified=simplified)
    workload_index = {key: (i, workload) for i, (key, workload) in enumerate(executed.items())}
    counters: list[Counter[int]] = []
    for graph in graphs:
        counters.append(
            Counter(
                workload_index.setdefault(workload.key, (len(workload_index), workload))[0]
                for workload in network_workloads(graph, simplified)
            )
        )
    times = np.zeros((len(graphs), len(workload_index)))
    for row, counter in enumerate(counters):
        for column, count in counter.items():
            times[row, column] = count
    return RunCounts(tuple(workload for _, workload in workload_index.values()), times)
