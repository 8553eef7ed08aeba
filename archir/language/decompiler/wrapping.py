"""Line wrapping: splits chains of calls that are longer than a line into several statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.ir.op import OPS, Op
from archir.language.decompiler.program_tree import Step
from archir.language.decompiler.statements import CallTree, Statement
from archir.language.formatter.doc import WIDTH

TARGET = 12
"""Characters reserved for what precedes a chain on its line: the assigned variable and the value the chain starts
from."""


def wrap_statements(
    statements: Sequence[Statement], length: Callable[[Step], int], depth: int = 1, last: int = TARGET
) -> list[Statement]:
    """Return the statements with long chains split.

    `length` returns the number of characters of a call, `depth` is the indentation level, and `last` the number of
    characters that precede the chain of the last statement.
    """
    new_statements: list[Statement] = []
    for statement in statements:
        if statement.tree is not None:
            width = WIDTH - 4 * depth - (last if statement is statements[-1] else TARGET)
            for tree in _cut_off(statement.tree, length, width):
                new_statements.append(Statement((tree.step.writes[0],), tree))  # type: ignore[union-attr]
            new_statements.append(statement)
        else:
            inside = wrap_statements(statement.inside, length, depth + 1)
            new_statements.append(Statement(statement.writes, None, statement.loop, inside))
    return new_statements


def _cut_off(tree: CallTree, length: Callable[[Step], int], width: int) -> list[CallTree]:
    """Return the parts to cut off the start of a chain, one line each, so that the remaining chain fits a line of
    `width` characters."""
    spine: list[CallTree] = []
    link: CallTree | int = tree
    while isinstance(link, CallTree) and isinstance(link.step, Step) and len(link.operands) == 1:
        spine.append(link)
        link = link.operands[0]
    if isinstance(link, CallTree):  # the chain starts with a call of several operands
        return []
    spine.reverse()
    sizes = [length(call.step) for call in spine if isinstance(call.step, Step)]
    pieces: list[CallTree] = []
    start = 0
    for i in range(len(spine)):
        if i > start and sum(sizes[start : i + 1]) > width:
            layers = [j for j in range(start + 1, i + 1) if _is_layer(spine[j])]
            cut = layers[-1] if layers else i
            step = spine[cut - 1].step
            assert isinstance(step, Step)
            pieces.append(spine[cut - 1])
            spine[cut].operands = [step.writes[0]]
            start = cut
    return pieces


def _is_layer(tree: CallTree) -> bool:
    """Return True if a call is a block or has weights, so that a line should start with it."""
    kind = OPS.get(tree.step.callee) if isinstance(tree.step, Step) else None
    return kind is None or kind.weights is not Op.weights
