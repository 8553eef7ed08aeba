"""Options shared by several commands."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from archir.backends.suffixes import output_format
from archir.cli.param_types import Integer, PathParam
from archir.diagnostics.errors import ArchError, RuleError, describe_error
from archir.diagnostics.work import MAX_SEED, work_budget
from archir.language.elaboration.context import Limits
from archir.language.elaboration.parameters import parse_parameter
from archir.utils.files import Outputs, read_bytes

Command = Callable[..., Any]

file_argument = click.argument("file", metavar="FILE[:NET]")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
device_option = click.option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ... [a GPU if available]")
SEED = Integer(0, MAX_SEED)
"""Click parameter type for seeds."""
seed_option = click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random numbers.")


def refuse(names: Collection[str], reason: str) -> None:
    """Raise UsageError if one of the named options was given on the command line, where it would have no effect."""
    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if is_given and option.name in names:
            raise click.UsageError(f"{option.opts[0]} {reason}")


def resolve_output_format(to: str | None, output: Path, formats: Mapping[str, tuple[str, ...]]) -> str:
    """Return the format selected by `--to` or by the output's suffix.

    Raises UsageError if they select none or contradict each other (see `archir.backends.suffixes`).
    """
    try:
        return output_format(to, output, formats)
    except RuleError as error:
        raise click.UsageError(f"{error.message}{'' if to else ', or give --to'}") from None


def parse_parameters(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Parse the values of `-p NAME=VALUE`."""
    try:
        return dict(parse_parameter(text) for text in texts)
    except ArchError as error:
        raise click.BadParameter(error.diagnostics[0].message) from None


def parse_overrides(settings: tuple[str, ...], data: str | None) -> dict[str, str]:
    """Parse the values of `--set KEY=VALUE`, and of `--data`, into a dictionary from dotted keys to values."""
    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
            raise click.UsageError(f"--set takes KEY=VALUE, such as search.training.epochs=2, not {setting!r}")
        overrides[key] = value
    return overrides | ({"data.source": json.dumps(data, ensure_ascii=False)} if data is not None else {})


WORK_FACTOR = 10
"""Ratio of a command's default work limit to that of a single request to a service."""


def _force(context: click.Context, _: click.Parameter, force: bool) -> None:
    """Option callback: record --force before any output option is parsed, since these check existing files."""
    if (outputs := context.find_object(Outputs)) is not None:
        outputs.force = force


def force_option(command: Command) -> Command:
    """Decorator that adds --force, which allows replacing files that archir did not write or that were changed."""
    return click.option(
        "--force", is_flag=True, is_eager=True, expose_value=False, callback=_force,
        help="Replace files that archir did not write, or that were changed.",
    )(command)  # fmt: skip


MAX_WORK = WORK_FACTOR * Limits.work
"""Default work limit of a command, in units."""


