"""Prints expressions of decompiled programs: call chains, sizes, and arguments that differ between loop
iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields

from archir.ir.op import OPS
from archir.language.decompiler.argument_defaults import Defaults, is_default
from archir.language.decompiler.program_tree import (
    Condition,
    Expr,
    FirstRound,
    ListExpr,
    Multiple,
    Option,
    Outer,
    ParameterRef,
    PerRound,
    Size,
    Step,
)
from archir.language.decompiler.statements import CallTree
from archir.language.source import literal

NUMBERS_PER_LINE = 20
"""Number of items per line when a longer list of numbers is wrapped."""
OPERATORS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
"""Infix symbol and precedence of each operation that has one."""


class ExpressionWriter:
    """Prints expressions; `names` maps the numbers of values to variable names."""

    def __init__(self, defaults: Defaults) -> None:
        self.defaults = defaults
        self.names: dict[int, str] = {}
        self.columns: list[dict[Expr, str]] = []
        """For each enclosing loop, outermost first: maps each per-iteration list to its loop variable.

        The key None stands for the index variable.
        """

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
