"""Edits the program text of a network into that of an elastic space, and proves that its largest architecture is
the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagnostics.work import work_budget
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import Loader
from archir.language.elastic.choice_values import Request, parse_request
from archir.language.elastic.edit import Group
from archir.language.elastic.flow import Flow
from archir.language.elastic.group_search import GroupSearch
from archir.language.elastic.operators import Operator, offer_operators, require_scope
from archir.language.elastic.sites import sites
from archir.language.formatter import canonical
from archir.passes.specialize import specialize

_NO_OPERATOR = "no call with weights is in a statement that is only a pipe, such as `y = x |> conv(64)`"


@dataclass(frozen=True)
class ElasticChoice:
    """Choice of an elastic space, or a number or call that did not become a choice (`label` is then "").

    `places` are its spans in the program text of the network. If it has only one value, `reason` says why.
    """

    kind: str
    label: str
    values: tuple[str, ...]
    places: tuple[Span, ...]
    reason: str


@dataclass(frozen=True)
class ElasticSpace:
    """Elastic space of a network: program text, graph, and the outcomes `full` that give the network.

    `opened` lists the choices of the space; `left` lists the numbers and calls that could not become choices.
    """

    text: str
    graph: Graph
    network: Graph
    full: Mapping[str, int]
    opened: tuple[ElasticChoice, ...]
    left: tuple[ElasticChoice, ...]


def make_elastic(
    text: str, choose: str, path: str = "<input>", *, folder: Path | None = None, root: Path | None = None,
    net: str | None = None, where: str | None = None,
) -> ElasticSpace:  # fmt: skip
    """Build the elastic space of a network from its program text; `choose` has the syntax of `--choose`.

    Raises ArchError: A3211 (`choose` is invalid), A3212 (nothing can become a choice), A3213 (the program already
    has choices), A3214 (the space's largest architecture is not the network), A3230 (`where` matches no scope),
    A3231 (the search exceeds its round limit), and the errors of the program itself.
    """
    request, limits = parse_request(choose), Limits(guess=True)

    def build(source: str) -> Graph:
        return elaborate(source, path, folder=folder, root=root, net=net, limits=limits)

    network = build(text)
    if network.decisions:
        text = f"`{network.name}` has choices, but only a single network can be opened"
        raise fail("A3213", text, None, "it is already a space: edit its choices by hand")
    with work_budget(limits.work):
        module = Loader(root if root is not None else folder).load(text, path, folder)
    if where is not None:
        require_scope(network, where)
    opened, left, graph = [], [], network
    source, with_operators = text, "operators" in request
    numeric: Request = {kind: values for kind, values in request.items() if kind != "operators"}
    if numeric:
        flow = Flow(module, module.nets[network.name])
        search = GroupSearch(text, flow, sites(flow, module), network, numeric, build)
        try:
            edited, graph = search.run(where)
        except ArchError as error:
            if not (with_operators and error.diagnostics[0].code == "A3212"):
                raise
        else:
            source, opened = (
                edited.text,
                [_choice_of_group(group, label, numeric) for label, group in edited.labels.items()],
            )
        left = [_choice_of_group(group, "", numeric) for group in search.closed]
    if with_operators:
        with work_budget(limits.work):
            module = Loader(root if root is not None else folder).load(source, path, folder)
        offered = offer_operators(source, Flow(module, module.nets[network.name]), graph, where, build)
        source, graph = offered.text, offered.graph
        opened += [_choice_of_operator(operator) for operator in offered.opened]
        left += [_choice_of_operator(operator) for operator in offered.left]
    if not opened:
        reasons = list(dict.fromkeys(row.reason for row in left if row.reason))[:3]
        raise fail("A3212", f"nothing of `{network.name}` can be opened", None, "; ".join(reasons) or _NO_OPERATOR)
    full = {path: decision.choice.outcome_count - 1 for path, decision in graph.decisions.items()}
    largest = specialize(graph, full)
    if canonical_hash(largest) != canonical_hash(network) or _weight_scopes(largest) != _weight_scopes(network):
        message = f"the largest architecture of the space made from `{network.name}` is not the network itself"
        raise fail("A3214", message, None, "open less of it: --choose widths, or --where SCOPE")
    if canonical(text, path) == text:  # a canonically formatted text stays one
        source = canonical(source, path)
    return ElasticSpace(source, graph, network, full, tuple(opened), tuple(left))


def _weight_scopes(graph: Graph) -> set[str]:
    """Return the scopes of all operations with weights, by which weights are looked up."""
    return {graph[number].scope for number in graph if type(graph[number].op).weights is not Op.weights}


def _choice_of_group(group: Group, label: str, request: Request) -> ElasticChoice:
    """Describe a group of sites as a choice or, if `label` is "", as a number that did not become a choice."""
    values = tuple(str(value) for value in group.values(request))
    reason = group.reason or ("" if label else "there is no smaller value")
    return ElasticChoice(str(group.kind), label, values, tuple(site.span for site in group.sites), reason)


def _choice_of_operator(operator: Operator) -> ElasticChoice:
    """Describe an operator as a choice or, if it has no alternatives, as a call that did not become a choice."""
    values = tuple(operator.alternatives) if operator.offered else ()
    return ElasticChoice(
        "operators", operator.label if operator.offered else "", values, (operator.span,), "; ".join(operator.rejected)
    )
