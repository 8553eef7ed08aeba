"""The group of commands."""

from __future__ import annotations

import re
from errno import EPIPE
from importlib import import_module
from typing import Any

import click

from archir import __version__
from archir.cli.output import ARGUMENTS
from archir.cli.plugins import fault_of_plugin, load_plugins
from archir.diagnostics.errors import ArchError, Interrupted, fail, suggest
from archir.diagnostics.visible import visible
from archir.utils.files import protected

FAULT = 70
"""The exit code of a failure that is no fault of the user's: that of sysexits.h for errors in software."""
TRACEBACK = "--traceback"
PLUGIN = "--plugin"
MOST_TEXT = 300

_COMMANDS = {
    "new": ("new", "Begin a project: a space, a recipe, data, a test and a README, ready to run."),
    "check": ("check", "Prove every architecture of a file well-formed, or say what is wrong."),
    "fmt": ("fmt", "Lay out files canonically, or say which are not."),
    "lsp": ("lsp", "Serve editors: diagnostics while typing, hover, completion, renames, fixes."),
    "studio": ("studio", "A page to write a space on: problems, picture, counts, costs."),
    "mcp": ("mcp", "Serve programs that write spaces: check, fix, count, cost, sample, by MCP."),
    "grammar": ("grammar", "Write the grammar for programs that hold a language model to it."),
    "show": ("show", "Show the graph of a net: as text, or as a picture."),
    "eval": ("evaluation", "Print what an expression comes to in a net, whichever choices are made."),
    "count": ("count_sample", "Count the architectures of a space, exactly."),
    "sample": ("count_sample", "Draw architectures of a space, uniformly."),
    "diff": ("diff", "Compare two architectures, or two spaces."),
    "optimize": ("optimize", "Find the best architecture within bounds, with a proof."),
    "cost": ("cost", "Parameters and multiply-accumulates of a network."),
    "import": ("importing", "Write a torch module as a program, with its weights."),
    "open": ("open_net", "Make a space of a network: numbers of its program become choices."),
    "bench": ("bench", "Measure networks side by side; time the operations of a space."),
    "compile": ("compile", "Lower a network: to standalone torch code, or to ONNX."),
    "search": ("search", "Search a space as a recipe says: train, derive, retrain, export."),
    "specialize": ("specialize", "A network for each of several budgets, out of one trained supernet."),
    "scores": ("scores", "A table of scores that add up, of trials, logits, a supernet, costs or proxies."),
    "shrink": ("shrink", "Make a trained network smaller, and keep what it knows."),
    "train": ("train", "Train one network on labelled images."),
    "export": ("export", "Write a trained network as a verified ONNX model, or for torch."),
    "quantize": ("quantize", "Write an ONNX model in int8, and say what that costs, layer by layer."),
    "verify": ("verify", "Check a model against its certificate."),
    "compare": ("compare", "Compare strategies on tables of results, over many seeds."),
    "runs": ("runs_list", "List runs: how far each came, and whether it is whole."),
    "explain": ("explain", "Explain a code, an operation, a library or a block of one."),
    "doctor": ("doctor", "Report versions, devices and installation traps."),
    "man": ("man", "Write manual pages, for `man archir-check` and the others."),
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
                load_plugins(ctx.params["plugins"], [*ctx._protected_args, *ctx.args])
                with protected() as ctx.obj:
                    return super().invoke(ctx)
            except OSError as error:
                if error.errno in (None, EPIPE):  # of sockets and the like; whoever read what was printed has gone
                    raise
                where = f"{error.filename2 or error.filename}: " if error.filename else ""
                raise fail("A1206", f"{where}{error.strerror}") from error
        except click.UsageError as error:
            if (text := visible(_hinted(error))) == error.format_message():
                raise
            raise click.UsageError(text, error.ctx) from None
        except ArchError as error:
            _complain(ctx, error, as_json)
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

            if (fault := fault_of_plugin(error)) is not None:
                _complain(ctx, fault, as_json)
                ctx.exit(1)
            say(_apology(error), err=True)
            ctx.exit(FAULT)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Arguments; --traceback and --plugin may stand anywhere."""
        ctx.meta[ARGUMENTS] = args
        end = args.index("--") if "--" in args else len(args)
        ours: list[str] = []
        others: list[str] = []
        words = iter(args[:end])
        for word in words:
            if word == PLUGIN:
                name = next(words, None)
                if name is None:
                    ctx.fail(f"Option '{PLUGIN}' requires an argument.")
                ours += [word, name]
            else:
                (ours if word == TRACEBACK or word.startswith(f"{PLUGIN}=") else others).append(word)
        return super().parse_args(ctx, [*ours, *others, *args[end:]])


def _hinted(error: click.UsageError) -> str:
    """The message of wrong usage, in plain words, and with the value that may have been meant."""
    text = error.format_message()
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    if isinstance(kind, click.IntRange | click.FloatRange):
        return text.removesuffix(" range.") + "." * text.endswith(" range.")
    value = re.match(r"'(.*)' is not one of", error.message, re.DOTALL) if isinstance(kind, click.Choice) else None
    if value is None:
        return text
    from archir.utils.settings import meant

    assert isinstance(kind, click.Choice)
    hint = meant(value[1], [str(one) for one in kind.choices])
    return text if hint is None else f"{text.removesuffix('.')}; {hint}"


def _complain(ctx: click.Context, error: ArchError, as_json: bool) -> None:
    """Print diagnostics in the format that the command was asked for."""
    from archir.cli.formats import FORMAT, report
    from archir.cli.output import complain

    if FORMAT in ctx.meta:
        report(error.diagnostics, ctx.meta[FORMAT])
    else:
        complain(error, as_json)


def _apology(error: Exception) -> str:
    """What is said of a failure that is no fault of the user's, in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    short = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
    return f"archir failed: {short}. This is a bug: please report it, with what {TRACEBACK} prints"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="archir")
@click.option(TRACEBACK, is_flag=True, help="Show where archir itself failed, in full; it may stand anywhere.")
@click.option(
    PLUGIN, "plugins", multiple=True, metavar="MODULE",
    help="A module that registers operations, strategies and the like (docs/plugins.md); it may stand anywhere.",
)  # fmt: skip
def main(traceback: bool, plugins: tuple[str, ...]) -> None:
    """Search spaces of neural architectures as programs: check, count, sample, train, export.

    FILE is an .arch file; FILE:NET picks one net of several, `-` reads standard input.
    Exit codes: 0 success, 1 something is wrong with an input, 2 wrong usage, 70 archir itself failed, 130 stopped, and
    can go on.
    """
