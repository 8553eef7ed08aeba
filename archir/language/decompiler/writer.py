"""Prints statements and expressions of decompiled programs, and chooses variable names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import chain, count

from archir.ir.op import OPS
from archir.language.decompiler.parameters import PARAMETER_NAMES, Defaults, is_default
from archir.language.decompiler.program_tree import (
    Condition,
    Expr,
    FirstRound,
    ListExpr,
    Loop,
    Multiple,
    Option,
    Outer,
    ParameterRef,
    PerRound,
    Size,
    Step,
    expressions_in,
    inputs_of,
    is_constant,
    outputs_of,
    sizes_read_by,
)
from archir.language.decompiler.spelling import RESERVED
from archir.language.decompiler.stages import loop_lists
from archir.language.decompiler.statements import CallTree, Statement
from archir.language.literals import literal

NUMBERS_PER_LINE = 20
"""Number of items per line when a longer list of numbers is wrapped."""
OPERATORS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
"""Infix symbol and precedence of each operation that has one."""


VARIABLE_NAMES = frozenset(
    ("q", "k", "v", "query", "key", "value", "gate", "shortcut", "skip", "residual", "downsample", "mask", "scores")
)
"""Last components of source scopes that also serve as variable names."""
LETTERS = ("x", "y", "z", "u", "v", "w")
"""Fallback variable names, in order of preference."""


class Writer:
    """Prints the statements of one block or net into `lines`; `names` maps the numbers of values to variable names."""

    def __init__(self, defaults: Defaults, taken: Iterable[str]) -> None:
        self.defaults = defaults
        self.names: dict[int, str] = {}
        self.columns: list[dict[Expr, str]] = []
        """For each enclosing loop, outermost first: maps each per-iteration list to its loop variable.

        The key None stands for the index variable.
        """
        self.taken = {*taken, *RESERVED, *OPS}
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """Append a line at the current indentation."""
        self.lines.append("    " * self.depth + text)

    # names

    def new_name(self, number: int, live: set[int], preferred: str = "") -> str:
        """Choose and record a variable name for a value, distinct from the names of all live values.

        `preferred` is tried first.
        """
        used = {self.names[other] for other in live if other in self.names and other != number}
        used |= {name for names in self.columns for name in names.values()}
        numbered = (f"{letter}{i}" for i in count(2) for letter in "xyz")
        for candidate in chain((preferred,) if preferred else (), LETTERS, numbered):
            if candidate not in used and candidate not in self.taken:
                self.names[number] = candidate
                return candidate
        raise AssertionError("the supply of names is infinite")

    # statements

    def body(self, statements: Sequence[Statement], after: set[int], forced: Mapping[int, str]) -> None:
        """Print statements.

        `after` are the values that are read after the statements; `forced` maps values to the variables to which the
        statements must assign them.
        """
        live = [set(after)]
        for statement in reversed(statements):
            live.append((live[-1] - set(statement.writes)) | statement.needs())
        live.reverse()
        for i, statement in enumerate(statements):
            self._statement(statement, live[i + 1], forced)

    def _statement(self, statement: Statement, live: set[int], forced: Mapping[int, str]) -> None:
        """Print one statement; `live` are the values that later statements read."""
        if statement.tree is not None:
            text = self.text(statement.tree)[0]
            targets = [self._target_name(number, statement.tree, live, forced) for number in statement.writes]
            if not targets:
                return
            self.line(f"{', '.join(targets)} = {text}")
        elif isinstance(statement.loop, Loop):
            self._loop(statement, statement.loop, live, forced)
        else:
            assert isinstance(statement.loop, Option)
            self._option(statement, statement.loop, live, forced)

    def _target_name(self, number: int, tree: CallTree, live: set[int], forced: Mapping[int, str]) -> str:
        """Choose and record the variable to which a statement assigns a value."""
        if number in forced and not any(self.names.get(other) == forced[number] for other in live if other != number):
            self.names[number] = forced[number]
            return forced[number]
        step = tree.step
        word = step.source_name if isinstance(step, Step) and step.source_name in VARIABLE_NAMES else ""
        return self.new_name(number, live, word or self._reusable_name(tree, live))

    def _reusable_name(self, tree: CallTree, live: set[int]) -> str:
        """Return the variable at the start of a call chain if it can be reassigned because nothing reads it later, else
        ""."""
        while tree.operands and isinstance(tree.operands[0], CallTree):
            tree = tree.operands[0]
        start = tree.operands[0] if tree.operands else None
        return self.names.get(start, "") if isinstance(start, int) and start not in live else ""

    def _updated_name(self, before: int, live: set[int]) -> str:
        """Return the variable that a loop or option updates in place: that of the value before the statement.

        If that value is still read later, it is assigned to a new variable first.
        """
        if before not in live and self.names[before] not in self.taken:
            return self.names[before]
        current = self.names[before]
        copy = self.new_name(before, live | {before}, "")
        while copy == current:
            self.taken.add(current)
            copy = self.new_name(before, live, "")
            self.taken.discard(current)
        self.names[before] = current
        self.line(f"{copy} = {current}")
        return copy

    def _loop(self, statement: Statement, loop: Loop, live: set[int], forced: Mapping[int, str]) -> None:
        """Print a loop with its body."""
        inner = {number for item in loop.items for number in (*inputs_of(item), *sizes_read_by(item))}
        kept = live | inner
        names = {}
        for carry in loop.carries:
            name = self._updated_name(carry.before, kept - {carry.inside})
            self.names[carry.inside] = self.names[carry.after] = name
            names[carry.updated] = name
            kept |= {carry.inside}
        header, columns = self._header(loop, kept)
        self.line(f"{header} {{")
        self.columns.append(columns)
        self.depth += 1
        computed = {number for item in loop.items for number in outputs_of(item)}
        outside = (kept - computed) - {number for carry in loop.carries for number in (carry.inside, carry.after)}
        self.body(statement.inside, outside | {carry.updated for carry in loop.carries}, names)
        others = [carry.updated for carry in loop.carries if self.names[carry.updated] != names[carry.updated]]
        if others:
            sources = ", ".join(self.names[number] for number in others)
            sources = f"({sources})" if len(others) > 1 else sources
            self.line(f"{', '.join(names[number] for number in others)} = {sources}")
        self.depth -= 1
        self.columns.pop()
        self.line("}")

    def _option(self, statement: Statement, option: Option, live: set[int], forced: Mapping[int, str]) -> None:
        """Print an option as an `if` statement."""
        name = self._updated_name(option.before, live)
        self.line(f"if {parenthesize_conditional(self.expression(option.flag))} {{")
        self.depth += 1
        self.body(statement.inside, live | {option.result}, {option.result: name})
        if self.names[option.result] != name:
            self.line(f"{name} = {self.names[option.result]}")
        self.depth -= 1
        self.line("}")
        self.names[option.after] = name

    def _header(self, loop: Loop, live: set[int]) -> tuple[str, dict[Expr, str]]:
        """Return the opening line of a loop, and the loop variable for each list that it iterates over."""
        parts_: dict[Expr, str] = {}
        for depth, argument, value in expressions_in(loop.items):
            parts_ |= {
                part: PARAMETER_NAMES.get(argument, argument) for part in loop_lists(value, depth) if part not in parts_
            }
        columns: dict[Expr, Expr] = {part: part.of for part in parts_ if isinstance(part, PerRound)}
        firsts = [part for part in parts_ if isinstance(part, FirstRound)]
        constant = all(isinstance(of, tuple) for of in columns.values())
        if columns and constant and all(is_constant(part.first) and is_constant(part.later) for part in firsts):
            rounds = len(next(iter(columns.values())))
            columns |= {part: (part.first, *(part.later,) * (rounds - 1)) for part in firsts}
            firsts = []
        used = {self.names[live_value] for live_value in live if live_value in self.names} | {
            n for c in self.columns for n in c.values()
        }
        variables_by_list: dict[Expr, str] = {}
        for part in sorted(
            columns,
            key=lambda part: {"depth": 0, "width": 1}.get(parts_[part], 2),
        ):
            name, number = parts_[part], 1
            while name in used or name in self.taken or name in variables_by_list.values():
                number += 1
                name = f"{parts_[part]}_{number}"
            variables_by_list[part] = name
        rounds_ = self.expression(loop.rounds)
        rounds_ = parenthesize_conditional(rounds_)
        depth = sum(None in names for names in self.columns)
        index = "ijk"[depth] if depth < 3 else f"i{depth}"
        names = {None: index} if firsts else {}
        if not variables_by_list:
            return (f"for {index} in 0..{rounds_}" if firsts else f"repeat {rounds_}"), names
        variables, sources = (
            [*variables_by_list.values()],
            [self.expression(columns[part]) for part in variables_by_list],
        )
        if firsts:
            variables, sources = [index, *variables], [f"0..{rounds_}", *sources]
        elif constant and len(variables) > 1:
            rows = zip(*(columns[part] for part in variables_by_list), strict=True)
            sources = ["[" + ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows) + "]"]
        iterable = sources[0] if len(sources) == 1 else f"zip({', '.join(sources)})"
        return f"for {', '.join(variables)} in {iterable}", {**variables_by_list, **names}

    # expressions

    def expression(self, value: Expr, up: int = 0) -> str:
        """Return the text of an expression that refers to the scope `up` loops outside the current one."""
        match value:
            case ParameterRef():
                return value.text
            case Size():
                return f"{self.names[value.value]}.{value.word}"
            case Multiple():
                text = self.expression(value.of, up)
                text = parenthesize_conditional(text)
                text = f"{value.factor} * {text}" if value.factor > 1 else text
                return f"{text} // {value.divisor}" if value.divisor > 1 else text
            case Outer():
                return self.expression(value.of, up + 1)
            case PerRound():
                return self.columns[-1 - up][value]
            case FirstRound():
                if value in self.columns[-1 - up]:
                    return self.columns[-1 - up][value]
                index = self.columns[-1 - up][None]
                if (value.first, value.later) == (True, False) and isinstance(value.first, bool):
                    return f"{index} == 0"
                if (value.first, value.later) == (False, True) and isinstance(value.first, bool):
                    return f"{index} > 0"
                first, later = self.expression(value.first, up + 1), self.expression(value.later, up + 1)
                return f"{parenthesize_conditional(first)} if {index} == 0 else {later}"
            case ListExpr():
                inner = ", ".join(self.expression(item, up) for item in value.items)
                return f"[{inner}]"
            case Condition():
                return f" {value.sign} ".join(
                    parenthesize_conditional(self.expression(side, up)) for side in value.sides
                )
        return literal(value) if not isinstance(value, tuple) or len(value) <= NUMBERS_PER_LINE else wrap_list(value)

    def text(self, tree: CallTree) -> tuple[str, int]:
        """Return the text of a call tree and its precedence: -1 for a conditional, 0 for a pipe, 1 for a sum or
        difference, 2 for a product or quotient, 3 for a call."""
        step = tree.step
        if isinstance(step, Option):
            assert tree.inner is not None
            inner = (
                parenthesized(self.text(tree.inner), 0) if isinstance(tree.inner, CallTree) else self.names[tree.inner]
            )
            return (
                f"{inner} if {parenthesize_conditional(self.expression(step.flag))} else {self.names[step.before]}",
                -1,
            )
        operands = [
            self.text(operand) if isinstance(operand, CallTree) else (self.names[operand], 3)
            for operand in tree.operands
        ]
        if step.callee in OPERATORS and not step.weights:
            sign, level = OPERATORS[step.callee]
            left, right = parenthesized(operands[0], level), parenthesized(operands[1], level + 1)
            return f"{left} {sign} {right}", level
        if step.callee == "slice" and step.arguments["axis"] is None and isinstance(tree.operands[0], int):
            start, stop = (step.arguments[name] for name in ("start", "stop"))
            bounds = ("" if start == 0 else self.expression(start)), ("" if stop is None else self.expression(stop))
            return f"{operands[0][0]}[{bounds[0]}:{bounds[1]}]", 3
        arguments = self._arguments(step)
        if step.weights:
            arguments.append(f'weights="{step.weights}"')
        if len(operands) == 1:
            first = parenthesized(operands[0], 0)
            return f"{first} |> {step.callee}" + (f"({', '.join(arguments)})" if arguments else ""), 0
        inside = ", ".join([*(parenthesized(operand, 0) for operand in operands), *arguments])
        return f"{step.callee}({inside})", 3

    def length(self, step: Step) -> int:
        """Estimate how many characters a call takes in a chain; arguments that refer to unnamed values count as a short
        placeholder."""
        arguments = ", ".join(self._arguments(step, self._placeholder_text))
        return len(f" |> {step.callee}") + (len(arguments) + 2 if arguments else 0)

    def _placeholder_text(self, value: Expr) -> str:
        """Return the text of an expression, or a placeholder if it refers to a value that has no name yet."""
        try:
            return self.expression(value)
        except LookupError:
            return "x.width"

    def _arguments(self, step: Step, to_text: Callable[[Expr], str] | None = None) -> list[str]:
        """Return the argument texts of a call: required arguments by position, then non-default optional ones by
        name."""
        defaults = self.defaults.get(step.callee)
        if defaults is None:
            defaults = {f.name: f.default for f in fields(OPS[step.callee])}
        names = [*dict.fromkeys((*(n for n in defaults if n in step.arguments), *step.arguments))]
        arguments = []
        for name in names:
            value, default = step.arguments[name], defaults.get(name, MISSING)
            if not is_default(value, default):
                text = (to_text or self.expression)(value)
                arguments.append(text if default is MISSING else f"{name}={text}")
        return arguments


def parenthesized(text: tuple[str, int], level: int) -> str:
    """Return the text of an operand (text, precedence), in parentheses if its precedence is lower than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


def wrap_list(numbers: Sequence[object]) -> str:
    """Return the text of a list of numbers, wrapped after every NUMBERS_PER_LINE items."""
    lines = (
        ", ".join(map(literal, numbers[i : i + NUMBERS_PER_LINE])) for i in range(0, len(numbers), NUMBERS_PER_LINE)
    )
    return "[" + ",\n".join(lines) + "]"


def parenthesize_conditional(text: str) -> str:
    """Add parentheses to an expression that will be nested in another one if it is a conditional (`a if b else c`)."""
    return f"({text})" if " if " in text else text
