"""Statements as text: chains of pipes, and variables where a value is read more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from itertools import chain, count
from typing import Any

from archir.ir.op import OPS
from archir.language.source import literal
from archir.language.writing.idioms import DEFAULTS
from archir.language.writing.outline import (
    Body,
    Column,
    Expr,
    First,
    Item,
    Loop,
    Many,
    Name,
    Option,
    Size,
    Step,
    Test,
    Times,
    Up,
    filled,
    is_constant,
    parts,
    read_by,
    rewritten,
    sizes_in,
    steps,
    values,
    written_by,
)
from archir.language.writing.parameters import NAMES
from archir.language.writing.spelling import RESERVED
from archir.language.writing.stages import of_loop

LONGEST_CHAIN = 12
"""Calls behind each other that are one statement."""
LONGEST_OPERAND = 70
"""Characters of an expression that is written into another one, but at the head of a chain."""
WORDS = frozenset(
    ("q", "k", "v", "query", "key", "value", "gate", "shortcut", "skip", "residual", "downsample", "mask", "scores")
)
"""Names in the source that are good names of variables."""
SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
LETTERS = ("x", "y", "z", "u", "v", "w")

Defaults = Mapping[str, Mapping[str, Any]]


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


class Writer:
    """Writes the statements of one block or net."""

    def __init__(self, defaults: Defaults, taken: Iterable[str]) -> None:
        self.defaults = defaults
        self.taken = {*taken, *RESERVED, *OPS}
        self.names: dict[int, str] = {}
        self.columns: list[dict[Expr, str]] = []
        """Of each loop around, the variables of its lists."""
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
        self.line(f"if {_whole(self.expression(option.flag))} {{")
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
        rounds_ = _whole(rounds_)
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

    # expressions

    def expression(self, value: Expr, up: int = 0) -> str:
        """The text of an expression that stands so many loops further out than where the writer is."""
        match value:
            case Name():
                return value.text
            case Size():
                return f"{self.names[value.value]}.{value.word}"
            case Times():
                text = self.expression(value.of, up)
                text = _whole(text)
                text = f"{value.times} * {text}" if value.times > 1 else text
                return f"{text} // {value.over}" if value.over > 1 else text
            case Up():
                return self.expression(value.of, up + 1)
            case Column():
                return self.columns[-1 - up][value]
            case First():
                if value in self.columns[-1 - up]:
                    return self.columns[-1 - up][value]
                index = self.columns[-1 - up][None]
                if (value.first, value.rest) == (True, False) and isinstance(value.first, bool):
                    return f"{index} == 0"
                if (value.first, value.rest) == (False, True) and isinstance(value.first, bool):
                    return f"{index} > 0"
                first, rest = self.expression(value.first, up + 1), self.expression(value.rest, up + 1)
                return f"{_whole(first)} if {index} == 0 else {rest}"
            case Many():
                inner = ", ".join(self.expression(item, up) for item in value.items)
                return f"[{inner}]"
            case Test():
                return f" {value.sign} ".join(_whole(self.expression(side, up)) for side in value.sides)
        return literal(value)

    def text(self, tree: Tree) -> tuple[str, int]:
        """An expression, and how strongly it holds together: 0 a pipe or less, 1 a sum, 2 a product, 3 a call."""
        step = tree.step
        if isinstance(step, Option):
            assert tree.inner is not None
            inner = _bracketed(self.text(tree.inner), 0) if isinstance(tree.inner, Tree) else self.names[tree.inner]
            return f"{inner} if {_whole(self.expression(step.flag))} else {self.names[step.before]}", -1
        operands = [self.text(one) if isinstance(one, Tree) else (self.names[one], 3) for one in tree.operands]
        if step.callee in SIGNS and not step.weights:
            sign, level = SIGNS[step.callee]
            left, right = _bracketed(operands[0], level), _bracketed(operands[1], level + 1)
            return f"{left} {sign} {right}", level
        if step.callee == "slice" and step.arguments["axis"] is None and isinstance(tree.operands[0], int):
            start, stop = (step.arguments[name] for name in ("start", "stop"))
            ends = ("" if start == 0 else self.expression(start)), ("" if stop is None else self.expression(stop))
            return f"{operands[0][0]}[{ends[0]}:{ends[1]}]", 3
        given = self._arguments(step)
        if step.weights:
            given.append(f'weights="{step.weights}"')
        if len(operands) == 1:
            first = _bracketed(operands[0], 0)
            return f"{first} |> {step.callee}" + (f"({', '.join(given)})" if given else ""), 0
        inside = ", ".join([*(_bracketed(one, 0) for one in operands), *given])
        return f"{step.callee}({inside})", 3

    def _arguments(self, step: Step) -> list[str]:
        """What a call is given: what it needs in order, then by name what is not as usual."""
        defaults = self.defaults.get(step.callee)
        if defaults is None:
            defaults = {f.name: f.default for f in fields(OPS[step.callee])}
        names = [*dict.fromkeys((*(n for n in defaults if n in step.arguments), *step.arguments))]
        given = []
        for name in names:
            value, default = step.arguments[name], defaults.get(name, MISSING)
            if not _same(value, default):
                text = self.expression(value)
                given.append(text if default is MISSING else f"{name}={text}")
        return given


def _same(value: Any, default: Any) -> bool:
    return (
        default is not MISSING
        and type(value) in (type(default), int, float)
        and value == default
        and (isinstance(value, bool) == isinstance(default, bool))
    )


def _bracketed(text: tuple[str, int], level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _whole(text: str) -> str:
    """An expression that another one can hold: a conditional one is in brackets."""
    return f"({text})" if " if " in text else text


def bound(body: Body, taken: Iterable[str]) -> tuple[tuple[Item, ...], dict[str, Expr]]:
    """Statements with names for multiples of the input's channels that come more than once, and what these are."""
    counts: Counter[Expr] = Counter()
    for _, _, value in values(body.items):
        counts.update({part for part in parts(value) if isinstance(part, Times) and isinstance(part.of, Size)})
    found: dict[Expr, str] = {}
    for part, often in counts.items():
        if often > 1:
            free = (name for name in ("inner", *(f"inner_{i}" for i in range(2, 1_000))) if name not in taken)
            found[part] = next(name for name in free if name not in found.values())
    swap = [rewritten(v, lambda p: Name(found[p]) if p in found else p) for _, _, v in values(body.items)]
    return filled(body.items, iter(swap)), {name: part for part, name in found.items()}


