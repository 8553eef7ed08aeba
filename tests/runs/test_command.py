"""`archir runs` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from archir.cli import main
from archir.search.runs import Run


def said(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["runs", *arguments], catch_exceptions=False)


def test_it_lists_runs(tmp_path: Path) -> None:
    with Run.create(tmp_path / "first", "digits", {"recipe.toml": ""}, {}) as run:
        run.phase("search").record({"epoch": 6, "loss": 1.0, "validation_accuracy": 0.5, "accuracy": 0.98765})
        run.finish()
    with Run.create(tmp_path / "second", "digits", {"recipe.toml": ""}, {}):
        done = said(str(tmp_path))
    header, _, first, second = [line.split() for line in done.stdout.strip().splitlines()]
    assert header == ["run", "recipe", "phase", "epoch", "score", "state", "changed"]
    assert first[:6] == ["first", "digits", "search", "7", "98.77%", "finished"]
    assert second[:3] == ["second", "digits", "running"]
    assert done.exit_code == 0


def test_json_and_damage(tmp_path: Path) -> None:
    Run.create(tmp_path / "first", "digits", {"recipe.toml": "a"}, {}).close()
    (tmp_path / "first" / "recipe.toml").write_text("b")
    [one] = json.loads(said(str(tmp_path), "--json").stdout)
    assert (one["name"], one["state"], one["score"]) == ("first", "damaged", None)
    done = said(str(tmp_path / "first"))
    assert "damaged" in done.stdout
    assert "recipe.toml was changed after it was written: its SHA-256 differs" in done.stderr


def test_no_runs(tmp_path: Path) -> None:
    missing = said(str(tmp_path / "none"))
    assert (missing.exit_code, "A1801]: there is no folder" in missing.stderr) == (1, True)
    assert said(str(tmp_path)).stderr == f"no runs of `archir search` in {tmp_path}\n"
    assert json.loads(said(str(tmp_path), "--json").stdout) == []
