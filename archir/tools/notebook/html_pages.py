"""HTML representations of archir's values in notebooks: the most important facts first, long lists truncated."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import partial, singledispatch
from itertools import islice
from typing import Any

from archir.api.drawing import MAX_NODES, Picture, architecture_graph, html_picture
from archir.diagnostics.errors import ArchError, Diagnostic, Diagnostics
from archir.diagnostics.work import work_budget
from archir.ir.graph import Graph
from archir.ir.verify import checked_types
from archir.pages import fragments
from archir.passes.cost import Cost, cost
from archir.pictures.labels import outcomes, tags, taken
from archir.spaces.architecture import Architecture
from archir.spaces.counting import try_quickly
from archir.spaces.optimal.answers import Answer
from archir.spaces.space import Space
from archir.utils.counts import inflect, round_count
from archir.utils.frames import Tabular

MAX_COSTED_NODES = 1_000
"""Maximum number of nodes of a space for which cost ranges are computed and shown."""
MAX_UNFOLDED_CHOICES = 12
"""Maximum number of an architecture's choices that are shown without expanding the list."""
MAX_MESSAGE = 2_000
"""Maximum number of characters of a diagnostic's message that are shown."""
_UNITS = {
    "params": "parameters", "macs": "multiply-accumulates", "activation_bytes": "bytes of activations",
    "kernels": "kernels", "peak_bytes": "bytes at the peak",
}  # fmt: skip
"""Displayed name of each cost."""


@dataclass(frozen=True)
class Counts:
    """Numbers of architectures of the space `name`.

    `size` counts all architectures, `satisfying` those that satisfy every `require` on choices. `within` counts those
    that also satisfy the bounds on costs, as a lower and an upper bound; the two are equal if the number is exact.
    """

    name: str
    size: int
    satisfying: int
    within: tuple[int, int]

    @staticmethod
    def of(space: Space) -> Counts:
        """Count the architectures of a space within the default work budget.

        Raises ArchError (A0510, A0602, A1601, A1602).
        """
        with work_budget():
            return Counts(space.name, space.size, space.satisfying, space.count())

    @property
    def texts(self) -> tuple[str, str, str]:
        """The numbers `size`, `satisfying` and `within` as text."""
        least, most = self.within
        return (
            format_exactly(self.size),
            format_exactly(self.satisfying),
            format_exactly(most) if least == most else f"{format_exactly(least)} to {format_exactly(most)}",
        )

    def __repr__(self) -> str:
        size, satisfying, within = self.texts
        parts = [f"{self.name}: {round_count(self.size)} {inflect('architecture', self.size)}"]
        if satisfying != size:
            parts.append(f"{satisfying} satisfy the requirements on choices")
        if within != satisfying:
            parts.append(f"{within} within the bounds on costs")
        return f"<{', '.join(parts)}>"


def format_exactly(number: int) -> str:
    """Format a number with all its digits, or approximately if it has more than 100."""
    return f"{number:,}" if number < 10**100 else round_count(number)


@singledispatch
def to_html(value: Any) -> str | None:
    """Return a value as HTML, or None if its `repr` is sufficient. Dispatches on the value's class."""
    if isinstance(value, Tabular):
        columns = value.columns()
        rows = list(zip(*columns.values(), strict=True))
        return fragments.fragment(_heading(value), fragments.table([*columns], rows, len(rows)))
    if repr(value).startswith("<"):  # a `repr` that archir defines
        return fragments.fragment(_heading(value))
    if is_dataclass(value):
        values = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
        return fragments.fragment(fragments.heading(type(value).__name__), fragments.facts(values))
    return None


def _heading(value: object) -> str:
    """Return a heading made from a value's `repr`, such as `<Front of macs and params: 3 architectures>`."""
    class_name = type(value).__name__
    return fragments.heading(class_name, "", repr(value)[1:-1].removeprefix(class_name).removeprefix(":").strip())


@to_html.register
def _picture(value: Picture) -> str:
    return fragments.image(value.svg, value.text)


@to_html.register
def _counts(value: Counts) -> str:
    names = ("architectures", "satisfying the requirements on choices", "within the bounds on costs")
    size, satisfying, within = value.texts
    texts = (size, "" if satisfying == size else satisfying, "" if within == satisfying else within)
    values = dict(zip(names, texts, strict=True))
    return fragments.fragment(fragments.heading("Space", value.name), fragments.facts(values))


@to_html.register
def _cost(value: Cost) -> str:
    return fragments.fragment(fragments.facts({_UNITS[name]: f"{number:,}" for name, number in vars(value).items()}))


@to_html.register
def _graph(value: Graph) -> str:
    values = _graph_facts(value)
    if not value.decisions and len(value) <= MAX_NODES:
        values |= {_UNITS[name]: f"{number:,}" for name, number in vars(cost(value)).items()}
    return fragments.fragment(fragments.heading("Graph", value.name), fragments.facts(values), html_picture(value))


