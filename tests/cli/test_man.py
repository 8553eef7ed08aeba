"""Manual pages: one for each command, with all that its help says, and nothing in them that roff would act upon."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from archir.cli import main
from archir.cli.main import _COMMANDS
from archir.cli.man import _literal_line, manual

ROOT = click.Context(main, info_name="archir")
MACROS = {".TH", ".SH", ".TP", ".PP", ".RS", ".RE", ".nf", ".fi"}


def read(roff: str) -> str:
    """The words of a page, as it is shown."""
    lines = [line for line in roff.splitlines() if line.split(" ")[0] not in MACROS - {".SH"}]
    text = re.sub(r"\\f[BR]|\\&", "", " ".join(line.removeprefix(".SH ") for line in lines))
    for sign, char in (("\\(aq", "'"), ("\\(ga", "`"), ("\\(ti", "~"), ("\\(ha", "^"), ("\\-", "-"), ("\\e", "\\")):
        text = text.replace(sign, char)
    return text


def test_every_command_has_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "man1"
    result = CliRunner().invoke(main, ["man", str(folder)], catch_exceptions=False)
    assert result.output == f"wrote {len(_COMMANDS) + 1} pages to {folder}\n"
    assert {path.name for path in folder.iterdir()} == {"archir.1", *(f"archir-{name}.1" for name in _COMMANDS)}
    assert "man -l FILE" in CliRunner().invoke(main, ["man", str(tmp_path / "elsewhere")]).output


def test_pages_have_all_that_help_says() -> None:
    pages = manual(ROOT)
    for name in _COMMANDS:
        command = main.get_command(ROOT, name)
        assert command is not None
        page = read(pages[f"archir-{name}"])
        for option in command.params:
            if isinstance(option, click.Option) and option.help:
                assert option.opts[-1] in page
                assert " ".join(option.help.replace("`", "").split()) in page.replace("`", ""), (name, option.name)
        assert f"archir {name} [OPTIONS]" in page
    assert all(f"archir-{name}(1)" in read(pages["archir"]) for name in _COMMANDS)


def test_examples_stand_as_they_are_typed() -> None:
    page = manual(ROOT)["archir-man"]
    assert ".nf\narchir man \\(ti/.local/share/man/man1\nman archir\\-check\n.fi" in page


@pytest.mark.parametrize(
    ("text", "roff"),
    [(".SH x", "\\&.SH x"), ("'br", "\\(aqbr"), ("a\\fBb", "a\\efBb"), ("--fix", "\\-\\-fix"), ("a.b", "a.b")],
)
def test_text_is_no_request(text: str, roff: str) -> None:
    assert _literal_line(text) == roff


def test_lines_are_text_or_known_requests() -> None:
    for name, page in manual(ROOT).items():
        requests = {line.split(" ")[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert requests <= MACROS, name
