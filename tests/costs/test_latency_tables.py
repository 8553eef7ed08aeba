"""Latency tables: estimates, file format, and rejected files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import archir
from archir.costs.latencies import files
from archir.costs.latencies.table import Correction
from archir.costs.latencies.workloads import network_workloads, space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.ops.activation import Relu
from tests.latencies import SMALL, table_of
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

# estimates


@pytest.mark.parametrize("name", with_soak(SPACES, ["full_attention", "darts", "nas_bench_201", "autoformer"]))
def test_table_of_published_space_covers_random_architectures(name: str) -> None:
    space = space_of(name, **SPACES[name].small)
    table = table_of(space_workloads(space.graph))
    table.check_covers(space.graph)
    for seed in range(10):
        graph = space.specialize(space.sample(seed))
        wanted = 1000 + sum(len(one.key) for one in network_workloads(graph))
        assert table.estimate(graph) == table.total(graph) == wanted


def test_table_estimate_is_base_plus_sum_of_rule() -> None:
    space = archir.loads(SMALL["kinds"])
    table = table_of(space_workloads(space.graph), Correction(scale=1.37, offset=250.4, networks=9))
    rule = table.rule().op_cost
    for architecture in space.enumerate():
        graph = space.specialize(architecture)
        types = infer(graph)
        nodes = [n for n in graph if graph.operands(n)]
        total = sum(rule(graph[n].op, *(types[operand] for operand in graph.operands(n))) for n in nodes)
        assert table.estimate(graph) == table.base + total
        plain = sum(len(workload.key) for workload in network_workloads(graph))
        assert table.total(graph) == 1000 + plain
        assert abs(table.estimate(graph) - (1.37 * table.total(graph) + 250.4)) <= len(nodes) * 3
    assert table.base == round(1.37 * 1000 + 250.4)


def test_estimate_rejects_a_space() -> None:
    space = archir.loads(SMALL["values"])
    with pytest.raises(ArchError, match="A0901"):
        table_of(space_workloads(space.graph)).estimate(space.graph)


def test_missing_table_entries_are_named() -> None:
    space = archir.loads(SMALL["values"])
    keys = set(space_workloads(space.graph))
    graph = space.specialize(space.sample(0))
    gone = next(one.key for one in network_workloads(graph) if one.op.name == "conv")
    table = table_of(keys - {gone})
    ask: list[Callable[[], object]] = [
        lambda: table.estimate(graph), lambda: table.total(graph), lambda: table.check_covers(space.graph),
        lambda: table.rule().op_cost(Relu(), TensorType((3,))),
    ]  # fmt: skip
    for asked, name in zip(ask, [gone] * 3 + ["relu(f32[3])"], strict=True):
        with pytest.raises(ArchError, match=r"A1502.*lacks") as caught:
            asked()
        (problem,) = caught.value.diagnostics
        assert name in problem.message
        assert "--resume" in str(problem.hint)


# files


def test_table_file_round_trips(tmp_path: Path) -> None:
    table = table_of(["relu(f32[3])", "a"], Correction(scale=0.5, offset=3.25, networks=4))
    table.write(tmp_path / "deep" / "t.json")
    assert archir.latency_table(tmp_path / "deep" / "t.json") == table
    assert json.loads((tmp_path / "deep" / "t.json").read_text())["schema_version"] == 1


GOOD = json.loads(table_of(["relu(f32[3])"]).model_dump_json())
BROKEN = {
    "empty": "",
    "not JSON": "{",
    "deep": "[" * 100_000,
    "not UTF-8": b"\xff\xfe\x00",
    "a list": "[]",
    "another schema": {**GOOD, "schema_version": 2},
    "no schema": {name: value for name, value in GOOD.items() if name != "schema_version"},
    "another device": {**GOOD, "device": "abacus"},
    "no batch": {**GOOD, "batch": 0},
    "true for a number": {**GOOD, "batch": True},
    "a huge batch": {**GOOD, "batch": 10**30},
    "an unknown part": {**GOOD, "extra": 1},
    "negative": {**GOOD, "entries": {"a": {"mean": -1, "spread": 0, "samples": 1}}},
    "text for a number": {**GOOD, "entries": {"a": {"mean": "1", "spread": 0, "samples": 1}}},
    "not a number": json.dumps({**GOOD, "entries": {"a": {"mean": float("nan"), "spread": 0, "samples": 1}}}),
    "infinite": json.dumps({**GOOD, "overhead": {"mean": float("inf"), "spread": 0, "samples": 1}}),
    "too long": {**GOOD, "overhead": {"mean": 1e16, "spread": 0, "samples": 1}},
    "no samples": {**GOOD, "overhead": {"mean": 1, "spread": 0, "samples": 0}},
    "a falling correction": {**GOOD, "correction": {"scale": -1.0, "offset": 0, "networks": 5}},
    "machine of numbers": {**GOOD, "machine": {"cores": 3}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables_are_refused(name: str, tmp_path: Path) -> None:
    content = BROKEN[name]
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path = tmp_path / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    hint = r"(.|\n)*measured again: archir latency table"
    with pytest.raises(ArchError, match=r"A1501.*t\.json is not a latency table" + hint):
        files.read_table(path)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1501.*none\.json cannot be read(.|\n)*archir latency table"):
        archir.latency_table(tmp_path / "none.json")
    with pytest.raises(ArchError, match="A1501"):
        archir.latency_table(tmp_path)


def test_a_table_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.costs.latencies.files.MAX_FILE_BYTES", 20)
    table_of([]).write(tmp_path / "t.json")
    with pytest.raises(ArchError, match="larger than 20 bytes"):
        files.read_table(tmp_path / "t.json")
