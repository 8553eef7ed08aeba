"""Where a number is written that a rule refuses: it is followed back through names, arguments and calls.

What is refused in a block is often mended in the net that calls it, four calls up. The way back is found in the syntax
alone, along the calls that led there; a literal is shown where it shares the largest factor with what was refused, for
`263/4` comes of `channels = 263`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from math import gcd
from typing import TYPE_CHECKING

from archir.diagnostics.errors import Note, Span
from archir.language.elaboration.locals import walk
from archir.language.syntax import ast

if TYPE_CHECKING:
    from archir.language.elaboration.context import Frame

_NUMBER = re.compile(r"(?<![\w./])\d{1,18}(?![\w.])")
_SHAPE = re.compile(r"\[[\d, ]*\]")
_STEPS = 2_000
"""Pieces of syntax that are looked at."""
_FAR = 100
"""Numbers that are further apart have nothing to do with each other."""
_LONGEST = 20_000
_MOST = 2
_LEAST = 3
"""Smaller numbers are everywhere, and say nothing."""


def origins(frame: Frame, span: Span, message: str, told: Sequence[Note] = (), known: bool = False) -> tuple[Note, ...]:
    """Notes on where numbers of a message are written, elsewhere than in lines that are shown already; else, unless it
    is known, where tensors are made that do not go together."""
    shapes = [set(_NUMBER.findall(shape)) for shape in _SHAPE.findall(message)]
    differ = "shapes differ" in message and len(shapes) == 2
    plain = _SHAPE.sub("", message) if "expected" in message else message
    wanted = {int(number) for number in (shapes[0] ^ shapes[1] if differ else _NUMBER.findall(plain))}
    way = _Way()
    trees = way.at(frame, span)
    far: dict[Span, int] = {}
    for literal in way.literals(frame, trees):
        if isinstance(literal.value, int) and literal.value >= _LEAST:
            far.setdefault(literal.span, min((_apart(literal.value, number) for number in wanted), default=_FAR))
    least = min(far.values(), default=_FAR)
    shown = {_line(one) for one in (frame.place(span), span, *(note.span for note in told)) if one is not None}
    places = [one for one, apart in far.items() if apart == least < (2 if differ else _FAR)]
    if any(_line(one) in shown for one in places):
        return ()
    notes = [Note(f"`{one.text}` is written here", one) for one in places[:_MOST]]
    return tuple(notes) if notes or known or not differ else tuple(way.made(frame, trees, shown))[:_MOST]


def _apart(value: int, number: int) -> int:
    """How far a number is from one that comes of it by a few small factors: 1 if it is the same."""
    shared = gcd(value, number)
    return value // shared * (number // shared) if shared >= _LEAST else _FAR


def _line(span: Span) -> str:
    return f"{span.source.name}:{span.line}"


class _Way:
    """A way back through the syntax, no longer than a message is worth."""

    def __init__(self) -> None:
        self.left = _STEPS
        self.seen: set[tuple[int, int]] = set()
        self.homes: dict[int, _Home] = {}

    def parts(self, tree: object) -> Iterator[ast.Tree]:
        for part in walk(tree):
            self.left -= 1
            if self.left < 0:
                return
            yield part

    def home(self, frame: Frame, span: Span) -> _Home:
        """The definition that a place is in."""
        definition = frame.block.definition if frame.block is not None else _net(frame, span)
        if id(definition) not in self.homes:
            self.homes[id(definition)] = _Home.of(definition)
        return self.homes[id(definition)]

    def at(self, frame: Frame, span: Span) -> list[ast.Tree]:
        """The expression that stands at a place."""
        return self.home(frame, span).trees.get((span.start, span.end), [])[:1]

    def literals(self, frame: Frame, trees: Sequence[ast.Tree]) -> Iterator[ast.Literal]:
        """Numbers that expressions depend on, the nearest first."""
        ahead = [(frame, tree) for tree in trees]
        while ahead and self.left > 0:
            frame, tree = ahead.pop(0)
            if (id(frame), id(tree)) in self.seen:
                continue
            self.seen.add((id(frame), id(tree)))
            for part in self.parts(tree):
                if isinstance(part, ast.Literal) and type(part.value) is int and not frame.module.library:
                    yield part
                elif isinstance(part, ast.Name):
                    ahead += self.given(frame, part)

    def given(self, frame: Frame, name: ast.Name) -> Iterator[tuple[Frame, ast.Tree]]:
        """What gives a name its value where it is read."""
        home = self.home(frame, name.span)
        values = home.values.get(name.text, [])
        yield from ((frame, value) for start, value in values if start < name.span.start)
        for number, param in enumerate(home.params):
            if param.name.text == name.text:
                yield from self._argument(frame, param, number)
                return
        for const in () if values else frame.module.constants():
            if const.name.text == name.text:
                yield frame, const.value

    def _argument(self, frame: Frame, param: ast.Param, number: int) -> Iterator[tuple[Frame, ast.Tree]]:
        caller, called = frame.caller, frame.called
        if caller is not None and called is not None:
            home = self.home(caller, called)
            for call in home.trees.get((called.start, called.end), []):
                arguments = call.arguments if isinstance(call, ast.Call) else ()
                pipe = home.fed.get(id(call))
                plain = [one.value for one in arguments if one.name is None]
                at = number - (pipe is not None)
                named = [one.value for one in arguments if one.name is not None and one.name.text == param.name.text]
                value = named[0] if named else plain[at] if 0 <= at < len(plain) else None
                value = pipe.first if value is None and pipe is not None and at < 0 else value
                if value is not None:
                    yield caller, value
                    return
        if param.default is not None:
            yield frame, param.default

    def made(self, frame: Frame, trees: Sequence[ast.Tree], shown: set[str]) -> Iterator[Note]:
        """Where the names of expressions get what they stand for."""
        for part in [part for tree in trees for part in self.parts(tree)]:
            if isinstance(part, ast.Name):
                made = self.home(frame, part.span).made.get(part.text, [])
                places = [target for target, end in made if end <= part.span.start]
                if places and _line(places[-1]) not in shown:
                    yield Note(f"`{part.text}` is made here", places[-1])


class _Home:
    """A definition, as what is followed through it asks for."""

    def __init__(self) -> None:
        self.params: tuple[ast.Param, ...] = ()
        self.trees: dict[tuple[int, int], list[ast.Tree]] = {}
        """Pieces of syntax by their places, the outermost first."""
        self.values: dict[str, list[tuple[int, ast.Tree]]] = {}
        """What names are given, and where the statement begins."""
        self.made: dict[str, list[tuple[Span, int]]] = {}
        """Where names are given a value of their own, and where the statement ends."""
        self.fed: dict[int, ast.Pipe] = {}
        """The pipes that things stand in, by their identity."""

    @staticmethod
    def of(definition: ast.Definition | None) -> _Home:
        """What a definition says; of a very long one, its beginning."""
        home = _Home()
        if definition is None:
            return home
        home.params = definition.params
        for tree in islice(walk(definition), _LONGEST):
            home.trees.setdefault((tree.span.start, tree.span.end), []).append(tree)
            if isinstance(tree, (ast.Assign, ast.ForLoop)):
                for target in tree.targets:
                    value = tree.value if isinstance(tree, ast.Assign) else tree.items
                    home.values.setdefault(target.text, []).append((tree.span.start, value))
                if isinstance(tree, ast.Assign) and len(tree.targets) == 1:
                    home.made.setdefault(tree.targets[0].text, []).append((tree.targets[0].span, tree.span.end))
            elif isinstance(tree, ast.Pipe):
                home.fed.update((id(one), tree) for one in _fed(tree))
        return home


def _net(frame: Frame, span: Span) -> ast.Definition | None:
    definitions = frame.module.definitions()
    return next((one for one in definitions if one.span.start <= span.start < one.span.end), None)


def _fed(pipe: ast.Pipe) -> Iterator[ast.Tree]:
    """Everything that a pipe goes into."""
    ahead: list[ast.Tree] = list(pipe.targets)
    while ahead:
        tree = ahead.pop()
        yield tree
        match tree:
            case ast.Pipe():
                ahead.append(tree.first)
            case ast.ChooseOne():
                ahead += [one.value for one in tree.alternatives]
            case ast.Match():
                ahead += [one.value for one in tree.arms]
            case ast.IfElse():
                ahead += [tree.then, tree.otherwise]
