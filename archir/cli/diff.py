"""Command `archir diff`: compare two architectures or two spaces."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import analysis, loading
from archir.cli.net_arguments import space_of, stored_parameters
from archir.cli.options import NET_PARAMETERS, json_option, net_options, refuse
from archir.cli.output import emit, say, table
from archir.language.elaboration.context import Limits

if TYPE_CHECKING:
    from archir.spaces.diff import Difference
    from archir.spaces.space import Space

MAX_ROWS = 40
"""Maximum number of printed rows per kind of difference; `--all` prints all rows."""


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--space", metavar="FILE[:NET]", help="Space of both architectures; also compares their networks and costs."
)
@click.option("--all", "everything", is_flag=True, help=f"Print all rows, not only the first {MAX_ROWS} of each kind.")
@net_options
@json_option
def diff_command(
    before: str, after: str, space: str | None, everything: bool, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Compare two architectures (.json files, as written by `sample`) or two spaces (.arch files).

    \b
    archir diff a.json b.json --space space.arch
    archir diff old.arch new.arch
    archir diff network.arch space.arch         is the network an architecture of the space?

    If one file is a network without choices and the other is a space, archir looks for the architecture of the space
    that computes the same as the network. Exits with 0 if the two files are equivalent or such an architecture exists,
    with 1 if they differ.
    """
    files = [path.endswith(".json") for path in (before, after)]
    if files[0] != files[1]:
        raise click.UsageError("an architecture (.json) and a space (.arch) cannot be compared")
    note = ""
    if files[0]:
        differences, note = _diff_architecture_files(before, after, space, parameters, root, limits)
    elif space is not None:
        raise click.UsageError("--space needs two architectures (.json)")
    else:
        spaces = [space_of(path, parameters, root, limits) for path in (before, after)]
        differences = analysis.diff(*spaces)
        if differences and bool(spaces[0].choices) != bool(spaces[1].choices):
            network, searched = sorted(
                zip(spaces, (before, after), strict=True), key=lambda pair: bool(pair[0].choices)
            )
            _print_membership(network, searched, differences, everything, as_json)
            return
    if as_json:
        emit(
            {"same": not differences, "differences": [asdict(difference) for difference in differences]}
            | ({"note": note} if note else {})
        )
    else:
        _print(differences, before, after, everything)
        if note or not differences:
            say(note or "no differences")
    if differences:
        click.get_current_context().exit(1)


def _print_membership(
    network: tuple[Space, str], space: tuple[Space, str], differences: list[Difference], everything: bool, as_json: bool
) -> None:
    """Print which architecture of a space equals a network, or else how the closest architecture differs from it."""
    membership = analysis.membership(space[0], network[0])
    labels = None if membership.architecture is None else dict(membership.architecture)
    if as_json:
        differences_json = [asdict(difference) for difference in differences]
        emit({"same": False, "architecture": labels, "largest": membership.largest, "settled": membership.proved,
              "differences": differences_json, "nearest": membership.closest and dict(membership.closest),
              "nearest_differences": [asdict(difference) for difference in membership.differences]})  # fmt: skip
    elif labels is not None:
        say(f"{network[1]} is {'the largest' if membership.largest else 'an'} architecture of {space[1]}:")
        table("", ["choice", "label"], [(path, str(label)) for path, label in labels.items()])
    else:
        coverage = "" if membership.proved else " (the search was not exhaustive)"
        say(f"no architecture of {space[1]} computes the same as {network[1]}{coverage}; the nearest one found is")
        assert membership.closest is not None
        table("", ["choice", "label"], [(path, str(label)) for path, label in membership.closest.items()])
        say("and differs as follows:")
        _print(list(membership.differences), network[1], "nearest", everything)
    if labels is None:
        click.get_current_context().exit(1)


def _diff_architecture_files(
    before: str, after: str, file: str | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> tuple[list[Difference], str]:
    """Return the differences between two architectures, and a note if they are known to compute the same function.

    The note requires that the space of the architectures is known.
    """
    from archir.spaces.diff import diff_architectures, diff_networks

    stored = [loading.architecture(path) for path in (before, after)]
    differences = diff_architectures(*stored)
    if file is None:
        refuse(NET_PARAMETERS, "is for the space of two architectures: add --space FILE")
        return differences, ""
    spaces = [space_of(file, {**stored_parameters(each), **parameters}, root, limits) for each in stored]
    architectures = [space.architecture(each.choices) for space, each in zip(spaces, stored, strict=True)]
    differences += diff_networks(*(space.specialize(each) for space, each in zip(spaces, architectures, strict=True)))
    is_equal = spaces[0].canonical(architectures[0]) == spaces[1].canonical(architectures[1])
    return differences, "they compute the same" if is_equal and differences else ""


def _print(differences: list[Difference], before: str, after: str, everything: bool) -> None:
    """Print one table per kind of difference, ordered by scope."""
    if Path(before).name != Path(after).name:
        before, after = Path(before).name, Path(after).name
    for kind, group in groupby(differences, lambda difference: difference.kind):
        rows = sorted(group, key=lambda difference: difference.scope)
        shown = rows if everything else rows[:MAX_ROWS]
        cells, last_scope = [], None
        for difference in shown:
            scope = difference.scope if difference.scope != last_scope else ""
            cells.append((scope, difference.name, _cell(difference.before), _cell(difference.after)))
            last_scope = difference.scope
        table("", ["scope", kind, before, after], cells)
        if len(shown) < len(rows):
            say(f"and {len(rows) - len(shown):,} more; --all prints them")


def _cell(text: str | None) -> str:
    return "-" if text is None else text
