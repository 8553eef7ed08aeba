"""Command `archir man`: write manual pages."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path

import click

from archir import __version__
from archir.cli.options import force_option
from archir.cli.output import say
from archir.cli.param_types import PathParam
from archir.utils.files import Outputs, write_atomic

_EXIT_CODES = {
    "0": "Success.", "1": "An input has errors.", "2": "Wrong usage.", "70": "Internal failure of archir.",
    "130": "Interrupted; can be resumed.",
}  # fmt: skip
"""Exit codes and their meanings."""

_ROFF_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"})
"""Escapes of characters that roff would replace by typographic ones."""


@click.command("man")
@click.argument("folder", type=PathParam(file_okay=False, path_type=Path))
@force_option
@click.pass_context
def man_command(ctx: click.Context, folder: Path) -> None:
    """Write manual pages to FOLDER: archir.1 and one page per command, such as archir-check.1.

    `man` looks for pages in folders named man1 on its search path. On most systems that includes:

    \b
    archir man ~/.local/share/man/man1
    man archir-check
    """
    pages = {folder / f"{name}.1": text for name, text in manual(ctx.find_root()).items()}
    if (outputs := ctx.find_object(Outputs)) is not None:
        for file in pages:
            outputs.add(file)
    for file, text in pages.items():
        write_atomic(file, text.encode())
    say(f"wrote {len(pages)} pages to {folder}")
    if folder.name != "man1":
        say("`man` only searches folders named man1; open a page in another folder with `man -l FILE`")


def manual(root: click.Context) -> dict[str, str]:
    """Return the manual pages of a command group and its commands in roff (`man` macros), by page name."""
    group = root.command
    assert isinstance(group, click.Group)
    pages: dict[str, str] = {}
    summaries: list[tuple[str, str]] = []
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        pages[f"archir-{name}"] = _page(f"archir-{name}", context, [])
        summaries.append((name, _first_sentence(command)))
    group_context = click.Context(group, info_name="archir")
    return {"archir": _page("archir", group_context, summaries), **pages}


def _page(title: str, context: click.Context, commands: list[tuple[str, str]]) -> str:
    """Return one manual page in roff."""
    command = context.command
    words = " ".join(command.collect_usage_pieces(context))
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [option.get_help_record(context) for option in options]
    lines = [
        f'.TH {_literal_line(title.upper())} 1 "" "archir {__version__}" "archir"',
        ".SH NAME",
        f"{_literal_line(title)} \\- {_paragraph(_first_sentence(command))}",
        ".SH SYNOPSIS",
        f"\\fB{_literal_line(title.replace('-', ' ', 1))}\\fR {_literal_line(words)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
        *_definition_list([record for record in records if record is not None]),
    ]
    if commands:
        lines += [".SH COMMANDS", *_definition_list([(f"archir {name}", text) for name, text in commands])]
    lines += [".SH EXIT STATUS", *_definition_list([*_EXIT_CODES.items()]), ".SH SEE ALSO"]
    lines.append(", ".join(f"\\fBarchir\\-{name}\\fR(1)" for name, _ in commands) or "\\fBarchir\\fR(1)")
    return "\n".join(lines) + "\n"


def _first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    text = " ".join(cleandoc(command.help or "").split("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z`])", text, maxsplit=1)[0].removesuffix(".")


def _paragraphs(text: str) -> list[str]:
    """Convert help text to roff lines; paragraphs that click does not wrap (\\b) keep their line breaks."""
    lines: list[str] = []
    for part in cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            lines += [".PP", ".RS 4", ".nf", *map(_literal_line, part[1:].strip("\n").splitlines()), ".fi", ".RE"]
        else:
            lines += [".PP", _paragraph(" ".join(part.split()))]
    return lines


def _definition_list(rows: list[tuple[str, str]]) -> list[str]:
    """Return a roff list of terms and their descriptions."""
    return [
        line
        for name, text in rows
        for line in (".TP", f"\\fB{_literal_line(name)}\\fR", _paragraph(" ".join(text.split())))
    ]


def _paragraph(text: str) -> str:
    """Convert a paragraph to roff, with text between backquotes in bold."""
    parts = [f"\\fB{_escape(part)}\\fR" if i % 2 else _escape(part) for i, part in enumerate(text.split("`"))]
    return _no_request("".join(parts))


def _literal_line(text: str) -> str:
    """Convert a line to roff literally."""
    return _no_request(_escape(text))


def _no_request(line: str) -> str:
    """Protect a line that starts with a dot: roff would read it as a request."""
    return f"\\&{line}" if line.startswith(".") else line


def _escape(text: str) -> str:
    """Escape characters that roff would replace by typographic ones, so that text can be copied to a shell."""
    return text.translate(_ROFF_ESCAPES)
