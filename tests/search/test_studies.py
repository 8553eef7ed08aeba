"""Studies: resuming, comparisons of strategies, statistical tests, and the report page."""

from __future__ import annotations

import csv
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.cli.main import main
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.recipes.parsing import read
from archir.search.pareto import hypervolume
from archir.studies.anytime import GroundTruth, curve_points
from archir.studies.run import StudyOutcome, open_store, run_study
from archir.studies.searches import NOT_IN_TABLE, Trials
from archir.studies.statistics import holm_correction, probability_less, signed_rank_test, undecided_groups
from archir.studies.study import LoadedTask, Study, Task, load_task, read_study
from archir.utils.ranks import ranks
from tests.chromium import PROGRAM, Chromium
from tests.latencies import table_of

HOSTILE = "</script><script>alert(1)</script>\"'&<b>"
SPACE = """net space {
    input image: f32[3, 8, 8]
    x = image
    for i in 0..4 {
        x = x |> choose op { a: conv(4), b: conv(8), c: conv(12), d: identity }
    }
    output y = x
}
"""
MAPPING = """
[choices]
"op[*]" = "op_*"

[measures]
accuracy = { epochs = { 10 = "short", 40 = "long" } }
seconds = { column = "seconds", best = "min" }
"""
STUDY = """
title = "A study"
seeds = 4
budgets = [6, 20]

[[task]]
name = "one"
space = "space.arch"
table = "results.csv"
measures = ["accuracy"]

[[strategy]]
name = "random"
strategy = "random"

[[strategy]]
name = "local"
strategy = "local_search"
"""
FRONT = """
[[task]]
name = "front"
space = "space.arch"
table = "results.csv"
objectives = ["accuracy:max", "params:min"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def unpacked(folder: Path) -> Path:
    """Write the space, its table and the study into a folder, and return the folder."""
    (folder / "space.arch").write_text(SPACE)
    (folder / "results.toml").write_text(MAPPING)
    (folder / "study.toml").write_text(STUDY)
    rng = np.random.default_rng(0)
    space = archir.loads(SPACE)
    lines = ["op_0,op_1,op_2,op_3,short,long,seconds"]
    for one in space.enumerate():
        good = 0.6 + sum(0.03 * (code != 3) + 0.02 * (code == i % 3) for i, code in enumerate(one.codes))
        cells = [*one.values(), good + rng.normal() / 20, good + rng.normal() / 100, 10 + sum(one.codes)]
        lines.append(",".join(map(str, cells)))
    (folder / "results.csv").write_text("\n".join(lines) + "\n")
    return folder


def done(folder: Path, text: str | None = None, **more: Any) -> StudyOutcome:
    if text is not None:
        (folder / "study.toml").write_text(text)
    return run_into(folder, "out", **more)


def run_into(folder: Path, name: str, **more: Any) -> StudyOutcome:
    study, document = read_study(folder / "study.toml")
    assert isinstance(study, Study)
    return run_study(study, document, folder / "study.toml", folder / name, **more)


def results(folder: Path) -> Any:
    return json.loads((folder / "out" / "results.json").read_text())


# searches


def test_study_values_equal_best_found_by_strategies(folder: Path) -> None:
    found = done(folder, trials_file=folder / "trials.csv").comparison
    with (folder / "trials.csv").open() as file:
        trials = list(csv.DictReader(file))
    table = archir.results(folder / "results.csv", archir.load(folder / "space.arch"))
    space = archir.load(folder / "space.arch")
    for row in trials:
        choices = {name: cell for name, cell in row.items() if name.startswith("op")}
        assert table(space.architecture(choices))["accuracy"] == float(row["accuracy"])
    for number, name in enumerate(("random", "local")):
        for seed in range(4):
            mine = [float(one["accuracy"]) for one in trials if (one["strategy"], one["seed"]) == (name, str(seed))]
            assert len(mine) == 20
            assert found.tasks[0].values[number][seed][-1] == max(mine)
    search = archir.strategy("local_search", space, {"trials": 20}, seed=2)
    while batch := search.ask():
        search.tell(table.scored(batch))
    best = search.best()
    assert best is not None
    assert found.tasks[0].values[1][2][-1] == table(best.architecture)["accuracy"]


def test_finished_searches_are_not_repeated(folder: Path) -> None:
    counts: list[tuple[int, int]] = []

    def note(one: int, all_: int) -> None:
        counts.append((one, all_))

    done(folder, progress=note)
    whole = results(folder)
    assert counts[0] == (0, 8)
    counts.clear()
    done(folder, progress=note)
    assert counts == [(8, 8)]
    assert results(folder) == whole
    more = STUDY + '\n[[strategy]]\nname = "by chance, twice"\nstrategy = "random"\noptions = { batch = 2 }\n'
    done(folder, more, progress=note)
    assert counts[1] == (8, 12), "a strategy more: the others are not done again"
    (folder / "results.csv").write_text((folder / "results.csv").read_text().replace("0.7", "0.8"))
    counts.clear()
    done(folder, progress=note)
    assert counts[0] == (0, 12), "another table: everything is"


def test_another_net_of_the_file_is_another_space(folder: Path) -> None:
    (folder / "space.arch").write_text(SPACE + SPACE.replace("net space", "net narrow").replace("conv(8)", "conv(2)"))
    counts: list[int] = []
    for net in ("space", "narrow"):
        text = STUDY.replace('"space.arch"', f'"space.arch:{net}"').replace("seeds = 4", "seeds = 2")
        done(folder, text, progress=lambda one, _: counts.append(one))
        assert counts[0] == 0
        counts.clear()


@pytest.mark.parametrize(
    "setting",
    ["where = \"latency('cpu.json') >= 0.5x\"", "objectives = ['latency(\"cpu.json\"):min']", "require"],
)
def test_searches_depend_on_the_content_of_latency_tables(
    folder: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is relative to the current folder, or to the program that has the bound, as elsewhere."""
    monkeypatch.chdir(folder)
    if setting == "require":
        bounded = 'require latency("cpu.json") >= 1ns\n    output y'
        (folder / "space.arch").write_text(SPACE.replace("output y", bounded))
    workloads = sorted(space_workloads(archir.loads(SPACE).graph))
    text = STUDY.replace("measures =", f"{'' if setting == 'require' else setting}\nmeasures =")
    counts: list[int] = []
    for keys in (workloads, [*workloads, "another"]):
        (folder / "cpu.json").write_text(table_of(keys).model_dump_json())
        counts.clear()
        done(folder, text.replace("seeds = 4", "seeds = 2"), progress=lambda one, _: counts.append(one))
        assert counts[0] == 0
    counts.clear()
    done(folder, progress=lambda one, _: counts.append(one))
    assert counts == [4]


