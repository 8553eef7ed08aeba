"""Windows that lie askew, and alternatives of unlike shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from archir.diagnostics.errors import Diagnostic, Span
from archir.diagrams.cases import Choice, leaves
from archir.ir.graph import NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import lifted
from archir.linting.subject import Subject, others
from archir.ops.windows import Window


def uneven_padding(subject: Subject) -> Iterator[Diagnostic]:
    """A1412: a window of an even kernel, padded to keep the size, which sees more on one side than on the other.

    Not where the stride leaves nothing of the padding: a pool of 2 with a stride of 2 is even.
    """
    found: dict[str, tuple[Span, Op]] = {}
    for number, condition in subject.needed.items():
        node = subject.graph[number]
        if _may_be_askew(node.op) and str(node.span) not in found:
            (x,) = subject.operand_types(number)
            if True in leaves(lifted(_askew, node.op, (x,), condition, subject.graph.given)):
                found[str(node.span)] = node.span, node.op
    for span, op in found.values():
        text = f"`{op.name}` with an even kernel and `same` padding sees more on one side"
        hint = 'take an odd kernel, or `padding="valid"` for windows side by side'
        yield Diagnostic("A1412", text, span, hint, (), "warning")


def _may_be_askew(op: Op) -> bool:
    attributes = vars(op)
    sizes = [leaf if isinstance(leaf, tuple) else (leaf,) for leaf in leaves(attributes.get("kernel", 1))]
    even = any(kernel % 2 == 0 for leaf in sizes for kernel in leaf)
    return even and "same" in leaves(attributes.get("padding"))


def _askew(op: Any, x: TensorType) -> bool:
    return op.padding == "same" and any(map(_is_askew, op.windows, x.spatial))


def _is_askew(window: Window, size: int) -> bool:
    seen = (window.outputs(size, "axis") - 1) * window.stride + window.span
    return window.kernel % 2 == 0 and window.before != seen - window.before - size


def channels_last(subject: Subject) -> Iterator[Diagnostic]:
    """A1414: an input that looks like an image whose channels are its last axis."""
    for number in subject.graph:
        node = subject.graph[number]
        match node.op:
            case Input(label=label, dims=(int(height), int(width), 1 | 3 | 4 as last)) if height == width > 4:
                text = f"the input `{label}` has {height} channels, and is {width} x {last} pixels: a map is [C, H, W]"
                hint = f"did you mean `[{last}, {height}, {width}]`?"
                yield Diagnostic("A1414", text, node.span, hint, (), "warning")


def unlike_shapes(subject: Subject) -> Iterator[Diagnostic]:
    """A1413: an alternative whose result has another shape than those of all the others, which agree.

    Of two alternatives only where their maps differ in size: that a choice is among widths is seen at once. Not where
    what they read has other shapes already, as where a cell chooses between its inputs.
    """
    for choices in subject.written:
        found = [(choice, odd) for choice in choices if (odd := _odd(subject, choice)) is not None]
        if found:
            choice, (outcome, other) = found[0]
            graph, select = subject.graph, subject.selects[choice.path][0]
            text = (
                f"`{choice.path}`: `{choice.alternatives[outcome]}` gives {_type(subject, select, outcome)}, "
                f"`{choice.alternatives[other]}` {_type(subject, select, other)}"
            )
            span = choice.places[outcome] if choice.places else graph[select].span
            hint = "is a stride or a number of channels missing? Where shapes are to differ, choose a number"
            yield Diagnostic("A1413", text, span, hint, others(len(found) - 1), "warning")


def _odd(subject: Subject, choice: Choice) -> tuple[int, int] | None:
    """An alternative that differs in shape from the others, and one of these."""
    selects = subject.selects.get(choice.path, [])
    if choice.take is not None or not selects:
        return None
    types = [_type(subject, selects[0], outcome) for outcome in range(choice.outcomes)]
    if any(type_.varied for type_ in types):
        return None
    counts = Counter(types)
    if len(counts) != 2:
        return None
    (usual, many), (odd, few) = counts.most_common()
    if few > 1 or (many == 1 and (usual.rank != odd.rank or usual.dims[1:] == odd.dims[1:])):
        return None
    pair = types.index(odd), types.index(usual)
    read, others = (_read(subject, selects[0], choice.path, outcome) for outcome in pair)
    return pair if read & others or not read else None


def _read(subject: Subject, select: NodeId, path: str, outcome: int) -> set[TensorType]:
    """The types of what an alternative reads from outside of it: of one that is a tensor, its own."""
    graph, op = subject.graph, subject.graph[select].op
    assert isinstance(op, Select)
    pending, seen, found = [graph.operands(select)[op.cases[outcome]]], set(), set()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        if number in subject.owned.get((path, outcome), ()):
            pending += graph.operands(number)
        else:
            found.add(subject.types[number])
    return found


def _type(subject: Subject, select: NodeId, outcome: int) -> TensorType:
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.types[subject.graph.operands(select)[op.cases[outcome]]]
