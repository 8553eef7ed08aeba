"""Number of times that networks run each operation: the features of latency models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Number of times that each of n networks runs each of k operations: `times` [n, k]."""

    workloads: tuple[Workload, ...]
    times: NDArray[np.float64]

    def __getitem__(self, rows: slice) -> RunCounts:
        """Return the counts of some of the networks."""
        return RunCounts(self.workloads, self.times[rows])

    @property
    def costs(self) -> NDArray[np.float64]:
        """Costs of one run of each operation, shape [k, 3]: multiply-accumulates, bytes read and written, kernels."""
        return np.array([_run_costs(workload) for workload in self.workloads], np.float64).reshape(-1, 3)


def _run_costs(workload: Workload) -> tuple[int, int, int]:
    """Return multiply-accumulates, bytes read and written (4 for each number), and kernels of one run of an
    operation."""
    result = infer_op(workload.op, workload.types)
    cost = cost_of(workload.op, list(workload.types), result)
    moved = sum(x.elements for x in (*workload.types, result)) + sum(
        x.elements for x in workload.op.weights(*workload.types).values()
    )
    return cost.macs, 4 * moved, cost.kernels


def counts_of_codes(account: Account, codes: Codes) -> RunCounts:
    """Return the counts of architectures given as rows of outcomes.

    Raises ArchError (A1602) if the nodes that an architecture contains cannot be determined exactly.
    """
    workload_index: dict[str, tuple[int, Workload]] = {}
    expansions: list[tuple[int, ...]] = [()]  # index 0: nodes that do not run
    expansion_index: dict[tuple[int, ...], int] = {}

    def expansion_id(op: Op, *types: TensorType) -> int:
        """Return the index of the list of workloads that an operation expands to."""
        indices = tuple(
            workload_index.setdefault(workload.key, (len(workload_index), workload))[0]
            for workload in expand_op(op, types)
        )
        if indices not in expansion_index:
            expansion_index[indices] = len(expansions)
            expansions.append(indices)
        return expansion_index[indices]

    node_groups = list(account.distinct_node_costs(Rule(expansion_id), codes))
    times = np.zeros((len(codes), len(workload_index)))
    for node_count, expansion_ids in node_groups:
        for expansion in np.unique(expansion_ids):
            rows = expansion_ids == expansion
            for column in expansions[expansion]:
                times[rows, column] += node_count
    return RunCounts(tuple(workload for _, workload in workload_index.values()), times)


def counts_of_graphs(graphs: Sequence[Graph], space: Graph) -> RunCounts:
    """Return the counts of networks without choices, all from the same space."""
    workload_index = {key: (i, workload) for i, (key, workload) in enumerate(space_workloads(space).items())}
    counters: list[Counter[int]] = []
    for graph in graphs:
        counters.append(
            Counter(
                workload_index.setdefault(workload.key, (len(workload_index), workload))[0]
                for workload in network_workloads(graph)
            )
        )
    times = np.zeros((len(graphs), len(workload_index)))
    for row, counter in enumerate(counters):
        for column, count in counter.items():
            times[row, column] = count
    return RunCounts(tuple(workload for _, workload in workload_index.values()), times)
