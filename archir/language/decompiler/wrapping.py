"""Chains of calls that are longer than a line, as several statements that are a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.ir.op import OPS, Op
from archir.language.decompiler.outline import Step
from archir.language.decompiler.statements import Statement, Tree
from archir.language.formatter.doc import WIDTH

TARGET = 12
"""Characters of what stands before a chain: its variable, and what it begins with."""


def wrapped(
    statements: Sequence[Statement], length: Callable[[Step], int], depth: int = 1, last: int = TARGET
) -> list[Statement]:
    """The same statements; `length` says how many characters a call has, `depth` how far they are indented, `last` what
    stands before the last of them."""
    made: list[Statement] = []
    for statement in statements:
        if statement.tree is not None:
            room = WIDTH - 4 * depth - (last if statement is statements[-1] else TARGET)
            made += [Statement((tree.step.writes[0],), tree) for tree in _before(statement.tree, length, room)]  # type: ignore[union-attr]
            made.append(statement)
        else:
            inside = wrapped(statement.inside, length, depth + 1)
            made.append(Statement(statement.writes, None, statement.loop, inside))
    return made


def _before(tree: Tree, length: Callable[[Step], int], room: int) -> list[Tree]:
    """What is cut off of a chain, line by line, so that the rest of it is one."""
    spine: list[Tree] = []
    link: Tree | int = tree
    while isinstance(link, Tree) and isinstance(link.step, Step) and len(link.operands) == 1:
        spine.append(link)
        link = link.operands[0]
    if isinstance(link, Tree):  # a call of several, which the chain begins with
        return []
    spine.reverse()
    sizes = [length(one.step) for one in spine if isinstance(one.step, Step)]
    pieces: list[Tree] = []
    start = 0
    for i in range(len(spine)):
        if i > start and sum(sizes[start : i + 1]) > room:
            layers = [j for j in range(start + 1, i + 1) if _layer(spine[j])]
            cut = layers[-1] if layers else i
            step = spine[cut - 1].step
            assert isinstance(step, Step)
            pieces.append(spine[cut - 1])
            spine[cut].operands = [step.writes[0]]
            start = cut
    return pieces


def _layer(tree: Tree) -> bool:
    """Whether a call is one of a layer, or of a block: where one would begin a line."""
    kind = OPS.get(tree.step.callee) if isinstance(tree.step, Step) else None
    return kind is None or kind.weights is not Op.weights
