"""Untrusted text is escaped before every command prints it and is never read as markup."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import archir
from archir.backends import certificates
from archir.cli import main
from archir.cli.output import table
from archir.diagnostics.errors import Diagnostic, Note, Source, Span, fail
from archir.diagnostics.escaping import escape_to_line, escape_unprintable, rich_text
from archir.runs import Run
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.conftest import ROOT

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\u200f\x7f\r\x08\x00\u2028"
"""Clears the screen, names the window, colours what follows, turns the direction of text, goes back."""
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
MARKUP = "[/red][bold]x[link=http://example.org]"
NET = """net small {
    input x: f32[2, 5, 5]
    output y = x |> conv(4) |> flatten |> linear(3)
}
"""


def harmless(text: str) -> bool:
    return not COMMANDS.search(text)


def said(arguments: Sequence[str], input: str | None = None) -> str:
    done = CliRunner().invoke(main, [*arguments], input=input)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert harmless(done.output), done.output
    return done.output


@given(st.text())
def test_unprintable_characters_are_escaped(text: str) -> None:
    shown = escape_unprintable(text)
    assert harmless(shown)
    assert escape_unprintable(shown) == shown
    assert escape_to_line(text).isprintable() or any(char.isspace() for char in text)
    assert "\n" not in escape_to_line(text)
    if text.isprintable():
        assert shown == text
    shown.encode()  # no half of a pair is left


def test_escape_sequences_of_unprintable_characters_are_readable() -> None:
    assert escape_unprintable("a\tb\n\x1b[31m\u202e\ud800 é \U0001f600") == "a\tb\n\\x1b[31m\\u202e\\ud800 é \U0001f600"
    assert escape_unprintable("wide\u3000and narrow\u202fblanks") == "wide\u3000and narrow\u202fblanks"


def test_diagnostics_escape_control_characters() -> None:
    source = Source(f"a{EVIL}.arch", f"net {EVIL} {{")
    span = Span(source, 4, 6)
    assert harmless(str(fail("A0101", EVIL, span, EVIL)))
    assert harmless(str(Diagnostic("A0101", EVIL, span, EVIL, (Note(EVIL, span), Note(EVIL)))))


def test_table_cells_are_escaped_and_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table(MARKUP, [MARKUP, EVIL], [[MARKUP, EVIL], ["[/]", "[red]"]])
    shown = capsys.readouterr().out
    assert harmless(shown)
    assert "[/red]" in shown
    assert "[/]" in shown
    out = StringIO()
    Console(file=out, force_terminal=True, width=200).print(rich_text(f"[bold]{EVIL}"))
    assert harmless(out.getvalue())


def test_cli_prints_only_through_output_module() -> None:
    """Commands print through `archir.cli.output` alone."""
    for path in (ROOT / "archir" / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and path.name != "output.py":
                called = ast.unparse(node.func)
                assert called not in {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}, (
                    path
                )


def test_commands_escape_file_names_labels_and_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "\x1b[31m\u202e.arch"
    Path(name).write_text(NET)
    Path("wrong.arch").write_text(f"net x {{  # {EVIL}\n    input {EVIL} # \x1b[31m\n}}\n")
    Path("label.arch").write_text(NET.replace("conv(4)", 'conv(choose("\x1b[31m", "\u202e"))'))
    assert "\\x1b[31m\\u202e.arch" in said(["check", name])
    for command in ("check", "count", "sample", "cost", "show", "fmt", "train", "compile"):
        said([command, name, *(["-o", "out"] if command == "train" else [])])
        for file in ("wrong.arch", "label.arch"):
            said([command, file])
    said(["check", "\x1b[31m"])
    said(["check", "wrong.arch", "-p", "\x1b[31m=1"])
    said(["\x1b[31m"])
    said(["check", "--\x1b[31m"])
    said(["explain", "\x1b[31m"])
    said(["fmt", "--check", name])
    said(["diff", name, "\x1b[31m", "{}"])
    said(["search", "\x1b[31m.toml"])
    said(["export", "\x1b[31m", "-o", "x.onnx"])
    said(["quantize", "\x1b[31m.onnx", "-o", "\x1b[31m"])
    said(["bench", "\x1b[31m.onnx"])
    said(["runs", "\x1b[31m"])


def test_formatted_text_is_raw_in_pipes_but_escaped_on_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except on a terminal, where a file is no better than a message."""
    monkeypatch.chdir(tmp_path)
    evil = NET.replace("net small {", "net small {  # \x1b[31m \u202e")
    Path("net.arch").write_text(evil.replace("    output", "  output"))
    piped = CliRunner().invoke(main, ["fmt", "--diff", "net.arch"])
    assert "\x1b[31m" in piped.output
    assert CliRunner().invoke(main, ["fmt", "-"], input=evil).output == evil
    monkeypatch.setattr("archir.cli.output.is_terminal", lambda: True)
    assert "\\x1b[31m \\u202e" in said(["fmt", "--diff", "net.arch"])
    assert "\\x1b[31m" in said(["fmt", "-"], input=evil)


def test_show_and_verify_escape_model_and_certificate_metadata(tmp_path: Path) -> None:
    graph = archir.loads(NET).graph
    module = TORCH.lower(graph).eval()
    path = tmp_path / "net.onnx"
    ONNX.write(graph, path, TORCH.arrays(module), reference=TORCH.runner(module), certified=True)
    model = onnx.load(path)
    for key, value in (("recipe", EVIL), (EVIL, EVIL), ("markup", MARKUP), ("origin", "a\nnet.onnx: as certified")):
        model.metadata_props.add(key=key, value=value.replace("\x00", ""))
    model.graph.name = EVIL
    path.write_bytes(model.SerializeToString())
    content = json.loads(certificates.certificate_path(path).read_text())
    content.pop("sha256")
    content["files"] = {path.name: certificates.file_facts(path)}
    content["model"]["metadata"] |= {"recipe": EVIL, EVIL: EVIL, "markup": MARKUP, "net": "a\nfalse: line"}
    content["versions"]["archir"] = EVIL
    certificates.write(path, content)
    shown = said(["show", str(path)])
    assert "\\x1b[2J" in shown
    shown = said(["verify", str(path)])
    assert "\nfalse: line" not in shown
    assert MARKUP in shown
    content["files"] = {f"{EVIL.replace(chr(0), '')}.onnx": certificates.file_facts(path)}
    certificates.write(path, content)
    assert "A0917" in said(["verify", str(path)])


@pytest.mark.parametrize("title", [EVIL, MARKUP, "[/red]", "\ud800", "a\nb"])
def test_runs_command_escapes_titles_and_file_names(title: str, tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", title, {}, {}) as run:
        run.write({"\x1b[31m": ""})
        run.finish()
    with Run.create(tmp_path / "whole", "other", {}, {}):
        pass
    shown = said(["runs", str(tmp_path)])
    assert "run" in shown
    assert "whole" in shown
    (tmp_path / "run" / "\x1b[31m").unlink()
    assert "\\x1b[31m" in said(["runs", str(tmp_path)])
