"""Statements as text, with names for their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count

from archir.ir.op import OPS
from archir.language.decompiler.expressions import Expressions, whole
from archir.language.decompiler.outline import (
    Column,
    Expr,
    First,
    Loop,
    Option,
    Step,
    is_constant,
    read_by,
    sizes_in,
    values,
    written_by,
)
from archir.language.decompiler.parameters import NAMES
from archir.language.decompiler.spelling import RESERVED
from archir.language.decompiler.stages import of_loop
from archir.language.decompiler.statements import Statement, Tree
from archir.language.decompiler.usual import Defaults
from archir.language.source import literal

WORDS = frozenset(
    ("q", "k", "v", "query", "key", "value", "gate", "shortcut", "skip", "residual", "downsample", "mask", "scores")
)
"""Names in the source that are good names of variables."""
LETTERS = ("x", "y", "z", "u", "v", "w")


class Writer(Expressions):
    """Writes the statements of one block or net."""

    def __init__(self, defaults: Defaults, taken: Iterable[str]) -> None:
        super().__init__(defaults)
        self.taken = {*taken, *RESERVED, *OPS}
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    # names

    def name(self, number: int, live: set[int], wanted: str = "") -> str:
        """A name for a value which nothing has that is read later."""
        busy = {self.names[one] for one in live if one in self.names and one != number}
        busy |= {name for names in self.columns for name in names.values()}
        further = (f"{letter}{i}" for i in count(2) for letter in "xyz")
        for option in chain((wanted,) if wanted else (), LETTERS, further):
            if option not in busy and option not in self.taken:
                self.names[number] = option
                return option
        raise AssertionError("names do not end")

    # statements

    def body(self, statements: Sequence[Statement], after: set[int], forced: Mapping[int, str]) -> None:
        """Write statements, of whose values `after` are read later."""
        live = [set(after)]
        for statement in reversed(statements):
            live.append((live[-1] - set(statement.writes)) | statement.needs())
        live.reverse()
        for place, statement in enumerate(statements):
            self._statement(statement, live[place + 1], forced)

    def _statement(self, statement: Statement, live: set[int], forced: Mapping[int, str]) -> None:
        if statement.tree is not None:
            text = self.text(statement.tree)[0]
            targets = [self._target(number, statement.tree, live, forced) for number in statement.writes]
            if not targets:
                return
            self.line(f"{', '.join(targets)} = {text}")
        elif isinstance(statement.loop, Loop):
            self._loop(statement, statement.loop, live, forced)
        else:
            assert isinstance(statement.loop, Option)
            self._option(statement, statement.loop, live, forced)

    def _target(self, number: int, tree: Tree, live: set[int], forced: Mapping[int, str]) -> str:
        if number in forced and not any(self.names.get(one) == forced[number] for one in live if one != number):
            self.names[number] = forced[number]
            return forced[number]
        step = tree.step
        word = step.word if isinstance(step, Step) and step.word in WORDS else ""
        return self.name(number, live, word or self._first(tree, live))

    def _first(self, tree: Tree, live: set[int]) -> str:
        """The name of what a chain begins with, if that is read no more."""
        while tree.operands and isinstance(tree.operands[0], Tree):
            tree = tree.operands[0]
        start = tree.operands[0] if tree.operands else None
        return self.names.get(start, "") if isinstance(start, int) and start not in live else ""

    def _held(self, before: int, live: set[int]) -> str:
        """The variable that a loop or an option changes: that of the value before, or a copy."""
        if before not in live and self.names[before] not in self.taken:
            return self.names[before]
        known = self.names[before]
        copied = self.name(before, live | {before}, "")
        while copied == known:
            self.taken.add(known)
            copied = self.name(before, live, "")
            self.taken.discard(known)
        self.names[before] = known
        self.line(f"{copied} = {known}")
        return copied

    def _loop(self, statement: Statement, loop: Loop, live: set[int], forced: Mapping[int, str]) -> None:
        inner = {number for item in loop.items for number in (*read_by(item), *sizes_in(item))}
        kept = live | inner
        names = {}
        for carry in loop.carries:
            name = self._held(carry.before, kept - {carry.inside})
            self.names[carry.inside] = self.names[carry.after] = name
            names[carry.left] = name
            kept |= {carry.inside}
        header, columns = self._header(loop, kept)
        self.line(f"{header} {{")
        self.columns.append(columns)
        self.depth += 1
        made = {number for item in loop.items for number in written_by(item)}
        outside = (kept - made) - {number for carry in loop.carries for number in (carry.inside, carry.after)}
        self.body(statement.inside, outside | {carry.left for carry in loop.carries}, names)
        others = [carry.left for carry in loop.carries if self.names[carry.left] != names[carry.left]]
        if others:
            sources = ", ".join(self.names[number] for number in others)
            sources = f"({sources})" if len(others) > 1 else sources
            self.line(f"{', '.join(names[number] for number in others)} = {sources}")
        self.depth -= 1
        self.columns.pop()
        self.line("}")

    def _option(self, statement: Statement, option: Option, live: set[int], forced: Mapping[int, str]) -> None:
        name = self._held(option.before, live)
        self.line(f"if {whole(self.expression(option.flag))} {{")
        self.depth += 1
        self.body(statement.inside, live | {option.result}, {option.result: name})
        if self.names[option.result] != name:
            self.line(f"{name} = {self.names[option.result]}")
        self.depth -= 1
        self.line("}")
        self.names[option.after] = name

    def _header(self, loop: Loop, live: set[int]) -> tuple[str, dict[Expr, str]]:
        """The line of a loop, and the variables of its lists."""
        parts_: dict[Expr, str] = {}
        for depth, hole, value in values(loop.items):
            parts_ |= {part: NAMES.get(hole, hole) for part in of_loop(value, depth) if part not in parts_}
        columns: dict[Expr, Expr] = {part: part.of for part in parts_ if isinstance(part, Column)}
        firsts = [part for part in parts_ if isinstance(part, First)]
        constant = all(isinstance(of, tuple) for of in columns.values())
        if columns and constant and all(is_constant(part.first) and is_constant(part.rest) for part in firsts):
            rounds = len(next(iter(columns.values())))
            columns |= {part: (part.first, *(part.rest,) * (rounds - 1)) for part in firsts}
            firsts = []
        busy = {self.names[one] for one in live if one in self.names} | {n for c in self.columns for n in c.values()}
        found: dict[Expr, str] = {}
        for part in sorted(
            columns,
            key=lambda part: {"depth": 0, "width": 1}.get(parts_[part], 2),
        ):
            name, number = parts_[part], 1
            while name in busy or name in self.taken or name in found.values():
                number += 1
                name = f"{parts_[part]}_{number}"
            found[part] = name
        rounds_ = self.expression(loop.rounds)
        rounds_ = whole(rounds_)
        depth = sum(None in names for names in self.columns)
        index = "ijk"[depth] if depth < 3 else f"i{depth}"
        names = {None: index} if firsts else {}
        if not found:
            return (f"for {index} in 0..{rounds_}" if firsts else f"repeat {rounds_}"), names
        variables, sources = [*found.values()], [self.expression(columns[part]) for part in found]
        if firsts:
            variables, sources = [index, *variables], [f"0..{rounds_}", *sources]
        elif constant and len(variables) > 1:
            rows = zip(*(columns[part] for part in found), strict=True)
            sources = ["[" + ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows) + "]"]
        over = sources[0] if len(sources) == 1 else f"zip({', '.join(sources)})"
        return f"for {', '.join(variables)} in {over}", {**found, **names}
