"""Fuzzing of whole command lines."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from archir.api import loading
from archir.cli import main
from archir.cli.commands import COMMANDS
from tests.fuzz.harness import Case, Maker
from tests.fuzz.options import VALUES
from tests.fuzz.registry import SPACE, kind, words

QUICK = sorted(set(COMMANDS) - {"search", "train", "bench", "quantize", "export", "completion"})
ENDLESS = {"--serve", "--watch", "--port"}
"""Options with which a command runs until it is stopped."""


@kind
def commands(folder: Path) -> Maker:
    """Commands with invalid options, or with invalid values of options."""
    (folder / "tiny.arch").write_text(SPACE)
    space = loading.load(folder / "tiny.arch")
    (folder / "a.json").write_text(space.sample(0).to_json())
    files = [
        "tiny.arch",
        "tiny.arch",
        "tiny.arch",
        "tiny.arch:tiny",
        "a.json",
        "gone.arch",
        ".",
        "",
        "-",
        "tiny.arch:x",
        "x.onnx",
        "é.arch",
    ]
    odd_values = [
        "0", "1", "-1", "2", "99999999999999999999", "1e400", "inf", "nan", "", "x", "a.json", "tiny.arch", "macs", "params", "op", "act",
        "scope", "text", "json", "svg", "html", "dot", "onnx", "torch", "ir", "fold", "fold,cse", "é", "\x1b[31m", "width=3", "width=x", "width=",
        "macs <= 1K", "macs <", "digits", "naswot", "none", "9" * 5000, "out/file", ".", "cpu", "cuda", "A0101", "A9999",
    ]  # fmt: skip
    every = main.list_commands(None)  # type: ignore[arg-type]

    def make(rng: random.Random) -> Case:
        name = rng.choice(QUICK) if rng.random() < 0.9 else rng.choice(every)
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        arguments = [name, *rng.choices(files, k=rng.choice([0, 1, 1, 1, 1, 2, 3]))]
        options = [param for param in command.params if param.opts[0].startswith("-") and param.opts[0] not in ENDLESS]
        for option in rng.choices(options, k=rng.choice([0, 1, 1, 2, 3])) if options else ():
            arguments.append(rng.choice(option.opts))
            if not getattr(option, "is_flag", False):
                arguments.append(rng.choice(odd_values) if rng.random() < 0.8 else words(rng, VALUES, 3))

        def take() -> None:
            with _inside(folder), patch("archir.tools.studio.server.serve"), patch("webbrowser.open"):
                result = CliRunner().invoke(main, [*arguments, "--traceback"], input="x")
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code in (0, 1, 2), result.exit_code

        return arguments, take

    return make


class _inside:  # noqa: N801  (a context, as contextlib.chdir)
    def __init__(self, folder: Path) -> None:
        from contextlib import chdir

        self._chdir: Any = chdir(folder)

    def __enter__(self) -> None:
        self._chdir.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._chdir.__exit__(*error)