def test_study_in_processes_equals_serial_study(folder: Path) -> None:
    done(folder)
    here = results(folder)
    (folder / "out").rename(folder / "before")
    done(folder, executor_name="processes:2")
    assert {**results(folder), "seconds": 0, "checklist": 0} == {**here, "seconds": 0, "checklist": 0}


def test_resumed_killed_study_equals_uninterrupted_one(folder: Path) -> None:
    text = STUDY.replace("seeds = 4", "seeds = 40").replace("budgets = [6, 20]", "budgets = [6, 120]")
    (folder / "study.toml").write_text(text)
    command = [sys.executable, "-m", "archir", "study", str(folder / "study.toml"), "-o", str(folder / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun = 0
    while process.poll() is None and begun < 5:
        time.sleep(0.01)
        if (folder / "out" / "study.sqlite").exists():
            begun = kept(folder)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = kept(folder)
    assert 5 <= before < 80
    counts: list[int] = []
    done(folder, progress=lambda one, _: counts.append(one))
    assert counts[0] >= before
    stopped = results(folder)
    run_into(folder, "whole")
    whole = json.loads((folder / "whole" / "results.json").read_text())
    assert {**stopped, "seconds": 0, "checklist": 0} == {**whole, "seconds": 0, "checklist": 0}


def kept(folder: Path) -> int:
    try:
        with sqlite3.connect(f"file:{folder / 'out' / 'study.sqlite'}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM done").fetchone()[0])
    except sqlite3.OperationalError:  # it is being made
        return 0


def test_partial_trainings_count_as_fraction_of_budget(folder: Path) -> None:
    """Four trainings of a quarter cost one; what was trained for a part of the epochs is not a result."""
    text = (
        STUDY + '\n[[strategy]]\nname = "bands"\nstrategy = "hyperband"\noptions = { eta = 4, rungs = 2, rounds = 9 }\n'
    )
    found = done(folder, text, trials_file=folder / "trials.csv").comparison
    with (folder / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["strategy"], row["seed"]) == ("bands", "0")]
    assert {row["part"] for row in rows} == {"0.25", "1.0"}
    assert 18 < sum(float(row["part"]) for row in rows) <= 20
    assert max(float(row["accuracy"]) for row in rows if row["part"] == "1.0") == found.tasks[0].values[2][0][-1]
    assert np.isnan(found.tasks[0].values[2][0][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 4", "seeds = 1"), r"A1109.*`seeds` is 1"),
        (("seeds = 4", "sedes = 4"), r"A1109.*there is no `sedes`"),
        (("budgets = [6, 20]", "budgets = [1e9]"), r"A1109.*`budgets.0` is 1000000000"),
        (('strategy = "local_search"', 'strategy = "local_serach"'), r"A2504.*`local_serach`"),
        (('strategy = "local_search"', 'strategy = "local_search"\noptions = { bacth = 2 }'), r"A1109.*no `bacth`"),
        (('name = "local"', 'name = "random"'), r"A1109.*two strategies are named `random`"),
        (('measures = ["accuracy"]', 'measures = ["acuracy"]'), r"A2251.*no measure `acuracy`"),
        (('measures = ["accuracy"]', 'objectives = ["speed:max"]'), r"A2261.*`speed` is neither a measure"),
        (('measures = ["accuracy"]', 'objectives = ["accuracy:max", "macs:min"]'), r"A2261.*supports one objective"),
        (('strategy = "random"', 'strategy = "random"\noptions = { trials = 9 }'), r"A2261.*`random` sets `trials`.*"),
        (
            ('strategy = "local_search"', 'strategy = "local_search"\noptions = { objective = "params:min" }'),
            r"A2261.*`local` sets `objective`",
        ),
        (('table = "results.csv"', 'table = "nothing.csv"'), r"A2251.*there is no file"),
        (('table = "results.csv"', 'table = "result.csv"'), r"did you mean `results\.csv`"),
        (("measures =", "objectives = ['latency(\"cpu.json\"):min']\nmeasures ="), r"A1501.*cpu\.json cannot be read"),
        (("[[task]]", "[[task"), r"A2260.*not TOML"),
        (("seeds = 4", 'seeds = 4\nexecutor = "proceses"'), r"A2601.*`proceses`"),
    ],
)
def test_rejects_invalid_study(folder: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in STUDY
    with pytest.raises(ArchError, match=message) as caught:
        done(folder, STUDY.replace(*change))
    assert all(one.span is not None for one in caught.value.diagnostics)


def test_a_mistake_in_a_task_or_strategy_is_one_error_that_names_it(folder: Path) -> None:
    for old, new, wanted in (
        ("measures =", "measure =", "task `one`: there is no `measure`"),
        ('strategy = "random"', 'stratgy = "random"', "strategy `random`: there is no `stratgy`"),
    ):
        with pytest.raises(ArchError) as caught:
            done(folder, STUDY.replace(old, new))
        messages = [diagnostic.message for diagnostic in caught.value.diagnostics]
        assert wanted in messages
        assert [message for message in messages if "should have" in message] == []
        assert all(message.startswith(wanted.partition(":")[0]) for message in messages)


def test_swapped_recipe_and_study_are_rejected_with_hint(folder: Path) -> None:
    recipe = folder / "recipe.toml"
    recipe.write_text('space = "space.arch"\n[[phase]]\nname = "try"\nstrategy = "random"\n')
    with pytest.raises(
        ArchError, match=r"A2260.*is a recipe, and not a study\n.*`archir search .*recipe\.toml`"
    ) as caught:
        read_study(recipe)
    assert len(caught.value.diagnostics) == 1
    with pytest.raises(
        ArchError, match=r"A2201.*is a study, and not a recipe\n.*`archir study .*study\.toml`"
    ) as caught:
        read(folder / "study.toml")
    assert len(caught.value.diagnostics) == 1


def test_rejects_folder_that_is_no_study(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "study.toml").write_text("mine")
    with pytest.raises(ArchError, match=r"A2262.*is not the folder of a study"):
        done(folder)
    assert (folder / "out" / "study.toml").read_text() == "mine"
    (folder / "out" / "study.toml").rename(folder / "out" / "study.sqlite")
    with pytest.raises(ArchError, match=r"A2262.*damaged"):
        done(folder)


def test_errors_outside_of_the_store_are_not_called_damage(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of the caller"), open_store(tmp_path / "out"):
        raise ValueError("of the caller")


@pytest.mark.parametrize(
    ("trials", "message"), [("{", "A2262.*damaged"), ("[[1]]", "A2262.*damaged"), ("7", "A2262.*damaged")]
)
def test_undecodable_searches_are_damage(tmp_path: Path, trials: str, message: str) -> None:
    with open_store(tmp_path / "out") as store:
        store.put("key", 1.0, Trials((1,), (1.0,)))
    with sqlite3.connect(tmp_path / "out" / "study.sqlite") as connection:
        connection.execute("UPDATE done SET trials = ?", (trials,))
    connection.close()
    with open_store(tmp_path / "out") as store, pytest.raises(ArchError, match=message):
        store.get("key")


def test_a_full_disk_is_not_damage(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("no limits on the length of files")
    import resource

    with open_store(tmp_path / "out") as store:
        store.put("first", 1.0, Trials((1,), (1.0,)))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, limits[1]))
        try:
            with pytest.raises(ArchError, match=r"A0809.*cannot write .*study\.sqlite"):
                store.put("second", 1.0, Trials(tuple(range(100_000)), (1.0,) * 100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "second" not in store
        assert store.get("first") == (1.0, Trials((1,), (1.0,)))


@pytest.mark.parametrize("objectives", [["accuracy:max"], ["accuracy:max", "params:min"]])
def test_a_task_without_results_within_its_bounds_is_rejected(folder: Path, objectives: list[str]) -> None:
    """The space has architectures within the bounds, but the table has none of them, or only without the measure."""
    lines = (folder / "results.csv").read_text().splitlines()
    (folder / "results.csv").write_text("\n".join([lines[0], *(line for line in lines if line.startswith("d,d"))]))
    text = STUDY.replace("local_search", "nsga2").replace('["accuracy"]', f'["accuracy"]\nobjectives = {objectives}')
    bounded = text.replace("measures =", 'where = "params >= 0.9x"\nmeasures =')
    with pytest.raises(
        ArchError, match=r"A2261.*no architecture of results\.csv satisfies the bounds and has"
    ) as error:
        done(folder, bounded)
    assert all(one.span is not None for one in error.value.diagnostics)
    done(folder, text)
    unmeasured = [re.sub(r",[^,]*,([^,]*)$", r",nan,\1", line) for line in lines[1:]]
    (folder / "results.csv").write_text("\n".join([lines[0], *unmeasured]))
    with pytest.raises(ArchError, match=r"A2261.*no architecture"):
        done(folder, text)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_trials_out_of_bounds_or_without_measures_have_empty_cells(folder: Path, suffix: str) -> None:
    import pyarrow.parquet

    lines = (folder / "results.csv").read_text().splitlines()
    unmeasured = [re.sub(r",[^,]*,([^,]*)$", r",nan,\1", line) if i % 3 else line for i, line in enumerate(lines)]
    (folder / "results.csv").write_text("\n".join([lines[0], *unmeasured[1:]]))
    file = folder / f"trials{suffix}"
    done(folder, STUDY.replace("seeds = 4", "seeds = 2"), trials_file=file)
    if suffix == ".csv":
        with file.open() as stream:
            cells = [row["accuracy"] or None for row in csv.DictReader(stream)]
    else:
        cells = pyarrow.parquet.read_table(file)["accuracy"].to_pylist()
    assert None in cells
    values = [float(cell) for cell in cells if cell is not None]
    assert values
    assert np.isfinite(values).all()


# how good


def at(space: str, folder: Path, objectives: tuple[str, ...]) -> LoadedTask:
    return load_task(Task(name="t", space=space, table="results.csv", objectives=objectives), folder)


def test_front_quality_is_measured_against_true_front(folder: Path) -> None:
    of = at("space.arch", folder, ("accuracy:max", "params:min"))
    truth = GroundTruth(of)
    space, table = of.space, of.table
    points = [(-table(one)["accuracy"], float(space.cost([one], ["params"])["params"][0])) for one in space.enumerate()]
    undominated = {
        p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    }  # fmt: skip
    assert {tuple(row) for row in truth.front.tolist()} == undominated
    reference = tuple(max(p[i] for p in points) for i in range(2))
    everything = Trials(tuple(range(len(points))), (1.0,) * len(points))
    assert truth.quality(everything, np.array([len(points)]))[0] == pytest.approx(1.0)
    assert truth.distances(everything, np.array([len(points)]))[0] == 0.0
    few = Trials((3, 5, 77), (1.0,) * 3)
    rows = [points[i] for i in few.rows]
    share = hypervolume(rows, reference) / hypervolume(list(undominated), reference)
    assert truth.quality(few, np.array([0.5, 2, 3]))[2] == pytest.approx(share)
    assert truth.quality(few, np.array([3.0]))[0] >= truth.quality(few, np.array([2.0]))[0]
    extents = [max(p[i] for p in undominated) - min(p[i] for p in undominated) for i in range(2)]
    gaps = [
        min(sum(((p[i] - q[i]) / extents[i]) ** 2 for i in range(2)) ** 0.5 for q in rows) for p in undominated
    ]  # fmt: skip
    assert truth.distances(few, np.array([3]))[0] == pytest.approx(float(np.mean(gaps)))


def test_regrets_are_0_at_the_best_and_1_at_the_median(folder: Path) -> None:
    truth = GroundTruth(at("space.arch", folder, ("seconds:min",)))
    order = np.argsort(truth.values[:, 0])
    best, middle = int(order[0]), int(order[len(order) // 2])
    one = np.array([1.0])
    assert truth.regrets(Trials((best,), (1.0,)), one)[0] == 0
    assert truth.regrets(Trials((middle,), (1.0,)), one)[0] == pytest.approx(1, abs=0.01)
    assert truth.quality(Trials((best,), (1.0,)), one)[0] == truth.values[best, 0]
    assert np.isnan(truth.quality(Trials((NOT_IN_TABLE,), (1.0,)), one)[0])
    assert truth.regrets(Trials((best,), (0.5,)), one)[0] == np.inf


def test_curve_points_include_budgets() -> None:
    assert curve_points(30, (7.5, 30.0)).tolist() == [1, 2, 3, 4, 5, 6, 7, 7.5, 8, 9, 10, 15, 20, 30]


# tests of differences


def by_all_signs(differences: list[float]) -> float:
    """The definition: how many of all signs are as far from the middle."""
    given = np.array([one for one in differences if one])
    if not len(given):
        return 1.0
    sizes = ranks(np.abs(given))
    middle = sizes.sum() / 2
    far = abs(sizes[given > 0].sum() - middle)
    ways = [
        abs(sum(s for s, sign in zip(sizes, signs, strict=True) if sign) - middle)
        for signs in product((0, 1), repeat=len(given))
    ]
    return sum(way >= far - 1e-9 for way in ways) / len(ways)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-4, 4).map(float), max_size=9))
def test_signed_rank_test_equals_enumeration_of_signs(differences: list[float]) -> None:
    assert signed_rank_test(differences) == pytest.approx(by_all_signs(differences))


def test_signed_rank_approximation_is_close_to_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.2, 0.5):
        differences = rng.normal(shift, 1, 50).tolist()
        exact = signed_rank_test(differences)
        with monkeypatch.context() as patch:
            patch.setattr("archir.studies.statistics.MAX_EXACT", 0)
            assert signed_rank_test(differences) == pytest.approx(exact, abs=0.01)


def test_signed_rank_test_equals_textbook_example() -> None:
    """Conover 1999, Practical Nonparametric Statistics, section 5.7, example 1: twins."""
    assert signed_rank_test([2.0, -1.0, 5.0, 7.0, 3.0, 1.5, 4.0, 6.0]) == pytest.approx(2 * 2 / 2**8)


def test_holm_correction_equals_known_values() -> None:
    found = holm_correction({(0, 1): 0.01, (0, 2): 0.04, (1, 2): 0.03})
    assert found == {(0, 1): 0.03, (1, 2): 0.06, (0, 2): 0.06}


def test_undecided_groups_join_indistinguishable_neighbors() -> None:
    same = {(0, 1): 0.5, (1, 2): 0.5, (0, 2): 0.01, (0, 3): 0.0, (1, 3): 0.0, (2, 3): 0.0}
    assert undecided_groups([1.0, 2.0, 2.5, 4.0], same, 0.05) == [[0, 1], [1, 2]]


def test_probability_less_counts_ties_half() -> None:
    assert probability_less(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == (1 + 1 + 0.5 + 1) / 4
    assert probability_less(np.array([1.0]), np.array([1.0])) == 0.5


# the page and the command


def test_study_command_prints_ranks_and_writes_trials(folder: Path) -> None:
    arguments = [
        "study",
        str(folder / "study.toml"),
        "-o",
        str(folder / "out"),
        "--trials",
        str(folder / "t.parquet"),
    ]
    said = CliRunner().invoke(main, arguments, env={"COLUMNS": "120"}, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    assert re.search(r"mean ranks after 20 evaluations: .*local", said.output)
    assert "8 of 8 searches" in said.output
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(folder / "t.parquet").num_rows == 2 * 4 * 20
    as_json = CliRunner().invoke(main, [*arguments[:4], "--json"], catch_exceptions=False)
    found = json.loads(as_json.stdout)
    assert len(found["results"]) == 4
    assert CliRunner().invoke(main, [*arguments[:4], "--trials", "x.txt"]).exit_code == 2


@pytest.mark.parametrize(("measure", "is_percent"), [("miou", True), ("top_5_f1", True), ("accuracy_rank", False)])
def test_measures_that_are_fractions_are_shown_as_percentages(folder: Path, measure: str, is_percent: bool) -> None:
    (folder / "results.toml").write_text(MAPPING.replace("accuracy =", f"{measure} ="))
    outcome = done(folder, STUDY.replace('"accuracy"', f'"{measure}"').replace("seeds = 4", "seeds = 2"))
    assert outcome.comparison.tasks[0].percent == is_percent


def test_checklist_answers_depend_on_study(folder: Path) -> None:
    done(folder, STUDY.replace('strategy = "random"', 'strategy = "evolution"'))
    answers = {one["what"]: one["answer"] for one in results(folder)["checklist"]}
    assert answers["Comparison with random search"] == "no"
    assert answers["Several runs with different seeds, and their variation"] == "partly"
    assert answers["More than one task, before a claim is general"] == "no"
    done(folder, STUDY)
    answers = {one["what"]: one["answer"] for one in results(folder)["checklist"]}
    assert answers["Comparison with random search"] == "yes"
    assert answers["Baselines that are simple and well known"] == "yes"
    assert len([one for one in answers.values() if one == "for you to say"]) >= 4


def test_seeds_that_found_nothing_are_counted(folder: Path) -> None:
    """The table has so few architectures that some searches find one with their first trial, and others none."""
    lines = (folder / "results.csv").read_text().splitlines()
    (folder / "results.csv").write_text("\n".join([lines[0], *lines[1::3]]))
    text = STUDY.replace("[6, 20]", "[1, 20]").replace("seeds = 4", "seeds = 8").replace("local_search", "nsga2")
    found = done(folder, text + FRONT).comparison

    def refuse(name: str) -> None:
        raise AssertionError(f"results.json has {name}, which JSON has not")

    rows = json.loads((folder / "out" / "results.json").read_text(), parse_constant=refuse)["results"]
    first = next(row for row in rows if (row["task"], row["evaluations"], row["strategy"]) == ("one", 1, "random"))
    expected = int((~np.isnan(found.tasks[0].values[0][:, 0])).sum())
    assert 0 < expected < 4
    assert (first["seeds"], first["planned"]) == (expected, 8)
    front = next(row for row in rows if (row["task"], row["evaluations"], row["strategy"]) == ("front", 1, "random"))
    assert front["igd_median"] is None
    assert "inf" not in (folder / "out" / "results.csv").read_text()
    page = (folder / "out" / "report.html").read_text()
    assert f"<td>{expected} of 8</td>" in page
    assert f"; {expected} of 8 seeds" in page
    assert "<td>inf</td>" not in page
    said = CliRunner().invoke(main, ["study", str(folder / "study.toml"), "-o", str(folder / "out")])
    assert re.search(rf"one +1 +random +{expected} of 8", said.stdout)


def strategies_of_many(count: int) -> str:
    return "".join(
        f'\n[[strategy]]\nname = "number {i}"\nstrategy = "random"\noptions = {{ batch = {i + 1} }}\n'
        for i in range(count)
    )


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on PATH")
def test_study_page_opens_in_browser_without_errors(folder: Path, tmp_path: Path) -> None:
    base = STUDY.replace("local_search", "nsga2").replace('name = "local"', f"name = {json.dumps(HOSTILE)}")
    done(folder, base.replace('"A study"', json.dumps(HOSTILE)) + FRONT + strategies_of_many(7))
    browser = Chromium(tmp_path / "profile")
    try:
        browser.open(folder / "out" / "report.html")
        assert browser.said == []
        assert browser.run("document.title") == HOSTILE
        assert browser.run("document.querySelectorAll('section').length") == 6
        figures = browser.run("document.querySelectorAll('figure').length")
        assert figures == 2 + 2  # a task each, and a budget each
        assert browser.run(
            "[...document.querySelectorAll('figure')].every(f => f.nextElementSibling.matches('details'))"
        )
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        # one click away, and readable without colours: no two strategies have the same dashes and shape
        browser.run("document.querySelector('details summary').scrollIntoView()")
        place = "(r => [r.x + 5, r.y + 5])(document.querySelector('details summary').getBoundingClientRect())"
        point = browser.run(place)
        browser.click(*point)
        browser.until("document.querySelector('details').open")
        assert browser.run("document.querySelector('details table').offsetHeight") > 50
        keys = browser.run(
            "[...document.querySelector('.wide .keys').querySelectorAll('svg')].map(k => k.querySelector('.curve')"
            ".getAttribute('stroke-dasharray') + k.lastChild.getAttribute('d'))"
        )
        assert len(set(keys)) == len(keys) == 9
        seen = browser.run("[...document.querySelectorAll('.wide .keys')][0].textContent")
        assert HOSTILE in seen
        # each curve has its name at its end, in ink, beside its shape; no name is cut off or on another
        svg = "document.querySelector('figure > svg')"
        boxes = browser.run(
            f"[...{svg}.querySelectorAll('.name')].map(t => t.getBoundingClientRect())"
            ".map(b => [b.x, b.y, b.right, b.bottom])"
        )
        right, bottom = browser.run(f"(b => [b.right, b.bottom])({svg}.getBoundingClientRect())")
        assert len(boxes) == 9
        assert all(one[2] <= right + 1 and one[3] <= bottom for one in boxes)
        assert all(a[3] <= b[1] + 4 for a, b in pairwise(sorted(boxes, key=lambda one: one[1])))
        ink = "[...new Set([...document.querySelectorAll('.name')].map(t => getComputedStyle(t).fill))]"
        assert len(browser.run(ink)) == 1
    finally:
        browser.close()


def test_the_page_is_one_file_and_escapes_names(folder: Path) -> None:
    base = STUDY.replace('name = "local"', f"name = {json.dumps(HOSTILE)}").replace('"A study"', json.dumps(HOSTILE))
    done(folder, base)
    text = (folder / "out" / "report.html").read_text()
    assert "<script>alert" not in text
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", text)
    assert "default-src 'none'" in text
    assert text.count("<details>") >= 3
    verdicts = re.findall(r'<p class="verdict \w+">After (\d+) evaluations, <b>.*?</b> has the best mean rank', text)
    assert len(verdicts) == len({*verdicts}) >= 1


def test_studies_are_read_with_source_positions(folder: Path) -> None:
    study, document = read_study(folder / "study.toml")
    assert isinstance(study, Study)
    assert [one.name for one in study.strategy] == ["random", "local"]
    assert document.span(("strategy", 1, "name")) is not None


def test_rows_outside_of_the_space_are_counted(folder: Path) -> None:
    table = folder / "results.csv"
    table.write_text(table.read_text() + "e,a,a,a,0.5,0.5,10\n")
    (folder / "study.toml").write_text(STUDY.replace("seeds = 4", "seeds = 2"))
    result = CliRunner().invoke(main, ["study", str(folder / "study.toml"), "-o", str(folder / "out")])
    assert "task one: 1 of 257 rows are not architectures of the space" in result.stderr
