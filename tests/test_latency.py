"""Tables of latencies: what is timed, for how long, what is written, and how well sums predict."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import given, settings

import archir
from archir.base.errors import ArchError
from archir.cli import main
from archir.costs.latencies.fill import Network, Validation, belongs, fill, fit, spearman, start, validate
from archir.costs.latencies.table import Correction, Entry, LatencyTable, latency_rule
from archir.costs.latencies.timing import USUAL, Effort, Timed, Timing, measure, measure_in_turns
from archir.costs.latencies.workloads import Workload, chain, parts, steps, workloads
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.ops.activation import Relu, Scale
from archir.ops.calibration import Calibrate
from archir.ops.conv import Conv
from archir.search.spaces.space import Space
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.conftest import ROOT
from tests.ir.random_graphs import graphs
from tests.ir.reference import assignments
from tests.portions import portion
from tests.test_layers import run_alone
from tests.test_spaces import SPACES, space_of

QUICK = Effort(sample=1e3, precision=0.5, least=3, most=3, limit=1e6)


class FakeBench:
    """A device on which a network takes 100 ns a call and 10 ns a node; it counts what it is asked."""

    machine = {"processor": "abacus"}  # noqa: RUF012
    threads = 1

    def __init__(self, interrupt_at: int = 10**9) -> None:
        self.asked: list[Graph] = []
        self.interrupt_at = interrupt_at

    def free(self, graph: Graph) -> bool:
        return any(graph[number].op.name == "identity" for number in graph) and len(graph) == 2

    def timed(self, graph: Graph) -> Timed:
        if len(self.asked) == self.interrupt_at:
            raise KeyboardInterrupt
        self.asked.append(graph)
        return lambda calls: calls * (100.0 + 10.0 * (len(graph) - len(graph.inputs)))


def table_of(keys: Iterable[str], correction: Correction | None = None) -> LatencyTable:
    """A table in which every operation takes as many nanoseconds as its key has characters."""
    entries = {key: Entry(median=len(key), spread=0, samples=3) for key in keys}
    overhead = Entry(median=1000, spread=0, samples=3)
    return LatencyTable(
        schema_version=1, device="cpu", batch=1, threads=1, machine=FakeBench.machine, overhead=overhead,
        correction=correction, entries=entries,
    )  # fmt: skip


# what is timed


def net(body: str, more: str = "") -> str:
    return f"{more}\nnet n {{\n input image: f32[4, 6, 6]\n{body}\n}}\n"


SMALL = {
    "values": net("k = choose k(1, 3, 5)\nc = choose c(4, 8)\noutput y = image |> conv(c, k) |> relu |> conv(2, k)"),
    "depth": net(
        "d = choose d(1, 2, 3)\nx = image\nrepeat d as i {\n x = x |> conv(choose w(4, 8)) |> choose a(relu, gelu)\n}\n"
        "output y = x |> global_avg_pool |> linear(3)"
    ),
    "conditional": net(
        "x = image |> choose op {\n a: conv(choose w(2, 4), kernel=choose k(1, 3))\n b: max_pool(3)\n c: identity\n}\n"
        "output y = x |> batch_norm |> relu"
    ),
    "subsets": net(
        "s = choose s 2 of [image |> conv(4), image |> relu, image |> max_pool(3, stride=1)]\n"
        "output y = sum(s) |> concat(image)"
    ),
    "kinds": net(
        "a = image |> choose a { feature: relu, gate: relu |> as_gate, one: global_avg_pool(keep=true) |> as_gate }\n"
        "b = image |> choose b { feature: conv(4), gate: conv(4, 1) |> as_gate }\n"
        "output y = calibrate(image, a, b)"
    ),
    "cells": net(
        "output y = image |> mix |> conv(8) |> mix",
        "cell mix(x) {\n return x |> choose op { a: conv(x.channels), b: relu |> conv(x.channels, kernel=1) }\n}",
    ),
    "never": net("k = choose k(1, 3)\nif k > 1 {\n k = k + 2\n}\noutput y = image |> conv(4, k) |> scale(k / 2)"),
    "without operands": net("output y = (image |> to_tokens) + parameter((36, choose c(1, 4)))"),
}


def union(space: Space) -> set[str]:
    """What the networks of all architectures run."""
    return {one.key for architecture in space.enumerate() for one in steps(space.specialize(architecture))}


@pytest.mark.parametrize("name", SMALL)
def test_a_space_runs_what_its_architectures_run(name: str) -> None:
    space = archir.loads(SMALL[name])
    assert space.size > 1
    assert set(workloads(space.graph)) == union(space)


def test_a_published_space_runs_what_random_architectures_run() -> None:
    space = space_of("nas_bench_201", channels=4, cells=1, size=8)
    drawn = [space.specialize(space.sample(seed)) for seed in range(300)]
    assert set(workloads(space.graph)) == {one.key for graph in drawn for one in steps(graph)}


@settings(max_examples=80, deadline=None)
@given(graphs(most_nodes=15, most_choices=3))
def test_random_spaces_run_what_their_assignments_run(graph: Graph) -> None:
    from archir.passes.spaces.specialize import specialize

    found: set[str] = set()
    for outcomes in assignments(graph):
        found |= {one.key for one in steps(specialize(graph, outcomes))}
    assert found == set(workloads(graph))


def test_requirements_do_not_narrow_what_is_timed() -> None:
    body = "k = choose k(1, 3)\nREQUIRE\noutput y = image |> conv(4, k)"
    narrow, wide = (archir.loads(net(body.replace("REQUIRE", line))) for line in ("require k < 3", ""))
    assert workloads(narrow.graph).keys() == workloads(wide.graph).keys()
    assert union(narrow) < set(workloads(narrow.graph))


def test_keys_hold_what_matters_and_nothing_else() -> None:
    x = TensorType((4, 6, 6))
    assert Workload(Relu(), (x,)).key == "relu(f32[4, 6, 6])"
    key = Workload(Conv(8, stride=2), (x,)).key
    assert key.startswith('conv(f32[4, 6, 6], channels=8, kernel=3, stride=2, padding="same"')
    assert Workload(Scale(1), (x,)).key != Workload(Scale(1.0), (x,)).key
    space = archir.loads(net("output y = image |> relu |> relu |> conv(4) |> conv(4)"))
    assert len(workloads(space.graph)) == 2


def test_composite_operations_are_what_they_are_written_out_as() -> None:
    x, gate = TensorType((4, 6, 6)), TensorType((4, 1, 1), kind="gate")
    kernel = TensorType((4, 3, 3), kind="kernel")
    names = [one.op.name for one in parts(Calibrate(), [x, gate, kernel])]
    assert names == ["mul", "add", "dynamic_conv", "add"]
    assert parts(Calibrate(), [x]) == []


@pytest.mark.parametrize("name", SMALL)
def test_each_workload_is_a_network(name: str) -> None:
    for one in workloads(archir.loads(SMALL[name]).graph).values():
        graph = one.graph()
        verify(graph)
        assert infer(graph)[graph.outputs["result"]] is not None
        with TORCH.bench("cpu", 2) as bench:
            assert bench.timed(graph)(1) > 0
        with ONNX.bench("cpu", 2, 1) as session:
            assert session.timed(graph)(1) >= 0


def test_nothing_is_left_of_a_copy_in_a_model() -> None:
    x = TensorType((4, 6, 6))
    with ONNX.bench("cpu", 1, 1) as bench:
        assert bench.free(Workload(archir.ir.op.OPS["identity"](), (x,)).graph())
        assert not bench.free(Workload(Relu(), (x,)).graph())
        assert not bench.free(chain(1))


# estimates


@pytest.mark.parametrize("name", portion(SPACES, ["full_attention", "darts", "nas_bench_201", "autoformer"]))
def test_tables_of_the_published_spaces_know_random_architectures(name: str) -> None:
    space = space_of(name, **SPACES[name].small)
    table = table_of(workloads(space.graph))
    table.covers(space.graph)
    for seed in range(10):
        graph = space.specialize(space.sample(seed))
        wanted = 1000 + sum(len(one.key) for one in steps(graph))
        assert table.estimate(graph) == table.total(graph) == wanted


def test_estimates_are_sums_of_the_rule() -> None:
    space = archir.loads(SMALL["kinds"])
    table = table_of(workloads(space.graph), Correction(scale=1.37, offset=-250.4, networks=9))
    rule = latency_rule(table)
    for architecture in space.enumerate():
        graph = space.specialize(architecture)
        types = infer(graph)
        nodes = [n for n in graph if graph.operands(n)]
        total = sum(rule(graph[n].op, *(types[operand] for operand in graph.operands(n))) for n in nodes)
        assert table.estimate(graph) == table.base + total
        plain = sum(table.of(graph[n].op, [types[operand] for operand in graph.operands(n)]) for n in nodes)
        assert table.total(graph) == 1000 + plain
        assert abs(table.estimate(graph) - (1.37 * table.total(graph) - 250.4)) <= len(nodes) * 3
    assert table.base == round(1.37 * 1000 - 250.4)


def test_a_space_has_no_single_latency() -> None:
    space = archir.loads(SMALL["values"])
    with pytest.raises(ArchError, match="A0901"):
        table_of(workloads(space.graph)).estimate(space.graph)


def test_what_is_missing_is_named() -> None:
    space = archir.loads(SMALL["values"])
    keys = set(workloads(space.graph))
    graph = space.specialize(space.sample(0))
    gone = next(one.key for one in steps(graph) if one.op.name == "conv")
    table = table_of(keys - {gone})
    ask: list[Callable[[], object]] = [
        lambda: table.estimate(graph), lambda: table.total(graph), lambda: table.covers(space.graph),
        lambda: table.of(Relu(), [TensorType((3,))]), lambda: latency_rule(table)(Relu(), TensorType((3,))),
    ]  # fmt: skip
    for asked, name in zip(ask, [gone] * 3 + ["relu(f32[3])"] * 2, strict=True):
        with pytest.raises(ArchError, match=r"A1502.*lacks") as caught:
            asked()
        (problem,) = caught.value.diagnostics
        assert name in problem.message
        assert "--resume" in str(problem.hint)


# files


def test_tables_are_read_as_they_are_written(tmp_path: Path) -> None:
    table = table_of(["relu(f32[3])", "a"], Correction(scale=0.5, offset=-3.25, networks=4))
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
    "negative": {**GOOD, "entries": {"a": {"median": -1, "spread": 0, "samples": 1}}},
    "text for a number": {**GOOD, "entries": {"a": {"median": "1", "spread": 0, "samples": 1}}},
    "not a number": json.dumps({**GOOD, "entries": {"a": {"median": float("nan"), "spread": 0, "samples": 1}}}),
    "infinite": json.dumps({**GOOD, "overhead": {"median": float("inf"), "spread": 0, "samples": 1}}),
    "too long": {**GOOD, "overhead": {"median": 1e16, "spread": 0, "samples": 1}},
    "no samples": {**GOOD, "overhead": {"median": 1, "spread": 0, "samples": 0}},
    "a falling correction": {**GOOD, "correction": {"scale": -1.0, "offset": 0, "networks": 5}},
    "machine of numbers": {**GOOD, "machine": {"cores": 3}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables_are_refused(name: str, tmp_path: Path) -> None:
    content = BROKEN[name]
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path = tmp_path / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ArchError, match=r"A1501.*t\.json is no latency table"):
        LatencyTable.read(path)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1501.*none\.json cannot be read(.|\n)*archir bench --table"):
        archir.latency_table(tmp_path / "none.json")
    with pytest.raises(ArchError, match="A1501"):
        archir.latency_table(tmp_path)


def test_a_table_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.costs.latencies.table.MOST_BYTES", 20)
    table_of([]).write(tmp_path / "t.json")
    with pytest.raises(ArchError, match="more than 20 bytes"):
        LatencyTable.read(tmp_path / "t.json")


# measuring


def timer(durations: Iterable[float]) -> tuple[Timed, list[int]]:
    """Something that takes these nanoseconds a run, and the numbers of runs it was asked for."""
    asked: list[int] = []
    source = iter(durations)

    def timed(calls: int) -> float:
        asked.append(calls)
        return calls * next(source)

    return timed, asked


def test_what_is_steady_is_measured_a_few_times() -> None:
    timed, asked = timer(10.0 for _ in count())
    assert measure(timed, Effort(sample=1000, least=7)) == Timing(10.0, 0.0, 7)
    assert asked == [1, 1, 2, 4, 8, 16, 32, 64, *[128] * 8]


def test_the_warm_up_does_not_count() -> None:
    timed, _ = timer([10**6, *[50.0] * 50])
    assert measure(timed, Effort(sample=100)).median == 50.0


def test_what_is_noisy_is_measured_until_it_is_known() -> None:
    rng = random.Random(0)
    timed, _ = timer(rng.gauss(100, 5) for _ in count())
    found = measure(timed, Effort(sample=50))
    assert 11 < found.samples < 101
    assert found.spread <= 0.01 * found.median * found.samples**0.5
    assert abs(found.median - 100) < 3
    wild, _ = timer(rng.choice([1.0, 100.0]) for _ in count())
    assert measure(wild, Effort(sample=1)).samples == 101


def test_what_is_slow_is_measured_a_limited_time() -> None:
    timed, asked = timer(4e8 + 1e7 * i for i in count())
    assert measure(timed).samples == 3
    assert asked == [1] * 5


def test_quartiles() -> None:
    timed, _ = timer([0.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert measure(timed, Effort(sample=1, least=5, most=5)) == Timing(3.0, 2.0, 5)


def test_things_take_turns() -> None:
    order: list[str] = []

    def thing(name: str, cost: float) -> Timed:
        def timed(calls: int) -> float:
            order.append(name)
            return calls * cost

        return timed

    found = dict(measure_in_turns([thing("a", 10.0), thing("b", 20.0)], Effort(sample=1, least=3)))
    assert found == {0: Timing(10.0, 0.0, 3), 1: Timing(20.0, 0.0, 3)}
    assert order == ["a", "a", "b", "b", *["a", "b"] * 3]


# filling tables


def filled(bench: FakeBench, space: Space, table: LatencyTable | None = None, **options: Any) -> LatencyTable:
    table = table or start("cpu", 1, bench, QUICK)
    fill(table, workloads(space.graph), bench, effort=QUICK, **({"save": lambda one: None} | options))
    return table


def test_the_overhead_of_a_call_is_left_out() -> None:
    space = archir.loads(SMALL["conditional"])
    table = filled(FakeBench(), space)
    assert table.overhead.median == 100
    assert table.entries.keys() == workloads(space.graph).keys()
    medians = {key: entry.median for key, entry in table.entries.items()}
    assert {key for key in medians if medians[key] == 0} == {"identity(f32[4, 6, 6])"}
    assert {median for median in medians.values() if median} == {10.0}


def test_what_takes_less_than_a_call_takes_nothing() -> None:
    bench = FakeBench()
    table = start("cpu", 1, bench, QUICK)
    table.overhead.median = 10**6
    assert {entry.median for entry in filled(bench, archir.loads(SMALL["values"]), table).entries.values()} == {0}


def test_an_interrupted_measurement_goes_on(tmp_path: Path) -> None:
    space, path = archir.loads(SMALL["depth"]), tmp_path / "t.json"
    total = len(workloads(space.graph))
    bench = FakeBench(interrupt_at=5)  # the overhead takes two networks
    table = start("cpu", 1, bench, QUICK)
    with pytest.raises(KeyboardInterrupt):
        filled(bench, space, table, save=lambda one: one.write(path))
    kept = LatencyTable.read(path)
    assert len(kept.entries) == 3
    second = FakeBench()
    belongs(kept, "cpu", 1, second)
    filled(second, space, kept, save=lambda one: one.write(path))
    assert len(second.asked) == total - 3
    assert LatencyTable.read(path).entries.keys() == workloads(space.graph).keys()
    filled(third := FakeBench(), space, LatencyTable.read(path))
    assert third.asked == []


def test_tables_are_saved_now_and_then() -> None:
    saved: list[int] = []
    ticks = iter(range(0, 10**6, 2))
    space = archir.loads(SMALL["depth"])
    total = len(workloads(space.graph))
    options = {"save": lambda one: saved.append(len(one.entries)), "clock": lambda: float(next(ticks))}
    filled(FakeBench(), space, **options)
    assert saved[0] == 3
    assert saved[-1] == total
    assert len(saved) > 2


def test_progress_is_shown_over_what_is_missing() -> None:
    seen: list[tuple[int, str]] = []

    def watch(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        seen.append((total, what))
        return items

    space = archir.loads(SMALL["values"])
    filled(FakeBench(), space, watch=watch)
    assert seen == [(len(workloads(space.graph)), "measuring")]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"device": "cuda"}, "device cuda, here cpu"),
        ({"batch": 8}, "batch 8, here 1"),
        ({"threads": 4}, "threads 4, here 1"),
        ({"machine": {"processor": "slide rule"}}, "processor slide rule, here abacus"),
        ({"machine": {}}, "processor -, here abacus"),
        ({"machine": {**FakeBench.machine, "torch": "1"}}, "torch 1, here -"),
    ],
)
def test_tables_of_other_places_are_not_gone_on_with(change: dict[str, Any], named: str) -> None:
    table = table_of([]).model_copy(update=change)
    with pytest.raises(ArchError, match="A1503") as caught:
        belongs(table, "cpu", 1, FakeBench())
    assert named in caught.value.diagnostics[0].message


# validation


def validation(pairs: Iterable[tuple[float, float]]) -> Validation:
    return Validation(tuple(Network(x, Timing(y, 0, 3)) for x, y in pairs))


def test_rank_correlation() -> None:
    x = np.array([1.0, 2, 3, 4, 5])
    assert spearman(x, x**3) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)
    assert spearman(x, np.array([1.0, 3, 2, 4, 5])) == pytest.approx(0.9)  # 1 - 6 * 2 / (5 * 24)
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.9486832980505138)
    assert spearman(x, np.ones(5)) is None
    assert spearman(x[:1], x[:1]) is None


def test_lines() -> None:
    x = np.array([1.0, 2.0, 4.0])
    assert fit(x, 3 * x + 5) == pytest.approx((3, 5))
    assert fit(x, np.array([1.0, 3.0, 2.0])) == pytest.approx((3 / 14, 1.5))
    assert fit(np.ones(3), x) is None


def test_errors_before_and_after_the_correction() -> None:
    exact = validation([(x, 2 * x + 30) for x in (10.0, 20, 40)])
    assert exact.error == pytest.approx((40 / 50 + 50 / 70 + 70 / 110) / 3)
    assert exact.corrected_error == pytest.approx(0, abs=1e-12)
    assert exact.rank_correlation == pytest.approx(1)
    line = exact.correction()
    assert (line.scale, line.offset, line.networks) == (pytest.approx(2), pytest.approx(30), 3)


def test_the_corrected_error_leaves_one_out() -> None:
    found = validation([(1, 1), (2, 2), (3, 6)])
    assert found.corrected_error == pytest.approx((abs(-2 - 1) / 1 + abs(3.5 - 2) / 2 + abs(3 - 6) / 6) / 3)


@pytest.mark.parametrize("pairs", [[(1, 1)], [(1, 1), (1, 2)], [(1, 3), (2, 2), (3, 1)], []])
def test_without_a_rising_line_there_is_no_calibration(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(ArchError, match="A1504"):
        validation(pairs).correction()


def test_two_networks_cannot_be_corrected_by_leaving_one_out() -> None:
    assert validation([(1, 1), (2, 2)]).corrected_error is None


def test_networks_are_measured_against_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    space = archir.loads(SMALL["depth"])
    table = filled(FakeBench(), space)
    networks = [space.specialize(architecture) for architecture in space.enumerate()]
    found = validate(table, networks, FakeBench(), effort=QUICK)
    assert all(one.predicted == one.measured.median for one in found.networks)
    assert found.error == 0
    assert found.rank_correlation == pytest.approx(1)
    monkeypatch.setattr("archir.costs.latencies.fill.TURNS", 3)
    assert validate(table, networks, FakeBench(), effort=QUICK) == found
    with pytest.raises(ArchError, match="A1503"):
        validate(table.model_copy(update={"threads": 2}), networks, FakeBench(), effort=QUICK)
    del table.entries["gelu(f32[4, 6, 6], approximate=false)"]
    with pytest.raises(ArchError, match=r"A1502.*gelu"):
        validate(table, networks, FakeBench(), effort=QUICK)


# the documentation


def test_the_figures_of_the_documentation() -> None:
    text = " ".join((ROOT / "docs" / "latency.md").read_text().split())
    space = space_of("full_attention")
    assert f"the {space.size / 1e12:.1f} trillion architectures" in text
    assert f"made of {len(workloads(space.graph))} operations" in text
    lasting = f"a sample lasts {USUAL.sample / 1e6} ms, and samples are taken until the median is known to"
    assert f"{lasting} {USUAL.precision:.0%}" in text
    assert f"{USUAL.least} to {USUAL.most} of them, for a second at most" in text
    assert USUAL.limit == 1e9


@pytest.mark.soak
def test_the_program_of_the_documentation(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python part\n(.*?)```", (ROOT / "docs" / "latency.md").read_text(), re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_alone(f"import archir\n{program}\n", tmp_path)
    archir.latency_table(tmp_path / "cpu.json").covers(space_of("full_attention", channels=16).graph)


# the command


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["bench", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "tiny.arch").write_text(SMALL["depth"])
    return str(tmp_path / "tiny.arch")


@pytest.mark.parametrize("device", ["cpu", "onnxruntime-cpu"])
def test_a_table_is_made_validated_and_calibrated(device: str, file: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.json")
    data = json.loads(run("--table", path, file, "--device", device, "--threads", "1", "--json").stdout)
    space = archir.load(file)
    table = archir.latency_table(path)
    assert data["operations"] == len(table.entries) == len(workloads(space.graph))
    assert (table.device, table.batch, table.threads) == (device, 1, 1)
    assert any(entry.median > 0 for entry in table.entries.values())
    assert "A1506" in run("--table", path, file, "--device", device, code=1).stderr
    again = run("--table", path, file, "--device", device, "--resume")
    assert f"{len(table.entries)} operations on {device}, 1 thread, batch 1" in again.stdout
    assert archir.latency_table(path) == table
    text = run("--validate", path, file, "-n", "4").stdout
    assert "rank correlation (Spearman)" in text
    data = json.loads(run("--validate", path, file, "-n", "6", "--seed", "3", "--json").stdout)
    assert len(data["networks"]) == 6
    assert all(one["measured"] > 0 and one["predicted"] >= table.overhead.median for one in data["networks"])
    assert data["error"] >= 0
    assert archir.latency_table(path) == table


def test_calibration_is_written(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = validation([(x, 3 * x + 10) for x in (10.0, 20, 40)])
    monkeypatch.setattr("archir.api.validate", lambda *_, **__: found)
    path = tmp_path / "t.json"
    table_of([]).write(path)
    assert "latency is 3.000 x sum +0.0 us" in run("--validate", str(path), file, "--calibrate").stdout
    assert archir.latency_table(path).correction == found.correction()
    monkeypatch.setattr("archir.api.validate", lambda *_, **__: validation([(1, 1), (1, 2)]))
    assert "A1504" in run("--validate", str(path), file, "--calibrate", code=1).stderr


def test_an_interrupted_command_says_how_to_go_on(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import archir.costs.latencies.fill as benches

    counted = count()

    def entry(*_: Any) -> Entry:
        if next(counted) == 2:
            raise KeyboardInterrupt
        return Entry(median=1, spread=0, samples=3)

    path = tmp_path / "t.json"
    with monkeypatch.context() as patched:
        patched.setattr(benches, "_entry", entry)
        result = run("--table", str(path), file, "--threads", "1", code=1)
    assert "go on with --resume" in result.stderr
    assert len(archir.latency_table(path).entries) == 2
    run("--table", str(path), file, "--resume")
    assert archir.latency_table(path).entries.keys() == workloads(archir.load(file).graph).keys()


def test_wrong_usage(file: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.json")
    assert "give one of --table and --validate" in run("--table", path, "--validate", path, file, code=2).stderr
    assert "--batch is no option of --validate" in run("--validate", path, "--batch", "2", file, code=2).stderr
    assert "-n is no option of --table" in run("--table", path, "-n", "2", file, code=2).stderr
    assert "--device is no option of measuring" in run("--device", "cpu", file, code=2).stderr
    assert "--on is no option of --table" in run("--table", path, "--on", "torch", file, code=2).stderr
    assert "--table takes one FILE" in run("--table", path, file, file, code=2).stderr
    assert "one --batch" in run("--table", path, file, "--batch", "1", "--batch", "2", code=2).stderr
    assert "A1501" in run("--validate", path, file, code=1).stderr


def test_devices_that_are_not_there(file: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1505(.|\n)*did you mean `cuda`"):
        archir.bench(archir.load(file), tmp_path / "t.json", device="cudaa")  # type: ignore[arg-type]
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "A1505" in run("--table", str(tmp_path / "t.json"), file, "--device", "cuda", code=1).stderr
    assert "A0914" in run("--table", str(tmp_path / "t.json"), file, "--device", "onnxruntime-cuda", code=1).stderr
    assert not (tmp_path / "t.json").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("device", ["cuda", "onnxruntime-cuda"])
def test_a_table_of_a_gpu(device: Any, file: str, tmp_path: Path) -> None:
    table = archir.bench(archir.load(file), tmp_path / "t.json", device=device)
    assert "gpu" in table.machine
    assert archir.validate(table, archir.load(file), 4).error >= 0


def test_reading_a_table_loads_no_framework(tmp_path: Path) -> None:
    table_of(["relu(f32[3])"]).write(tmp_path / "t.json")
    assert run_alone("import archir\nassert archir.latency_table('t.json').entries\n", tmp_path) == "[]"
