"""Hints of usage errors: renamed commands and options, other tools' names of commands, misspelled names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from archir.cli.commands import COMMANDS
from archir.diagnostics.hints import closest_name

RENAMED = {
    "eval": ("print", "; for accuracy see what `archir train` and `archir quantize` report"),
    "compare STUDY.toml": ("study STUDY.toml", ", and `compare RUN RUN` compares runs"),
    "runs --compare": ("compare", ""),
    "--limit": ("--max-work", ", in units of work (about a microsecond each)"),
    "--use": ("--min-budget-fraction", ""),
}
"""Renamed commands and options: maps each former name to the current name and the end of the hint.

Former names are listed for one release. An entry for an option without a command applies to every command that has
the option's current name.
"""
SYNONYMS = {
    "lint": "check --lint", "fix": "check --fix", "validate": "check", "parse": "check",
    "format": "fmt", "init": "new", "create": "new", "view": "show", "draw": "show", "plot": "show",
    "visualize": "show", "summary": "cost", "profile": "cost", "flops": "cost --cost flops", "macs": "cost",
    "params": "cost", "random": "sample", "run": "search", "nas": "search", "resume": "search --resume",
    "fit": "train", "finetune": "train --weights", "list": "runs", "report": "runs", "serve": "runs --serve",
    "dashboard": "runs --serve", "convert": "import", "load": "import", "prune": "shrink",
    "compress": "shrink", "distill": "shrink", "build": "compile", "onnx": "export", "deploy": "export",
    "save": "export", "int8": "quantize", "benchmark": "bench", "latency": "bench", "time": "bench",
    "test": "verify", "info": "doctor", "version": "doctor", "edit": "studio", "playground": "studio",
    "server": "lsp", "agent": "mcp", "schema": "grammar --to recipe-schema", "man": "explain",
}  # fmt: skip
"""Words of other tools for what a command of archir does."""
_COMMAND_OF_SUFFIX = {".arch": "check", ".toml": "search", ".onnx": "show"}
"""Command that is suggested if a file stands in place of a command."""


def unknown_command_message(arguments: Sequence[str]) -> str:
    """Return the error message for a command line whose first word is no command."""
    name = arguments[0]
    hint = _unknown_command_hint(name, arguments[1:])
    return f"there is no command '{name}'{f'; {hint}' if hint else ''}"


def _unknown_command_hint(name: str, arguments: Sequence[str]) -> str | None:
    if name in RENAMED:
        return renamed_hint(name)
    if name == "help":
        return " ".join(["write `archir", *(word for word in arguments[:1] if word in COMMANDS), "--help`"])
    if (command := _COMMAND_OF_SUFFIX.get(Path(name).suffix)) is not None:
        return f"name a command first: `archir {command} {name}`"
    match = closest_name(name, [*COMMANDS, *SYNONYMS], 0.6)
    return match and f"did you mean `{SYNONYMS.get(match, match)}`?"


def renamed_hint(former: str) -> str:
    """Return the hint for a former name of a command or an option."""
    current, end = RENAMED[former]
    return f"`{former}` is `{current}` now{end}"


def _renamed_option_hint(command: click.Command, option: str) -> str | None:
    """Return the hint for a former name of a command's option, or None for other names."""
    if (former := f"{command.name} {option}") in RENAMED:
        return renamed_hint(former)
    current, _ = RENAMED.get(option, ("", ""))
    return renamed_hint(option) if any(current in param.opts for param in command.params) else None


def usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error in plain words; if a value is not allowed, suggest a similar allowed one."""
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        hint = _renamed_option_hint(error.ctx.command, error.option_name)
        return text if hint is None else f"{error.message.removesuffix('.')}; {hint}"
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    value = re.match(r"'(.*)' is not one of", error.message, re.DOTALL) if isinstance(kind, click.Choice) else None
    if value is None:
        return text
    from archir.utils.settings import suggest_setting

    assert isinstance(kind, click.Choice)
    hint = suggest_setting(value[1], [str(value_choice) for value_choice in kind.choices])
    return text if hint is None else f"{text.removesuffix('.')}; {hint}"
