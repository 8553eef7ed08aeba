"""`archir runs` and `archir compare` on the command line."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archir.cli import main
from archir.runs import Run, hashes


def said(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["runs", *arguments], catch_exceptions=False)


def compared(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", *arguments], catch_exceptions=False)


def test_runs_table_lists_phase_epoch_score_and_state(tmp_path: Path) -> None:
    with Run.create(tmp_path / "first", "digits", {"recipe.toml": ""}, {}) as run:
        run.phase("search").record({"epoch": 6, "loss": 1.0, "validation_accuracy": 0.5, "accuracy": 0.98765})
        run.finish()
    with Run.create(tmp_path / "second", "digits", {"recipe.toml": ""}, {}):
        done = said(str(tmp_path))
    header, _, first, second = [line.split() for line in done.stdout.strip().splitlines()]
    assert header == ["run", "recipe", "seed", "phase", "epoch", "score", "state", "changed"]
    assert first[:7] == ["first", "digits", "0", "search", "7", "98.77%", "finished"]
    assert second[:4] == ["second", "digits", "0", "running"]
    assert done.exit_code == 0


RECIPE = """\
space = "net.arch"
seed = 3
[data]
source = "digits"
[[phase]]
name = "search"
strategy = "darts"
[phase.training]
epochs = 2
"""


def left(folder: Path, score: float, params: int, overrides: dict[str, str]) -> None:
    """A run that came to its end."""
    inputs = {"recipe.toml": RECIPE, "overrides.json": json.dumps(overrides)}
    with Run.create(folder, "digits", inputs, {}) as run:
        run.phase("search").record({"epoch": 1, "loss": 1.0, "accuracy": score})
        run.write({"summary.json": json.dumps({"network": {"params": params, "macs": 10 * params}})})
        run.finish()


def test_runs_are_sorted_and_compared_by_score_and_settings(tmp_path: Path) -> None:
    left(tmp_path / "one", 0.5, 2000, {"search.training.epochs": "4"})
    left(tmp_path / "two", 0.75, 1000, {"data.source": '"images:cats"', "seed": "5"})
    listed = said(str(tmp_path), "--sort", "score").stdout
    assert listed.index("two") < listed.index("one")
    assert "20k" in listed
    found = json.loads(said(str(tmp_path), "--json", "--sort", "params").stdout)
    assert [(one["name"], one["seed"], one["params"], one["macs"]) for one in found] == [
        ("two", 5, 1000, 10_000), ("one", 3, 2000, 20_000),
    ]  # fmt: skip
    assert found[1]["overrides"] == {"search.training.epochs": "4"}
    told = compared(str(tmp_path / "one"), str(tmp_path / "two")).stdout
    rows = {row[0]: row[1:] for line in told.splitlines() if (row := line.split())}
    assert rows["search.training.epochs"] == ["4", "2"]
    assert rows["data.source"] == ['"digits"', '"images:cats"']
    assert rows["seed"] == ["3", "5"]
    assert rows["score"] == ["50.00%", "75.00%"]
    assert rows["params"] == ["2k", "1k"]
    assert "space" not in rows
    differences = json.loads(compared(str(tmp_path), "--json").stdout)["differences"]
    assert differences["search.training.epochs"] == ["4", "2"]


def test_runs_without_a_score_are_listed_last(tmp_path: Path) -> None:
    """Whether larger scores are better or not."""
    left(tmp_path / "one", 0.5, 2000, {})
    for name, objectives in (("two", '{"naswot": true}'), ("three", '{"loss": false}')):
        with Run.create(tmp_path / name, "digits", {"recipe.toml": RECIPE, "overrides.json": "{}"}, {}) as run:
            run.write({"phases/search/objective.json": f'{{"objectives": {objectives}}}'})
    listed = said(str(tmp_path), "--sort", "score").stdout
    assert listed.index("one") < min(listed.index("two"), listed.index("three"))


def test_runs_are_judged_by_the_first_objective_that_is_measured(tmp_path: Path) -> None:
    """Rows of epochs have no costs."""
    with Run.create(tmp_path / "one", "digits", {"recipe.toml": RECIPE, "overrides.json": "{}"}, {}) as run:
        run.phase("search").record({"epoch": 0, "validation_accuracy": 0.75})
        run.write({"phases/search/objective.json": '{"objectives": {"macs": false, "accuracy": true}}'})
        run.finish()
    (found,) = json.loads(said(str(tmp_path), "--json").stdout)
    assert (found["criterion"], found["larger"], found["validation"]) == ("accuracy", True, 0.75)


def test_untrained_runs_are_compared_by_first_objective(tmp_path: Path) -> None:
    """By their first objective, where no network was trained."""
    recipe = RECIPE.replace('"darts"', '"random"').replace("seed = 3\n", "")
    for name, seed, score in (("one", {}, 105.25), ("two", {"seed": "2"}, 107.75)):
        inputs = {"recipe.toml": recipe, "overrides.json": json.dumps(seed)}
        with Run.create(tmp_path / name, "digits", inputs, {}) as run:
            run.phase("search").record({"epoch": 0, "trials": 4, "naswot": score})
            run.write({"phases/search/objective.json": '{"objectives": {"naswot": true, "macs": false}}'})
            run.finish()
    told = compared(str(tmp_path)).stdout
    rows = {row[0]: row[1:] for line in told.splitlines() if (row := line.split())}
    assert rows["seed"] == ["0", "2"]
    assert rows["score"] == ["naswot", "105.2", "naswot", "107.8", "106.5", "+-", "1.768"]
    assert "params" not in rows
    assert said(str(tmp_path), "--sort", "score").stdout.index("two") < said(str(tmp_path)).stdout.index("two")


def test_compare_writes_page_with_mean_and_deviation_of_seeds(tmp_path: Path) -> None:
    """Three seeds: mean and deviation, a line each in every chart, and the choices in which they differ."""
    for seed, score in enumerate((0.5, 0.75, 0.7)):
        inputs = {"recipe.toml": RECIPE, "overrides.json": json.dumps({"seed": str(seed)})}
        with Run.create(tmp_path / f"s{seed}", "digits", inputs, {}) as run:
            for epoch in range(2 + seed):
                run.phase("search").record({"epoch": epoch, "loss": 1.0 - score, "accuracy": score, "seconds": 1})
            run.write({"best.json": json.dumps({"choices": {"width": 8, "op<": "skip" if seed else "conv"}})})
            run.finish()
    page = tmp_path / "page.html"
    done = compared(*(str(tmp_path / f"s{seed}") for seed in range(3)), "-o", str(page))
    text = page.read_text()
    assert done.stdout.endswith(f"wrote {page}\n")
    assert "<td>65.00% +- 13.23%</td>" in text
    charts = [json.loads(unescape(one)) for one in re.findall(r'data-chart="([^"]*)"', text)]
    assert [[*chart["series"]] for chart in charts] == [["s0", "s1", "s2"]] * 2
    assert charts[0]["epochs"] == [1, 2, 3, 4]
    assert charts[0]["series"]["s0"] == [0.5, 0.5, None, None]
    assert "1 of 2 choices are the same" in text
    assert '<th scope="row">op&lt;</th><td>conv</td><td>skip</td><td>skip</td>' in text
    once = said(str(tmp_path / "s0"), str(tmp_path / "s1" / ".." / "s0"), "--json")
    assert len(json.loads(once.stdout)) == 1, "a run that two paths lead to is one"
    alone = compared(str(tmp_path / "s0"), str(tmp_path / "s1" / ".." / "s0"))
    assert alone.exit_code == 2
    assert "found 1" in alone.output
    copy = shutil.copytree(tmp_path / "s0", tmp_path / "other" / "s0")
    compared(str(tmp_path / "s0"), str(copy), "-o", str(page))
    assert "2 runs side by side" in page.read_text()
    assert str(copy) in page.read_text()


def test_every_fraction_is_compared_in_percent(tmp_path: Path) -> None:
    for name, score in (("one", 0.25), ("two", 0.75)):
        with Run.create(tmp_path / name, "digits", {"recipe.toml": RECIPE}, {}) as run:
            for epoch in range(2):
                run.phase("search").record({"epoch": epoch, "validation_miou": score + epoch / 10, "mse": score})
    compared(str(tmp_path), "-o", str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text()
    miou, mse = (text.partition(f"<figcaption>{name}</figcaption>")[2].partition("</figure>")[0]
                 for name in ("validation_miou", "mse"))  # fmt: skip
    assert ">80%<" in miou
    assert mse
    assert "%<" not in mse


def test_settings_are_compared_with_their_default_values(tmp_path: Path) -> None:
    """What one recipe states and the other has by default is no difference."""
    recipe = RECIPE.replace('"darts"', '"evolution"').replace("[phase.training]\nepochs = 2\n", "")
    for name, overrides in (
        ("stated", {"evolve.training.epochs": "20", "evolve.options.tournament": "25", "evolve.options.trials": "7"}),
        ("default", {}),
    ):
        inputs = {"recipe.toml": recipe.replace('"search"', '"evolve"'), "overrides.json": json.dumps(overrides)}
        Run.create(tmp_path / name, "digits", inputs, {}).close()
    differences = json.loads(compared(str(tmp_path), "--json").stdout)["differences"]
    assert differences == {"evolve.options.trials": ["20000", "7"]}


def test_training_folders_are_listed_compared_and_shown(tmp_path: Path) -> None:
    for name, score in (("one", 0.5), ("two", 0.75)):
        folder = tmp_path / name
        folder.mkdir()
        history = [{"epoch": epoch, "loss": 2.0 - score, "accuracy": score} for epoch in range(2)]
        facts = {
            "accuracy": score, "criterion": "accuracy", "params": 650, "macs": 640, "data": "digits",
            "settings": {"epochs": 2, "lr": score}, "history": history,
        }  # fmt: skip
        files = {"network.json": "{}", "architecture.json": '{"choices": {"op": "conv"}}', "training.json": facts}
        for file, content in files.items():
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
        hashes.write(folder, files)
    Run.create(tmp_path / "search", "digits", {"recipe.toml": ""}, {}).close()
    listed = said(str(tmp_path), "--sort", "score").stdout
    assert listed.index("two") < listed.index("one") < listed.index("search")
    assert len([line for line in listed.splitlines() if "train" in line and "finished" in line]) == 2
    page = tmp_path / "page.html"
    told = compared(str(tmp_path / "one"), str(tmp_path / "two"), "-o", str(page)).stdout
    rows = {row[0]: row[1:] for line in told.splitlines() if (row := line.split())}
    assert (rows["lr"], rows["score"]) == (["0.5", "0.75"], ["50.00%", "75.00%"])
    assert "epochs" not in rows
    assert "<h2>Phase train</h2>" in page.read_text()
    told = compared(str(tmp_path / "one"), str(tmp_path / "search")).stdout
    rows = {row[0]: row[1:] for line in told.splitlines() if (row := line.split())}
    assert rows.keys() >= {"data.source", "epochs", "lr", "score"}
    assert not [key for key in rows if "." in key and key != "data.source"], "settings that no run states are left out"
    hashes.write(tmp_path / "two", ["network.json", "architecture.json"])
    assert re.search(r"two .*train .*interrupted", said(str(tmp_path / "two")).stdout)
    (tmp_path / "one" / "network.json").write_text("[]")
    assert "network.json was changed after training" in said(str(tmp_path)).stderr


@pytest.mark.parametrize(
    ("criterion", "name", "larger", "best"),
    [("loss", "held_out_loss", False, "low"), ("mse", "mse", False, "low"), ("r2", "r2", True, "high")],
)
def test_trainings_are_sorted_by_the_direction_of_their_criterion(
    criterion: str, name: str, larger: bool, best: str, tmp_path: Path
) -> None:
    for folder, score in ((tmp_path / "low", 0.25), (tmp_path / "high", 0.5)):
        folder.mkdir()
        facts = {name: score, "loss": 9.0, "criterion": criterion, "larger": larger}
        (folder / "training.json").write_text(json.dumps(facts))
        hashes.write(folder, ["training.json"])
    rows = json.loads(said(str(tmp_path), "--sort", "score", "--json").stdout)
    assert [row["name"] for row in rows] == [best, *({"low", "high"} - {best})]
    assert {row["score"] for row in rows} == {0.25, 0.5}


def test_damaged_run_is_listed_and_left_out_of_comparison(tmp_path: Path) -> None:
    Run.create(tmp_path / "first", "digits", {"recipe.toml": "a"}, {}).close()
    (tmp_path / "first" / "recipe.toml").write_text("b")
    [one] = json.loads(said(str(tmp_path), "--json").stdout)
    assert (one["name"], one["state"], one["score"]) == ("first", "damaged", None)
    done = said(str(tmp_path / "first"))
    assert "damaged" in done.stdout
    assert "recipe.toml was changed after it was written: its SHA-256 differs" in done.stderr
    alone = compared(str(tmp_path))
    assert alone.exit_code == 2
    assert "recipe.toml was changed after it was written" in alone.stderr
    assert "a comparison needs at least two runs; found 0" in alone.stderr


def test_missing_folder_is_error_and_empty_folder_is_reported(tmp_path: Path) -> None:
    for missing in (said(str(tmp_path / "none")), compared(str(tmp_path / "none"))):
        assert (missing.exit_code, "A1801]: there is no folder" in missing.stderr) == (1, True)
    assert said(str(tmp_path)).stderr == f"no runs of `archir search` or `archir train` in {tmp_path}\n"
    assert json.loads(said(str(tmp_path), "--json").stdout) == []


@pytest.mark.parametrize(("width", "spared"), [(60, "MACs"), (80, "recipe"), (200, "")])
def test_narrow_terminals_have_fewer_columns_and_whole_words(
    width: int, spared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    left(tmp_path / "measured", 0.28, 786, {"search.training.epochs": "60", "search.training.compile": "auto"})
    done = said(str(tmp_path))
    head, *rows = [line for line in done.stdout.splitlines() if line.strip()]
    assert "measured" in rows[-1]
    assert len(rows) == 2
    assert ("recipe" in head, "MACs" in head, "set" in head) == (not spared, spared != "MACs", not spared)
    assert done.stderr.startswith("not shown, as the terminal is too narrow: ") == bool(spared)
    assert (f"{spared}," in done.stderr or f", {spared}" in done.stderr) == bool(spared)
