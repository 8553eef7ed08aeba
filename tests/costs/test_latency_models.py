"""Latency models: fitting to measured networks, exact use as costs, and error estimates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import t as student

import archir
from archir.cli import main
from archir.costs.latencies import files, fitting, gaussian_process
from archir.costs.latencies.counts import RunCounts, counts_of_codes, counts_of_graphs
from archir.costs.latencies.fitting import fit_model, nonnegative_least_squares
from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import Conditions, Entry
from archir.costs.latencies.workloads import Workload, network_workloads, space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.types import TensorType
from archir.ops.activation import Relu
from archir.ops.conv import Conv, Linear
from archir.spaces.space import Space
from archir.utils.ranks import kendall
from tests.conftest import ROOT
from tests.latencies import RUNS, SMALL, FakeBench, filled, table_of, validation
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

COST = 'latency("m.json")'
SURE = 'latency("m.json", confidence=0.95)'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes_of(space: Space) -> np.ndarray[Any, Any]:
    return np.array([one.codes for one in space.enumerate()], np.int16)


def model_of(space: Space, **changes: Any) -> LatencyModel:
    """A made-up model of a space."""
    entries = {key: crc32(key.encode()) % 9001 for key in space_workloads(space.graph)}
    facts: dict[str, Any] = {
        "schema_version": 1, "model": "operations", "device": "abacus", "networks": 30, "error": 700.0,
        "rank_correlation": 0.9, "tried": {"operations": 700.0}, "offset": 40_000, "entries": entries,
    }  # fmt: skip
    return LatencyModel(**{**facts, **changes})


def truth(space: Space, noise: float = 0.0, seed: int = 0) -> np.ndarray[Any, Any]:
    """Nanoseconds of all architectures: what operations take, and noise of so many nanoseconds."""
    found = counts_of_codes(space.account, codes_of(space))
    each = np.array([50 + crc32(one.key.encode()) % 9000 for one in found.workloads])
    return 20_000 + found.times @ each + np.random.default_rng(seed).normal(0, noise, len(found.times))


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_operation_counts_equal_those_of_each_network(name: str, simplified: bool) -> None:
    space = archir.loads(SMALL[name])
    found = list(space.enumerate())[:40]
    graphs = [space.specialize(one) for one in found]
    for counts in (
        counts_of_codes(space.account, codes_of(space)[:40], simplified),
        counts_of_graphs(graphs, space.graph, simplified),
    ):
        assert {one.key for one in counts.workloads} == set(space_workloads(space.graph, simplified=simplified))
        for graph, times in zip(graphs, counts.times, strict=True):
            keys = [one.key for one in network_workloads(graph, simplified)]
            assert [keys.count(one.key) for one in counts.workloads] == times.tolist()


@pytest.mark.parametrize(("name", "simplified"), RUNS)
def test_model_costs_equal_network_estimates(name: str, simplified: bool, folder: Path) -> None:
    space = archir.loads(SMALL[name])
    model = model_of(space, conditions=Conditions(device="cpu", batch=1, threads=1, machine={}, simplified=simplified))
    model.write("m.json")
    assert archir.latency_model("m.json") == model
    found = list(space.enumerate())
    each = np.array([model.estimate(space.specialize(one)) for one in found])
    costs = space.cost(found, [COST, SURE])
    assert costs[COST].tolist() == each.tolist()
    assert (costs[SURE] - each == model.reserve(0.95)).all()
    assert [one.value for one in space.account.extremes(COST)] == [each.min(), each.max()]
    for cost, times in ((COST, each), (SURE, costs[SURE])):
        limit = int(np.median(times))
        within = space.where(f"{cost} <= {limit}ns")
        exact = int((times <= limit).sum())
        assert within.count() == (exact, exact)
        drawn = within.sample_codes(60, np.random.default_rng(0))
        assert (space.cost(drawn, [cost])[cost] <= limit).all()
    best = archir.optimize(space, minimize=COST).best
    assert best is not None
    assert model.estimate(space.specialize(best)) == each.min()


def test_additive_latency_is_learned_from_few_networks(folder: Path) -> None:
    space = archir.loads(SMALL["depth"])
    found, times = list(space.enumerate()), truth(space, noise=30)
    measured = np.random.default_rng(1).permutation(len(found))[:20]
    model = archir.fit_latency(space, [found[i] for i in measured], times[measured], "m.json")
    assert model.networks == 20
    assert model.rank_correlation is not None
    assert model.rank_correlation > 0.95
    others = np.delete(np.arange(len(found)), measured)
    predicted = space.cost([found[i] for i in others], [COST])[COST]
    assert np.corrcoef(predicted, times[others])[0, 1] > 0.99
    assert np.abs(predicted - times[others]).mean() < model.error < np.ptp(times) / 10


def test_prediction_intervals_have_stated_coverage() -> None:
    space = archir.loads(SMALL["depth"])
    found, codes = list(space.enumerate()), codes_of(space)
    for measured in (8, 25):
        within: list[float] = []
        for seed in range(15):
            times = truth(space, noise=4000, seed=seed)
            order = np.random.default_rng(seed).permutation(len(found))
            known, others = order[:measured], order[measured:]
            model = archir.fit_latency(space, [found[i] for i in known], times[known])
            counts = counts_of_codes(space.account, codes[others])
            predicted = model.offset + counts.times @ [model.entries[one.key] for one in counts.workloads]
            within += (np.abs(predicted - times[others]) <= model.margin(0.95)).tolist()
        assert 0.92 <= np.mean(within) <= 0.99


def test_prediction_intervals_have_stated_coverage_with_more_operations_than_networks() -> None:
    operations = tuple(Workload(Linear(1 + i), (TensorType((8,)),)) for i in range(60))
    within: list[float] = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        runs = rng.integers(0, 2, (230, 60)) * rng.integers(1, 4, 60).astype(float)
        times, counts = 20_000 + runs @ rng.exponential(1000, 60), RunCounts(operations, runs)
        model = fit_model(counts[:30], times[:30], reference=counts[30:])
        predicted = model.offset + runs[30:] @ [model.entries[one.key] for one in operations]
        within += (np.abs(predicted - times[30:]) <= model.margin(0.95)).tolist()
    assert 0.95 <= np.mean(within) <= 0.99


def test_sampled_kernel_shares_sum_to_one_and_omit_blocks() -> None:
    shares, noise = gaussian_process._sample_hyperparameters(5, np.random.default_rng(0))
    assert shares.sum(axis=1) == pytest.approx(1)
    assert 0.1 < (shares == 0).mean() < 0.3
    assert 1e-4 <= noise.min() < noise.max() <= 1


def test_model_error_includes_rounding_of_entries() -> None:
    """Up to half a nanosecond for each run, and a third of its square on average."""
    runs = 1e6 + 1e3 * np.arange(8)[:, None]
    counts = RunCounts((Workload(Relu(), (TensorType((8,)),)),), runs)
    model = fit_model(counts, 10 * runs[:, 0], reference=counts)
    assert model.tried[model.model] == pytest.approx((runs**2 / 12).mean() ** 0.5, rel=0.01)


def test_bytes_moved_include_operands_results_and_weights() -> None:
    image, words = TensorType((4, 6, 6)), TensorType((5,))
    counts = RunCounts((Workload(Conv(8), (image,)), Workload(Linear(3), (words,))), np.zeros((0, 2)))
    moved = [4 * 36 + 8 * 36 + 8 * 4 * 9, 5 + 3 + 3 * 5 + 3]
    assert counts.costs.tolist() == [[8 * 36 * 4 * 9, 4 * moved[0], 1], [15, 4 * moved[1], 1]]


def test_leave_one_out_predictions_equal_refitted_ones() -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(9, 3)), rng.normal(size=(9, 5))]
    kernels = np.array([block @ block.T for block in blocks])
    measured, shares = rng.normal(size=9), np.array([0.3, 0.7])
    _, errors = gaussian_process._solve(gaussian_process._kernel(kernels, shares, 0.1), measured)
    kernel = 1 + np.tensordot(shares, kernels, 1)
    for i in range(9):
        rest = np.arange(9) != i
        said = kernel[i, rest] @ np.linalg.solve(kernel[np.ix_(rest, rest)] + 0.1 * np.eye(8), measured[rest])
        assert measured[i] - said == pytest.approx(errors[i])


def test_more_hyperparameters_do_not_improve_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a table of 504 operations is right to 5%, and 80 networks are measured to 0.2%."""
    space, rng = archir.load(ROOT / "examples" / "zoo" / "nats_size.arch"), np.random.default_rng(0)
    codes = space.sample_codes(160, rng)
    counts = counts_of_codes(space.account, codes, simplified=False)
    tabulated = 1e5 * counts.costs[:, 0] / counts.costs[:, 0].mean() * np.exp(0.3 * rng.normal(size=504))
    table = table_of([])
    table.entries |= {
        workload.key: Entry(mean=mean, spread=0, samples=3)
        for workload, mean in zip(counts.workloads, tabulated.tolist(), strict=True)
    }
    measured = counts.times @ (tabulated * np.exp(0.05 * rng.normal(size=504))) * (1 + 0.002 * rng.normal(size=160))

    def error() -> float:
        model = fitting._fit(counts[:80], measured[:80], counts[80:], table, seed=0)
        predicted = model.offset + counts.times[80:] @ [model.entries[workload.key] for workload in counts.workloads]
        return float(((predicted - measured[80:]) ** 2).mean() ** 0.5)

    usual = error()
    monkeypatch.setattr(gaussian_process, "HYPERPARAMETER_SAMPLES", 1000)
    assert usual < 1.1 * error()


