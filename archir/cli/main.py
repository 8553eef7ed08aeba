"""The group of commands."""

from __future__ import annotations

from errno import EPIPE
from importlib import import_module
from typing import Any

import click

from archir import __version__
from archir.errors import ArchError, Interrupted, fail, suggest
from archir.visible import visible

_COMMANDS = {
    "check": ("check", "Prove every architecture of a file well-formed, or say what is wrong."),
    "fmt": ("fmt", "Lay out files canonically, or say which are not."),
    "show": ("show", "Show the graph of a net: as text, or as a picture."),
    "count": ("spaces", "Count the architectures of a space, exactly."),
    "sample": ("spaces", "Draw architectures of a space, uniformly."),
    "diff": ("diff", "Compare two architectures, or two spaces."),
    "cost": ("cost", "Parameters and multiply-accumulates of a network."),
    "bench": ("bench", "Measure networks side by side; time the operations of a space."),
    "compile": ("compile", "Lower a network: to standalone torch code, or to ONNX."),
    "search": ("search", "Search a space as a recipe says: train, derive, retrain, export."),
    "train": ("train", "Train one network on labelled images."),
    "export": ("export", "Write a trained network as a verified ONNX model, or for torch."),
    "quantize": ("quantize", "Write an ONNX model in int8, and say what that costs, layer by layer."),
    "verify": ("verify", "Compare a model with its certificate."),
    "runs": ("list_runs", "List runs: how far each came, and whether it is whole."),
    "explain": ("explain", "Explain a diagnostic's code."),
    "doctor": ("doctor", "Report versions, devices and installation traps."),
    "completion": ("completion", "Print the script that completes commands in a shell."),
}
"""Each command's module, and its help in the list of commands."""


class Commands(click.Group):
    """Commands that are imported when they are called, so that `check` does not wait for what `train` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which they are used."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"archir.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that is called; a near name is suggested for an unknown one."""
        if args and args[0] not in _COMMANDS:
            hint = suggest(args[0], _COMMANDS)
            ctx.fail(f"there is no command '{args[0]}'{f'; {hint}' if hint else ''}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its ArchError is printed, and exits with 1; one that was stopped and can go on, with 130."""
        as_json = "--json" in ctx.args
        try:
            try:
                return super().invoke(ctx)
            except OSError as error:
                if error.errno in (None, EPIPE):  # of sockets and the like; whoever read what was printed has gone
                    raise
                where = f"{error.filename2 or error.filename}: " if error.filename else ""
                raise fail("A1206", f"{where}{error.strerror}") from error
        except click.UsageError as error:
            if (text := visible(error.format_message())) == error.format_message():
                raise
            raise click.UsageError(text, error.ctx) from None
        except ArchError as error:
            from archir.cli.output import complain

            complain(error, as_json)
            ctx.exit(1)
        except Interrupted as stop:
            from archir.cli.output import say

            say(f"{stop}; go on with --resume", err=True)
            ctx.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="archir")
def main() -> None:
    """Search spaces of neural architectures as programs: check, count, sample, train, export.

    FILE is an .arch file; FILE:NET picks one net of several, `-` reads standard input.
    Exit codes: 0 success, 1 something is wrong with an input, 2 wrong usage, 130 stopped, and can go on.
    """
