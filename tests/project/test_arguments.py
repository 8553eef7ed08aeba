"""Errors of public functions for arguments of a wrong type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.diagnostics.errors import ArchError

PROGRAM = """
net n {
    input x: f32[3, 8, 8]
    output y = x |> conv(choose w(4, 8)) |> global_avg_pool |> linear(3)
}
"""
SPACE = archir.loads(PROGRAM)
NETWORK = SPACE.specialize(SPACE.sample(0))

OF_NETWORKS: dict[str, Callable[[Any], Any]] = {
    "cost": archir.cost,
    "compile": archir.compile,
    "block": lambda value: archir.block(value, "conv"),
    "canonical_hash": archir.canonical_hash,
    "score": lambda value: archir.score(value, "naswot"),
}
OF_SPACES: dict[str, Callable[[Any], Any]] = {
    "optimize": lambda value: archir.optimize(value, "macs"),
    "exact_front": lambda value: archir.exact_front(value, "macs", "params"),
    "membership": lambda value: archir.membership(value, SPACE),
    "supernet": archir.supernet,
    "without_dedup": archir.without_dedup,
    "scores": lambda value: archir.scores(value, cost="macs"),
    "read_scores": lambda value: archir.read_scores("scores.json", value),
    "results": lambda value: archir.results("results.csv", value),
    "strategy": lambda value: archir.strategy("random", value),
    "fit_latency": lambda value: archir.fit_latency(value, [], []),
    "measured_latency": archir.measured_latency,
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "measure_operations": lambda value: archir.measure_operations(value, "table.json"),
    "diff": lambda value: archir.diff(value, SPACE),
    "bench": archir.bench,
    "print_graph": archir.print_graph,
    "loads": archir.loads,
    "format": archir.format,
}


@pytest.mark.parametrize("value", [None, 3, "no/such/file.arch", Path("no/such")], ids=repr)
@pytest.mark.parametrize("name", [*OF_NETWORKS, *OF_SPACES, *OTHERS])
def test_public_function_rejects_argument_of_wrong_type(name: str, value: Any) -> None:
    ask = {**OF_NETWORKS, **OF_SPACES, **OTHERS}[name]
    if isinstance(value, str) and name in ("loads", "format"):
        value = "net {"
    with pytest.raises((ArchError, TypeError)) as refused:
        ask(value)
    assert "attribute" not in str(refused.value)


@pytest.mark.parametrize("name", OF_NETWORKS)
@pytest.mark.parametrize("open_", [SPACE, SPACE.graph], ids=["space", "graph"])
def test_a_network_with_choices_is_refused(name: str, open_: Any) -> None:
    with pytest.raises((ArchError, TypeError)):
        OF_NETWORKS[name](open_)


@pytest.mark.parametrize("name", OF_SPACES)
def test_space_function_rejects_graph(name: str) -> None:
    with pytest.raises(TypeError, match="expected a space, such as"):
        OF_SPACES[name](NETWORK)
