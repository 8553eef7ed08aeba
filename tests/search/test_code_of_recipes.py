"""Python named by recipes: `--check` runs none of it, and only modules that the user allowed are used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.data import python_data
from archir.data.sources import read
from archir.diagnostics.errors import ArchError
from archir.plugins import loading
from tests.plugins import forgotten

SPACE = "net n {\n    input image: f32[1, 8, 8]\n    output y = image |> flatten |> linear(2)\n}\n"
CODE = 'from pathlib import Path\nPath("ran").touch()\n\ndef give(*given):\n    Path("ran").touch()\n'
PHASE = '[[phase]]\nname = "a"\nstrategy = "train"\ntraining = { epochs = 1 }\n'
DIGITS = '[data]\nsource = "digits"\nlimit = 40\n'
NAMED = {
    "a plugin": ('plugins = ["theirs"]\n' + DIGITS + PHASE, "theirs"),
    "data": ('[data]\nsource = "theirs:give"\n' + PHASE, "theirs"),
    "data of a phase": (DIGITS + PHASE + 'data = { source = "theirs:give" }\n', "theirs"),
    "data that a phase changes": ('[data]\nsource = "theirs:give"\n' + PHASE + "data = { limit = 40 }\n", "theirs"),
    "an objective": (DIGITS + PHASE + 'objective = { kind = "theirs:give" }\n', "theirs"),
    "another objective": (DIGITS + PHASE + 'also = [{ kind = "theirs:give", weight = 1.0 }]\n', "theirs"),
    "a fork": ('[data]\nsource = "os:fork"\n' + PHASE, "os"),
    "an exit": ('[data]\nsource = "builtins:exit"\n' + PHASE, "builtins"),
    "a wait": ('[data]\nsource = "builtins:input"\n' + PHASE, "builtins"),
}  # fmt: skip
TRIES = DIGITS + '[[phase]]\nname = "a"\nstrategy = "random"\noptions = { trials = 1, %s }\n'
OTHERS = {
    "a strategy": DIGITS + PHASE.replace('"train"', '"theirs:give"'),
    "an augmentation": DIGITS + PHASE + 'augment = { kind = "theirs:give" }\n',
    "a teacher": DIGITS
    + PHASE
    + 'also = [{ kind = "distillation", teacher = "theirs:give", weights = "theirs.py" }]\n',
    "weights": DIGITS + PHASE + 'start = { weights = "theirs:give" }\n',
    "an executor": TRIES % 'executor = "theirs:give"',
    "a proxy": TRIES % 'scorer = { kind = "proxies", proxies = ["theirs:give"] }',
    "a scorer": TRIES % 'scorer = { kind = "theirs:give" }',
    "an aim": TRIES % 'maximize = "theirs:give"',
}
"""Settings that name no Python, whatever is written there."""


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with forgotten(tmp_path):
        yield


def recipe(folder: Path, text: str) -> str:
    (folder / "n.arch").write_text(SPACE)
    (folder / "theirs.py").write_text(CODE)
    (folder / "r.toml").write_text(f'space = "n.arch"\nexport = false\n{text}')
    return str(folder / "r.toml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["search", *arguments])


@pytest.mark.parametrize("what", NAMED)
def test_a_check_runs_nothing_that_a_recipe_names(what: str, tmp_path: Path) -> None:
    text, module = NAMED[what]
    path = recipe(tmp_path, text)
    done = run(path, "--check")
    assert done.exit_code == 0, done.output
    assert f"not checked: parts that need `{module}`" in done.output
    assert f"--plugin {module} imports them" in done.output
    assert "valid as far as it was checked" in done.output
    assert not (tmp_path / "ran").exists()
    phases = json.loads(run(path, "--check", "--json").stdout)["phases"]
    assert phases["a"]["not_looked_at"] == [module]


@pytest.mark.parametrize("what", OTHERS)
def test_other_settings_cannot_name_python_code(what: str, tmp_path: Path) -> None:
    path = recipe(tmp_path, OTHERS[what])
    for more in (["--check"], ["--check", "--trust-code"], ["-o", str(tmp_path / "run")]):
        done = run(path, *more)
        assert done.exit_code == 1, done.output
        assert "error[A" in done.output
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("allowed", ["--plugin", "--trust-code"])
def test_check_runs_allowed_modules(allowed: str, tmp_path: Path) -> None:
    path = recipe(tmp_path, '[data]\nsource = "theirs:give"\n' + PHASE)
    done = run(path, "--check", allowed, *(["theirs"] if allowed == "--plugin" else []))
    assert done.exit_code == 1
    assert "error[A1115]: `theirs:give` is a NoneType: neither arrays, nor a dataset" in done.output
    assert (tmp_path / "ran").exists()


GIVES = {
    "os:fork": "`os:fork` is a int", "builtins:exit": "raised SystemExit", "os:kill": "raised TypeError",
    "os:nothing": "raised AttributeError", "os:getcwd": "`os:getcwd` is a str",
}  # fmt: skip


@pytest.mark.parametrize("name", GIVES)
def test_a_call_that_gives_no_data_is_a_diagnostic(name: str) -> None:
    archir.plugin(name.partition(":")[0])
    with pytest.raises(ArchError, match=f"A1115.*{GIVES[name]}"):
        read(name, [])


def test_a_call_that_does_not_end_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_data, "MAX_SECONDS", 0.05)
    archir.plugin("signal")
    with pytest.raises(ArchError, match=r"A1115.*`signal:pause` gave no data in 0.05 seconds"):
        read("signal:pause", [])


def test_standard_library_modules_are_not_allowed() -> None:
    assert "shutil" in sys.modules
    with pytest.raises(ArchError, match=r"A1115.*was not imported"):
        read("shutil:get_archive_formats", [])
    assert not loading.is_allowed("shutil")


@pytest.mark.parametrize("source", ["theirs:give", "nowhere:give"])
def test_train_imports_modules_named_by_caller(source: str, tmp_path: Path) -> None:
    """Data and objectives of `archir.train` and `archir.quantize`, which no file names."""
    recipe(tmp_path, "")
    network = archir.load(tmp_path / "n.arch").graph
    said = "A1115.*`theirs:give` is a NoneType" if source == "theirs:give" else "A3101.*there is no plugin `nowhere`"
    with pytest.raises(ArchError, match=said):
        archir.train(network, data=source)
    with pytest.raises(ArchError, match=r"A1901.*is not an objective|A3101.*there is no plugin `nowhere`"):
        archir.train(network, settings={"objective": {"kind": source}})
