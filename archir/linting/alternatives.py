"""Lint rules that compare the alternatives of a choice: equivalent ones, skip connections and zeros."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, join_names
from archir.diagrams.diagram import Choice
from archir.equivalence.algebra import FactTable, Terms
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.linting.subject import Subject, more_note
from archir.ops.activation import Identity, Zero


@dataclass(frozen=True)
class CanonicalForm:
    """Canonical form of what an alternative computes.

    `text` is equal for equivalent alternatives; `roots` are the operations that produce its results.
    """

    text: str
    roots: tuple[Op, ...]


def equivalent_alternatives(subject: Subject) -> Iterator[Diagnostic]:
    """A1402: warn about equivalent alternatives that have separate weights. A1403: all alternatives are equivalent.

    Alternatives are equivalent if they apply operations with the same attributes and sizes to the same operands,
    after the rewrites of `archir.equivalence.canonical`.
    """
    for choices in subject.choices_by_place:
        groups = [(choice, group) for choice in choices for group in equivalent_groups(subject, choice)]
        if not groups:
            continue
        choice, group = groups[0]
        names = join_names([choice.alternatives[i] for i in group])
        if len(group) == len(choice.alternatives):
            text = f"`{choice.path}` changes nothing: {names} compute the same"
            hint = "drop the choice"
        else:
            text = f"`{choice.path}`: {names} compute the same"
            hint = "drop all but one: a search samples them more often than the others, and compares equal networks"
        code = "A1403" if len(group) == len(choice.alternatives) else "A1402"
        yield Diagnostic(code, text, choice.span, hint, more_note(len(groups) - 1), "warning")


def equivalent_groups(subject: Subject, choice: Choice) -> list[list[int]]:
    """Return groups of alternatives that are equivalent at every `Select` node of the choice."""
    selects = subject.selects.get(choice.path, [])
    if choice.k is not None or not selects or choice.path in subject.attribute_choices:
        return []
    suspects = _groups(subject, choice, range(choice.outcome_count), selects[:1])
    if len(selects) == 1:
        suspects = [[i for i in group if _is_closed(subject, choice, i)] for group in suspects]
        return [group for group in suspects if len(group) > 1]
    groups_by_suspects = [
        _groups(subject, choice, [i for i in group if _is_closed(subject, choice, i)], selects) for group in suspects
    ]
    return [group for groups in groups_by_suspects for group in groups]


def _groups(subject: Subject, choice: Choice, alternatives: Sequence[int], selects: list[NodeId]) -> list[list[int]]:
    """Group alternatives by their canonical form at the given `Select` nodes; return the groups of two or more."""
    groups: dict[str, list[int]] = defaultdict(list)
    for alternative in alternatives:
        computed = canonical_form(subject, choice, alternative, selects)
        if computed is not None:
            groups[computed.text].append(alternative)
    return [group for group in groups.values() if len(group) > 1]


def _is_closed(subject: Subject, choice: Choice, alternative: int) -> bool:
    """Return True if the nodes of an alternative are read outside it only by `Select` nodes of its choice."""
    graph, inside = subject.graph, subject.owned_nodes.get((choice.path, alternative), set())
    for node_id in inside:
        for consumer in graph.consumers(node_id):
            op = graph[consumer].op
            selected = isinstance(op, Select) and op.choice == choice.path
            if consumer not in inside and consumer in subject.needed and not selected:
                return False
    return True


def canonical_form(
    subject: Subject, choice: Choice, alternative: int, selects: Sequence[NodeId]
) -> CanonicalForm | None:
    """Return the canonical form of an alternative's results at the given `Select` nodes.

    Nodes outside the alternative become inputs. Returns None if the results depend on other choices, or use weights
    that are shared with nodes outside the alternative.
    """
    graph, inside = subject.graph, subject.owned_nodes.get((choice.path, alternative), set())
    roots = [_selected(subject, select, alternative) for select in selects]
    terms, mapped = Terms(FactTable()), dict[NodeId, NodeId]()
    for node_id in _dependencies(subject, roots, inside):
        node = graph[node_id]
        if node_id not in inside:
            type_ = subject.types[node_id]
            if type_.is_varying or type_.kind != "feature":
                return None
            node = Node(Input(f"%{node_id}", type_.shape, type_.dtype))
            mapped[node_id] = terms.put(node)
            continue
        if (
            isinstance(node.op, Select)
            or node.op.varying_attributes
            or any(x.is_varying for x in subject.operand_types(node_id))
        ):
            return None
        if subject.has_parameters(node_id) and not subject.scopes[node.scope] <= inside:
            return None
        mapped[node_id] = terms.put(node, *(mapped[operand] for operand in graph.operands(node_id)))
    text = terms.text({f"{position}": mapped[root] for position, root in enumerate(roots)})
    return CanonicalForm(text, tuple(terms[mapped[root]].op for root in roots))


def _selected(subject: Subject, select: NodeId, outcome: int) -> NodeId:
    """Return the operand that a `Select` node selects for an outcome."""
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.graph.operands(select)[op.cases[outcome]]


def _dependencies(subject: Subject, roots: Sequence[NodeId], inside: set[NodeId]) -> list[NodeId]:
    """Return the nodes in `inside` on which the roots depend, operands first, and their outside operands."""
    nodes: set[NodeId] = set()
    stack = list(roots)
    while stack:
        node_id = stack.pop()
        if node_id not in nodes:
            nodes.add(node_id)
            if node_id in inside:
                stack.extend(subject.graph.operands(node_id))
    return sorted(nodes)


def skip_collapse(subject: Subject) -> Iterator[Diagnostic]:
    """A1404: warn about a skip connection or zero beside alternatives with weights, in a choice that is searched by
    gradients."""
    for choices in subject.choices_by_place:
        collapsing = []
        for choice in choices:
            if choice.k is None and subject.searched(choice, "differentiable"):
                names = _idle_alternatives(subject, choice)
                if names:
                    collapsing.append((choice, names))
        if collapsing:
            choice, names = collapsing[0]
            yield Diagnostic(
                "A1404",
                f"`{choice.path}`: {names} among alternatives with weights",
                choice.span,
                "while weights are not yet trained, gradients prefer skip connections: regularise, stop early, or give "
                "them a choice of their own",
                more_note(len(collapsing) - 1),
                "warning",
            )


def _idle_alternatives(subject: Subject, choice: Choice) -> str:
    """Describe the alternatives that are skip connections or zeros; "" if no alternative has weights."""
    selects = subject.selects.get(choice.path, [])[:1]
    words, has_weights = [], False
    for alternative in range(choice.outcome_count) if selects else ():
        has_weights |= any(
            subject.has_parameters(number) for number in subject.owned_nodes.get((choice.path, alternative), ())
        )
        root = _root(subject, choice, alternative, selects[0])
        if isinstance(root, Input | Zero):
            description = "zero" if isinstance(root, Zero) else "a skip connection"
            words.append(f"`{choice.alternatives[alternative]}` is {description}")
    return ", ".join(words) if has_weights else ""


def _root(subject: Subject, choice: Choice, alternative: int, select: NodeId) -> Op:
    """Return the operation that produces an alternative's result; an `Input` if a node outside the alternative does."""
    computed = canonical_form(subject, choice, alternative, [select])
    if computed is not None:
        return computed.roots[0]
    node_id = _selected(subject, select, alternative)
    inside = subject.owned_nodes.get((choice.path, alternative), set())
    while node_id in inside and isinstance(subject.graph[node_id].op, Identity):
        (node_id,) = subject.graph.operands(node_id)
    return subject.graph[node_id].op if node_id in inside else Input("", ())
