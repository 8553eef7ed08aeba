"""From the text of a network to the text of a space, and a proof that the network is the largest architecture of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagnostics.work import bounded
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import Loader
from archir.language.elastic.edit import Group
from archir.language.elastic.flow import Flow
from archir.language.elastic.ladders import Asked, asked
from archir.language.elastic.operators import Operator, offer
from archir.language.elastic.scopes import checked
from archir.language.elastic.search import Search
from archir.language.elastic.sites import sites
from archir.language.formatter import canonical
from archir.passes.specialize import specialize

_NO_OPERATOR = "no call with weights stands in a pipe of its own: `y = x |> conv(64)`"


@dataclass(frozen=True)
class Row:
    """A choice of a space, or what was not made one: what it is, its values, where the network's text has it, and why
    there are no more of them."""

    kind: str
    label: str
    values: tuple[str, ...]
    places: tuple[Span, ...]
    reason: str


@dataclass(frozen=True)
class Opening:
    """A space as a text, its graph, and the outcomes by which it is the network."""

    text: str
    graph: Graph
    network: Graph
    full: Mapping[str, int]
    opened: tuple[Row, ...]
    left: tuple[Row, ...]


def open_text(
    text: str, choose: str, path: str = "<input>", *, folder: Path | None = None, root: Path | None = None,
    net: str | None = None, where: str | None = None,
) -> Opening:  # fmt: skip
    """The space of the text of a network. Raises ArchError: A3211 (`choose` is not understood), A3212 (nothing can be
    opened), A3213 (the text has choices already), A3230 (`where` names no scope), A3231 (it takes too long to find
    out), and what is wrong with the text."""
    wanted, limits = asked(choose), Limits(guess=True)

    def made(source: str) -> Graph:
        return elaborate(source, path, folder=folder, root=root, net=net, limits=limits)

    network = made(text)
    if network.decisions:
        text = f"`{network.name}` has choices: what is opened is one network"
        raise fail("A3213", text, None, "it is a space already, which can be edited by hand")
    with bounded(limits.work):
        module = Loader(root if root is not None else folder).load(text, path, folder)
    if where is not None:
        checked(network, where)
    opened, left, graph = [], [], network
    source, others = text, "operators" in wanted
    numbers: Asked = {kind: values for kind, values in wanted.items() if kind != "operators"}
    if numbers:
        flow = Flow(module, module.nets[network.name])
        search = Search(text, flow, sites(flow, module), network, numbers, made)
        try:
            edited, graph = search.run(where)
        except ArchError as error:
            if not (others and error.diagnostics[0].code == "A3212"):
                raise
        else:
            source, opened = edited.text, [_row(group, label, numbers) for label, group in edited.labels.items()]
        left = [_row(group, "", numbers) for group in search.closed]
    if others:
        with bounded(limits.work):
            module = Loader(root if root is not None else folder).load(source, path, folder)
        offered = offer(source, Flow(module, module.nets[network.name]), graph, where, made)
        source, graph = offered.text, offered.graph
        opened += [_offered(one) for one in offered.opened]
        left += [_offered(one) for one in offered.left]
    if not opened:
        reasons = list(dict.fromkeys(row.reason for row in left if row.reason))[:3]
        raise fail("A3212", f"nothing of `{network.name}` can be opened", None, "; ".join(reasons) or _NO_OPERATOR)
    full = {path: decision.choice.outcomes - 1 for path, decision in graph.decisions.items()}
    most = specialize(graph, full)
    if canonical_hash(most) != canonical_hash(network) or _named(most) != _named(network):
        message = f"the largest architecture of what was made of `{network.name}` is another network"
        raise fail("A3214", message, None, "open less of it: --choose widths, or --where SCOPE")
    if canonical(text, path) == text:  # what was laid out canonically, is
        source = canonical(source, path)
    return Opening(source, graph, network, full, tuple(opened), tuple(left))


def _named(graph: Graph) -> set[str]:
    """The scopes of weights, by which those of the network are found."""
    return {graph[number].scope for number in graph if type(graph[number].op).weights is not Op.weights}


def _row(group: Group, label: str, wanted: Asked) -> Row:
    values = tuple(str(value) for value in group.values(wanted))
    reason = group.reason or ("" if label else "there is nothing smaller")
    return Row(str(group.kind), label, values, tuple(site.span for site in group.sites), reason)


def _offered(one: Operator) -> Row:
    values = tuple(one.alternatives) if one.others else ()
    return Row("operators", one.label if one.others else "", values, (one.span,), "; ".join(one.left))
