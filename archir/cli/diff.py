"""`archir diff`."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.cli.options import OF_NETS, json_option, net_options, refuse
from archir.cli.output import emit, say, table
from archir.cli.subject import given_parameters, space_of
from archir.language.elaboration.context import Limits

if TYPE_CHECKING:
    from archir.spaces.diff import Difference
    from archir.spaces.space import Space

MOST_ROWS = 40


@click.command("diff")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@click.option("--space", metavar="FILE[:NET]", help="The space of two architectures, to compare what they cost.")
@click.option("--all", "everything", is_flag=True, help=f"Print all rows, not the first {MOST_ROWS} of a kind.")
@net_options
@json_option
def diff_command(
    one: str, other: str, space: str | None, everything: bool, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Compare two architectures (.json files, as `sample` writes them), or two spaces (.arch files).

    Of a network and a space, it is said which architecture of the space computes what the network does. Exits with 0
    if they are the same, or there is such an architecture; with 1 if they differ.
    """
    files = [path.endswith(".json") for path in (one, other)]
    if files[0] != files[1]:
        raise click.UsageError("an architecture (.json) and a space (.arch) cannot be compared")
    note = ""
    if files[0]:
        found, note = _architectures(one, other, space, parameters, root, limits)
    elif space is not None:
        raise click.UsageError("--space goes with two architectures (.json)")
    else:
        spaces = [space_of(path, parameters, root, limits) for path in (one, other)]
        found = api.diff(*spaces)
        if found and bool(spaces[0].choices) != bool(spaces[1].choices):
            network, opened = sorted(zip(spaces, (one, other), strict=True), key=lambda pair: bool(pair[0].choices))
            _member(network, opened, found, everything, as_json)
            return
    if as_json:
        emit({"same": not found, "differences": [asdict(each) for each in found]} | ({"note": note} if note else {}))
    else:
        _print(found, one, other, everything)
        if note or not found:
            say(note or "no differences")
    if found:
        click.get_current_context().exit(1)


def _member(
    network: tuple[Space, str], space: tuple[Space, str], found: list[Difference], everything: bool, as_json: bool
) -> None:
    """Say which architecture of the space the network is, or how they differ."""
    which = api.membership(space[0], network[0])
    labels = None if which.architecture is None else dict(which.architecture)
    if as_json:
        differences = [asdict(each) for each in found]
        emit({"same": False, "architecture": labels, "largest": which.largest, "settled": which.settled,
              "differences": differences, "nearest": which.nearest and dict(which.nearest),
              "nearest_differences": [asdict(each) for each in which.differences]})  # fmt: skip
    elif labels is not None:
        say(f"{network[1]} is {'the largest' if which.largest else 'an'} architecture of {space[1]}:")
        table("", ["choice", "label"], [(path, str(label)) for path, label in labels.items()])
    else:
        looked = "" if which.settled else ", of those that were looked at"
        say(f"no architecture of {space[1]} computes what {network[1]} does{looked}; the nearest that was found is")
        assert which.nearest is not None
        table("", ["choice", "label"], [(path, str(label)) for path, label in which.nearest.items()])
        say("and differs in this:")
        _print(list(which.differences), network[1], "nearest", everything)
    if labels is None:
        click.get_current_context().exit(1)


def _architectures(
    one: str, other: str, file: str | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> tuple[list[Difference], str]:
    """The differences, and whether both compute the same, if their space is known."""
    from archir.spaces.diff import diff_architectures, diff_networks

    written = [api.architecture(path) for path in (one, other)]
    found = diff_architectures(*written)
    if file is None:
        refuse(OF_NETS, "is for the space of two architectures: add --space FILE")
        return found, ""
    spaces = [space_of(file, {**given_parameters(each), **parameters}, root, limits) for each in written]
    made = [space.architecture(each.choices) for space, each in zip(spaces, written, strict=True)]
    found += diff_networks(*(space.specialize(each) for space, each in zip(spaces, made, strict=True)))
    alike = spaces[0].canonical(made[0]) == spaces[1].canonical(made[1])
    return found, "they compute the same" if alike and found else ""


def _print(found: list[Difference], one: str, other: str, everything: bool) -> None:
    """A table for each kind of difference, in the order of scopes."""
    if Path(one).name != Path(other).name:
        one, other = Path(one).name, Path(other).name
    for kind, group in groupby(found, lambda each: each.kind):
        rows = sorted(group, key=lambda each: each.scope)
        shown = rows if everything else rows[:MOST_ROWS]
        cells, last = [], None
        for each in shown:
            scope = each.scope if each.scope != last else ""
            cells.append((scope, each.name, _cell(each.before), _cell(each.after)))
            last = each.scope
        table("", ["scope", kind, one, other], cells)
        if len(shown) < len(rows):
            say(f"and {len(rows) - len(shown):,} more; --all prints them")


def _cell(text: str | None) -> str:
    return "-" if text is None else text
