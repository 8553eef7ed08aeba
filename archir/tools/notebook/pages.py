"""What of each value notebooks show: the most telling things first, and of many the first ones."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial, singledispatch
from itertools import islice
from typing import Any

from archir.api.drawing import MOST_NODES, Picture, beside, network
from archir.diagnostics.errors import ArchError, Diagnostic, Diagnostics
from archir.ir.graph import Graph
from archir.ir.verify import typed
from archir.passes.cost import Cost, cost
from archir.pictures import markup
from archir.pictures.labels import outcomes, tags, taken
from archir.spaces.architecture import Architecture
from archir.spaces.counting import many, quickly
from archir.spaces.optimal.answers import Answer
from archir.spaces.space import Space
from archir.tools.notebook.counts import Counts
from archir.utils.frames import Framed

MOST_COSTED = 1_000
"""Nodes of a space whose costs are worked out without being asked for."""
FEW = 12
"""Choices that are shown without being asked for."""
MOST_MESSAGE = 2_000
"""Characters of a message."""
_UNITS = {
    "params": "parameters", "macs": "multiply-accumulates", "activation_bytes": "bytes of activations",
    "kernels": "kernels", "peak_bytes": "bytes at the peak",
}  # fmt: skip


@singledispatch
def page(value: Any) -> str | None:
    """A value as HTML; None where its text says it all."""
    if isinstance(value, Framed):
        columns = value.columns()
        rows = list(zip(*columns.values(), strict=True))
        return markup.whole(_heading(value), markup.table([*columns], rows, len(rows)))
    if repr(value).startswith("<"):  # a line that was thought of
        return markup.whole(_heading(value))
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
        return markup.whole(markup.heading(_kind(value)), markup.facts(named))
    return None


def _kind(value: object) -> str:
    return type(value).__name__


def _heading(value: object) -> str:
    """What the text of a value says: `<Front of macs and params: 3 architectures>`."""
    kind = _kind(value)
    return markup.heading(kind, "", repr(value)[1:-1].removeprefix(kind).removeprefix(":").strip())


@page.register
def _picture(value: Picture) -> str:
    return markup.image(value.svg, value.text)


@page.register
def _counts(value: Counts) -> str:
    names = ("architectures", "with what choices require", "within the bounds on costs")
    every, satisfying, within = value.texts
    shown = (every, "" if satisfying == every else satisfying, "" if within == satisfying else within)
    found = dict(zip(names, shown, strict=True))
    return markup.whole(markup.heading("Space", value.name), markup.facts(found))


@page.register
def _cost(value: Cost) -> str:
    return markup.whole(markup.facts({_UNITS[name]: f"{number:,}" for name, number in vars(value).items()}))


@page.register
def _graph(value: Graph) -> str:
    if value.decisions:
        return markup.whole(markup.heading("Graph", value.name), markup.facts(_sizes(value)), beside(value))
    found = _sizes(value)
    if len(value) <= MOST_NODES:
        found |= {_UNITS[name]: f"{number:,}" for name, number in vars(cost(value)).items()}
    return markup.whole(markup.heading("Graph", value.name), markup.facts(found), beside(value))


def _sizes(graph: Graph) -> dict[str, object]:
    types = typed(graph) if len(graph) <= MOST_NODES else {}
    ports = {"inputs": graph.inputs, "outputs": graph.outputs}
    found: dict[str, object] = {
        name: ", ".join(f"{one} {types[number]}" if number in types else one for one, number in of.items())
        for name, of in ports.items()
    }
    given = ", ".join(f"{name} = {one}" for name, one in graph.parameters.items())
    return {**found, "nodes": f"{len(graph):,}", "parameters of the net": given}


@page.register
def _space(value: Space) -> str:
    graph = value.graph
    found: dict[str, object] = {"architectures": many(quickly(lambda: value.size), "architecture").rpartition(" ")[0]}
    if any(one.cost is None and one.word == "require" for one in graph.constraints):
        kept = quickly(lambda: value.satisfying)
        found["with what choices require"] = "" if kept is None else many(kept, "architecture").rpartition(" ")[0]
    bounds = ", ".join(one.text for one in graph.constraints if one.cost is not None)
    found |= {"choices": f"{len(value.choices):,}", "bounds on costs": bounds, **_sizes(graph), **_ranges(value)}
    rows = ((c.path, outcomes(c, [*range(min(c.outcomes, 6))]), taken(c), tags(c)) for c in value.choices)
    listed = markup.table(["choice", "labels", "alternatives", "tags"], rows, len(value.choices))
    return markup.whole(
        markup.heading("Space", value.name), markup.facts(found), markup.folded("Choices", listed), beside(graph)
    )


def _ranges(space: Space) -> dict[str, object]:
    """The least and the greatest costs, of spaces in which that is quick."""
    found: dict[str, object] = {}
    if len(space.graph) <= MOST_COSTED:
        for name in ("params", "macs"):
            limits = quickly(partial(space.account.limits, name))
            if limits is not None:
                found[_UNITS[name]] = " to ".join(f"{one:,}" for one in dict.fromkeys(limits))
    return found


@page.register
def _architecture(value: Architecture) -> str:
    listed = markup.table(["choice", "label"], value.items(), len(value))
    drawn = "" if value.graph is None else beside(network(value))
    choices = markup.folded("Choices", listed, len(value) <= FEW)
    return markup.whole(markup.heading("Architecture", value.space), choices, drawn)


@page.register
def _diagnostic(value: Diagnostic) -> str:
    return _diagnostics(Diagnostics([value]))


@page.register
def _diagnostics(value: Diagnostics) -> str:
    shown = [part for one in islice(value, markup.MOST_ROWS) for part in _told(one)]
    if not value:
        return markup.whole("<div>nothing is wrong</div>")
    more = len(value) - markup.MOST_ROWS
    return markup.whole(*shown, f"<div>and {more:,} more</div>" if more > 0 else "")


def _told(one: Diagnostic) -> tuple[str, str]:
    """A diagnostic, its place and its message before the lines that show it."""
    pieces = list(one.pieces())
    at = next(i for i, (style, _) in enumerate(pieces) if style == "message")
    place = "".join(piece for style, piece in pieces[:at] if style == "place")
    message = markup.text(pieces[at][1].rstrip(), MOST_MESSAGE)
    head = f"<div>{markup.text(place)}{markup.mark(one.severity)} {one.code}{message}</div>"
    return head, markup.lines("".join(piece for _, piece in pieces[at + 1 :]))


@page.register
def _answer(value: Answer) -> str:
    heading = _heading(value)
    if not value.architectures:
        error: ArchError = value.none()
        return markup.whole(heading, *(part for one in error.diagnostics for part in _told(one)))
    columns = value.columns()
    rows = list(zip(*columns.values(), strict=True))
    best = value.architectures[0]
    drawn = "" if best.graph is None else beside(network(best))
    return markup.whole(heading, markup.table([*columns], rows, len(rows)), drawn)
