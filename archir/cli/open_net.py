"""Command `archir open`: turn a network into a search space."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from archir.api import opening
from archir.api.opening import Opened
from archir.cli.options import force_option, json_option
from archir.cli.output import emit, say, table
from archir.cli.param_types import OutputFile, PathParam
from archir.language.elaboration.files import split_net
from archir.language.elastic.choice_values import KINDS, with_fractions
from archir.language.elastic.elastic_space import ElasticChoice
from archir.utils.counts import format_count


@click.command("open")
@click.argument("net", metavar="FILE[:NET]", type=PathParam())
@click.option(
    "--choose", default=",".join(KINDS), show_default=True, metavar="KINDS",
    help='Kinds of numbers that become choices. "widths=0.5,0.75,1" sets the fractions of the trained value, '
    '"kernels=3,5" the kernel sizes; "operators" offers alternatives to convolutions and blocks.',
)  # fmt: skip
@click.option(
    "--widths", metavar="PARTS", help='Short for "widths=PARTS" in --choose: fractions of the trained widths.'
)
@click.option("--where", metavar="SCOPE", help="Only change scopes that match this pattern, such as `stage[0]*`.")
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="The .arch file to write.")
@json_option
def open_command(
    net: str, choose: str, widths: str | None, where: str | None, output: Path, as_json: bool
) -> None:  # fmt: skip
    """Turn the network of FILE into a search space whose largest architecture is the network.

    Numbers in the network's program become choices; the rest of the program is unchanged. Widths that must be equal
    share one choice. Every architecture is checked, the network is proved to be the largest one, and its weights can be
    loaded by name. The architecture that equals the network is written next to OUTPUT, with the suffix .full.json.

    \b
    archir open net.arch -o space.arch
    archir open net.arch --choose widths,depths -o space.arch
    archir open net.arch --widths 0.5,0.75,1 -o space.arch
    archir open net.arch --choose operators --where "layer4*" -o space.arch
    archir open net.arch --choose "widths=0.25,0.5,0.75,1,kernels=3,5" --where "layer4*" -o space.arch
    """
    if output.suffix != ".arch":
        raise click.UsageError(f"the output {output} must end in .arch")
    if net == "-":
        raise click.UsageError("standard input cannot be opened as a space: name a file")
    if output.resolve() == Path(split_net(net)[0]).resolve():
        raise click.UsageError(f"{output} is the network itself: name another file")
    if widths is not None:
        choose = with_fractions(choose, "widths", widths)
    elastic = opening.open_network(net, choose, where=where)
    full_file = elastic.save(output)
    if as_json:
        emit(_result_json(elastic, output, full_file))
        return
    _show("opened", elastic.opened)
    _show("not opened", elastic.left)
    say(f"wrote {output}: {format_count(elastic.space.size)} architectures, {len(elastic.space.choices)} choices")
    say(f"the network is the largest of them, {full_file}")


def _show(title: str, rows: Iterable[ElasticChoice]) -> None:
    """Print a table of the numbers that became choices, or of those that were skipped."""
    shown = [[row.label or row.kind, ", ".join(row.values), _positions(row), row.reason] for row in rows]
    if shown:
        table(title, ["what", "values", "line:column", "why not more"], shown)


def _positions(row: ElasticChoice) -> str:
    """Return where a number occurs in the program, as line:column."""
    return ", ".join(f"{span.line}:{span.column}" for span in row.places)


def _result_json(elastic: Opened, output: Path, full_file: Path) -> dict[str, object]:
    """Return the result as JSON data."""

    def rows(several: Iterable[ElasticChoice]) -> list[dict[str, object]]:
        return [
            {"kind": row.kind, "choice": row.label, "values": row.values, "places": [str(span) for span in row.places],
             "reason": row.reason} for row in several
        ]  # fmt: skip

    return {
        "files": [str(output), str(full_file)],
        "size": str(elastic.space.size),
        "choices": len(elastic.space.choices),
        "opened": rows(elastic.opened),
        "left": rows(elastic.left),
    }
