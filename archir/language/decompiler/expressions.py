"""Expressions as text: steps behind each other, sizes, and what differs from round to round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields

from archir.ir.op import OPS
from archir.language.decompiler.outline import Column, Expr, First, Many, Name, Option, Size, Step, Test, Times, Up
from archir.language.decompiler.statements import Tree
from archir.language.decompiler.usual import Defaults, same
from archir.language.source import literal

ROW = 20
"""Numbers of a long list that stand on a line."""
SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}


class Expressions:
    """Writes expressions of values that have names."""

    def __init__(self, defaults: Defaults) -> None:
        self.defaults = defaults
        self.names: dict[int, str] = {}
        self.columns: list[dict[Expr, str]] = []
        """Of each loop around, the variables of its lists."""

    def expression(self, value: Expr, up: int = 0) -> str:
        """The text of an expression that stands so many loops further out than where the writer is."""
        match value:
            case Name():
                return value.text
            case Size():
                return f"{self.names[value.value]}.{value.word}"
            case Times():
                text = self.expression(value.of, up)
                text = whole(text)
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
                return f"{whole(first)} if {index} == 0 else {rest}"
            case Many():
                inner = ", ".join(self.expression(item, up) for item in value.items)
                return f"[{inner}]"
            case Test():
                return f" {value.sign} ".join(whole(self.expression(side, up)) for side in value.sides)
        return literal(value) if not isinstance(value, tuple) or len(value) <= ROW else rows(value)

    def text(self, tree: Tree) -> tuple[str, int]:
        """An expression, and how strongly it holds together: 0 a pipe or less, 1 a sum, 2 a product, 3 a call."""
        step = tree.step
        if isinstance(step, Option):
            assert tree.inner is not None
            inner = bracketed(self.text(tree.inner), 0) if isinstance(tree.inner, Tree) else self.names[tree.inner]
            return f"{inner} if {whole(self.expression(step.flag))} else {self.names[step.before]}", -1
        operands = [self.text(one) if isinstance(one, Tree) else (self.names[one], 3) for one in tree.operands]
        if step.callee in SIGNS and not step.weights:
            sign, level = SIGNS[step.callee]
            left, right = bracketed(operands[0], level), bracketed(operands[1], level + 1)
            return f"{left} {sign} {right}", level
        if step.callee == "slice" and step.arguments["axis"] is None and isinstance(tree.operands[0], int):
            start, stop = (step.arguments[name] for name in ("start", "stop"))
            ends = ("" if start == 0 else self.expression(start)), ("" if stop is None else self.expression(stop))
            return f"{operands[0][0]}[{ends[0]}:{ends[1]}]", 3
        given = self._arguments(step)
        if step.weights:
            given.append(f'weights="{step.weights}"')
        if len(operands) == 1:
            first = bracketed(operands[0], 0)
            return f"{first} |> {step.callee}" + (f"({', '.join(given)})" if given else ""), 0
        inside = ", ".join([*(bracketed(one, 0) for one in operands), *given])
        return f"{step.callee}({inside})", 3

    def length(self, step: Step) -> int:
        """About how many characters a call in a chain has; what has no name yet counts as a few."""
        given = ", ".join(self._arguments(step, self._rough))
        return len(f" |> {step.callee}") + (len(given) + 2 if given else 0)

    def _rough(self, value: Expr) -> str:
        try:
            return self.expression(value)
        except LookupError:
            return "x.width"

    def _arguments(self, step: Step, written: Callable[[Expr], str] | None = None) -> list[str]:
        """What a call is given: what it needs in order, then by name what is not as usual."""
        defaults = self.defaults.get(step.callee)
        if defaults is None:
            defaults = {f.name: f.default for f in fields(OPS[step.callee])}
        names = [*dict.fromkeys((*(n for n in defaults if n in step.arguments), *step.arguments))]
        given = []
        for name in names:
            value, default = step.arguments[name], defaults.get(name, MISSING)
            if not same(value, default):
                text = (written or self.expression)(value)
                given.append(text if default is MISSING else f"{name}={text}")
        return given


def bracketed(text: tuple[str, int], level: int) -> str:
    """An operand, in brackets if it holds together more loosely than this."""
    return text[0] if text[1] >= level else f"({text[0]})"


def rows(numbers: Sequence[object]) -> str:
    """A long list on lines of as many numbers each."""
    lines = (", ".join(map(literal, numbers[i : i + ROW])) for i in range(0, len(numbers), ROW))
    return "[" + ",\n".join(lines) + "]"


def whole(text: str) -> str:
    """An expression that another one can hold: a conditional one is in brackets."""
    return f"({text})" if " if " in text else text
