"""`archir optimize`."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.cli.kinds import Output
from archir.cli.options import file_argument, force_option, json_option, net_options
from archir.cli.output import counted, emit, say, table
from archir.cli.subject import space_of
from archir.language.elaboration.context import Limits
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.spaces.optimal.answers import Answer
    from archir.spaces.optimal.fronts import Front


def _fixed(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        path, equals, label = one.rpartition("=")
        if not equals or not path:
            raise click.BadParameter(f"`{one}` is no PATH=LABEL")
        found[path] = int(label) if label.removeprefix("-").isdigit() and len(label) < 20 else label
    return found


@click.command("optimize")
@file_argument
@click.option("--minimize", metavar="COST", help="The cost that is to be least, such as macs.")
@click.option("--maximize", metavar="SCORES", help="The scores of a file of `archir scores`, or a cost.")
@click.option(
    "--front", metavar="COST,COST", help="The front of two or three costs; of scores and costs: scores.json,macs."
)
@click.option("--points", type=click.IntRange(2), help="With --front: about so many points of it, evenly spread.")
@click.option(
    "--where", "bounds", multiple=True, metavar="BOUNDS", help='Bounds, such as "macs <= 0.5x and params <= 2M".'
)
@click.option("--best", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many, in order.")
@click.option("--fix", "fixed", multiple=True, callback=_fixed, metavar="PATH=LABEL", help="What a choice is to have.")
@click.option("--time-limit", type=click.FloatRange(0), metavar="SECONDS", help="Say what is known by then.")
@force_option
@click.option("-o", "--output", type=Output(), help="Write the best architecture, JSON.")
@net_options
@json_option
def optimize_command(
    file: str, minimize: str | None, maximize: str | None, front: str | None, points: int | None,
    bounds: tuple[str, ...], best: int, fixed: dict[str, Any], time_limit: float | None, output: Path | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Find the best architecture of FILE within bounds, with a proof that no other one is better.

    If nothing is within the bounds, this says which of them contradict each other, and what would do. With
    --time-limit, it may say the best that was found so far, and how much better another one may be.

    \b
    archir optimize space.arch --minimize macs --where "params >= 20000"
    archir optimize space.arch --maximize scores.json --where "macs <= 0.5x" --best 5 -o best.json
    archir optimize space.arch --front macs,params --points 20
    archir optimize space.arch --front scores.json,macs,params
    """
    if sum(one is not None for one in (minimize, maximize, front)) != 1:
        raise click.UsageError("name one of --minimize, --maximize and --front")
    space = space_of(file, parameters, root, limits)
    where = " and ".join(bounds) or None
    if front is None:
        if points is not None:
            raise click.UsageError("--points goes with --front")
        answer = api.optimize(space, minimize, maximize, where=where, best=best, fixed=fixed, seconds=time_limit)
        _answer(answer, minimize or maximize or "", output, parameters, as_json)
        return
    names = [one.strip() for one in re.split(r",(?![^(]*\))", front)]
    if not 2 <= len(names) <= 3 or best != 1 or output is not None:
        raise click.UsageError("--front takes two or three costs with commas between, and no --best or --output")
    found = api.exact_front(space, *names, points=points, where=where, fixed=fixed, seconds=time_limit)
    _front(found, names, as_json)


def _answer(
    answer: Answer, what: str, output: Path | None, parameters: dict[str, Any], as_json: bool
) -> None:  # fmt: skip
    if as_json:
        emit(_plain(answer))
    best = answer.best  # if there is none, the error that says why
    if not as_json:
        _say("score" if what.endswith(".json") else what, answer)
    if output is not None:
        write_atomic(output, (best.to_json(parameters) + "\n").encode())
        if not as_json:
            say(f"wrote {output}")


def _plain(answer: Answer) -> dict[str, Any]:
    pairs = zip(answer.architectures, answer.values, strict=True)
    return {
        "settled": answer.settled,
        "bound": None if answer.bound is None else number(answer.bound),
        "architectures": [{"value": number(value), "choices": dict(one)} for one, value in pairs],
        "conflict": [{"bound": one.bound.text, "nearest": one.nearest} for one in answer.conflict],
    }


def _say(name: str, answer: Answer) -> None:
    first = f"{name} = {shown(answer.values[0])}"
    if answer.settled:
        say(f"{first}, proved: no architecture within the bounds is better")
    elif answer.bound is not None:
        say(f"{first} is the best found in time; none is better than {shown(answer.bound)}")
    if len(answer.architectures) > 1:
        pairs = enumerate(zip(answer.architectures, answer.values, strict=True), 1)
        rows = [_row(place, *pair, answer.best) for place, pair in pairs]
        table("", ["", name, "what differs from the first"], rows)
    say(str(answer.best))


def _row(place: int, one: Any, value: Fraction, first: Any) -> tuple[str, str, str]:
    differs = [f"{path} = {label}" for path, label in one.items() if path not in first or first[path] != label]
    return str(place), shown(value), ", ".join(differs[:6]) + (", ..." if len(differs) > 6 else "")


def _front(found: Front, names: list[str], as_json: bool) -> None:
    if as_json:
        points = [
            {"values": [number(v) for v in one.values], "choices": dict(one.architecture)} for one in found.points
        ]
        emit({"settled": found.settled, "names": names, "points": points})
        return
    names = ["score" if name.endswith(".json") else name for name in names]
    table(
        "", names, [[shown(Fraction(value)) for value in one.values] for one in found.points], right=range(len(names))
    )
    cut = "" if found.settled else ", as far as it was followed"
    say(f"{counted(len(found.points), 'point')}{cut}; --json has their choices")


def number(value: Fraction | int) -> float | int:
    """A number as JSON has it."""
    return int(value) if Fraction(value).denominator == 1 else float(value)


def shown(value: Fraction) -> str:
    """A value as it is read."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):.6g}"
