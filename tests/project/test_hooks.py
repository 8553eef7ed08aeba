"""The repository's pre-commit hooks, run the way pre-commit runs them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from archir.cli import main
from tests.conftest import ROOT

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
SOUND = "net a {\n    input x: f32[3]\n    output y = x |> linear(3)\n}\n"


def run(name: str, *files: str) -> Result:
    hook = HOOKS[name]
    archir, *arguments = shlex.split(hook["entry"])
    assert (archir, hook["language"]) == ("archir", "system")
    matching = [file for file in files if re.search(hook["files"], file)] if hook.get("pass_filenames", True) else []
    return CliRunner().invoke(main, [*arguments, *hook.get("args", []), *matching], catch_exceptions=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an environment in it, which is nobody's business."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.arch").write_text("this is not a program")
    (tmp_path / "a.arch").write_text(SOUND)
    return tmp_path


def test_fmt_hook_formats_files(project: Path) -> None:
    (project / "a.arch").write_text(SOUND.replace("x |> linear", "x|>linear"))
    result = run("archir-fmt", "a.arch", "notes.md")
    assert (result.exit_code, result.output) == (0, "a.arch: reformatted\n")  # pre-commit fails where files changed
    assert (project / "a.arch").read_text() == SOUND
    assert run("archir-fmt", "a.arch").output == ""


def test_check_hook_checks_importers_of_changed_file(project: Path) -> None:
    assert run("archir-check", "a.arch").exit_code == 0
    (project / "b.arch").write_text('import "c.arch"\n\nnet b {\n    input x: f32[3]\n    output y = x |> f\n}\n')
    (project / "c.arch").write_text("block f(x) {\n    return x |> conv(3)\n}\n")
    result = run("archir-check", "c.arch")
    assert result.exit_code == 1
    assert "c.arch:2:17: error[A0402]" in result.stderr
    assert "called at b.arch:5:21" in result.stderr
