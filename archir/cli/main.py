"""The `archir` command group, which imports the module of a command only when the command is called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from errno import EPIPE
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from archir import __version__
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

_COMMANDS = {
    "new": ("new", "Create a project: a space, a recipe, data, a test and a README, ready to run."),
    "check": ("check", "Check that every architecture of a file is valid, and report errors."),
    "fmt": ("fmt", "Format .arch files, or list those that are not formatted."),
    "lsp": ("lsp", "Run the language server for editors: diagnostics, hover, completion, renames, fixes."),
    "studio": ("studio", "Edit a space in the browser, with errors, picture, counts and costs."),
    "mcp": ("mcp", "Run an MCP server for agents that write spaces: check, fix, count, cost, sample."),
    "grammar": ("grammar", "Write the language's grammar, for constrained decoding with language models."),
    "show": ("show", "Show the graph of a net, as text or as a picture."),
    "print": ("printing", "Print the value of an expression inside a net, for all combinations of choices."),
    "count": ("count_sample", "Count the architectures of a space exactly."),
    "sample": ("count_sample", "Sample architectures of a space uniformly."),
    "diff": ("diff", "Compare two architectures, or two spaces."),
    "optimize": ("optimize", "Find the best architecture within cost bounds, with a proof of optimality."),
    "cost": ("cost", "Show parameters and multiply-accumulates of a network or a space."),
    "import": ("importing", "Convert a torch module or an ONNX model to an .arch program with its weights."),
    "open": ("open_net", "Turn a network into a search space: numbers in its program become choices."),
    "bench": ("bench", "Benchmark networks side by side: latency, throughput, memory."),
    "latency": ("latency", "Predict the latency of every architecture of a space, with a known error."),
    "compile": ("compile", "Compile a network to standalone PyTorch code, a torch package or ONNX."),
    "search": ("search", "Run an architecture search from a recipe: train, derive, retrain, export."),
    "specialize": ("specialize", "Derive a network for each of several budgets from one trained supernet."),
    "scores": ("scores", "Compute additive scores from trials, logits, a supernet, costs or proxies."),
    "shrink": ("shrink", "Shrink a trained network to a budget, reusing its weights."),
    "train": ("train", "Train one network on a data set."),
    "export": ("export", "Export a trained network as a verified ONNX model, or for PyTorch."),
    "quantize": ("quantize", "Quantize an ONNX model to int8 and report the error of each layer."),
    "verify": ("verify", "Verify that a model file matches its certificate."),
    "study": ("study", "Compare search strategies on tabular benchmarks, over many seeds."),
    "runs": ("runs_list", "List runs, with progress, scores and an integrity check."),
    "compare": ("compare", "Compare runs: the settings in which they differ, and their results."),
    "explain": ("explain", "Explain a diagnostic code, an operation, a library, a block or a keyword."),
    "doctor": ("doctor", "Report versions, devices, plugins and installation problems."),
    "completion": ("completion", "Print the shell completion script."),
}
"""Module and one-line help of each command, by name."""
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


class LazyCommands(click.Group):
    """Command group that imports the module of a command only when that command is called.

    So `check` does not pay for the imports of `train`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order in which they are typically used."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command with this name, or return None if there is none."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"archir.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command to call; for an unknown name, suggest a similar one."""
        if args and args[0] not in _COMMANDS:
            from archir.diagnostics.hints import suggest

            hint = renamed_hint(args[0]) if args[0] in RENAMED else suggest(args[0], _COMMANDS)
            if args[0] == "help":
                hint = " ".join(["write `archir", *(name for name in args[1:2] if name in _COMMANDS), "--help`"])
            ctx.fail(f"there is no command '{args[0]}'{f'; {hint}' if hint else ''}")
        if args and args[0] == "compare" and any(word.endswith(".toml") for word in args):
            ctx.fail(renamed_hint("compare STUDY.toml"))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

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
            if (text := escape_unprintable(_usage_message(error))) == error.format_message():
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


def _usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error in plain words; if a value is not allowed, suggest a similar allowed one."""
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        hint = _renamed_option_hint(error.ctx.command, error.option_name)
        return text if hint is None else f"{error.message.removesuffix('.')}; {hint}"
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    if isinstance(kind, click.IntRange | click.FloatRange):
        return text.removesuffix(" range.") + "." * text.endswith(" range.")
    value = re.match(r"'(.*)' is not one of", error.message, re.DOTALL) if isinstance(kind, click.Choice) else None
    if value is None:
        return text
    from archir.utils.settings import suggest_setting

    assert isinstance(kind, click.Choice)
    hint = suggest_setting(value[1], [str(value_choice) for value_choice in kind.choices])
    return text if hint is None else f"{text.removesuffix('.')}; {hint}"


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


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="archir")
@click.option(
    TRACEBACK, is_flag=True, help="Show the full Python traceback of an internal failure. Accepted at any position."
)
@click.option(
    PLUGIN, "plugins", multiple=True, metavar="MODULE",
    help="Import a module that registers operations, strategies and the like (docs/plugins.md). May be repeated; "
    "accepted at any position.",
)  # fmt: skip
def main(traceback: bool, plugins: tuple[str, ...]) -> None:
    """Define, check, count, sample, train and export neural architecture search spaces written as programs.

    FILE is an .arch file; FILE:NET selects one of several nets, and `-` reads standard input.
    Exit codes: 0 success, 1 an input has errors, 2 wrong usage, 70 internal failure of archir, 130 interrupted (can be
    resumed).
    """
