"""Lint rules for shapes: asymmetric padding, channels-last inputs, and an alternative whose shape differs from
the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from archir.diagnostics.errors import Diagnostic, Span
from archir.diagrams.diagram import Choice, leaves
from archir.ir.graph import NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import lift_rule
from archir.linting.subject import Subject, more_note
from archir.ops.windows import Window


def uneven_padding(subject: Subject) -> Iterator[Diagnostic]:
    """A1412: warn about a window with an even kernel and `same` padding, which then pads one side more than the
    other.

    No warning if no padding is needed: a pool of size 2 and stride 2 is symmetric.
    """
    windows: dict[str, tuple[Span, Op]] = {}
    for node_id, condition in subject.needed.items():
        node = subject.graph[node_id]
        if _may_be_uneven(node.op) and str(node.span) not in windows:
            (x,) = subject.operand_types(node_id)
            if True in leaves(lift_rule(_has_uneven_padding, node.op, (x,), condition, subject.graph.assumptions)):
                windows[str(node.span)] = node.span, node.op
    for span, op in windows.values():
        text = f"`{op.name}` with an even kernel and `same` padding sees more on one side"
        hint = 'take an odd kernel, or `padding="valid"` for windows side by side'
        yield Diagnostic("A1412", text, span, hint, (), "warning")


def _may_be_uneven(op: Op) -> bool:
    """Return True if the padding may be asymmetric for some values of the attributes `kernel` and `padding`."""
    attributes = vars(op)
    sizes = [leaf if isinstance(leaf, tuple) else (leaf,) for leaf in leaves(attributes.get("kernel", 1))]
    even = any(kernel % 2 == 0 for leaf in sizes for kernel in leaf)
    return even and "same" in leaves(attributes.get("padding"))


def _has_uneven_padding(op: Any, x: TensorType) -> bool:
    """Return True if an operation's padding is asymmetric on some axis of an operand of type `x`."""
    return op.padding == "same" and any(map(_is_uneven, op.windows, x.spatial))


def _is_uneven(window: Window, size: int) -> bool:
    """Return True if a window's padding is asymmetric on an axis of length `size`."""
    covered = (window.output_size(size, "axis") - 1) * window.stride + window.span
    return window.kernel % 2 == 0 and window.before != covered - window.before - size


def channels_last(subject: Subject) -> Iterator[Diagnostic]:
    """A1414: warn about an input that looks like an image with the channels on the last axis."""
    for node_id in subject.graph:
        node = subject.graph[node_id]
        match node.op:
            case Input(label=label, dims=(int(height), int(width), 1 | 3 | 4 as last)) if height == width > 4:
                text = f"the input `{label}` has {height} channels, and is {width} x {last} pixels: a map is [C, H, W]"
                hint = f"did you mean `[{last}, {height}, {width}]`?"
                yield Diagnostic("A1414", text, node.span, hint, (), "warning")


def unlike_shapes(subject: Subject) -> Iterator[Diagnostic]:
    """A1413: warn about an alternative whose output shape differs from that of all others, which have equal shapes.

    With only two alternatives, only different spatial sizes count; different widths are obvious in the program.
    No warning if the alternatives read operands of different shapes, as in a cell that chooses between its
    inputs.
    """
    for choices in subject.choices_by_place:
        odd_choices = [(choice, odd) for choice in choices if (odd := _odd_alternative(subject, choice)) is not None]
        if odd_choices:
            choice, (outcome, other) = odd_choices[0]
            graph, select = subject.graph, subject.selects[choice.path][0]
            text = (
                f"`{choice.path}`: `{choice.alternatives[outcome]}` gives {_selected_type(subject, select, outcome)}, "
                f"`{choice.alternatives[other]}` {_selected_type(subject, select, other)}"
            )
            span = choice.alternative_spans[outcome] if choice.alternative_spans else graph[select].span
            hint = "is a stride or a number of channels missing? If the shapes should differ, choose a number"
            yield Diagnostic("A1413", text, span, hint, more_note(len(odd_choices) - 1), "warning")


def _odd_alternative(subject: Subject, choice: Choice) -> tuple[int, int] | None:
    """Return the outcome of the alternative with a different shape, and the outcome of one of the others.

    Returns None if there is no such alternative.
    """
    selects = subject.selects.get(choice.path, [])
    if choice.k is not None or not selects:
        return None
    types = [_selected_type(subject, selects[0], outcome) for outcome in range(choice.outcome_count)]
    if any(type_.is_varying for type_ in types):
        return None
    counts = Counter(types)
    if len(counts) != 2:
        return None
    (usual, usual_count), (odd, odd_count) = counts.most_common()
    if odd_count > 1 or (usual_count == 1 and (usual.rank != odd.rank or usual.dims[1:] == odd.dims[1:])):
        return None
    pair = types.index(odd), types.index(usual)
    odd_operands, usual_operands = (
        _operand_types_outside(subject, selects[0], choice.path, outcome) for outcome in pair
    )
    return pair if odd_operands & usual_operands or not odd_operands else None


def _operand_types_outside(subject: Subject, select: NodeId, path: str, outcome: int) -> set[TensorType]:
    """Return the types of the nodes outside an alternative that the alternative reads.

    If the alternative's result is itself an outside node, return the type of that node.
    """
    graph, op = subject.graph, subject.graph[select].op
    assert isinstance(op, Select)
    pending, seen, types = [graph.operands(select)[op.cases[outcome]]], set(), set()
    while pending:
        node_id = pending.pop()
        if node_id in seen:
            continue
        seen.add(node_id)
        if node_id in subject.owned_nodes.get((path, outcome), ()):
            pending += graph.operands(node_id)
        else:
            types.add(subject.types[node_id])
    return types


def _selected_type(subject: Subject, select: NodeId, outcome: int) -> TensorType:
    """Return the type of the operand that a `Select` node selects for an outcome."""
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.types[subject.graph.operands(select)[op.cases[outcome]]]
