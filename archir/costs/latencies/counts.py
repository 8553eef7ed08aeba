"""How often networks run each operation: what models of latencies look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.account import Account
from archir.costs.latencies.workloads import Workload, parts, steps, workloads
from archir.costs.symbolic import Rule
from archir.costs.tables import Codes
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import infer_op
from archir.passes.cost import cost_of


@dataclass(frozen=True)
class Counts:
    """For n networks, how often each runs each of k operations: `times` [n, k]."""

    workloads: tuple[Workload, ...]
    times: NDArray[np.float64]

    def __getitem__(self, rows: slice) -> Counts:
        """Of some of the networks."""
        return Counts(self.workloads, self.times[rows])

    @property
    def costs(self) -> NDArray[np.float64]:
        """Of one run of each operation: multiply-accumulates, bytes read and written, kernels [k, 3]."""
        return np.array([_costs(one) for one in self.workloads], np.float64).reshape(-1, 3)


def _costs(one: Workload) -> tuple[int, int, int]:
    result = infer_op(one.op, one.types)
    own = cost_of(one.op, list(one.types), result)
    moved = sum(x.elements for x in (*one.types, result)) + sum(x.elements for x in one.op.weights(*one.types).values())
    return own.macs, 4 * moved, own.kernels


def of_codes(account: Account, codes: Codes) -> Counts:
    """Of architectures of a space as rows of outcomes. Raises ArchError (A1602) for choices that are too entangled."""
    known: dict[str, tuple[int, Workload]] = {}
    lists: list[tuple[int, ...]] = [()]  # the first one is that of nodes that do not run
    numbers: dict[tuple[int, ...], int] = {}

    def of(op: Op, *types: TensorType) -> int:
        """The number of a list of operations."""
        found = tuple(known.setdefault(one.key, (len(known), one))[0] for one in parts(op, types))
        if found not in numbers:
            numbers[found] = len(lists)
            lists.append(found)
        return numbers[found]

    each = list(account.contributing(Rule(of), codes))
    times = np.zeros((len(codes), len(known)))
    for often, which in each:
        for number in np.unique(which):
            rows = which == number
            for place in lists[number]:
                times[rows, place] += often
    return Counts(tuple(one for _, one in known.values()), times)


def of_graphs(graphs: Sequence[Graph], space: Graph) -> Counts:
    """Of networks without choices, which are of a space."""
    known = {key: (i, one) for i, (key, one) in enumerate(workloads(space).items())}
    found: list[Counter[int]] = []
    for graph in graphs:
        found.append(Counter(known.setdefault(one.key, (len(known), one))[0] for one in steps(graph)))
    times = np.zeros((len(graphs), len(known)))
    for row, counter in enumerate(found):
        for place, often in counter.items():
            times[row, place] = often
    return Counts(tuple(one for _, one in known.values()), times)