def test_model_corrects_operation_table_by_measured_networks() -> None:
    space = archir.loads(SMALL["depth"])
    table = filled(FakeBench(), space)
    for key, entry in table.entries.items():
        entry.mean = 50 + crc32(key.encode()) % 9000
    found, times = list(space.enumerate()), 1.7 * truth(space) + 5000
    some = list(range(0, len(found), len(found) // 6))
    without = archir.fit_latency(space, [found[i] for i in some], times[some])
    model = archir.fit_latency(space, [found[i] for i in some], times[some], operations=table)
    assert model.model.startswith("table")
    assert model.error < without.error / 3
    assert set(model.tried) == {"costs", "operations", "table", "table and operations"}
    del table.entries[next(iter(table.entries))]
    with pytest.raises(ArchError, match="A1502"):
        archir.fit_latency(space, [found[i] for i in some], times[some], operations=table)


@pytest.mark.parametrize("seed", with_soak(range(40), range(2)))
def test_no_model_predicts_a_negative_latency(seed: int) -> None:
    """Of noise, and of times that shrink with every operation."""
    space, rng = archir.loads(SMALL["depth"]), np.random.default_rng(seed)
    found, counts = list(space.enumerate()), counts_of_codes(space.account, codes_of(space))
    some = rng.permutation(len(found))[:8]
    falling = 10_000 - rng.uniform(0, 1500) * counts.times.sum(1) / counts.times.sum(1).max()
    for times in (rng.uniform(1, 10_000, len(found)), falling + rng.normal(0, 10, len(found))):
        model = archir.fit_latency(space, [found[i] for i in some], times[some])
        assert model.offset >= 0
        assert min(model.entries.values()) >= 0
        predicted = model.offset + counts.times @ [model.entries[one.key] for one in counts.workloads]
        assert np.abs(predicted[some] - times[some]).max() <= np.ptp(times) + 4 * model.error


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_least_squares_equals_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, wanted = rng.uniform(0, 3, (12, 4)), rng.normal(0, 5, 12)
    start = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    assert nonnegative_least_squares(rows, wanted, start) == pytest.approx(nnls(rows, wanted)[0], abs=1e-3)


def test_rejects_unusable_measurements() -> None:
    space = archir.loads(SMALL["depth"])
    found = list(space.enumerate())[:6]
    for times in ([1.0] * 6, [1.0, 2, 3, 4, 5, 0], [1.0, 2, 3, 4, 5, float("nan")], [1e12, 2, 3, 4, 5, 6]):
        with pytest.raises(ArchError, match=r"A1510.*1,000 seconds|A1510.*same time"):
            archir.fit_latency(space, found, times)
    with pytest.raises(ArchError, match="A1510"):
        archir.fit_latency(space, found[:4], [1.0, 2, 3, 4])
    with pytest.raises(ArchError, match="A1510"):
        archir.fit_latency(space, found, [1.0, 2, 3])


def test_rejects_unknown_operations_and_invalid_confidence(folder: Path) -> None:
    space = archir.loads(SMALL["depth"])
    model = model_of(space)
    entries = {key: value for key, value in model.entries.items() if not key.startswith("gelu")}
    model_of(space, entries=entries).write("m.json")
    with pytest.raises(ArchError, match=r"A1502.*gelu(.|\n)*latency fit"):
        space.cost(list(space.enumerate()), [COST])
    model.write("m.json")
    for wrong in ("0.4", "1", "7"):
        with pytest.raises(ArchError, match="A1509"):
            space.where(f'latency("m.json", confidence={wrong}) <= 1ms').count()
    table_of(space_workloads(space.graph)).write("t.json")
    with pytest.raises(ArchError, match=r"A1509.*has no error estimate"):
        space.where('latency("t.json", confidence=0.95) <= 1ms').count()
    for wrong in ("3", 'confidence="much"', "sure=0.9", "confidence=0.9, 3"):
        with pytest.raises(ArchError, match="A0509"):
            space.where(f'latency("m.json", {wrong}) <= 1ms')
    with pytest.raises(ArchError, match=r"A1501.*not a latency table"):
        archir.latency_table("m.json")
    with pytest.raises(ArchError, match=r"A1501.*not a latency model"):
        archir.latency_model("t.json")


GOOD = {
    "schema_version": 1, "model": "costs", "device": "", "networks": 9, "error": 1.0, "rank_correlation": None,
    "tried": {"costs": 1.0}, "offset": 3, "entries": {"relu(f32[8])": 7},
}  # fmt: skip
BROKEN: dict[str, Any] = {
    "another version": {**GOOD, "schema_version": 2},
    "another model": {**GOOD, "model": "magic"},
    "an unknown part": {**GOOD, "extra": 1},
    "few networks": {**GOOD, "networks": 4},
    "more networks than a model is fitted to": {**GOOD, "networks": 10**9},
    "half a nanosecond": {**GOOD, "offset": 0.5},
    "text for a number": {**GOOD, "entries": {"a": "1"}},
    "beyond 64 bits": {**GOOD, "entries": {"a": 10**30}},
    "not a number": json.dumps({**GOOD, "error": float("nan")}),
    "infinite": json.dumps({**GOOD, "error": float("inf")}),
    "a negative offset": {**GOOD, "offset": -3},
    "a negative entry": {**GOOD, "entries": {"relu(f32[8])": -7}},
    "a negative error": {**GOOD, "error": -1.0},
    "deep": '{"model": "costs", "entries": ' + "[" * 100_000,
}


@pytest.mark.parametrize("networks", [5, 6, 10, 1000])
def test_margins_are_those_of_students_t(networks: int) -> None:
    model = LatencyModel(**{**GOOD, "networks": networks, "error": 1e6})
    spread = 1e6 * (networks / (networks - 2) * (1 + 1 / networks)) ** 0.5
    for confidence in (0.5, 0.6, 0.8, 0.9, 0.99, 0.999):
        two, one = (student.ppf(level, networks - 2) * spread for level in ((1 + confidence) / 2, confidence))
        assert model.margin(confidence) == pytest.approx(two, rel=1e-9)
        assert model.reserve(confidence) == pytest.approx(one, rel=1e-9, abs=1)


def test_missing_operations_are_named_in_order() -> None:
    keys = [f"{name}(f32[8])" for name in ("tanh", "gelu", "silu", "relu", "abs")]
    for known in (LatencyModel(**GOOD), table_of([])):
        with pytest.raises(ArchError, match=r"A1502.*lacks `?abs.*gelu.*relu|A1502.*lacks `?abs.*gelu.*silu"):
            known.check_keys(keys)


@pytest.mark.parametrize(("wrong", "more"), [(1, ""), (3, ""), (4, " and 1 more"), (6, " and 3 more")])
def test_at_most_three_errors_of_a_file_are_named(wrong: int, more: str, tmp_path: Path) -> None:
    for made, what in ((GOOD, "model"), ({**GOOD, "model": None}, "table")):
        broken = {**made, "entries": {f"op{i}": "1" for i in range(wrong)}}
        (tmp_path / "m.json").write_text(json.dumps(broken))
        with pytest.raises(ArchError) as caught:
            files.read_latency_file(tmp_path / "m.json")
        message = caught.value.diagnostics[0].message
        assert f"is not a latency {what}: " in message
        if what == "model":
            assert message.count("; ") == min(wrong, 3) - 1
            assert message.endswith(more or "integer")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models_are_refused(name: str, tmp_path: Path) -> None:
    content = BROKEN[name]
    (tmp_path / "m.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ArchError, match=r"A1501.*m\.json is not a latency"):
        files.read_latency_file(tmp_path / "m.json")


def test_model_bounds_and_fractions_of_maximum_count_exactly(folder: Path) -> None:
    space = archir.loads(SMALL["depth"])
    model_of(space).write("m.json")
    (folder / "net.arch").write_text(SMALL["depth"].replace("output", f"require {SURE} <= 60us\noutput", 1))
    bounded = archir.load("net.arch")
    costs = space.cost(list(space.enumerate()), [SURE])[SURE]
    assert bounded.count() == (int((costs <= 60_000).sum()),) * 2
    half = space.where(f"{SURE} <= 0.7x")
    assert half.count() == (int((costs <= int(7 * int(costs.max()) // 10)).sum()),) * 2


def test_rates_of_operations_are_learned_from_fewer_networks_than_operations() -> None:
    space = space_of("trionet", **SPACES["trionet"].small)
    counts = counts_of_codes(space.account, space.sample_codes(240, np.random.default_rng(0)))
    assert len(counts.workloads) > 500
    per_kind = counts.costs_by_kind / np.maximum(counts.costs_by_kind.mean(0), 1e-9)
    times = 10_000 + counts.times @ per_kind @ np.random.default_rng(1).exponential(10_000, per_kind.shape[1])
    model = fit_model(counts[:30], times[:30], reference=counts[100:])
    entries = np.array([model.entries[workload.key] for workload in counts.workloads])
    assert (kendall(model.offset + counts.times[30:100] @ entries, times[30:100]) or 0) > 0.95


def test_documented_model_errors_match_benchmark_results() -> None:
    lines = (ROOT / "benchmarks/results/latency_models_cpu.txt").read_text().splitlines()
    table = [line.split() for line in lines if line.strip().startswith(("10 ", "30 ", "100 "))][:3]
    assert [row[0] for row in table] == ["10", "30", "100"]
    text = " ".join((ROOT / "docs" / "latency.md").read_text().split())
    assert f"not measured is {' / '.join(row[1] for row in table)} on average" in text
    assert f"and {' / '.join(row[4] for row in table)} of them lie in the stated 95% interval" in text


# the command


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["latency", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


def test_model_is_fitted_to_csv_measurements(folder: Path) -> None:
    (folder / "net.arch").write_text(SMALL["depth"])
    space = archir.load("net.arch")
    found, times = list(space.enumerate())[::4], truth(space)[::4]
    paths = [choice.path for choice in space.choices]
    rows = [
        ",".join([*(str(one[path]) if path in one.outcomes else "" for path in paths), f"{time / 1000}"])
        for one, time in zip(found, times, strict=True)
    ]
    (folder / "phone.csv").write_text("\n".join([",".join([*map(str, range(len(paths))), "us"]), *rows]) + "\n")
    choices = "\n".join(f'"{path}" = "{i}"' for i, path in enumerate(paths))
    (folder / "phone.toml").write_text(f'[choices]\n{choices}\n[measures]\nus = {{ column = "us", best = "min" }}\n')
    said = run("fit", "net.arch", "-o", "m.json", "--measured", "phone.csv", "--unit", "us").output
    assert f"fitted to {len(found)} networks (us of phone.csv)" in said
    assert "95% of new networks are expected within" in said
    model, other = archir.latency_model("m.json"), archir.fit_latency(space, found, times)
    assert (model.entries, model.error) == (other.entries, pytest.approx(other.error))
    facts = json.loads(
        run("fit", "net.arch", "-o", "m.json", "--measured", "phone.csv", "--unit", "us", "--json").output
    )
    assert facts["networks"] == len(found)
    assert facts["margin"] == archir.latency_model("m.json").margin()
    assert (
        "A2251" in run("fit", "net.arch", "-o", "m.json", "--measured", "phone.csv", "--measure", "ms", code=1).stderr
    )


def test_model_is_fitted_to_networks_measured_by_bench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def bench(device: str, batch: int, threads: int | None) -> Iterator[FakeBench]:
        yield FakeBench()

    monkeypatch.setattr("archir.api.measurement.open_bench", bench)
    (folder / "net.arch").write_text(SMALL["depth"].replace("output", f"require {COST} <= 60us\noutput", 1))
    assert "fitted to 12 networks (cpu, 1 thread, batch 1)" in run("fit", "net.arch", "-o", "m.json", "-n", "12").output
    space = archir.loads(SMALL["depth"])
    model = archir.latency_model("m.json")
    for one in space.enumerate():  # 100 ns, and 10 ns a node
        graph = space.specialize(one)
        assert model.estimate(graph) == pytest.approx(100 + 10 * (len(graph) - 1), abs=model.margin(0.99) + 1)


def test_options_without_effect_are_refused(folder: Path) -> None:
    (folder / "net.arch").write_text(SMALL["depth"])
    for option in ("--map", "--measure", "--unit"):
        said = run("fit", "net.arch", "-o", "m.json", option, "ms", code=2).stderr
        assert f"{option} has no effect without --measured" in said
    said = run("fit", "net.arch", "-o", "m.json", "--measured", "phone.csv", "-n", "3", code=2).stderr
    assert "-n has no effect with --measured" in said


def test_networks_are_measured_within_the_bounds_of_the_space(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def bench(device: str, batch: int, threads: int | None) -> Iterator[FakeBench]:
        yield FakeBench()

    monkeypatch.setattr("archir.api.measurement.open_bench", bench)
    bounds = f"require params <= 800\nrequire {COST} <= 60us\n"
    (folder / "net.arch").write_text(SMALL["depth"].replace("output", f"{bounds}output", 1))
    space = archir.load("net.arch")
    measured = archir.measured_latency(space, 12, where="macs >= 2000", path=folder / "m.json")
    costs = [space.unbounded.specialize(one) for one in measured.architectures]
    assert len(costs) == 12
    assert all(archir.cost(graph).params <= 800 and archir.cost(graph).macs >= 2000 for graph in costs)
    assert measured.conditions.threads == 1
    with pytest.raises(ArchError, match=r"A1501.*typo\.json"):
        archir.measured_latency(space, 12, where='latency("typo.json") <= 5ms')


@given(st.data())
@settings(deadline=None)
def test_no_term_of_a_fitted_model_is_negative(data: st.DataObject) -> None:
    space = archir.loads(SMALL[data.draw(st.sampled_from(["depth", "values", "conditional"]))])
    everything = list(space.enumerate())
    count = data.draw(st.integers(5, min(12, len(everything))))
    sampled = data.draw(st.permutations(everything))[:count]
    times = data.draw(
        st.lists(st.floats(1, 1e9), min_size=count, max_size=count).filter(lambda times: len({*times}) > 1)
    )
    model = archir.fit_latency(space, sampled, times)
    assert model.offset >= 0
    assert min(model.entries.values()) >= 0
    assert all(model.estimate(space.specialize(one)) >= 0 for one in everything[:5])


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(1, 1e9)), min_size=2, max_size=8))
@settings(deadline=None)
def test_no_constant_of_a_calibration_is_negative(pairs: list[tuple[float, float]]) -> None:
    with suppress(ArchError):  # measured latencies do not rise with the sums
        correction = validation(pairs).correction()
        assert correction.scale > 0
        assert correction.offset >= 0


def test_held_out_networks_decide_whether_a_model_is_fit_for_bounds() -> None:
    space = archir.loads(SMALL["depth"])
    everything = list(space.enumerate())[::2]
    exact = archir.fit_latency(space, everything, truth(archir.loads(SMALL["depth"]))[::2])
    assert exact.held_out is not None
    assert exact.held_out.networks == len(everything)
    assert exact.held_out.weaknesses == []
    rng = np.random.default_rng(0)
    noise = archir.fit_latency(space, everything, rng.uniform(1e3, 2e3, len(everything)))
    assert noise.held_out is not None
    assert "rank correlation" in noise.held_out.weaknesses[-1]
    few = archir.fit_latency(space, everything[:5], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert few.held_out is None
    times = [1000.0] * 9 + [2000.0]
    constant = archir.fit_latency(
        space, everything[:10], times
    ).held_out  # without the last one, nothing is left to fit
    assert constant is not None
    assert (constant.networks, constant.weaknesses != []) == (10, True)
