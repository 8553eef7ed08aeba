"""Documents in Markdown: their fenced snippets, and how these are run.

The words after a snippet's language say what it is: a file's name, under which it is written beside the others; `wrong`
for a program that must be refused; `part` for Python that is not run, and for a part of a recipe. Commands are those of
`console` snippets, after `$ `; what stands between them is what they print. A snippet of `text` right behind one of
`python` is what that prints. `...` stands for anything. A program with `plugin=MODULE` needs that plugin.
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
from tests.torch_backend import forked

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(EXAMPLES.glob("*/README.md"))]
PYTHONPATH = os.pathsep.join(str(ROOT / name) for name in ("", "backends", "grammar"))
_FENCED = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BREAK = "\f"


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language, the words after that, and its text."""

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file it is, if it is one."""
        return next((word for word in self.words if "." in word), None)

    @property
    def plugins(self) -> list[str]:
        """The plugins that it needs."""
        return [word.removeprefix("plugin=") for word in self.words if word.startswith("plugin=")]


def snippets(path: Path, language: str = "") -> list[Snippet]:
    """The snippets of a document in order, all of them or those of a language."""
    found = [
        Snippet(match[1], tuple(match[2].split()), match[3]) for match in _FENCED.finditer(path.read_text("utf-8"))
    ]
    return [snippet for snippet in found if language in ("", snippet.language)]


def unpack(path: Path, folder: Path) -> None:
    """Write the files of a document into a folder, with the examples beside them."""
    (folder / "examples").symlink_to(EXAMPLES)
    for snippet in snippets(path):
        if snippet.file is not None:
            (folder / snippet.file).parent.mkdir(exist_ok=True)
            (folder / snippet.file).write_text(snippet.text, "utf-8")
    projects = [snippet for snippet in snippets(path, "toml") if snippet.file is None and "part" not in snippet.words]
    for position, snippet in enumerate(projects):
        _install(tomllib.loads(snippet.text)["project"]["entry-points"], folder / f"document_{position}-1.0.dist-info")


def _install(groups: dict[str, dict[str, str]], folder: Path) -> None:
    """What an installer leaves of a distribution's entry points."""
    folder.mkdir()
    lines = [
        line for group, names in groups.items() for line in [f"[{group}]", *(f"{n} = {v}" for n, v in names.items())]
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines), "utf-8")


def commands(path: Path) -> Iterator[tuple[str, str]]:
    """The commands of a document, each with what it prints."""
    for snippet in snippets(path, "console"):
        for part in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def execute(command: str, shown: str) -> None:
    """Run a command in the current folder; it must succeed, and print what is shown, if anything is."""
    program, *arguments = shlex.split(command)
    assert program == "archir", f"no test runs `{command}`"
    done = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"}, catch_exceptions=False)
    wrong = "error[A" in shown or arguments[0] == "diff"
    assert done.exit_code == int(wrong), f"$ {command}\n{done.output}"
    if shown.strip():
        agree(shown, done.output if wrong else done.stdout, command)


def run_python(path: Path, folder: Path, fresh: bool) -> None:
    """Run the Python of a document as one program, and compare what each snippet prints with what is shown.

    It has an interpreter of its own if that is to be `fresh`; otherwise one where torch has been imported.
    """
    parts = [(one, two) for one, two in pairwise([*snippets(path), Snippet("", (), "")]) if one.language == "python"]
    parts = [(one, two) for one, two in parts if one.file is None and "part" not in one.words]
    program = f"\nprint({_BREAK!r})\n".join(["", *(one.text for one, _ in parts)])
    (folder / "_program.py").write_text(program, "utf-8")
    code, out, errors = alone(folder) if fresh else forked.python(folder / "_program.py")
    assert code == 0, errors
    for (one, two), printed in zip(parts, out.split(f"{_BREAK}\n")[1:], strict=True):
        if two.language == "text":
            agree(two.text, printed, one.text)


def alone(folder: Path) -> tuple[int, str, str]:
    """What becomes of the program in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "_program.py"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PYTHONPATH}"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def agree(shown: str, printed: str, what: str) -> None:
    """Assert that a text is the one shown, but for blanks at the ends of lines and empty lines."""
    wanted, found = ([line.rstrip() for line in text.splitlines() if line.strip()] for text in (shown, printed))
    lines = ("(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in wanted)
    assert re.fullmatch("".join(lines), "".join(f"{line}\n" for line in found)), (
        f"{what}\n\nis shown with\n\n{shown}\nbut prints\n\n{printed}"
    )