def block(name: str, body: Body, defaults: Mapping[str, Any], all_defaults: Defaults, taken: Iterable[str]) -> str:
    """The text of a block."""
    writer = Writer(all_defaults, (*taken, *defaults))
    inputs = []
    for number in body.inputs:
        live = set(body.inputs)
        inputs.append(writer.name(number, live, "x"))
    given = [*inputs, *(n if d is MISSING else f"{n} = {literal(d)}" for n, d in defaults.items())]
    items, local = bound(body, (*writer.taken, *defaults))
    writer.taken |= local.keys()
    statements = trees(items, body.outputs)
    writer.lines.append(f"block {name}({', '.join(given)}) {{")
    for variable, value in local.items():
        writer.line(f"{variable} = {writer.expression(value)}")
    last = statements[-1] if statements else None
    if last is not None and last.tree is not None and last.writes == body.outputs and len(body.outputs) == 1:
        writer.body(statements[:-1], last.needs(), {})
        writer.line(f"return {writer.text(last.tree)[0]}")
    else:
        writer.body(statements, set(body.outputs), {})
        writer.line(f"return {', '.join(writer.names[number] for number in body.outputs)}")
    writer.lines.append("}")
    return "\n".join(writer.lines)


def net(
    name: str, inputs: Mapping[str, tuple[int, str]], outputs: Mapping[str, int], items: Sequence[Item],
    all_defaults: Defaults, taken: Iterable[str],
) -> str:  # fmt: skip
    """The text of a net; inputs by label with their types."""
    writer = Writer(all_defaults, (*taken, *outputs, *inputs))
    writer.lines.append(f"net {name} {{")
    for label, (number, type_) in inputs.items():
        writer.names[number] = label
        writer.line(f"input {label}: {type_}")
    results = list(outputs.values())
    statements = trees(items, results)
    last: dict[int, Statement] = {}
    while (
        statements
        and statements[-1].tree is not None
        and len(statements[-1].writes) == 1
        and results.count(statements[-1].writes[0]) == 1
        and not any(statements[-1].writes[0] in one.needs() for one in last.values())
    ):
        statement = statements.pop()
        last[statement.writes[0]] = statement
    after = {number for number in results if number not in last} | {n for one in last.values() for n in one.needs()}
    writer.body(statements, after, {})
    for label, number in outputs.items():
        tree = last[number].tree if number in last else None
        writer.line(f"output {label} = {writer.text(tree)[0] if tree is not None else writer.names[number]}")
    writer.lines.append("}")
    return "\n".join(writer.lines)


def defaults_of(name: str, parameters: Iterable[str], calls: Sequence[Step]) -> dict[str, Any]:
    """What a block's parameters are by default: what most calls give, if they are several. Those without come first."""
    found: dict[str, Any] = {}
    for parameter in parameters:
        given = [call.arguments[parameter] for call in calls]
        plain = [one for one in given if not isinstance(one, Name | Size | Times | First | Column | Up | Many | tuple)]
        usual = max(plain, key=lambda v: sum(_same(v, o) for o in plain)) if plain else MISSING
        often = sum(_same(usual, one) for one in plain) if plain else 0
        found[parameter] = usual if len(given) > 2 and 2 * often > len(given) else MISSING
    order = sorted(found, key=lambda parameter: (found[parameter] is not MISSING, not parameter.startswith("width")))
    return {parameter: found[parameter] for parameter in order}


def calls_of(name: str, bodies: Iterable[Sequence[Item]]) -> list[Step]:
    """The calls of a block in these bodies."""
    return [step for items in bodies for step in steps(items) if step.callee == name]


def library_defaults() -> dict[str, Mapping[str, Any]]:
    """Of the library's blocks."""
    return {name: dict(given) for name, given in DEFAULTS.items()}
