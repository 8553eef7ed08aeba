"""TrioNet: its space size, the costs of its extreme networks, and its baselines counted as in the paper."""

from __future__ import annotations

import pytest

import archir
from archir.ir.typing import infer
from archir.ops.attention import LocalAttention
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "trionet"


def uniform(operator: str, extreme: int) -> archir.Graph:
    """Every block of one operator, everything else at its first or last value."""
    space = archir.load(FOLDER / "trionet.arch")
    outcomes = {}
    for choice in space.choices:
        name = choice.path.rsplit(".", 1)[-1].split("[")[0]
        outcomes[choice.path] = choice.outcome(operator if name == "operator" else choice.alternatives[extreme])
    assert None not in outcomes.values()
    known = {path: outcome for path, outcome in outcomes.items() if outcome is not None}
    return space.specialize(space.from_outcomes(known))


@pytest.mark.parametrize(
    ("operator", "extreme", "params", "flops"),
    [
        ("conv", 0, 2.43, 0.76),
        ("conv", -1, 19.21, 5.63),
        ("local", 0, 2.50, 0.95),
        ("local", -1, 10.08, 4.26),
        ("axial", 0, 2.60, 1.14),
        ("axial", -1, 13.81, 6.29),
    ],
)
def test_smallest_and_largest_networks_cost_published_figures(
    operator: str, extreme: int, params: float, flops: float
) -> None:
    """Millions of parameters, billions of FLOPs; queries meet offsets at every place of a local window."""
    graph = uniform(operator, extreme)
    cost = archir.cost(graph)
    assert round(cost.params / 1e6, 2) == pytest.approx(params, abs=0.006)
    assert round(2 * (cost.macs + more_by_the_window(graph)) / 1e9, 2) == pytest.approx(flops, abs=0.006)


def more_by_the_window(graph: archir.Graph) -> int:
    """Multiply-accumulates that queries against offsets take at every place of the window beyond rows and columns."""
    types, total = infer(graph), 0
    for number in graph:
        op = graph[number].op
        if isinstance(op, LocalAttention):
            query = types[graph.operands(number)[0]]
            total += query.elements * (op.kernel**2 - op.kernel)
    return total


@pytest.mark.parametrize(("layers", "published"), [(26, "4.5"), (38, "5.7"), (50, "7.0")])
def test_local_network_flops_counted_by_window_match_paper(layers: int, published: str) -> None:
    graph = archir.load(f"{FOLDER}/baselines.arch:local_net", layers=layers).graph
    assert f"{2 * (archir.cost(graph).macs + more_by_the_window(graph)) / 1e9:.1f}" == published


def test_space_size_equals_closed_formula() -> None:
    space = archir.load(FOLDER / "trionet.arch")
    assert space.size == (70 + 70**2) * (70**2 + 70**3) * sum(70**d for d in (3, 4, 5, 6)) * sum(
        70**d for d in (1, 2, 3)
    )
    operator = next(c for c in space.choices if c.path.endswith("operator[0]") or c.path.endswith(".operator"))
    assert operator.alternatives == ("conv", "local", "axial")
