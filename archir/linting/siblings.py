"""Alternatives compared with one another: which compute the same, and which do nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, listed
from archir.diagrams.cases import Choice
from archir.equivalence.algebra import Facts, Terms
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.linting.subject import Subject, others
from archir.ops.activation import Identity, Zero


@dataclass(frozen=True)
class Form:
    """What an alternative computes: a text that is equal where that is, and the operations its results come from."""

    text: str
    roots: tuple[Op, ...]


def equivalent(subject: Subject) -> Iterator[Diagnostic]:
    """A1402: alternatives that compute the same, with weights of their own: the same operations of the same attributes
    and sizes on the same operands, up to what `archir.equivalence.canonical` sees through. A1403: all do."""
    for choices in subject.written:
        found = [(choice, group) for choice in choices for group in alike(subject, choice)]
        if not found:
            continue
        choice, group = found[0]
        names = listed([choice.alternatives[i] for i in group])
        if len(group) == len(choice.alternatives):
            text = f"`{choice.path}` changes nothing: {names} compute the same"
            hint = "drop the choice"
        else:
            text = f"`{choice.path}`: {names} compute the same"
            hint = "drop all but one: a search draws them more often than the others, and compares them in vain"
        code = "A1403" if len(group) == len(choice.alternatives) else "A1402"
        yield Diagnostic(code, text, choice.span, hint, others(len(found) - 1), "warning")


def alike(subject: Subject, choice: Choice) -> list[list[int]]:
    """Groups of a choice's alternatives that compute the same wherever the choice is met."""
    selects = subject.selects.get(choice.path, [])
    if choice.take is not None or not selects or choice.path in subject.attributes:
        return []
    suspects = _groups(subject, choice, range(choice.outcomes), selects[:1])
    if len(selects) == 1:
        suspects = [[i for i in group if _closed(subject, choice, i)] for group in suspects]
        return [group for group in suspects if len(group) > 1]
    whole = [_groups(subject, choice, [i for i in group if _closed(subject, choice, i)], selects) for group in suspects]
    return [group for groups in whole for group in groups]


def _groups(subject: Subject, choice: Choice, alternatives: Sequence[int], selects: list[NodeId]) -> list[list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for alternative in alternatives:
        made = form(subject, choice, alternative, selects)
        if made is not None:
            found[made.text].append(alternative)
    return [group for group in found.values() if len(group) > 1]


def _closed(subject: Subject, choice: Choice, alternative: int) -> bool:
    """Whether all that is peculiar to an alternative shows where the choice selects it."""
    graph, inside = subject.graph, subject.owned.get((choice.path, alternative), set())
    for number in inside:
        for consumer in graph.consumers(number):
            op = graph[consumer].op
            selected = isinstance(op, Select) and op.choice == choice.path
            if consumer not in inside and consumer in subject.needed and not selected:
                return False
    return True


def form(subject: Subject, choice: Choice, alternative: int, selects: Sequence[NodeId]) -> Form | None:
    """What an alternative gives some selections by its choice, from the nodes that are not its own.

    None if that depends on further choices, or on weights that others use, too.
    """
    graph, inside = subject.graph, subject.owned.get((choice.path, alternative), set())
    roots = [_chosen(subject, select, alternative) for select in selects]
    terms, moved = Terms(Facts()), dict[NodeId, NodeId]()
    for number in _below(subject, roots, inside):
        node = graph[number]
        if number not in inside:
            type_ = subject.types[number]
            if type_.varied or type_.kind != "feature":
                return None
            node = Node(Input(f"%{number}", type_.shape, type_.dtype))
            moved[number] = terms.put(node)
            continue
        if isinstance(node.op, Select) or node.op.varied or any(x.varied for x in subject.operand_types(number)):
            return None
        if subject.weighs(number) and not subject.scopes[node.scope] <= inside:
            return None
        moved[number] = terms.put(node, *(moved[operand] for operand in graph.operands(number)))
    text = terms.text({f"{position}": moved[root] for position, root in enumerate(roots)})
    return Form(text, tuple(terms[moved[root]].op for root in roots))


def _chosen(subject: Subject, select: NodeId, outcome: int) -> NodeId:
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.graph.operands(select)[op.cases[outcome]]


def _below(subject: Subject, roots: Sequence[NodeId], inside: set[NodeId]) -> list[NodeId]:
    """The roots and what they need, operands first, as far as it is inside, and the first nodes that are not."""
    found: set[NodeId] = set()
    stack = list(roots)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            if number in inside:
                stack.extend(subject.graph.operands(number))
    return sorted(found)


def collapse(subject: Subject) -> Iterator[Diagnostic]:
    """A1404: a skip connection or a zero among alternatives with weights, in a choice that gradients decide."""
    for choices in subject.written:
        found = []
        for choice in choices:
            if choice.take is None and subject.searched(choice, "differentiable"):
                names = _idle(subject, choice)
                if names:
                    found.append((choice, names))
        if found:
            choice, names = found[0]
            yield Diagnostic(
                "A1404",
                f"`{choice.path}`: {names} among alternatives with weights",
                choice.span,
                "gradients come to prefer skip connections while weights are still poor: regularise, stop early, or "
                "give them a choice of their own",
                others(len(found) - 1),
                "warning",
            )


def _idle(subject: Subject, choice: Choice) -> str:
    """The alternatives that pass their operand on or are zero, in words, if others have weights."""
    selects = subject.selects.get(choice.path, [])[:1]
    words, weighing = [], False
    for alternative in range(choice.outcomes) if selects else ():
        weighing |= any(subject.weighs(number) for number in subject.owned.get((choice.path, alternative), ()))
        root = _root(subject, choice, alternative, selects[0])
        if isinstance(root, Input | Zero):
            what = "zero" if isinstance(root, Zero) else "a skip connection"
            words.append(f"`{choice.alternatives[alternative]}` is {what}")
    return ", ".join(words) if weighing else ""


def _root(subject: Subject, choice: Choice, alternative: int, select: NodeId) -> Op:
    """The operation that an alternative's result comes from; an Input if that is not the alternative's own."""
    made = form(subject, choice, alternative, [select])
    if made is not None:
        return made.roots[0]
    number = _chosen(subject, select, alternative)
    inside = subject.owned.get((choice.path, alternative), set())
    while number in inside and isinstance(subject.graph[number].op, Identity):
        (number,) = subject.graph.operands(number)
    return subject.graph[number].op if number in inside else Input("", ())
