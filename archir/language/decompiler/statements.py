"""Steps as statements: chains of calls, and variables where a value is read more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from archir.language.decompiler.outline import Item, Loop, Option, Step, read_by, sizes_in

LONGEST_CHAIN = 12
"""Calls behind each other that are one statement."""
LONGEST_OPERAND = 70
"""Characters of an expression that is written into another one, but at the head of a chain."""


@dataclass
class Tree:
    """An expression: a step of operands that are values or expressions themselves."""

    step: Step | Option
    operands: list[int | Tree]
    inner: Tree | int | None = None

    def reads(self) -> Iterator[int]:
        """The values it reads, sizes included."""
        for operand in self.operands:
            if isinstance(operand, Tree):
                yield from operand.reads()
            else:
                yield operand
        if isinstance(self.inner, Tree):
            yield from self.inner.reads()
        elif self.inner is not None:
            yield self.inner
        yield from sizes_in(self.step if isinstance(self.step, Step) else Option((), self.step.flag, 0, 0, 0))

    def length(self) -> int:
        """Calls in the chain."""
        first = self.operands[0] if self.operands else None
        return 1 + (first.length() if isinstance(first, Tree) else 0)


@dataclass
class Statement:
    """What is assigned: an expression, or what a loop or an option leaves."""

    writes: tuple[int, ...]
    tree: Tree | None = None
    loop: Loop | Option | None = None
    inside: list[Statement] = field(default_factory=list)

    def needs(self) -> set[int]:
        """The values of outside that it reads."""
        if self.tree is not None:
            return set(self.tree.reads())
        assert self.loop is not None
        return {*read_by(self.loop), *sizes_in(self.loop)}


def trees(items: Sequence[Item], kept: Iterable[int]) -> list[Statement]:
    """Statements, of which each value is one that is read more than once, or by what is further in or later."""
    uses: dict[int, int] = dict.fromkeys(kept, 2)
    for item in items:
        weight = 1 if isinstance(item, Step) else 2
        for number in read_by(item):
            uses[number] = uses.get(number, 0) + (1 if isinstance(item, Option) and number == item.before else weight)
        for number in sizes_in(item):
            uses[number] = uses.get(number, 0) + 2
    pending: dict[int, Tree] = {}
    made: list[Statement] = []

    def operand(number: int, first: bool) -> int | Tree:
        tree = pending.get(number)
        if tree is None:
            return number
        fits = tree.length() < LONGEST_CHAIN if first else _rough(tree) <= LONGEST_OPERAND
        if not fits or isinstance(tree.step, Option):
            return number
        del pending[number]
        return tree

    def settle(number: int) -> None:
        if number in pending:
            made.append(Statement((number,), pending.pop(number)))

    for item in items:
        match item:
            case Step():
                operands = [operand(number, len(item.reads) == 1) for number in item.reads]
                for number in item.reads:
                    settle(number)
                tree = Tree(item, operands)
                if len(item.writes) == 1 and uses.get(item.writes[0], 0) == 1:
                    pending[item.writes[0]] = tree
                else:
                    made.append(Statement(item.writes, tree))
            case Option():
                inside = trees(item.items, (item.result,))
                for number in read_by(item):
                    settle(number)
                if len(inside) == 1 and inside[0].tree is not None and inside[0].writes == (item.result,):
                    tree = Tree(item, [item.before], inside[0].tree)
                    made.append(Statement((item.after,), tree))
                else:
                    made.append(Statement((item.after,), None, item, inside))
            case Loop():
                for number in read_by(item):
                    settle(number)
                inside = trees(item.items, (carry.left for carry in item.carries))
                made.append(Statement(tuple(carry.after for carry in item.carries), None, item, inside))
    made += [Statement((number,), tree) for number, tree in pending.items()]
    return made


def _rough(tree: Tree) -> int:
    """About how many characters a tree has."""
    own = 6 + len(tree.step.callee) + 10 * len(tree.step.arguments) // 3 if isinstance(tree.step, Step) else 80
    return own + sum(_rough(one) if isinstance(one, Tree) else 3 for one in tree.operands)
