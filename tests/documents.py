"""Markdown documents: their fenced snippets, and how to run these.

Words after a snippet's language describe it: the name of the file that it is written to; `wrong` for a program that
must be refused; `part` for Python that is not run, and for a part of a recipe. A `console` snippet has commands after
`$ `, each followed by its output. A `text` snippet directly after a `python` snippet is the output of that. `...`
stands for any text. A program with `plugin=MODULE` needs the plugin.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner

from archir.cli import main
from tests.conftest import EXAMPLES, ROOT
from tests.photos import write_model, write_photos
from tests.torch_backend import forked

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(EXAMPLES.glob("*/README.md"))]
PYTHONPATH = os.pathsep.join(str(ROOT / name) for name in ("", "backends", "grammar"))
_FENCED = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BREAK = "\f"


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language, the words after the language, and its text."""

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The name of the snippet's file, None if it has no file."""
        return next((word for word in self.words if "." in word), None)

    @property
    def plugins(self) -> list[str]:
        """The plugins that the snippet needs."""
        return [word.removeprefix("plugin=") for word in self.words if word.startswith("plugin=")]


def snippets(path: Path, language: str = "") -> list[Snippet]:
    """Return the snippets of a document in order, of all languages or one."""
    all_snippets = [
        Snippet(match[1], tuple(match[2].split()), match[3]) for match in _FENCED.finditer(path.read_text("utf-8"))
    ]
    return [snippet for snippet in all_snippets if language in ("", snippet.language)]


def unpack(path: Path, folder: Path) -> None:
    """Write the files of a document into a folder, with the examples beside them, and files that a reader brings."""
    (folder / "examples").symlink_to(EXAMPLES)
    if path.name == "model.md":
        write_model(folder / "vehicles.onnx")
        write_photos(folder / "photos")
    for snippet in snippets(path):
        if snippet.file is not None:
            (folder / snippet.file).parent.mkdir(exist_ok=True)
            (folder / snippet.file).write_text(snippet.text, "utf-8")
    projects = [snippet for snippet in snippets(path, "toml") if snippet.file is None and "part" not in snippet.words]
    for position, snippet in enumerate(projects):
        _install(tomllib.loads(snippet.text)["project"]["entry-points"], folder / f"document_{position}-1.0.dist-info")


def _install(groups: dict[str, dict[str, str]], folder: Path) -> None:
    """Write the metadata of an installed distribution with some entry points."""
    folder.mkdir()
    lines = [
        line for group, names in groups.items() for line in [f"[{group}]", *(f"{n} = {v}" for n, v in names.items())]
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines), "utf-8")


def commands(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the commands of a document, each with its shown output."""
    for snippet in snippets(path, "console"):
        for part in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def execute(command: str, shown: str) -> None:
    """Run a command in the current folder, and assert that it succeeds and prints the shown output, if any is shown."""
    program, *arguments = shlex.split(command)
    assert program == "archir", f"no test runs `{command}`"
    done = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"}, catch_exceptions=False)
    wrong = "error[A" in shown or arguments[0] == "diff"
    assert done.exit_code == int(wrong), f"$ {command}\n{done.output}"
    if shown.strip():
        assert_output(shown, done.output if wrong else done.stdout, command)


def run_python(path: Path, folder: Path, fresh: bool) -> None:
    """Run the Python of a document as one program, and compare the output of each snippet with the shown one.

    With `fresh`, it runs in a new interpreter, otherwise in a fork of one that has imported torch.
    """
    pairs = pairwise([*snippets(path), Snippet("", (), "")])
    parts = [(code, after) for code, after in pairs if code.language == "python"]
    parts = [(code, after) for code, after in parts if code.file is None and "part" not in code.words]
    program = f"\nprint({_BREAK!r})\n".join(["", *(code.text for code, _ in parts)])
    (folder / "_program.py").write_text(program, "utf-8")
    status, out, errors = run_fresh(folder) if fresh else forked.python(folder / "_program.py")
    assert status == 0, errors
    for (code, after), printed in zip(parts, out.split(f"{_BREAK}\n")[1:], strict=True):
        if after.language == "text":
            assert_output(after.text, printed, code.text)


def run_fresh(folder: Path) -> tuple[int, str, str]:
    """Run the program in a new interpreter, and return its exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "_program.py"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PYTHONPATH}"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def assert_output(shown: str, printed: str, what: str) -> None:
    """Assert that a text is the shown one, apart from trailing blanks and empty lines."""
    expected_lines, printed_lines = (
        [line.rstrip() for line in text.splitlines() if line.strip()] for text in (shown, printed)
    )
    lines = (
        "(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected_lines
    )
    assert re.fullmatch("".join(lines), "".join(f"{line}\n" for line in printed_lines)), (
        f"{what}\n\nshould print\n\n{shown}\nbut prints\n\n{printed}"
    )
