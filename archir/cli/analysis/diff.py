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
    from archir.search.spaces.diff import Difference

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

    Exits with 0 if they are the same, with 1 if they differ.
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
        found = api.diff(*(space_of(path, parameters, root, limits) for path in (one, other)))
    if as_json:
        emit({"same": not found, "differences": [asdict(each) for each in found]} | ({"note": note} if note else {}))
    else:
        _print(found, one, other, everything)
        if note or not found:
            say(note or "no differences")
    if found:
        click.get_current_context().exit(1)


def _architectures(
    one: str, other: str, file: str | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> tuple[list[Difference], str]:
    """The differences, and whether both compute the same, if their space is known."""
    from archir.search.spaces.diff import diff_architectures, diff_networks

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
