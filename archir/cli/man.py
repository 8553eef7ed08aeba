"""`archir man`."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path

import click

from archir import __version__
from archir.cli.kinds import Place
from archir.cli.options import force_option
from archir.cli.output import say
from archir.utils.files import Outputs, write_atomic

_EXITS = {
    "0": "Success.", "1": "Something is wrong with an input.", "2": "Wrong usage.", "70": "archir itself failed.",
    "130": "Stopped, and can go on.",
}  # fmt: skip

_SIGNS = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"})


@click.command("man")
@click.argument("folder", type=Place(file_okay=False, path_type=Path))
@force_option
@click.pass_context
def man_command(ctx: click.Context, folder: Path) -> None:
    """Write manual pages to FOLDER: archir.1, and one of each command, such as archir-check.1.

    `man` finds them in a folder man1 of its path, which holds this one for most people:

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
        say("`man` looks into folders that are called man1; of others, `man -l FILE` shows a page")


def manual(root: click.Context) -> dict[str, str]:
    """The pages of a group and of its commands by name, in roff (the macros of `man`)."""
    group = root.command
    assert isinstance(group, click.Group)
    pages: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        pages[f"archir-{name}"] = _page(f"archir-{name}", context, [])
        others.append((name, _first(command)))
    whole = click.Context(group, info_name="archir")
    return {"archir": _page("archir", whole, others), **pages}


def _page(title: str, context: click.Context, commands: list[tuple[str, str]]) -> str:
    command = context.command
    words = " ".join(command.collect_usage_pieces(context))
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [option.get_help_record(context) for option in options]
    lines = [
        f'.TH {_plain(title.upper())} 1 "" "archir {__version__}" "archir"',
        ".SH NAME",
        f"{_plain(title)} \\- {_text(_first(command))}",
        ".SH SYNOPSIS",
        f"\\fB{_plain(title.replace('-', ' ', 1))}\\fR {_plain(words)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
        *_listed([record for record in records if record is not None]),
    ]
    if commands:
        lines += [".SH COMMANDS", *_listed([(f"archir {name}", text) for name, text in commands])]
    lines += [".SH EXIT STATUS", *_listed([*_EXITS.items()]), ".SH SEE ALSO"]
    lines.append(", ".join(f"\\fBarchir\\-{name}\\fR(1)" for name, _ in commands) or "\\fBarchir\\fR(1)")
    return "\n".join(lines) + "\n"


def _first(command: click.Command) -> str:
    """The first sentence of a command's help."""
    text = " ".join(cleandoc(command.help or "").split("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z`])", text, maxsplit=1)[0].removesuffix(".")


def _paragraphs(text: str) -> list[str]:
    """Help in roff; what click is told not to wrap (\\b) stands as it is."""
    lines: list[str] = []
    for part in cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            lines += [".PP", ".RS 4", ".nf", *map(_plain, part[1:].strip("\n").splitlines()), ".fi", ".RE"]
        else:
            lines += [".PP", _text(" ".join(part.split()))]
    return lines


def _listed(rows: list[tuple[str, str]]) -> list[str]:
    return [line for name, text in rows for line in (".TP", f"\\fB{_plain(name)}\\fR", _text(" ".join(text.split())))]


def _text(text: str) -> str:
    """A paragraph in roff: what stands between backquotes is bold."""
    parts = [f"\\fB{_escaped(part)}\\fR" if i % 2 else _escaped(part) for i, part in enumerate(text.split("`"))]
    return _kept("".join(parts))


def _plain(text: str) -> str:
    """A line in roff as it is."""
    return _kept(_escaped(text))


def _kept(line: str) -> str:
    """A line that is no request, whatever it begins with."""
    return f"\\&{line}" if line.startswith(".") else line


def _escaped(text: str) -> str:
    """What may be copied to a shell: roff would make typographic signs of these."""
    return text.translate(_SIGNS)
