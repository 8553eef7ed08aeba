"""Latency measurement: number of samples, and how tables are filled and resumed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.costs.latencies import files, measurement
from archir.costs.latencies.measurement import (
    check_same_machine,
    fill_table,
    measure_networks,
    new_table,
)
from archir.costs.latencies.timing import Effort, TimedRun, Timing, measure_in_visits
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from tests.latencies import QUICK, SMALL, FakeBench, filled, table_of


def timer(durations: Iterable[float]) -> tuple[TimedRun, list[int]]:
    """Something that takes these nanoseconds a run, and the numbers of runs it was asked for."""
    asked: list[int] = []
    source = iter(durations)

    def timed(calls: int) -> float:
        asked.append(calls)
        return calls * next(source)

    return timed, asked


def measured(timed: TimedRun, **effort: Any) -> Timing:
    """Measure one function in exactly so many visits."""
    visits = effort.pop("visits", Effort.visits)
    *_, found = measure_in_visits([timed], Effort(visits=visits, max_visits=visits, **effort))
    assert found is not None
    return found


def test_the_first_visit_finds_how_many_runs_a_sample_has() -> None:
    timed, asked = timer(10.0 for _ in count())
    assert measured(timed, visits=7, sample_ns=1000, warm_ns=0) == Timing(10.0, 0.0, 7)
    assert asked == [1, 1, 2, 4, 8, 16, 32, 64, *[128] * 8]


def test_the_warm_up_does_not_count() -> None:
    timed, _ = timer([10**6, *[50.0] * 50])
    assert measured(timed, visits=5, sample_ns=100, warm_ns=0).mean == 50.0


def test_slow_runs_are_measured_for_limited_time() -> None:
    timed, asked = timer(Effort().max_ns / 5 * (1 + i / 40) for i in count())
    assert measured(timed).samples == 3
    assert asked == [1] * 7


def test_spread_comes_from_quartiles_and_the_slowest_tenth_does_not_count() -> None:
    timed, _ = timer([0.0, 9.0, *(100.0 + i for i in range(10)), 10**6])
    found = measured(timed, visits=11, sample_ns=1, warm_ns=0)
    assert (found.mean, found.spread, found.samples) == (104.5, 5.0, 11)


def test_most_means_are_within_two_standard_errors_of_the_truth() -> None:
    rng = random.Random(0)
    effort = Effort(max_visits=30, sample_ns=1, warm_ns=1000)

    def drifting() -> TimedRun:
        """Return a run whose speed differs from one visit to the next."""
        factors = (factor for _ in count() for factor in [rng.uniform(0.8, 1.2)] * 20)
        return lambda calls: calls * 100 * next(factors)

    timings = [timing for timing in measure_in_visits([drifting() for _ in range(200)], effort) if timing]
    truth = 98  # the mean of the fastest nine tenths
    inside = sum(abs(timing.mean - truth) <= 2 * timing.error for timing in timings)
    assert 160 <= inside < 200, f"{inside} of 200"


def test_slow_periods_that_all_functions_share_are_no_error() -> None:
    rng = random.Random(0)
    runs = 0

    def thing() -> TimedRun:
        def timed(calls: int) -> float:
            nonlocal runs
            runs += 1
            return calls * (1.5 if runs // 300 % 2 else 1) * rng.uniform(0.95, 1.05)

        return timed

    effort = Effort(max_visits=100, precision=0, sample_ns=1, warm_ns=0)
    timings = [timing for timing in measure_in_visits([thing() for _ in range(10)], effort) if timing]
    means = [timing.mean for timing in timings]
    assert all(timing.error < 0.01 * timing.mean for timing in timings)
    assert max(means) < 1.04 * min(means)
    alone = measured(thing(), visits=1000, sample_ns=1, warm_ns=0)
    assert alone.error > 0.005 * alone.mean


def test_rounds_end_once_half_of_the_functions_are_precise() -> None:
    rng = random.Random(0)

    def thing(noise: float) -> TimedRun:
        return lambda calls: calls * rng.uniform(1 - noise, 1 + noise)

    def visits(*noises: float) -> int:
        effort = Effort(visits=10, max_visits=100, precision=0.01, sample_ns=1, warm_ns=0)
        return [*measure_in_visits([*map(thing, noises)], effort)].count(None) // len(noises)

    assert visits(0.01, 0.01, 0.5) == 10
    assert 10 < visits(0.1, 0.1, 0.5) < 100
    assert visits(0.01, 0.5, 0.5) == 100


def test_networks_are_measured_by_themselves_and_warm_in_many_visits() -> None:
    order: list[str] = []

    def thing(name: str, cost: float) -> TimedRun:
        def timed(calls: int) -> float:
            order.append(name)
            return calls * cost

        return timed

    effort = Effort(visits=10, max_visits=10, sample_ns=1, warm_ns=35)
    *visits, a, b = measure_in_visits([thing("a", 10.0), thing("b", 20.0)], effort)
    assert (visits, a, b) == ([None] * 20, Timing(10.0, 0.0, 40), Timing(20.0, 0.0, 20))
    first, runs = 2, {"a": 8, "b": 4}
    rounds = [{name: (first if i == 0 else 0) + count for name, count in runs.items()} for i in range(10)]
    for one in rounds:
        here, order[:] = "".join(order[: sum(one.values())]), order[sum(one.values()) :]
        assert here in ("a" * one["a"] + "b" * one["b"], "b" * one["b"] + "a" * one["a"])
    assert not order


@pytest.mark.parametrize("every", [5, 300, 1000])
def test_slow_periods_of_the_machine_affect_all_functions_alike(every: int) -> None:
    """The machine is half as fast in half of the time; the functions keep their order and their ratios."""
    runs, rng = 0, random.Random(every)

    def thing(cost: float) -> TimedRun:
        def timed(calls: int) -> float:
            nonlocal runs
            runs += 1
            return calls * cost * (2 if runs // every % 2 else 1) * rng.uniform(0.95, 1.05)

        return timed

    costs = [1000.0 * 1.05**i for i in range(10)]
    effort = Effort(visits=1000, max_visits=1000, sample_ns=1, warm_ns=0)
    found = [timing.mean for timing in measure_in_visits([*map(thing, costs)], effort) if timing is not None]
    assert found == sorted(found)
    ratios = [mean / cost for mean, cost in zip(found, costs, strict=True)]
    assert max(ratios) < 1.05 * min(ratios)


def test_a_function_whose_time_jumps_is_measured_for_limited_time() -> None:
    rng = random.Random(0)
    timed, asked = timer(rng.choice([1.0, 100.0]) for _ in count())
    assert 10 <= measured(timed, visits=1000, sample_ns=1, warm_ns=0, max_ns=1000).samples < 100
    assert len(asked) < 100


def test_no_sample_is_taken_after_the_time_is_spent() -> None:
    timed, asked = timer(1.25 * Effort().max_ns * 2**i for i in range(10))
    assert measured(timed).samples == 3
    assert len(asked) == 5
    timed, asked = timer(1.25 * Effort().max_ns / 2**i for i in range(10))
    measured(timed)
    assert len(asked) <= 6


def test_large_networks_are_measured_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    space = archir.loads(SMALL["values"])
    graphs = [space.specialize(space.sample(seed)) for seed in range(5)]
    whole = measure_networks(graphs, FakeBench(), effort=QUICK)
    monkeypatch.setattr(measurement, "MAX_BYTES", 1)
    assert measure_networks(graphs, FakeBench(), effort=QUICK) == whole
    assert measure_networks([], FakeBench()) == []


# filling tables


def test_call_overhead_is_subtracted() -> None:
    space = archir.loads(SMALL["conditional"])
    table = filled(FakeBench(), space)
    assert table.overhead.mean == 100
    assert table.entries.keys() == space_workloads(space.graph).keys()
    means = {key: entry.mean for key, entry in table.entries.items()}
    assert {key for key in means if means[key] == 0} == {"identity(f32[4, 6, 6])"}
    assert {mean for mean in means.values() if mean} == {10.0}


def test_operations_faster_than_overhead_take_zero_time() -> None:
    bench = FakeBench()
    table = new_table("cpu", bench, QUICK)
    table.overhead.mean = 10**6
    assert {entry.mean for entry in filled(bench, archir.loads(SMALL["values"]), table).entries.values()} == {0}


def test_an_interrupted_measurement_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "MAX_OPERATIONS", 3)
    space, path = archir.loads(SMALL["depth"]), tmp_path / "t.json"
    total = len(space_workloads(space.graph))
    bench = FakeBench(interrupt_at=7)  # the overhead takes two networks
    table = new_table("cpu", bench, QUICK)
    with pytest.raises(KeyboardInterrupt):
        filled(bench, space, table, save=lambda one: one.write(path))
    kept = files.read_table(path)
    assert len(kept.entries) == 3
    second = FakeBench()
    check_same_machine(kept, "cpu", second)
    filled(second, space, kept, save=lambda one: one.write(path))
    assert len(second.asked) == total - 3
    assert files.read_table(path).entries.keys() == space_workloads(space.graph).keys()
    filled(third := FakeBench(), space, files.read_table(path))
    assert third.asked == []


def test_a_table_is_saved_before_operations_are_measured_and_after_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "MAX_OPERATIONS", 3)
    saved: list[int] = []
    space = archir.loads(SMALL["depth"])
    total = len(space_workloads(space.graph))
    filled(FakeBench(), space, save=lambda one: saved.append(len(one.entries)))
    assert saved == [*range(0, total, 3), total]


def test_operations_of_a_group_share_the_slow_periods_of_the_machine() -> None:
    """The machine is half as fast in a third of the time; operations that take equally long get equal entries."""

    class SlowBench(FakeBench):
        runs = 0

        def timed(self, graph: Graph) -> TimedRun:
            timed = super().timed(graph)

            def slowed(calls: int) -> float:
                self.runs += 1
                return timed(calls) * (2 if self.runs // 10 % 3 == 0 else 1)

            return slowed

    space = archir.loads(SMALL["depth"])
    table = new_table("cpu", FakeBench(), QUICK)
    effort = Effort(visits=500, max_visits=500, warm_ns=0, sample_ns=1)
    fill_table(table, space_workloads(space.graph), SlowBench(), save=lambda _: None, effort=effort)
    means = [entry.mean for entry in table.entries.values()]
    assert max(means) < 1.3 * min(means), means


def test_progress_counts_the_visits_of_operations_and_their_results() -> None:
    seen: list[tuple[int, int, str]] = []

    def watch(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        items = [*items]
        seen.append((len(items), total, what))
        return items

    space = archir.loads(SMALL["values"])
    filled(FakeBench(), space, progress=watch)
    steps = (QUICK.max_visits + 1) * len(space_workloads(space.graph))
    assert seen == [(steps, steps, "measuring")]


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
def test_rejects_resume_on_other_device_or_machine(change: dict[str, Any], named: str) -> None:
    table = table_of([]).model_copy(update=change)
    with pytest.raises(ArchError, match="A1503") as caught:
        check_same_machine(table, "cpu", FakeBench())
    assert named in caught.value.diagnostics[0].message
