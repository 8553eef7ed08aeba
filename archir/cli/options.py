"""Options that several commands share."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from archir.backends.suffixes import form_of
from archir.cli.kinds import Place
from archir.diagnostics.errors import ArchError, RuleError
from archir.diagnostics.work import MOST_SEED, bounded
from archir.language.elaboration.context import Limits
from archir.language.elaboration.parameters import parse_parameter
from archir.utils.files import Outputs

Command = Callable[..., Any]

file_argument = click.argument("file", metavar="FILE[:NET]")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SEED = click.IntRange(0, MOST_SEED)
seed_option = click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random numbers.")


def refuse(names: Collection[str], why: str) -> None:
    """Raise UsageError if one of these options was given to the command that runs: it would have no effect."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and option.name in names:
            raise click.UsageError(f"{option.opts[0]} {why}")


def named_form(to: str | None, output: Path, known: Mapping[str, tuple[str, ...]]) -> str:
    """The form that `--to` or the name of a file asks for. Raises UsageError (see `archir.backends.suffixes`)."""
    try:
        return form_of(to, output, known)
    except RuleError as error:
        raise click.UsageError(f"{error.message}{'' if to else ', or give --to'}") from None


def _parameters(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    try:
        return dict(parse_parameter(text) for text in given)
    except ArchError as error:
        raise click.BadParameter(error.diagnostics[0].message) from None


TIMES = 10
"""How many times as much work a command may do as a request to a service."""


def _force(context: click.Context, _: click.Parameter, given: bool) -> None:
    if (outputs := context.find_object(Outputs)) is not None:
        outputs.force = given


def force_option(command: Command) -> Command:
    """--force: replace files that archir did not write."""
    return click.option(
        "--force", is_flag=True, is_eager=True, expose_value=False, callback=_force,
        help="Replace files that archir did not write, or that were changed since.",
    )(command)  # fmt: skip


def _limits(_: click.Context, __: click.Parameter, nodes: int) -> Limits:
    return Limits(nodes=nodes, work=TIMES * max(Limits.work, Limits.work // Limits.nodes * nodes))


BOUNDED = {"check", "show", "count", "sample", "diff", "cost", "eval", "grammar", "optimize"}
"""Commands that have one budget of work, for all that they do."""


def limit_option(command: Command) -> Command:
    """--limit: how much may be done."""

    @wraps(command)
    def within(*args: Any, limits: Limits, **options: Any) -> Any:
        if click.get_current_context().command.name not in BOUNDED:
            return command(*args, limits=limits, **options)
        with bounded(limits.work):
            return command(*args, limits=limits, **options)

    return click.option(
        "--limit", "limits", type=click.IntRange(1), default=Limits.nodes, show_default=True, callback=_limits,
        metavar="NODES", help="Nodes a graph may have; the work that may be done grows with it.",
    )(within)  # fmt: skip


def net_options(command: Command) -> Command:
    """-p, --root and --limit: how a net is elaborated."""
    command = limit_option(command)
    command = click.option(
        "--root",
        type=Place(exists=True, file_okay=False, path_type=Path),
        help="Folder imports must stay in [FILE's folder].",
    )(command)
    return click.option(
        "-p", "--param", "parameters", multiple=True, callback=_parameters, metavar="NAME=VALUE",
        help="A parameter of the net, such as channels=96 or ratio=1/4; may be repeated.",
    )(command)  # fmt: skip


OF_NETS = {"parameters", "root", "limits"}
"""Options of commands that say how a net is elaborated."""
OF_ARCHITECTURES = {"arch", "seed"}


def arch_options(command: Command) -> Command:
    """--arch and --seed: which architecture of a space is meant."""
    command = click.option("--seed", type=SEED, help="Sample the architecture with this seed.")(command)
    return click.option(
        "--arch",
        "arch",
        type=Place(dir_okay=False, allow_dash=True),
        help="Architecture file, as `sample` writes it.",
    )(command)


SOURCES = "digits, a file, a folder, MODULE:FUNCTION, or FORM:PATH such as csv:houses.csv#price"
"""What `--data` takes (docs/data.md)."""


def objective_settings(_: click.Context, __: click.Parameter, given: str | None) -> dict[str, Any] | None:
    """The callback of an option that takes a kind of objective, or a table: `{kind = "regression", loss = "mae"}`."""
    if given is None:
        return None
    if not given.lstrip().startswith("{"):
        return {"kind": given}
    try:
        found: dict[str, Any] = tomllib.loads(f"objective = {given}")["objective"]
    except tomllib.TOMLDecodeError as error:
        raise click.BadParameter(f"it is no TOML table: {error}") from None
    return found


def proxy_options(command: Command) -> Command:
    """--data and --batch: the minibatch that zero-cost proxies look at."""
    command = click.option(
        "--batch", type=click.IntRange(2), default=64, show_default=True, help="Images that proxies look at."
    )(command)
    return click.option(
        "--data", default="digits", show_default=True,
        help=f"Images for proxies: {SOURCES}.",
    )(command)  # fmt: skip


def names(_: click.Context, __: click.Parameter, given: str | None) -> list[str]:
    """The callback of an option that takes names with commas between them."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def where_option(command: Command) -> Command:
    """--where: further bounds on costs."""
    return click.option(
        "--where", metavar="BOUNDS", help='Architectures within bounds only, such as "macs <= 600M and params < 5M".'
    )(command)