def _graph_facts(graph: Graph) -> dict[str, object]:
    """Return facts about a graph by heading: inputs and outputs with types, number of nodes, parameters of the net."""
    types = checked_types(graph) if len(graph) <= MAX_NODES else {}
    ports = {"inputs": graph.inputs, "outputs": graph.outputs}
    values: dict[str, object] = {
        name: ", ".join(f"{value} {types[number]}" if number in types else value for value, number in nodes.items())
        for name, nodes in ports.items()
    }
    parameters = ", ".join(f"{name} = {value}" for name, value in graph.parameters.items())
    return {**values, "nodes": f"{len(graph):,}", "parameters of the net": parameters}


@to_html.register
def _space(value: Space) -> str:
    graph = value.graph
    size = try_quickly(lambda: value.size)
    values: dict[str, object] = {"architectures": "many" if size is None else round_count(size)}
    if any(constraint.cost is None and constraint.keyword == "require" for constraint in graph.constraints):
        satisfying = try_quickly(lambda: value.satisfying)
        values["satisfying the requirements on choices"] = "" if satisfying is None else round_count(satisfying)
    bounds = ", ".join(constraint.text for constraint in graph.constraints if constraint.cost is not None)
    values |= {
        "choices": f"{len(value.choices):,}",
        "bounds on costs": bounds,
        **_graph_facts(graph),
        **_cost_ranges(value),
    }
    rows = ((c.path, outcomes(c, [*range(min(c.outcome_count, 6))]), taken(c), tags(c)) for c in value.choices)
    choice_table = fragments.table(["choice", "labels", "alternatives", "tags"], rows, len(value.choices))
    return fragments.fragment(
        fragments.heading("Space", value.name),
        fragments.facts(values),
        fragments.folded("Choices", choice_table),
        html_picture(graph),
    )


def _cost_ranges(space: Space) -> dict[str, object]:
    """Return the ranges of parameters and MACs over a space, by heading, if they can be computed quickly."""
    values: dict[str, object] = {}
    if len(space.graph) <= MAX_COSTED_NODES:
        for name in ("params", "macs"):
            limits = try_quickly(partial(space.account.limits, name))
            if limits is not None:
                values[_UNITS[name]] = " to ".join(f"{limit:,}" for limit in dict.fromkeys(limits))
    return values


@to_html.register
def _architecture(value: Architecture) -> str:
    choice_table = fragments.table(["choice", "label"], value.items(), len(value))
    picture = "" if value.graph is None else html_picture(architecture_graph(value))
    choices = fragments.folded("Choices", choice_table, len(value) <= MAX_UNFOLDED_CHOICES)
    return fragments.fragment(fragments.heading("Architecture", value.space), choices, picture)


@to_html.register
def _diagnostic(value: Diagnostic) -> str:
    return _diagnostics(Diagnostics([value]))


@to_html.register
def _diagnostics(value: Diagnostics) -> str:
    """Return a list of diagnostics as HTML, at most `fragments.MAX_ROWS` of them."""
    shown = [part for diagnostic in islice(value, fragments.MAX_ROWS) for part in _diagnostic_parts(diagnostic)]
    if not value:
        return fragments.fragment("<div>no problems</div>")
    more = len(value) - fragments.MAX_ROWS
    return fragments.fragment(*shown, f"<div>and {more:,} more</div>" if more > 0 else "")


def _diagnostic_parts(diagnostic: Diagnostic) -> tuple[str, str]:
    """Return two pieces of HTML for a diagnostic: position, severity and message; and the source lines below."""
    styled_texts = list(diagnostic.styled_text())
    message_index = next(i for i, (style, _) in enumerate(styled_texts) if style == "message")
    place = "".join(content for style, content in styled_texts[:message_index] if style == "place")
    message = fragments.text(styled_texts[message_index][1].rstrip(), MAX_MESSAGE)
    head = (
        f"<div>{fragments.text(place)}{fragments.severity_badge(diagnostic.severity)} {diagnostic.code}{message}</div>"
    )
    return head, fragments.preformatted("".join(content for _, content in styled_texts[message_index + 1 :]))


@to_html.register
def _answer(value: Answer) -> str:
    """Return an optimisation result as HTML: a table of the architectures, and a picture of the best one.

    If there are no architectures, the error is shown instead.
    """
    heading = _heading(value)
    if not value.architectures:
        error: ArchError = value.infeasible_error()
        return fragments.fragment(
            heading, *(part for diagnostic in error.diagnostics for part in _diagnostic_parts(diagnostic))
        )
    columns = value.columns()
    rows = list(zip(*columns.values(), strict=True))
    best = value.architectures[0]
    picture = "" if best.graph is None else html_picture(architecture_graph(best))
    return fragments.fragment(heading, fragments.table([*columns], rows, len(rows)), picture)
