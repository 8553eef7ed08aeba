"""Groups steps into statements: call chains, and assignments to variables for values that are read more than
once; splits chains that do not fit on a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from archir.ir.op import OPS, Op
from archir.language.decompiler.program_tree import Item, Loop, Option, Step, inputs_of, sizes_read_by
from archir.language.formatter.doc import WIDTH

MAX_CHAIN_CALLS = 12
"""Maximum number of calls in the call chain of one statement."""
MAX_OPERAND_CHARACTERS = 70
"""Maximum length in characters of an expression nested in a call with several operands."""


@dataclass
class CallTree:
    """Expression tree: a call whose operands are values or nested calls.

    For an option, `inner` is the option's result.
    """

    step: Step | Option
    operands: list[int | CallTree]
    inner: CallTree | int | None = None

    def reads(self) -> Iterator[int]:
        """Yield the values that the tree reads, including those of which only the size is read."""
        for operand in self.operands:
            if isinstance(operand, CallTree):
                yield from operand.reads()
            else:
                yield operand
        if isinstance(self.inner, CallTree):
            yield from self.inner.reads()
        elif self.inner is not None:
            yield self.inner
        yield from sizes_read_by(self.step if isinstance(self.step, Step) else Option((), self.step.flag, 0, 0, 0))

    def length(self) -> int:
        """Return the number of calls in the chain that ends with this call."""
        first = self.operands[0] if self.operands else None
        return 1 + (first.length() if isinstance(first, CallTree) else 0)


@dataclass
class Statement:
    """Statement of a program: an assignment of `tree` to the variables `writes`, or a loop or option.

    `inside` has the statements of the loop or option.
    """

    writes: tuple[int, ...]
    tree: CallTree | None = None
    loop: Loop | Option | None = None
    inside: list[Statement] = field(default_factory=list)

    def needs(self) -> set[int]:
        """Return the values from outside that the statement reads, or whose size it reads."""
        if self.tree is not None:
            return set(self.tree.reads())
        assert self.loop is not None
        return {*inputs_of(self.loop), *sizes_read_by(self.loop)}


def group_steps(items: Sequence[Item], kept: Iterable[int]) -> list[Statement]:
    """Group steps into statements.

    A value gets its own variable if it is read more than once, read inside a later loop or option, or listed in
    `kept`.
    """
    uses: dict[int, int] = dict.fromkeys(kept, 2)
    for item in items:
        weight = 1 if isinstance(item, Step) else 2
        for number in inputs_of(item):
            uses[number] = uses.get(number, 0) + (1 if isinstance(item, Option) and number == item.before else weight)
        for number in sizes_read_by(item):
            uses[number] = uses.get(number, 0) + 2
    pending: dict[int, CallTree] = {}
    statements: list[Statement] = []

    def operand(number: int, first: bool) -> int | CallTree:
        """Return the pending call tree of a value if it can be nested in this operand, else the value number."""
        tree = pending.get(number)
        if tree is None:
            return number
        fits = tree.length() < MAX_CHAIN_CALLS if first else _estimated_length(tree) <= MAX_OPERAND_CHARACTERS
        if not fits or isinstance(tree.step, Option):
            return number
        del pending[number]
        return tree

    def flush(number: int) -> None:
        if number in pending:
            statements.append(Statement((number,), pending.pop(number)))

    for item in items:
        match item:
            case Step():
                operands = [operand(number, len(item.reads) == 1) for number in item.reads]
                for number in item.reads:
                    flush(number)
                tree = CallTree(item, operands)
                if len(item.writes) == 1 and uses.get(item.writes[0], 0) == 1:
                    pending[item.writes[0]] = tree
                else:
                    statements.append(Statement(item.writes, tree))
            case Option():
                inside = group_steps(item.items, (item.result,))
                for number in inputs_of(item):
                    flush(number)
                if len(inside) == 1 and inside[0].tree is not None and inside[0].writes == (item.result,):
                    tree = CallTree(item, [item.before], inside[0].tree)
                    statements.append(Statement((item.after,), tree))
                else:
                    statements.append(Statement((item.after,), None, item, inside))
            case Loop():
                for number in inputs_of(item):
                    flush(number)
                inside = group_steps(item.items, (carry.updated for carry in item.carries))
                statements.append(Statement(tuple(carry.after for carry in item.carries), None, item, inside))
    statements += [Statement((number,), tree) for number, tree in pending.items()]
    return statements


def _estimated_length(tree: CallTree) -> int:
    """Estimate the text length of a call tree in characters."""
    own = 6 + len(tree.step.callee) + 10 * len(tree.step.arguments) // 3 if isinstance(tree.step, Step) else 80
    return own + sum(_estimated_length(operand) if isinstance(operand, CallTree) else 3 for operand in tree.operands)


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
