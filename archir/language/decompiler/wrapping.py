"""Line wrapping: splits call chains that do not fit on a line into several statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.ir.op import OPS, Op
from archir.language.decompiler.program_tree import Step
from archir.language.decompiler.statements import CallTree, Statement
from archir.language.formatter.doc import WIDTH

TARGET = 12
"""Characters reserved on each line for what precedes the calls of a chain: the assigned variable and the
starting value."""


def wrap_statements(
    statements: Sequence[Statement], length: Callable[[Step], int], depth: int = 1, last: int = TARGET
) -> list[Statement]:
    """Split call chains that are too long for a line into several statements.

    `length` returns the text length of a call in characters, `depth` is the indentation level, and `last` is the
    number of characters before the chain of the last statement.
    """
    new_statements: list[Statement] = []
    for statement in statements:
        if statement.tree is not None:
            width = WIDTH - 4 * depth - (last if statement is statements[-1] else TARGET)
            new_statements += [*_cut_off(statement.tree, length, width), statement]
        else:
            inside = wrap_statements(statement.inside, length, depth + 1)
            new_statements.append(Statement(statement.writes, None, statement.loop, inside))
    return new_statements


def _cut_off(tree: CallTree, length: Callable[[Step], int], width: int) -> list[Statement]:
    """Cut parts off the start of a chain until the rest fits into `width` characters. Return them, a statement each."""
    spine: list[CallTree] = []
    link: CallTree | int = tree
    while isinstance(link, CallTree) and isinstance(link.step, Step) and len(link.operands) == 1:
        spine.append(link)
        link = link.operands[0]
    if isinstance(link, CallTree):  # the chain starts with a call of several operands
        return []
    spine.reverse()
    sizes = [length(call.step) for call in spine if isinstance(call.step, Step)]
    pieces: list[Statement] = []
    start = 0
    for i in range(len(spine)):
        if i > start and sum(sizes[start : i + 1]) > width:
            layers = [j for j in range(start + 1, i + 1) if _is_layer(spine[j])]
            cut = layers[-1] if layers else i
            step = spine[cut - 1].step
            assert isinstance(step, Step)
            pieces.append(Statement((step.writes[0],), spine[cut - 1]))
            spine[cut].operands = [step.writes[0]]
            start = cut
    return pieces


def _is_layer(tree: CallTree) -> bool:
    """Return True if a call should start a wrapped line, i.e. calls a block or an operation with weights."""
    kind = OPS.get(tree.step.callee) if isinstance(tree.step, Step) else None
    return kind is None or kind.weights is not Op.weights
