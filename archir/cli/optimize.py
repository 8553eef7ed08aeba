"""Command `archir optimize`: find provably optimal architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import optimizing
from archir.cli.net_arguments import space_of
from archir.cli.options import file_argument, force_option, json_option, net_options
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, Number, OutputFile
from archir.diagnostics.errors import ArchError
from archir.language.elaboration.context import Limits
from archir.utils.counts import count_noun
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.spaces.optimal.answers import Answer
    from archir.spaces.optimal.fronts import Front


def _parse_fixed(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Option callback: parse the values of `--fix PATH=LABEL` into labels by choice path."""
    labels: dict[str, Any] = {}
    for text in texts:
        path, equals, label = text.rpartition("=")
        if not equals or not path:
            raise click.BadParameter(f"`{text}` is not of the form PATH=LABEL")
        labels[path] = int(label) if label.removeprefix("-").isdigit() and len(label) < 20 else label
    return labels


@click.command("optimize")
@file_argument
@click.option("--minimize", metavar="COST", help="Cost to minimize, such as macs.")
@click.option("--maximize", metavar="SCORES", help="Scores to maximize: a file written by `archir scores`, or a cost.")
@click.option(
    "--front",
    metavar="COST,COST",
    help="Compute the Pareto front of two or three costs, or of scores and costs: scores.json,macs.",
)
@click.option("--points", type=Integer(2), help="With --front: approximate number of evenly spread points.")
@click.option(
    "--where", "bounds", multiple=True, metavar="BOUNDS", help='Bounds, such as "macs <= 0.5x and params <= 2M".'
)
@click.option(
    "--best",
    type=Integer(1, 10_000),
    default=1,
    show_default=True,
    help="Number of architectures to list, best first.",
)
@click.option(
    "--fix",
    "fixed",
    multiple=True,
    callback=_parse_fixed,
    metavar="PATH=LABEL",
    help="Fix a choice to an alternative; may be repeated.",
)
@click.option(
    "--time-limit",
    type=Number(0),
    metavar="SECONDS",
    help="Stop after this time and report the best result so far.",
)
@force_option
@click.option("-o", "--output", type=OutputFile(), help="Write the best architecture, JSON.")
@net_options
@json_option
def optimize_command(
    file: str, minimize: str | None, maximize: str | None, front: str | None, points: int | None,
    bounds: tuple[str, ...], best: int, fixed: dict[str, Any], time_limit: float | None, output: Path | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Find the best architecture of FILE within bounds, with a proof that no other one is better.

    If no architecture satisfies the bounds, the conflicting bounds are listed, with the nearest values that can be
    reached. If --time-limit ends the search early, the best architecture so far is printed, with a bound on how much
    better another one can be.

    \b
    archir optimize space.arch --minimize macs --where "params >= 20000"
    archir optimize space.arch --maximize scores.json --where "macs <= 0.5x" --best 5 -o best.json
    archir optimize space.arch --front macs,params --points 20
    archir optimize space.arch --front scores.json,macs,params
    """
    if sum(objective is not None for objective in (minimize, maximize, front)) != 1:
        raise click.UsageError("give exactly one of --minimize, --maximize and --front")
    space = space_of(file, parameters, root, limits)
    where = " and ".join(bounds) or None
    if front is None:
        if points is not None:
            raise click.UsageError("--points needs --front")
        answer = optimizing.optimize(space, minimize, maximize, where=where, best=best, fixed=fixed, seconds=time_limit)
        _report_answer(answer, minimize or maximize or "", output, space.graph.parameters, as_json)
        return
    names = [objective.strip() for objective in re.split(r",(?![^(]*\))", front)]
    if not 2 <= len(names) <= 3 or best != 1 or output is not None:
        raise click.UsageError("--front takes two or three comma-separated costs, without --best or --output")
    pareto_front = optimizing.exact_front(space, *names, points=points, where=where, fixed=fixed, seconds=time_limit)
    _print_front(pareto_front, names, as_json)


def _report_answer(
    answer: Answer, what: str, output: Path | None, parameters: Mapping[str, Any], as_json: bool
) -> None:  # fmt: skip
    """Print the best architectures, and write the best one to the file `output` if given.

    If there are none, the error says why: JSON has it beside the answer.
    """
    try:
        best = answer.best
    except ArchError as error:
        if not as_json:
            raise
        emit({**_answer_json(answer), "diagnostics": [diagnostic.as_json() for diagnostic in error.diagnostics]})
        click.get_current_context().exit(1)
    if as_json:
        emit(_answer_json(answer))
    else:
        _print_answer("score" if what.endswith(".json") else what, answer)
    if output is not None:
        write_atomic(output, best.to_json(parameters).encode())
        if not as_json:
            say(f"wrote {output}")


def _answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON data."""
    pairs = zip(answer.architectures, answer.values, strict=True)
    return {
        "settled": answer.proved,
        "bound": None if answer.bound is None else json_number(answer.bound),
        "architectures": [{"value": json_number(value), "choices": dict(item)} for item, value in pairs],
        "conflict": [{"bound": item.bound.text, "nearest": item.nearest_cost} for item in answer.conflict],
    }


def _print_answer(name: str, answer: Answer) -> None:
    """Print the best value, whether it is proved optimal, and the architectures."""
    first = f"{name} = {format_value(answer.values[0])}"
    if answer.proved:
        say(f"{first}, proved: no architecture within the bounds is better")
    elif answer.bound is not None:
        say(
            f"{first} is the best found within the time limit; no architecture is better than "
            f"{format_value(answer.bound)}"
        )
    if len(answer.architectures) > 1:
        pairs = enumerate(zip(answer.architectures, answer.values, strict=True), 1)
        rows = [_row(place, *pair, answer.best) for place, pair in pairs]
        table("", ["", name, "what differs from the first"], rows)
    say(str(answer.best))


def _row(rank: int, architecture: Any, value: Fraction, first: Any) -> tuple[str, str, str]:
    """Return the table row of one architecture: rank, value, and the choices that differ from the best architecture."""
    differs = [f"{path} = {label}" for path, label in architecture.items() if path not in first or first[path] != label]
    return str(rank), format_value(value), ", ".join(differs[:6]) + (", ..." if len(differs) > 6 else "")


def _print_front(front: Front, names: list[str], as_json: bool) -> None:
    """Print the points of a Pareto front."""
    if as_json:
        points = [
            {"values": [json_number(v) for v in point.values], "choices": dict(point.architecture)}
            for point in front.points
        ]
        emit({"settled": front.complete, "names": names, "points": points})
        return
    names = ["score" if name.endswith(".json") else name for name in names]
    table(
        "",
        names,
        [[format_value(Fraction(value)) for value in point.values] for point in front.points],
        right=range(len(names)),
    )
    note = "" if front.complete else " (incomplete)"
    say(f"{count_noun(len(front.points), 'point')}{note}; --json has their choices")


def json_number(value: Fraction | int) -> float | int:
    """Convert an exact value to a JSON number: an int if it is integral, else a float."""
    return int(value) if Fraction(value).denominator == 1 else float(value)


def format_value(value: Fraction) -> str:
    """Format an exact value in human-readable form."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):.6g}"
