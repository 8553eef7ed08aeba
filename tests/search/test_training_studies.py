"""Studies of trainings: what is run and what is not run again, statistics of arms, and mistakes in their files."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from archir.cli.main import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run, Trial
from archir.studies.statistics import paired_t_test
from archir.studies.study import read_study
from archir.studies.training_page import training_report
from archir.studies.training_results import MeasuredRun, compare_arms, measured_run
from archir.studies.training_runs import TrainingWorkload
from archir.studies.trainings import TrainingStudy, parse_measure, plan_runs
from archir.utils.ranks import kendall
from archir.utils.student import t_probability, t_quantile
from tests.chromium import PROGRAM, Chromium

SPACE = """net space {
    input image: f32[1, 8, 8]
    x = image
    for i in 0..2 {
        x = x |> choose op { wide: conv(8), narrow: conv(4), skip: identity }
    }
    output y = x |> global_avg_pool |> linear(10)
}
"""
RECIPE = """
space = "net.arch"
threads = 1

[data]
source = "digits"
limit = 200

[[phase]]
name = "random"
strategy = "spos"
training = { epochs = 1, batch = 32 }

[[phase]]
name = "inherited"
strategy = "random"
start = { weights = "random" }
options = { trials = 4 }

[[phase]]
name = "train"
strategy = "train"
start = { architecture = "inherited" }
training = { epochs = 2, batch = 32 }
"""
STUDY = """
title = "What the learning rate is worth"
recipe = "recipe.toml"
seeds = 3
measured = ["train.accuracy", "tau(inherited.accuracy, inherited.loss)"]
baseline = "slow"

[arms.slow]

[arms.fast]
"train.weights.lr" = 0.5

