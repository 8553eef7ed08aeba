"""`archir new`: created projects run, including every command in their README."""

from __future__ import annotations

import importlib
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.backends.speed.measurements import Speeds
from archir.cli import main
from archir.cli.new import TEMPLATES
from archir_onnx.quantization.speed import Speedup
from tests.plugins import forgotten

quantizing = importlib.import_module("archir_onnx.quantization.quantize")
NAMES = sorted(one.name for one in TEMPLATES.iterdir())
ONCE = ("--set", "supernet.training.epochs=1", "--set", "search.options.trials=2", "--set", "retrain.training.epochs=1")
FEW = {"search": (*ONCE, "--set", "search.options.population=2", "--set", "search.options.parents=2")}
FEW["shrink"] = ("--epochs", "1", "--trials", "2")
"""Options beside those of the README: two trials, one epoch."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("archir.api.shrinking.bench", lambda *_, **__: Speeds((), (), {}))  # takes seconds
    monkeypatch.setattr(quantizing, "compare_speed", lambda *_: [Speedup(2.0, 1.0, 1, 1)])  # as well
    with forgotten(tmp_path):
        yield tmp_path
    for name in ("data", "model"):  # known by paths below the folder that was the current one
        sys.modules.pop(name, None)


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, (arguments, done.output)
    return done.output


def commands(readme: Path) -> list[list[str]]:
    """What the README says is to be done."""
    text = readme.read_text().partition("```sh\n")[2].partition("```")[0]
    return [shlex.split(line, comments=True) for line in text.splitlines()]


@pytest.mark.parametrize("template", NAMES)
def test_every_command_of_the_readme_works(template: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check, count, train an epoch, search two trials, export, verify, and the project's own tests."""
    run("new", "birds", "--template", template)
    monkeypatch.chdir(folder / "birds")
    done = []
    for command in commands(Path("README.md")):
        if command == ["pytest"]:
            sys.path.insert(0, str(folder / "birds"))  # `forgotten` takes it away
            tests = {name: one for name, one in runpy.run_path("test_space.py").items() if name.startswith("test_")}
            assert len(tests) == 3
            for test in tests.values():
                test()
            continue
        assert command[0] == "archir"
        run(*command[1:], *FEW.get(command[1], ()))
        done.append(command[1])
    wanted = {"check", "count", "train", "export", "verify"} | {"shrink" if template == "import" else "search"}
    assert wanted <= {*done}
    assert Path("model.onnx").exists()


def test_import_template_recipe_searches_the_imported_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("new", "small", "--template", "import")
    monkeypatch.chdir(folder / "small")
    for command in commands(Path("README.md"))[:2]:
        run(*command[1:])
    assert "retrain" in run("search", "recipe.toml", "-o", "runs/first", *FEW["search"])


@pytest.mark.soak
@pytest.mark.parametrize("template", ["image", "tokens"])
def test_pytest_finds_the_tests_of_a_project(template: str, folder: Path) -> None:
    run("new", "birds", "--template", template)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder / "birds", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("name", ["", "9lives", "a b", "-x", "../..", "a\nb", "x" * 65, "__NAME__.", "naïve"])
def test_rejects_invalid_project_names(name: str, folder: Path) -> None:
    said = CliRunner().invoke(main, ["new", "--", name])
    assert said.exit_code == 2, said.output
    assert not list(folder.iterdir())


def test_new_project_overwrites_nothing_and_leaves_no_rest_on_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "birds").mkdir()
    (folder / "birds" / "mine.txt").write_text("mine")
    assert "already exists" in run("new", "birds", code=2)
    (folder / "gone").symlink_to("nowhere")
    assert "already exists" in run("new", "gone", code=2)
    assert "there is no folder" in run("new", "far/birds", code=2)
    monkeypatch.setattr(Path, "rename", broken)
    run("new", "other", code=1)
    assert sorted(one.name for one in folder.iterdir()) == ["birds", "gone"]
    assert [one.name for one in (folder / "birds").iterdir()] == ["mine.txt"]


def broken(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_project_name_appears_in_readme_and_recipe(folder: Path) -> None:
    run("new", str(folder / "Quick-birds_2"))
    project = folder / "Quick-birds_2"
    assert (project / "README.md").read_text().startswith("# Quick-birds_2\n")
    assert 'title = "Quick-birds_2"' in (project / "recipe.toml").read_text()
    assert not any("__NAME__" in one.read_text() for one in project.iterdir())
