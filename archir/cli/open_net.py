"""`archir open`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from archir import api
from archir.api.opening import Opened
from archir.cli.kinds import Output, Place
from archir.cli.options import force_option, json_option
from archir.cli.output import big, emit, say, table
from archir.language.elaboration.files import split
from archir.language.elastic.ladders import KINDS, with_parts
from archir.language.elastic.opening import Row


@click.command("open")
@click.argument("net", metavar="FILE[:NET]", type=Place())
@click.option(
    "--choose", default=",".join(KINDS), show_default=True, metavar="KINDS",
    help='What is opened; "widths=0.5,0.75,1" says which parts of the trained value, "kernels=3,5" which kernels; '
    '"operators" offers others in place of convolutions and blocks.',
)  # fmt: skip
@click.option("--widths", metavar="PARTS", help='Short for "widths=PARTS" among KINDS: which parts of trained widths.')
@click.option(
    "--where", metavar="SCOPE", help="Change nothing outside of the scopes of this pattern, such as `stage[0]*`."
)
@force_option
@click.option("-o", "--output", type=Output(), required=True, help="The .arch file.")
@json_option
def open_command(
    net: str, choose: str, widths: str | None, where: str | None, output: Path, as_json: bool
) -> None:  # fmt: skip
    """Write a space whose largest architecture is the network of FILE.

    Numbers in the text of the network become choices; everything else of it stays. Widths that must be equal are one
    choice. Every architecture is checked, the network is proved to be the largest one, and its weights fit by their
    names. Beside OUTPUT lies the architecture that is the network, OUTPUT's name with .full.json.

    \b
    archir open net.arch -o space.arch
    archir open net.arch --choose widths,depths -o space.arch
    archir open net.arch --widths 0.5,0.75,1 -o space.arch
    archir open net.arch --choose operators --where "layer4*" -o space.arch
    archir open net.arch --choose "widths=0.25,0.5,0.75,1,kernels=3,5" --where "layer4*" -o space.arch
    """
    if output.suffix != ".arch":
        raise click.UsageError(f"{output} is no name of a program, which ends in .arch")
    if net == "-":
        raise click.UsageError("name a file: what is opened has a place beside it")
    if output.resolve() == Path(split(net)[0]).resolve():
        raise click.UsageError(f"{output} is the network itself: name another file")
    if widths is not None:
        choose = with_parts(choose, "widths", widths)
    found = api.open_network(net, choose, where=where)
    beside = found.save(output)
    if as_json:
        emit(_plain(found, output, beside))
        return
    _show("opened", found.opened)
    _show("not opened", found.left)
    say(f"wrote {output}: {big(found.space.size)} architectures, {len(found.space.choices)} choices")
    say(f"the network is the largest of them, {beside}")


def _show(title: str, rows: Iterable[Row]) -> None:
    shown = [[row.label or row.kind, ", ".join(row.values), _places(row), row.reason] for row in rows]
    if shown:
        table(title, ["what", "values", "line:column", "why not more"], shown)


def _places(row: Row) -> str:
    return ", ".join(f"{span.line}:{span.column}" for span in row.places)


def _plain(found: Opened, output: Path, beside: Path) -> dict[str, object]:
    def rows(several: Iterable[Row]) -> list[dict[str, object]]:
        return [
            {"kind": row.kind, "choice": row.label, "values": row.values, "places": [str(span) for span in row.places],
             "reason": row.reason} for row in several
        ]  # fmt: skip

    return {
        "files": [str(output), str(beside)],
        "size": str(found.space.size),
        "choices": len(found.space.choices),
        "opened": rows(found.opened),
        "left": rows(found.left),
    }
