"""Recipes that look candidates up in a table: nothing is trained, and all else is as in any search."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run
from tests.torch_backend.tried import ELASTIC, elastic

MAPPING = """
[choices]
"*" = "*"

[measures]
accuracy = { epochs = { 1 = "short", 2 = "long" } }
watts = { column = "watts", best = "min" }
"""
RECIPE = """
space = "elastic.arch"

[evaluate]
table = "../published/table.csv"

[[phase]]
name = "evolve"
strategy = "evolution"
options = { population = 4, parents = 4, tournament = 2, trials = 12 }

[[phase]]
name = "front"
strategy = "nsga2"
evaluate = { table = "../published/table.csv", measures = ["watts", "accuracy"] }
options = { population = 4, generations = 2, objectives = ["accuracy:max", "watts:min"], where = "params <= 1500" }

[[phase]]
name = "halve"
strategy = "successive_halving"
options = { population = 4, eta = 2, rungs = 2 }

[[phase]]
name = "drawn"
strategy = "random"
"""


def written(folder: Path, recipe: str = RECIPE, mapping: str = MAPPING) -> Path:
    """A recipe with its space, and a table that lies elsewhere."""
    space, rows = elastic(), []
    paths = [choice.path for choice in space.choices]
    for number, one in enumerate(space.enumerate()):
        rows.append([*(str(one.get(path, "")) for path in paths), number / 100, number / 50, 60 - number])
    for name in ("recipes", "published"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = [[*paths, "short", "long", "watts"], *rows]
    (folder / "published" / "table.csv").write_text("\n".join(",".join(map(str, line)) for line in lines))
    (folder / "published" / "table.toml").write_text(mapping)
    (folder / "recipes" / "elastic.arch").write_text(ELASTIC)
    path = folder / "recipes" / "recipe.toml"
    path.write_text(recipe)
    return path


def test_table_search_scores_equal_table_rows(tmp_path: Path) -> None:
    path = written(tmp_path)
    summary = archir.run(path, tmp_path / "run")
    table = archir.results(tmp_path / "published" / "table.csv", elastic())
    run = Run.open(tmp_path / "run")
    for phase in ("evolve", "front", "halve", "drawn"):
        trials = run.phase(phase).trials()
        assert trials
        for one in trials:
            wanted = table(elastic().architecture(one.architecture), one.budget)
            assert (one.status, dict(one.scores)) == ("done", wanted)
    assert {one.budget for one in run.phase("halve").trials()} == {0.5, 1.0}
    assert summary["measures"]["evolve"] == {
        "criterion": "accuracy",
        "measures": {"accuracy": True, "watts": False},
        "objectives": {"accuracy": True},
    }
    assert summary["measures"]["front"]["criterion"] == "watts"
    assert list(summary["measures"]["front"]["objectives"].items()) == [("accuracy", True), ("watts", False)]
    best = max(run.phase("evolve").trials(), key=lambda one: one.scores["accuracy"] or 0)
    assert summary["phases"]["evolve"]["validation_accuracy"] == best.scores["accuracy"]
    assert "splits.json" not in " ".join(run.entries)  # there were no data

    before = run.phase("evolve").trials()
    (tmp_path / "published" / "table.csv").unlink()  # the run has its own
    archir.resume(tmp_path / "run", overrides={"evolve.options.trials": "16"})
    again = Run.open(tmp_path / "run").phase("evolve").trials()
    assert len(again) == 16
    assert [one.scores for one in again[:12]] == [one.scores for one in before]
    columns = archir.trials(tmp_path / "run", "evolve")
    assert columns["scores.watts"] == [one.scores["watts"] for one in again]
    assert "watts" in (tmp_path / "run" / "report.html").read_text()


def test_rows_that_are_missing_are_failed_trials(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        RECIPE[: RECIPE.index('[[phase]]\nname = "front"')].replace("12 }", '60, scorer = { kind = "table" } }'),
    )  # all there are
    file = tmp_path / "published" / "table.csv"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("4,")))
    archir.run(path, tmp_path / "run")
    trials = Run.open(tmp_path / "run").phase("evolve").trials()
    assert {one.status for one in trials} == {"done", "failed"}
    for one in trials:
        assert (one.status == "failed") == (one.architecture["width"] == 4)
        assert one.status == "done" or "A2250" in str(one.error)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("published/table", "published/tables", "A2251"),
        ('"watts", "accuracy"]', '"volts"]', "A2251"),
        ('"accuracy:max", "watts:min"', '"accuracy:max", "volts:min"', "A2502"),
        ("population = 4, parents", 'scorer = { kind = "proxies" }, population = 4, parents', "A2502"),
        ('[evaluate]\ntable = "../published/table.csv"', "", "A2210"),
    ],
)
def test_rejects_wrong_table_or_scorer_before_scoring(before: str, after: str, code: str, tmp_path: Path) -> None:
    assert before in RECIPE
    path = written(tmp_path, RECIPE.replace(before, after))
    with pytest.raises(ArchError, match=code):
        archir.run(path, tmp_path / "run")


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE[: RECIPE.index("[[phase]]")] + '[[phase]]\nname = "alone"\nstrategy = "train"\n',
        re.sub(r"\[evaluate\].*?\n\n", "", RECIPE, flags=re.DOTALL).replace(
            "trials = 12", 'trials = 12, scorer = { kind = "table" }'
        ),
    ],
)
def test_rejects_unused_or_missing_table(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match="A2253"):
        archir.run(written(tmp_path, recipe), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_outside_of_the_space_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path)
    table = tmp_path / "published" / "table.csv"
    lines = table.read_text().splitlines()
    cells = lines[1].split(",")
    table.write_text("\n".join([*lines, ",".join(["unknown", *cells[1:]])]))
    results = archir.results(table, elastic())
    assert repr(results).endswith(f"; 1 of {len(lines):,} rows are not architectures of the space>")
    with pytest.raises(ArchError, match=f"1 of {len(lines)} rows"):
        replace(results, rows={})(elastic().sample())
    output = CliRunner().invoke(main, ["search", str(path), "--check"]).output
    assert f"table: {len(lines) - 1} architectures (1 of {len(lines)} rows are outside the space)" in output
