"""The `archir` command group, which imports the module of a command only when the command is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from errno import EPIPE
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from archir import __version__
from archir.cli.commands import COMMAND_GROUPS, COMMANDS
from archir.cli.help_format import HelpContext
from archir.cli.output import ARGUMENTS
from archir.diagnostics.errors import ArchError, Interrupted, describe_error, fail
from archir.diagnostics.escaping import escape_unprintable

_PROGRAMS = (".arch", ".toml")
"""Suffixes of programs and recipes. Their folders are searched for the modules that `--plugin` names."""


def load_plugins(names: Sequence[str], arguments: Sequence[str]) -> None:
    """Import the plugins named by `--plugin`; they may also lie in the folders of the command's files.

    Raises ArchError (A31xx) if a plugin cannot be imported.
    """
    if names:
        from archir.plugins.loading import load_requested

        folders = [*_folders(arguments)]
        for name in names:
            load_requested(name, folders)


def plugin_fault(error: Exception) -> ArchError | None:
    """Return the error to report for an exception raised by a plugin's code, or None for other exceptions."""
    from archir.plugins.loading import plugin_error

    return plugin_error(error)


def _folders(arguments: Sequence[str]) -> Iterator[Path]:
    for argument in arguments:
        file, _, net = argument.rpartition(":")
        path = Path(file if net.isidentifier() and file.endswith(_PROGRAMS) else argument)
        if path.suffix in _PROGRAMS:
            yield path.parent


INTERNAL_ERROR_EXIT = 70
"""Exit code for internal errors of archir: EX_SOFTWARE of sysexits.h."""
TRACEBACK = "--traceback"
PLUGIN = "--plugin"
MAX_TEXT = 300
"""Maximum number of characters of the exception text in the one-line report of an internal error."""


class LazyCommands(click.Group):
    """Command group that imports the module of a command only when that command is called.

    So `check` does not pay for the imports of `train`.
    """

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the groups."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command with this name, or return None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"archir.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        command.context_class = HelpContext
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command to call; for an unknown name, suggest a similar one."""
        if args and args[0] not in COMMANDS:
            from archir.cli.usage_hints import unknown_command_message

            ctx.fail(unknown_command_message(args))
        if args and args[0] == "compare" and any(word.endswith(".toml") for word in args):
            from archir.cli.usage_hints import renamed_hint

            ctx.fail(renamed_hint("compare STUDY.toml"))
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of commands, without importing their modules, and the options after them."""
        width = max(map(len, COMMANDS))
        for group, commands in COMMAND_GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:<{width}}", text) for name, (_, text) in commands.items()])
        click.Command.format_options(self, ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn exceptions into exit codes.

        An ArchError is printed and exits with 1, an interruption that can be resumed exits with 130, and an internal
        error with 70 (INTERNAL_ERROR_EXIT).
        """
        from archir.utils.files import protect_outputs  # `--help` does without it

        as_json = "--json" in ctx.args
        try:
            try:
                load_plugins(ctx.params["plugins"], [*ctx._protected_args, *ctx.args])
                with protect_outputs() as ctx.obj:
                    return super().invoke(ctx)
            except OSError as error:
                if error.errno in (None, EPIPE):  # errors of sockets and the like; the reader of our output has gone
                    raise
                where = f"{error.filename2 or error.filename}: " if error.filename else ""
                raise fail("A1206", f"{where}{describe_error(error)}") from error
        except click.UsageError as error:
            from archir.cli.usage_hints import usage_message

            if (text := escape_unprintable(usage_message(error))) == error.format_message():
                raise
            raise click.UsageError(text, error.ctx) from None
        except ArchError as error:
            _print_diagnostics(ctx, error, as_json)
            ctx.exit(1)
        except Interrupted as stop:
            from archir.cli.output import say

            say(str(stop), err=True)
            ctx.exit(130)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params["traceback"] or (isinstance(error, OSError) and error.errno == EPIPE):
                raise
            from archir.cli.output import say

            if (fault := plugin_fault(error)) is not None:
                _print_diagnostics(ctx, fault, as_json)
                ctx.exit(1)
            say(_bug_report_line(error), err=True)
            ctx.exit(INTERNAL_ERROR_EXIT)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; --traceback and --plugin are accepted at any position."""
        ctx.meta[ARGUMENTS] = args
        end = args.index("--") if "--" in args else len(args)
        global_args: list[str] = []
        command_args: list[str] = []
        words = iter(args[:end])
        for word in words:
            if word == PLUGIN:
                name = next(words, None)
                if name is None:
                    ctx.fail(f"Option '{PLUGIN}' requires an argument.")
                global_args += [word, name]
            else:
                (global_args if word == TRACEBACK or word.startswith(f"{PLUGIN}=") else command_args).append(word)
        return super().parse_args(ctx, [*global_args, *command_args, *args[end:]])


def _print_diagnostics(ctx: click.Context, error: ArchError, as_json: bool) -> None:
    """Print the diagnostics of an error in the output format selected on the command line."""
    from archir.cli.diagnostic_formats import FORMAT, report
    from archir.cli.output import print_error

    if FORMAT in ctx.meta:
        report(error.diagnostics, ctx.meta[FORMAT])
    else:
        print_error(error, as_json)


def _bug_report_line(error: Exception) -> str:
    """Return the one-line report of an internal error, which asks the user to report a bug."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    short = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
    return f"archir failed: {short}. This is a bug: please report it, with what {TRACEBACK} prints"


EXIT_CODES = "Exit codes: 0 success, 1 errors in an input, 2 wrong usage, 70 a bug in archir, 130 interrupted."
"""Exit codes, for the help text; docs/commands.md explains them."""


@click.group(
    cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES, subcommand_metavar="COMMAND ...",
)  # fmt: skip
@click.version_option(__version__, prog_name="archir")
@click.option(TRACEBACK, is_flag=True, help="Show the Python traceback of an internal failure.")
@click.option(
    PLUGIN, "plugins", multiple=True, metavar="MODULE", help="Import a module that registers operations, ...; may be "
    "repeated.",
)  # fmt: skip
def main(traceback: bool, plugins: tuple[str, ...]) -> None:
    """Neural architecture search spaces, written as programs.

    \b
    archir new birds                 a project to start from
    archir check space.arch          FILE:NET selects one of several nets; - is standard input
    archir search recipe.toml        find an architecture and train it
    """
