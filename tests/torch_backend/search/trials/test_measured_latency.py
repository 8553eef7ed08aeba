"""Searches within a bound on a predicted latency: their best candidates are measured, and the fastest enough wins."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.costs.latencies.table import LatencyTable
from archir.costs.latencies.timing import TimedRun
from archir.costs.latencies.workloads import space_workloads
from archir.ir.graph import Graph
from archir.spaces.space import Space
from archir_torch.search import measured_latency
from archir_torch.search.measured_latency import GROUP, latency_bounds, measure_finalists
from tests.latencies import FakeBench, table_of

SPACE = """
net digits {
    input image: f32[1, 8, 8]
    x = image |> conv(4)
    repeat choose depth(1, 2, 3, 4, 5, 6, 7, 8) {
        x = x |> relu
    }
    output y = x |> global_avg_pool |> linear(10)
}
"""
RECIPE = """
space = "digits.arch"

[[phase]]
name = "search"
strategy = "exhaustive"

[phase.options]
where = 'latency("t.json") <= LIMIT'
objectives = ["params:max"]
scorer = { kind = "proxies", proxies = ["synflow"] }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a space and a table that predicts less than the 110 + 10 n ns that a network of n ReLUs takes."""

    measure_on(FakeBench, monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.arch").write_text(SPACE)
    predictor(archir.load("digits.arch")).write("t.json")
    return tmp_path


def measure_on(kind: type[FakeBench], monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def bench(device: str, batch: int, threads: int | None) -> Iterator[FakeBench]:
        yield kind()

    monkeypatch.setattr(measured_latency, "open_bench", bench)
    monkeypatch.setattr("archir.api.measurement.open_bench", bench)


def fit(space: Space) -> None:
    """Write a model of six networks to m.json."""
    architectures, times, conditions = archir.measured_latency(space, 6)
    archir.fit_latency(space, architectures, times, "m.json", conditions=conditions)


def predictor(space: Space) -> LatencyTable:
    """Return a table that predicts 100 ns and 6 ns for each operation."""
    table = table_of(space_workloads(space.graph))
    table.overhead.mean = 100
    for entry in table.entries.values():
        entry.mean = 6
    return table


def search(folder: Path, limit: str, code: int = 0) -> Result:
    (folder / "r.toml").write_text(RECIPE.replace("LIMIT", limit))
    result = CliRunner().invoke(main, ["search", "r.toml", "-o", "run"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def relus(space: Space, numbers: range) -> list[archir.Architecture]:
    return [space.architecture({"depth": number}) for number in numbers]


def test_the_first_candidate_that_is_measured_within_the_bound_is_chosen(folder: Path) -> None:
    space = archir.load("digits.arch").where('latency("t.json") <= 166ns')
    measured = measure_finalists(space, relus(space, range(8, 0, -1)), latency_bounds(space))
    (bound,) = measured["bounds"]
    assert bound["measured"] == [100 + 10 * (number + 3) for number in range(8, 0, -1)]
    assert bound["predicted"] == [100 + 6 * (number + 3) for number in range(8, 0, -1)]
    assert measured["architectures"][measured["chosen"]] == {"depth": 3}
    measured = measure_finalists(space, relus(space, range(3, 0, -1)), latency_bounds(space))
    assert (measured["chosen"], len(measured["architectures"])) == (0, 3)


def test_a_candidate_is_not_chosen_if_the_bound_is_within_the_uncertainty_of_its_measurement(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoisyBench(FakeBench):
        def timed(self, graph: Graph) -> TimedRun:
            steady, rng = super().timed(graph), random.Random(0)
            return lambda calls: steady(calls) * rng.uniform(0.2, 1.8)

    measure_on(NoisyBench, monkeypatch)
    space = archir.load("digits.arch")

    def measured_within(limit: int) -> tuple[int | None, Mapping[str, list[float]]]:
        bounded = space.where(f'latency("t.json") <= {limit}ns')
        found = measure_finalists(bounded, relus(space, range(8, 0, -1)), latency_bounds(bounded))
        return found["chosen"], found["bounds"][0]

    _, bound = measured_within(1000)
    limit = round(bound["measured"][2] + 0.8 * bound["uncertainty"][2])
    chosen, bound = measured_within(limit)
    assert bound["measured"][2] <= limit < bound["measured"][2] + bound["uncertainty"][2]
    assert chosen == 3


def test_latencies_are_converted_to_the_speed_of_the_machine_during_the_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = archir.load("digits.arch")
    fit(space)

    class SlowBench(FakeBench):
        def timed(self, graph: Graph) -> TimedRun:
            usual = super().timed(graph)
            return lambda calls: 2 * usual(calls)

    measure_on(SlowBench, monkeypatch)
    bounded = space.where('latency("m.json") <= 170ns')
    measured = measure_finalists(bounded, relus(space, range(8, 0, -1)), latency_bounds(bounded))
    (bound,) = measured["bounds"]
    assert bound["measured"] == [100 + 10 * (number + 3) for number in range(8, 3, -1)]
    assert bound["speed"] == [0.5] * 5
    assert measured["architectures"][measured["chosen"]] == {"depth": 4}
    (folder / "r.toml").write_text(RECIPE.replace("t.json", "m.json").replace("LIMIT", "170ns"))
    shown = CliRunner().invoke(main, ["search", "r.toml", "-o", "run"], catch_exceptions=False).output
    assert "machine ran at 0.50 times its speed during the fit" in shown
    assert "machine ran at 0.50 times its speed during the fit" in (folder / "run" / "report.html").read_text()


def test_networks_of_another_space_do_not_tell_the_speed_of_the_machine(folder: Path) -> None:
    fit(archir.load("digits.arch"))
    (folder / "other.arch").write_text(SPACE.replace("choose depth", "choose layers"))
    other = archir.load("other.arch").where('latency("m.json") <= 1us')
    measured = measure_finalists(other, [other.architecture({"layers": 2})], latency_bounds(other))
    assert measured["bounds"][0]["speed"] == [1.0]


def test_no_more_candidates_are_measured_once_one_is_within_the_bound(folder: Path) -> None:
    space = archir.load("digits.arch").where('latency("t.json") <= 1us')
    measured = measure_finalists(space, relus(space, range(8, 0, -1)), latency_bounds(space))
    assert (measured["chosen"], len(measured["architectures"])) == (0, GROUP)


def test_nothing_is_chosen_if_no_candidate_is_within_the_bound(folder: Path) -> None:
    space = archir.load("digits.arch").where('latency("t.json") <= 136ns')
    measured = measure_finalists(space, relus(space, range(3, 0, -1)), latency_bounds(space))
    assert measured["chosen"] is None
    assert len(measured["architectures"]) == 3


def test_a_search_prints_predictions_beside_measurements_and_keeps_a_fast_network(folder: Path) -> None:
    shown = search(folder, "140ns").output
    assert "predicted, us" in shown
    assert "measured, us" in shown
    summary = json.loads((folder / "run" / "summary.json").read_text())
    table = summary["latency"]["search"]
    (bound,) = table["bounds"]
    assert bound["measured"][table["chosen"]] <= 140
    assert summary["architecture"]["choices"] == table["architectures"][table["chosen"]]
    assert bound["conditions"]["machine"] == FakeBench.machine
    report = (folder / "run" / "report.html").read_text()
    assert f"{table['chosen'] + 1}, chosen" in report
    assert f"{bound['measured'][0] / 1000:,.1f}" in report


def test_a_search_says_that_the_bound_was_not_reached(folder: Path) -> None:
    assert "the bound was not reached" in search(folder, "125ns").output
    assert "The bound was not reached" in (folder / "run" / "report.html").read_text()


def test_a_search_says_why_candidates_were_not_measured(folder: Path) -> None:
    table = archir.latency_table("t.json")
    table.machine = {"processor": "slide rule"}
    table.write("t.json")
    assert "were not measured: the latencies were measured under other conditions" in search(folder, "140ns").output
    assert "They were not measured: the latencies were" in (folder / "run" / "report.html").read_text()


def test_a_model_is_also_fitted_to_the_candidates_that_a_search_measured(
    folder: Path,
) -> None:
    search(folder, "140ns")
    arguments = ["latency", "fit", "digits.arch", "-o", "m.json", "-n", "6", "--json", "--add"]
    result = CliRunner().invoke(main, [*arguments, "run"], catch_exceptions=False)
    assert (networks := json.loads(result.stdout)["networks"]) > 6
    result = CliRunner().invoke(main, [*arguments, "run", "--add", "run"], catch_exceptions=False)
    assert json.loads(result.stdout)["networks"] == networks, "each candidate counts once"
    (folder / "r.toml").write_text(RECIPE.replace('latency("t.json") <= LIMIT', "params <= 1M"))
    CliRunner().invoke(main, ["search", "r.toml", "-o", "other"], catch_exceptions=False)
    result = CliRunner().invoke(main, [*arguments, "other"], catch_exceptions=False)
    assert (result.exit_code, "A1511" in result.output) == (1, True)
    table = archir.latency_table("t.json")
    table.machine = {"processor": "slide rule"}
    table.write("t.json")
    (folder / "r.toml").write_text(RECIPE.replace("LIMIT", "140ns"))
    CliRunner().invoke(main, ["search", "r.toml", "-o", "elsewhere"], catch_exceptions=False)
    result = CliRunner().invoke(main, [*arguments, "elsewhere"], catch_exceptions=False)
    assert (result.exit_code, "A1511" in result.output) == (1, True), "nothing was measured"
