"""`archir check --watch`: checks again on every change until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archir.cli import file_watcher, main

BLOCK = "block layer(x, width) {\n    return x |> conv(width) |> relu\n}\n"
NET = 'import "a.arch"\n\nnet s {\n    input image: f32[3, 8, 8]\n    output y = image |> layer(8)\n}\n'
Step = Callable[[], object]


def watch(monkeypatch: pytest.MonkeyPatch, steps: Iterator[Step], *arguments: str) -> Result:
    """What --watch says while steps are done, one at each look; after the last, Ctrl-C."""

    def sleep(seconds: float) -> None:
        assert seconds >= file_watcher.DEBOUNCE  # it never spins
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(file_watcher, "sleep", sleep)
    return CliRunner().invoke(main, ["check", "--watch", *arguments], catch_exceptions=False)


def idle() -> None:
    pass


def test_imported_files_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block, net = Path("a.arch"), Path("s.arch")
    block.write_text(BLOCK)
    net.write_text(NET)

    def steps() -> Iterator[Step]:
        yield idle
        yield lambda: block.write_text(BLOCK.replace("conv(width)", "conv(wide)"))
        yield idle
        yield block.unlink
        yield idle
        yield lambda: block.write_text(BLOCK)
        yield idle
        yield lambda: Path("others.txt").write_text("nothing to do with it")
        yield idle

    result = watch(monkeypatch, steps(), "s.arch")
    assert result.exit_code == 0
    good = "s.arch: net s: 3 nodes, 0 choices: every architecture is well-formed\nwatching 2 files; Ctrl-C ends\n"
    rounds = result.stdout.split("a.arch changed\n")
    assert len(rounds) == 4
    assert rounds[0].startswith(good)
    assert rounds[3] == good + "\n"
    assert "watching 1 file;" in rounds[2]
    assert "a.arch:2:22: error[A0201]: there is no `wide`" in result.stderr
    assert "s.arch:1:1: error[A0801]: cannot read a.arch" in result.stderr


def test_incomplete_writes_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tmp_path / "s.arch"
    whole = NET.replace('import "a.arch"\n\n', "").replace("layer", "conv")

    def steps() -> Iterator[Step]:
        yield lambda: net.write_text("")
        yield lambda: net.write_text(whole[:30])
        yield lambda: net.write_text(whole)
        yield idle

    (tmp_path / "other.arch").write_text(whole.replace("net s", "net other"))
    result = watch(monkeypatch, steps(), str(tmp_path))  # of a folder, new files are watched, too
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "s.arch changed\n" in result.stdout
    assert result.stdout.count("net other:") == 2
    assert result.stdout.count("net s: 2 nodes") == 1


@pytest.mark.parametrize("arguments", [["--fix", "."], ["--json", "."], ["--format", "github", "."], ["-"]])
def test_watch_rejects_fix_json_and_standard_input(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result = watch(monkeypatch, iter(()), *arguments)
    assert result.exit_code == 2
    assert "--watch cannot be combined with" in result.stderr