def _limits(_: click.Context, __: click.Parameter, max_work: int) -> Limits:
    """Return the limits for a maximum of work; above the default, the number of nodes grows in proportion to it."""
    return Limits(nodes=max(Limits.nodes, Limits.nodes * max_work // MAX_WORK), work=max_work)


BUDGETED_COMMANDS = {"check", "show", "count", "sample", "diff", "cost", "print", "grammar", "optimize"}
"""Commands that run under a single work budget."""


def limit_option(command: Command) -> Command:
    """Decorator that adds --max-work, which bounds the work of the command and the size of graphs."""

    @wraps(command)
    def wrapper(*args: Any, limits: Limits, **options: Any) -> Any:
        context = click.get_current_context()
        is_nested = context.parent is not None and context.parent.parent is not None  # `archir latency check`
        if is_nested or context.command.name not in BUDGETED_COMMANDS:
            return command(*args, limits=limits, **options)
        with work_budget(limits.work):
            return command(*args, limits=limits, **options)

    return click.option(
        "--max-work", "limits", type=Integer(1), default=MAX_WORK, show_default=True, callback=_limits,
        metavar="UNITS", help="Maximum work, in units of about a microsecond. More than the default also allows larger "
        "graphs.",
    )(wrapper)  # fmt: skip


def net_options(command: Command) -> Command:
    """Decorator that adds -p, --root and --max-work, which control how a net is elaborated."""
    command = limit_option(command)
    command = click.option(
        "--root",
        type=PathParam(exists=True, file_okay=False, path_type=Path),
        help="Folder that imported files must be in [FILE's folder].",
    )(command)
    return click.option(
        "-p", "--param", "parameters", multiple=True, callback=parse_parameters, metavar="NAME=VALUE",
        help="Parameter of the net, such as channels=96; may be repeated.",
    )(command)  # fmt: skip


NET_PARAMETERS = {"parameters", "root", "limits"}
"""Names of the command parameters that `net_options` adds."""
ARCH_PARAMETERS = {"arch", "seed"}
"""Names of the command parameters that `arch_options` adds."""


def arch_options(command: Command) -> Command:
    """Decorator that adds --arch and --seed, which select one architecture of a space."""
    command = click.option("--seed", type=SEED, help="Sample the architecture with this seed.")(command)
    return click.option(
        "--arch",
        "arch",
        type=PathParam(dir_okay=False, allow_dash=True),
        help="Use the architecture in this file, as written by `archir sample`.",
    )(command)


SOURCES = "digits, a file, a folder, MODULE:FUNCTION, or FORM:PATH such as csv:houses.csv#price"
"""Help text: forms of data sources that `--data` accepts (docs/data.md)."""


def objective_settings(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """Option callback: parse an objective, given as its kind or as a TOML table of settings.

    Such a table is `{kind = "regression", loss = "mae"}`.
    """
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        return {"kind": text}
    try:
        settings: dict[str, Any] = tomllib.loads(f"objective = {text}")["objective"]
    except tomllib.TOMLDecodeError as error:
        raise click.BadParameter(f"the value is not a TOML table: {error}") from None
    return settings


def _labels(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Option callback: names of classes, separated by commas, or one a line in a file that ends in .txt."""
    if text is None:
        return ()
    if text.endswith(".txt"):
        try:
            lines = read_bytes(Path(text), _MAX_LABEL_BYTES).decode().splitlines()
        except (OSError, ValueError) as error:
            raise click.BadParameter(f"cannot read {text}: {describe_error(error)}") from None
    else:
        lines = text.split(",")
    labels = tuple(line.strip() for line in lines)
    if "" in labels or len({*labels}) < len(labels):
        raise click.BadParameter("every class has a name, and no two have the same")
    return labels


_MAX_LABEL_BYTES = 1 << 24
"""Maximum size in bytes of a file with names of classes."""

labels_option = click.option(
    "--labels", metavar="NAME,...", callback=_labels,
    help="Names of the classes in the order of the model's outputs, separated by commas, or a .txt file with one a "
    "line; written to the metadata.",
)  # fmt: skip


def proxy_options(command: Command) -> Command:
    """Decorator that adds --data and --batch, which determine the minibatch on which zero-cost proxies are computed."""
    command = click.option("--batch", type=Integer(2), default=64, show_default=True, help="Batch size for proxies.")(
        command
    )
    return click.option(
        "--data", metavar="SOURCE", default="digits", show_default=True,
        help=f"Data for proxies: {SOURCES}.",
    )(command)  # fmt: skip


def split_names(_: click.Context, __: click.Parameter, text: str | None) -> list[str]:
    """Option callback: split a comma-separated list of names."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def where_option(command: Command) -> Command:
    """Decorator that adds --where, which restricts a space to bounds on costs."""
    return click.option(
        "--where",
        metavar="BOUNDS",
        help='Only use architectures within these bounds, such as "macs <= 600M and params < 5M".',
    )(command)
