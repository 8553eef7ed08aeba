"""Latency measurement: number of samples, and how tables are filled and resumed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.costs.latencies import files
from archir.costs.latencies.measurement import check_same_machine, new_table
from archir.costs.latencies.timing import MAX_VISITS, Effort, TimedRun, Timing, measure, measure_in_visits
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from tests.latencies import QUICK, SMALL, FakeBench, filled, table_of


def timer(durations: Iterable[float]) -> tuple[TimedRun, list[int]]:
    """Something that takes these nanoseconds a run, and the numbers of runs it was asked for."""
    asked: list[int] = []
    source = iter(durations)

    def timed(calls: int) -> float:
        asked.append(calls)
        return calls * next(source)

    return timed, asked


def test_steady_runs_take_minimum_number_of_samples() -> None:
    timed, asked = timer(10.0 for _ in count())
    assert measure(timed, Effort(sample_ns=1000, min_samples=7, warm_ns=0)) == Timing(10.0, 0.0, 7)
    assert asked == [1, 1, 2, 4, 8, 16, 32, 64, *[128] * 8]


def test_the_warm_up_does_not_count() -> None:
    timed, _ = timer([10**6, *[50.0] * 50])
    assert measure(timed, Effort(sample_ns=100, warm_ns=0)).median == 50.0


def test_noisy_runs_are_sampled_until_median_is_precise() -> None:
    rng = random.Random(0)
    timed, _ = timer(100 + rng.expovariate(0.2) for _ in count())
    found = measure(timed, Effort(sample_ns=50, precision=0.004, warm_ns=0))
    assert 11 < found.samples < 101
    assert found.spread <= 0.004 * found.median * found.samples**0.5
    assert 100 < found.median < 106
    wild, _ = timer(rng.choice([1.0, 100.0]) for _ in count())
    assert measure(wild, Effort(sample_ns=1, warm_ns=0)) == Timing(1.0, 0.0, 11)


def test_slow_runs_are_measured_for_limited_time() -> None:
    timed, asked = timer(4e8 + 1e7 * i for i in count())
    assert measure(timed).samples == 3
    assert asked == [1] * 6


def test_median_and_spread_come_from_quartiles() -> None:
    timed, _ = timer([0.0, 9.0, 101.0, 102.0, 103.0, 104.0, 105.0])
    assert measure(timed, Effort(sample_ns=1, min_samples=5, max_samples=5, warm_ns=0)) == Timing(103.0, 2.0, 5)


def test_networks_are_measured_by_themselves_and_warm_in_several_visits() -> None:
    order: list[str] = []

    def thing(name: str, cost: float) -> TimedRun:
        def timed(calls: int) -> float:
            order.append(name)
            return calls * cost

        return timed

    effort = Effort(sample_ns=1, min_samples=6, warm_ns=35)
    found = dict(measure_in_visits([lambda: thing("a", 10.0), lambda: thing("b", 20.0)], effort))
    assert found == {0: Timing(10.0, 0.0, 6), 1: Timing(20.0, 0.0, 6)}
    visits = [(name, len([*group])) for name, group in groupby(order)]
    first, timed, warm = 2, 2, {"a": 4, "b": 2}
    first_visits = [(name, first + warm[name] + timed) for name in "ab"]
    assert visits == first_visits + [(name, warm[name] + timed) for name in "ab" * 2]


@pytest.mark.parametrize("slow_after", [0, 20, 45])
def test_slow_periods_of_the_machine_are_left_out(slow_after: int) -> None:
    runs = 0

    def timed(calls: int) -> float:
        nonlocal runs
        runs += 1
        return calls * (150.0 if 0 <= runs - slow_after < 30 else 100.0 + runs % 3)

    effort = Effort(sample_ns=1, warm_ns=0)
    found = dict(measure_in_visits([lambda: timed] * 3, effort))
    assert {round(timing.median) for timing in found.values() if timing is not None} <= {100, 101, 102}


def test_a_function_whose_time_jumps_is_visited_a_limited_number_of_times() -> None:
    rng = random.Random(0)
    timed, asked = timer(rng.choice([1.0, 100.0]) for _ in count())
    *_, (_, found) = measure_in_visits([lambda: timed], Effort(sample_ns=1, warm_ns=0))
    assert found is not None
    assert found.median == 1.0
    assert len(asked) <= 2 + MAX_VISITS * 11


def test_no_sample_is_taken_after_the_time_is_spent_even_if_most_are_disturbed() -> None:
    timed, asked = timer(3e9 * 2**i for i in range(10))
    assert measure(timed).median == 3e9 * 4
    assert len(asked) == 5
    timed, asked = timer(3e9 / 2**i for i in range(10))
    *_, (_, found) = measure_in_visits([lambda: timed])
    assert found is not None
    assert len(asked) <= 6


# filling tables


def test_call_overhead_is_subtracted() -> None:
    space = archir.loads(SMALL["conditional"])
    table = filled(FakeBench(), space)
    assert table.overhead.median == 100
    assert table.entries.keys() == space_workloads(space.graph).keys()
    medians = {key: entry.median for key, entry in table.entries.items()}
    assert {key for key in medians if medians[key] == 0} == {"identity(f32[4, 6, 6])"}
    assert {median for median in medians.values() if median} == {10.0}


def test_operations_faster_than_overhead_take_zero_time() -> None:
    bench = FakeBench()
    table = new_table("cpu", 1, bench, QUICK)
    table.overhead.median = 10**6
    assert {entry.median for entry in filled(bench, archir.loads(SMALL["values"]), table).entries.values()} == {0}


def test_an_interrupted_measurement_goes_on(tmp_path: Path) -> None:
    space, path = archir.loads(SMALL["depth"]), tmp_path / "t.json"
    total = len(space_workloads(space.graph))
    bench = FakeBench(interrupt_at=5)  # the overhead takes two networks
    table = new_table("cpu", 1, bench, QUICK)
    with pytest.raises(KeyboardInterrupt):
        filled(bench, space, table, save=lambda one: one.write(path))
    kept = files.read_table(path)
    assert len(kept.entries) == 3
    second = FakeBench()
    check_same_machine(kept, "cpu", 1, second)
    filled(second, space, kept, save=lambda one: one.write(path))
    assert len(second.asked) == total - 3
    assert files.read_table(path).entries.keys() == space_workloads(space.graph).keys()
    filled(third := FakeBench(), space, files.read_table(path))
    assert third.asked == []


def test_tables_are_saved_now_and_then() -> None:
    saved: list[int] = []
    ticks = iter(range(0, 10**6, 2))
    space = archir.loads(SMALL["depth"])
    total = len(space_workloads(space.graph))
    options = {"save": lambda one: saved.append(len(one.entries)), "clock": lambda: float(next(ticks))}
    filled(FakeBench(), space, **options)
    assert saved[0] == 3
    assert saved[-1] == total
    assert len(saved) > 2


def test_progress_total_is_number_of_operations_to_measure() -> None:
    seen: list[tuple[int, str]] = []

    def watch(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        seen.append((total, what))
        return items

    space = archir.loads(SMALL["values"])
    filled(FakeBench(), space, progress=watch)
    assert seen == [(len(space_workloads(space.graph)), "measuring")]


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
        check_same_machine(table, "cpu", 1, FakeBench())
    assert named in caught.value.diagnostics[0].message