[smoke]
"train.training.epochs" = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = unpacked(tmp_path_factory.mktemp("finished"))
    study(folder)
    return folder


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the finished study in `out`."""
    return Path(shutil.copytree(finished_once, tmp_path / "finished"))


def unpacked(folder: Path) -> Path:
    """Write the space, the recipe and the study into a folder, and return the folder."""
    (folder / "net.arch").write_text(SPACE)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "study.toml").write_text(STUDY)
    return folder


def study(folder: Path, *options: str, text: str | None = None, code: int = 0, out: str = "out") -> Result:
    if text is not None:
        (folder / "study.toml").write_text(text)
    arguments = ["study", str(folder / "study.toml"), "-o", str(folder / out), *options]
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def results(folder: Path, out: str = "out") -> Any:
    return json.loads((folder / out / "results.json").read_text())


def without_times(data: Any) -> Any:
    """The results without the times, which are not reproducible."""
    return {
        **data,
        "results": [{**row, "seconds": None} for row in data["results"]],
        "runs": [{**run, "seconds": None} for run in data["runs"]],
    }


def changed_times(folder: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*/manifest.json")}


def test_every_arm_is_a_run_with_every_seed(finished: Path) -> None:
    said = study(finished, "--table").stdout
    names = [f"{arm}-seed{seed}" for seed in range(3) for arm in ("slow", "fast")]
    assert [run["name"] for run in results(finished)["runs"]] == names
    for run in results(finished)["runs"]:
        stored = Run.open(finished / "out" / run["name"])
        assert stored.finished
        assert stored.phase("train").rows()[-1]["accuracy"] == run["values"]["train.accuracy"]
        trials = stored.phase("inherited").trials()
        pairs = [(trial.scores["accuracy"], trial.scores["loss"]) for trial in trials]
        scipy_stats = pytest.importorskip("scipy.stats")
        tau = scipy_stats.kendalltau(*zip(*pairs, strict=True)).statistic
        assert run["values"]["tau(inherited.accuracy, inherited.loss)"] == pytest.approx(tau)
    assert "3 of 3" in said
    listed = CliRunner().invoke(main, ["runs", str(finished / "out"), "--json"]).stdout
    assert len(json.loads(listed)) == 6
    page = (finished / "out" / "report.html").read_text()
    assert '<section id="result"><h2>Result</h2><p class="verdict ' in page  # the answer comes first
    assert page.count('class="band') == 2
    assert "What the learning rate is worth" in page
    arms = page.partition('<section id="arms">')[2].partition("</section>")[0]
    assert "slow (baseline)" in arms
    assert "train.weights.lr = " in arms


def test_differences_are_paired_by_seed(finished: Path) -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    found = results(finished)
    values = {
        arm: np.array([run["values"]["train.accuracy"] for run in found["runs"] if run["arm"] == arm])
        for arm in ("slow", "fast")
    }
    slow, fast = found["results"][:2]
    assert slow["difference"] is None
    for row, column in ((slow, values["slow"]), (fast, values["fast"])):
        assert row["mean"] == pytest.approx(column.mean())
        assert row["standard_error"] == pytest.approx(scipy_stats.sem(column))
    test = scipy_stats.ttest_rel(values["fast"], values["slow"])
    interval = test.confidence_interval(0.95)
    assert fast["difference"] == pytest.approx((values["fast"] - values["slow"]).mean())
    assert (fast["low"], fast["high"]) == pytest.approx((interval.low, interval.high))
    assert fast["p_after_holm"] == pytest.approx(test.pvalue)
    with (finished / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[1]["difference"]) == fast["difference"]


def test_arms_and_seeds_added_later_run_alone(folder: Path) -> None:
    study(folder, text=STUDY.replace("seeds = 3", "seeds = 1"))
    before = changed_times(folder)
    added = (
        STUDY.replace("seeds = 3", "seeds = [0, 7]") + '\n[arms.faster.train]\nweights = { kind = "sgd", lr = 1.0 }\n'
    )
    study(folder, text=added)
    after = changed_times(folder)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"slow-seed7", "fast-seed7", "faster-seed0", "faster-seed7"}
    study(folder)
    assert changed_times(folder) == after


def test_runs_that_a_search_wrote_are_accepted(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY.replace("seeds = 3", "seeds = 1"))
    run = ["search", str(folder / "recipe.toml"), "-o", str(folder / "out" / "fast-seed0")]
    assert CliRunner().invoke(main, [*run, "--set", "train.weights.lr=0.50"]).exit_code == 0
    table = study(folder, "--table")
    assert "1 of 2 runs are finished" in table.stdout
    assert not (folder / "out" / "slow-seed0").exists()
    before = changed_times(folder)
    study(folder)
    assert changed_times(folder)["fast-seed0"] == before["fast-seed0"]
    (row,) = (row for row in results(folder)["results"][:2] if row["arm"] == "fast")
    assert (row["pairs"], row["low"]) == (1, None)


def test_seeds_that_only_one_arm_has_finished_are_left_out_and_counted(finished: Path) -> None:
    shutil.rmtree(finished / "out" / "slow-seed1")
    said = study(finished, "--table").stdout
    assert "; seeds left out, as only one arm has finished them: 1" in said
    assert "5 of 6 runs are finished" in said
    fast = results(finished)["results"][1]
    assert (fast["runs"], fast["pairs"], fast["left_out"]) == (3, 2, 1)


def test_two_processes_find_the_same(finished: Path) -> None:
    study(finished, "--executor", "processes:2", out="two")
    assert without_times(results(finished, "two")) == without_times(results(finished))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_stopped_study_ends_as_one_that_was_not_stopped(
    folder: Path, finished_once: Path, number: signal.Signals
) -> None:
    arguments = ["-m", "archir", "study", str(folder / "study.toml"), "-o", str(folder / "out")]
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (folder / "out" / "fast-seed0" / "phases" / "random").exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "the study was stopped; resume it with `archir study " in said
    states = [run["state"] for run in json.loads(study(folder, "--table", "--json").stdout)["runs"]]
    assert states[0] == "finished"
    assert states[-1] == "not begun"
    study(folder)
    assert without_times(results(folder)) == without_times(results(finished_once))


def test_two_commands_share_a_folder(folder: Path) -> None:
    arguments = ["-m", "archir", "study", str(folder / "study.toml"), "-o", str(folder / "out")]
    commands = [subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [command.communicate()[1] for command in commands]
    assert [command.returncode for command in commands] == [0, 0], said
    assert results(folder)["finished"] == 6


def test_runs_of_another_process_are_left_to_it(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY.replace("seeds = 3", "seeds = 1"))
    overrides = {"train.weights.lr": "0.5", "seed": "0"}
    inputs = {"recipe.toml": RECIPE, "overrides.json": json.dumps(overrides), "space/net.arch": SPACE}
    with Run.create(folder / "out" / "fast-seed0", "busy", inputs, {}):
        said = study(folder)
        work = TrainingWorkload(folder / "recipe.toml", folder / "out", None, True)
        assert work.prepare()(("fast-seed0", overrides)) == {}
    assert "another process is running `fast-seed0`" in said.stderr
    assert "1 of 2 runs are finished" in said.stdout


def test_smoke_runs_every_arm_once_in_short(folder: Path) -> None:
    said = study(folder, "--smoke").stdout
    assert "these values do not compare the arms" in said
    assert "undecided" not in said
    assert sorted(path.name for path in (folder / "out").iterdir() if path.is_dir()) == ["fast-seed0", "slow-seed0"]
    assert len(Run.open(folder / "out" / "fast-seed0").phase("train").rows()) == 1
    said = study(folder, code=1).stderr
    assert "A2265" in said
    assert "repeat the options of the earlier runs" in said
    assert "`train.training.epochs` is 1, not 2" in said


def test_an_arm_that_changed_is_refused(folder: Path) -> None:
    text = STUDY.replace("seeds = 3", "seeds = 1")
    study(folder, text=text)
    said = study(folder, text=text.replace('lr" = 0.5', 'lr" = 0.25'), code=1).stderr
    assert "fast-seed0 was run with other settings: `train.weights.lr` is 0.5, not 0.25" in said
    assert "study.toml:" in said
    (folder / "net.arch").write_text(SPACE.replace("conv(8)", "conv(6)"))
    assert "was run with another version of net.arch" in study(folder, text=text, code=1).stderr


def test_settings_of_all_arms_give_way_to_those_of_an_arm(folder: Path) -> None:
    options = ["--set", "train.weights.lr=0.05", "--set", "data.limit=150", "--check", "--json"]
    assert [*json.loads(study(folder, *options).stdout)["arms"]] == ["slow", "fast"]
    study(folder, *options[:4], text=STUDY.replace("seeds = 3", "seeds = 1"))
    rates = {}
    for arm in ("slow", "fast"):
        overrides = json.loads(Run.open(folder / "out" / f"{arm}-seed0").content("overrides.json"))
        rates[arm] = overrides["train.weights.lr"]
        assert overrides["data.limit"] == "150"
    assert rates == {"slow": "0.05", "fast": "0.5"}


def test_seeds_are_not_set_on_the_command_line(folder: Path) -> None:
    said = study(folder, "--set", "seed=7", "--check", code=1).stderr
    assert "error[A1109]: the overrides of all arms set `seed`" in said
    assert "name the seeds in `seeds` of the study" in said


def test_a_table_of_nothing_leaves_an_empty_folder_usable(folder: Path) -> None:
    (folder / "out").mkdir()
    assert "0 of 6 runs are finished" in study(folder, "--table").stdout
    study(folder, "--table")
    assert (folder / "out" / "study.toml").read_text() == STUDY


def recorded(folder: Path, rows: Sequence[dict[str, float]] = (), trials: Sequence[Trial] = ()) -> Run:
    """A run with these epochs of phase `train`, and these trials of phase `inherited`."""
    with Run.create(folder / "recorded", "recorded", {}, {}) as run:
        for epoch, row in enumerate(rows):
            run.phase("train").record({"epoch": epoch, **row})
        for trial in trials:
            run.phase("inherited").put_trial(trial)
    return Run.open(folder / "recorded")


def measure(folder: Path, run: Run, text: str) -> MeasuredRun:
    """What is measured of a run."""
    parsed, document = read_study(folder / "study.toml")
    assert isinstance(parsed, TrainingStudy)
    planned = plan_runs(parsed, document, folder / "recipe.toml", {}, smoke=False)
    measure = parse_measure(text)
    assert measure is not None
    return measured_run(planned[0], "finished", run, [measure])


def test_the_last_recorded_value_is_measured_if_it_is_finite(folder: Path) -> None:
    rows = [{"f1": 0.5, "loss": 1.0}, {"f1": math.nan, "loss": 2.0}, {"f1": 0.25, "loss": math.nan}, {"miou": 1.0}]
    run = recorded(folder, rows)
    found = measure(folder, run, "train.f1")
    assert found.values == {"train.f1": 0.25}
    assert found.curves == {"train.f1": {1: 0.5, 3: 0.25}}
    with pytest.raises(ArchError, match=r"A2266.*`loss` of phase `train` in .* is no finite number after epoch 3"):
        measure(folder, run, "train.loss")
    with pytest.raises(ArchError, match=r"A2266.*has no `recall`"):
        measure(folder, run, "train.recall")


def test_rank_correlations_are_of_trials_at_the_largest_budget(folder: Path) -> None:
    tried = [
        (0, 1 / 3, 0.9, 1.0), (1, 1 / 3, 0.8, 2.0), (2, 1 / 3, 0.7, 3.0), (0, 1.0, 0.1, 1.0), (1, 1.0, 0.2, 2.0),
        (2, 1.0, 0.3, 3.0), (3, 1 / 3, 0.9, 0.5), (0, 1 / 3, 0.9, 1.0), (4, 1.0, 0.4, math.nan),
    ]  # fmt: skip
    trials = [
        Trial(i, str(op), {"op": op}, "done", {"accuracy": accuracy, "size": size}, budget=budget)
        for i, (op, budget, accuracy, size) in enumerate(tried)
    ]
    measured = "tau(inherited.accuracy, inherited.size)"
    assert measure(folder, recorded(folder, trials=trials), measured).values == {measured: 1.0}


@pytest.mark.parametrize(("seeds", "advice"), [(3, "set <code>seeds = 12</code>"), ((100, 200, 300), "add 9 seeds to")])
def test_more_seeds_include_those_there_are(seeds: int | tuple[int, ...], advice: str) -> None:
    arms: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    compared = TrainingStudy(recipe="r.toml", seeds=seeds, measured="p.loss", arms=arms)
    runs = [
        MeasuredRun(arm, seed, "finished", {"p.loss": value})
        for arm, values in (("a", (1.0, 2.0, 3.0)), ("b", (2.0, 1.0, 3.5)))
        for seed, value in zip(compared.all_seeds, values, strict=True)
    ]
    assert advice in training_report(compared, compare_arms(compared, runs), "")


def test_a_run_that_fails_leaves_the_others(folder: Path) -> None:
    added = '\n[arms.broken]\n"train.weights" = { lr = 1000.0, momentum = 0.99 }\n"train.training.epochs" = 30\n'
    said = study(folder, text=STUDY.replace("seeds = 3", "seeds = 1") + added)
    assert "run that failed: broken-seed0: error[A1107]: train: the loss became" in said.stderr
    assert "2 of 3 runs are finished" in said.stdout
    assert [run["state"] for run in results(folder)["runs"]] == ["finished", "finished", "interrupted"]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('"train.weights.lr" = 0.5', '"train.weight.lr" = 0.5', "phase `train`: there is no `weight`"),
        ('"train.weights.lr" = 0.5', '"trian.weights.lr" = 0.5', "there is no `trian`"),
        ('"train.weights.lr" = 0.5', "inherited.options.trails = 3", "phase `inherited`: there is no `trails`"),
        ('"train.weights.lr" = 0.5', "seed = 3", "arm `fast`: the study sets `seed`"),
        ('"recipe.toml"', '"nothing.toml"', "cannot read the recipe"),
        ("seeds = 3", "seeds = 0", "`seeds` is 0"),
        ("seeds = 3", "seeds = []", "`seeds`"),
        ("[arms.fast]", '[arms."../fast"]', "`../fast` cannot name an arm"),
        ('baseline = "slow"', 'baseline = "low"', "`baseline`: `low` is none of the arms `slow` and `fast`"),
        ('"train.accuracy"', '"trian.accuracy"', "has no phase `trian`"),
        ('"train.accuracy"', '"accuracy"', "write PHASE.METRIC or tau(PHASE.SCORE, PHASE.SCORE), not `accuracy`"),
        ("measured =", "measures =", "`measured` is missing"),
    ],
)
def test_a_mistake_is_an_error_in_the_study_file(folder: Path, old: str, new: str, wanted: str) -> None:
    assert old in STUDY
    said = study(folder, "--check", text=STUDY.replace(old, new), code=1).stderr
    assert wanted in said
    assert re.search(r"study\.toml:\d+:\d+: error", said)
    assert "--set" not in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("measured", "wanted"),
    [
        ("train.f1", "metrics of random: loss, validation_accuracy"),
        ("tau(inherited.accuracy, inherited.f1)", "scores of its trials: `accuracy` and `loss`"),
        ("tau(inherited.accuracy, train.accuracy)", "the phase tries no architectures"),
    ],
)
def test_an_unknown_metric_ends_with_a_list_of_the_metrics(folder: Path, measured: str, wanted: str) -> None:
    text = STUDY.replace("seeds = 3", "seeds = 1").replace('"train.accuracy"', f'"{measured}"')
    said = study(folder, text=text, code=1).stderr
    assert "study.toml:5:1: error[A2266]" in said
    assert wanted in said
    study(folder, text=STUDY.replace("seeds = 3", "seeds = 1"))


def test_options_of_the_other_kind_of_study_are_refused(folder: Path) -> None:
    assert "--trials is for studies of strategies" in study(folder, "--trials", "a.csv", code=2).stderr
    assert "leave out --smoke" in study(folder, "--table", "--smoke", code=2).stderr
    tables = '[[task]]\nname = "a"\nspace = "a"\ntable = "a"\n[[strategy]]\nname = "a"\nstrategy = "random"\n'
    assert "--smoke is for studies of trainings" in study(folder, "--smoke", text=tables, code=2).stderr


def test_a_folder_of_something_else_is_left_alone(folder: Path) -> None:
    run = ["search", str(folder / "recipe.toml"), "-o", str(folder / "out")]
    assert CliRunner().invoke(main, run).exit_code == 0
    before = (folder / "out" / "report.html").read_bytes()
    assert "A2262" in study(folder, code=1).stderr
    assert (folder / "out" / "report.html").read_bytes() == before


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
def test_the_page_in_a_browser(finished: Path, tmp_path: Path) -> None:
    browser = Chromium(tmp_path / "profile")
    try:
        browser.open(finished / "out" / "report.html")
        assert browser.run("document.querySelectorAll('svg .band').length") == 2
        assert browser.run("document.querySelectorAll('section').length") == 6
        browser.picture(tmp_path / "page.png", 1200, 1600)
    finally:
        browser.close()


# statistics


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 201])
def test_students_distribution_is_that_of_scipy(freedom: int) -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.3, 1.0, 4.5, 60.0):
        expected = 1 - 2 * scipy_stats.t.sf(t, freedom)
        assert t_probability(t, freedom) == pytest.approx(expected, abs=1e-12)
    for level in (0.5, 0.95, 0.999):
        assert t_quantile(level, freedom) == pytest.approx(scipy_stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


def test_equal_differences_have_an_interval_of_one_number() -> None:
    assert paired_t_test([0.0, 0.0]) == (0.0, 0.0, 1.0)
    assert paired_t_test([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.0)


_VALUES = st.floats(-1e300, 1e300) | st.integers(-3, 3).map(float)


@given(st.lists(st.tuples(_VALUES, _VALUES), min_size=2, max_size=12))
def test_kendalls_tau_counts_pairs(pairs: Sequence[tuple[float, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    signs = [((a > c) - (a < c), (b > d) - (b < d)) for (a, b), (c, d) in combinations(pairs, 2)]
    untied = sum(abs(first) for first, _ in signs) * sum(abs(second) for _, second in signs)
    expected = sum(first * second for first, second in signs) / untied**0.5 if untied else None
    assert kendall(x, y) == (None if expected is None else pytest.approx(expected))


def test_kendalls_tau_of_many_values_needs_little_memory() -> None:
    x, y = np.random.default_rng(0).integers(0, 700, (2, 3000)).astype(float)
    signs = [np.sign(np.subtract.outer(each, each)) for each in (x, y)]
    expected = (signs[0] * signs[1]).sum() / np.sqrt((signs[0] ** 2).sum() * (signs[1] ** 2).sum())
    tracemalloc.start()
    try:
        assert kendall(x, y) == expected
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5e6
