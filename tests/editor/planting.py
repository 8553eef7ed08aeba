"""Mistakes that a seed plants over the examples, one a program: tokens, names, widths, heads and arities."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lark import Token

from archir.api.loading import load_checked
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast
from archir.language.syntax.parse import parse, tokens
from tests.conftest import EXAMPLES

QUICK = [
    "deit_tiny.arch", "mobilenet_v2.arch", "resnet50.arch", "autoformer/autoformer.arch", "autola/baselines.arch",
    "full_attention/layers.arch", "glit/layer.arch", "grammar/grammar.arch", "llama/llama3.arch",
    "mobilenet_v3_ofa/mobilenet_v3_large.arch", "mobilenet_v3_ofa/mobilenet_v3_ofa.arch",
    "nas_bench_201/nas_bench_201.arch", "nas_bert/nas_bert.arch", "nos/teacher.arch", "shrink/cifar.arch",
    "tasks/language/gpt.arch", "tasks/own/angles.arch", "tasks/series/series.arch", "tasks/shapes/shapes.arch",
    "trionet/baselines.arch", "trionet/operators.arch", "trionet/trionet.arch", "zoo/enas_macro.arch",
    "zoo/gemma.arch", "zoo/llama.arch", "zoo/metaformer.arch", "zoo/mixtral.arch", "zoo/nas_bench_macro.arch",
    "zoo/primer.arch", "zoo/proxylessnas.arch", "zoo/pythia.arch", "zoo/qwen3.arch", "zoo/spos.arch",
    "zoo/switch.arch", "zoo/transnas_macro.arch", "zoo/transnas_micro.arch",
]  # fmt: skip
"""Examples that are checked in a quarter of a second."""
_BRACKETS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
Edit = tuple[int, int, str]


@dataclass(frozen=True)
class Planted:
    """A file with a mistake in it, of a kind, and the lines at which it may be found."""

    file: str
    kind: str
    text: str
    lines: frozenset[int]

    @property
    def path(self) -> Path:
        """The example."""
        return EXAMPLES / self.file

    @property
    def original(self) -> str:
        """The file without the mistake."""
        return self.path.read_text("utf-8")

    def said(self) -> list[Diagnostic]:
        """What is said of it."""
        return problems(self.text, self.path)

    def found(self) -> bool:
        """Whether something that is said, or a note of it, points to the mistake."""
        said = "\n".join(map(str, self.said()))
        lines = re.findall(rf"{re.escape(str(self.path))}:(\d+):", said)
        return bool(self.lines & {int(line) for line in lines})


def problems(text: str, path: Path) -> list[Diagnostic]:
    """What `archir check` says of a text at a path."""
    try:
        load_checked(text, path.parent, str(path), None, None, None, None)
    except ArchError as error:
        return list(error.diagnostics)
    return []


def planted(seed: int, kind: str) -> Planted:
    """A mistake of a kind: a change of one example that is refused for it."""
    chance = random.Random(f"{kind} {seed}")
    while True:
        file = chance.choice(QUICK)
        text = (EXAMPLES / file).read_text("utf-8")
        found = KINDS[kind](text, chance)
        if found is None:
            continue
        (start, end, new), lines = found
        mistake = Planted(file, kind, text[:start] + new + text[end:], lines)
        if mistake.text != text and mistake.said():
            return mistake


@cache
def _words(text: str) -> list[Token]:
    return tokens(text)


@cache
def _trees(text: str) -> list[ast.Tree]:
    return list(walk(parse(text)))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _around(text: str, found: list[Token], number: int) -> frozenset[int]:
    """The line of a token, that of the bracket it is paired with, and of its neighbours, if it stands alone."""
    token = found[number]
    lines = {_line(text, token.start_pos or 0)}
    here = text.split("\n")[min(lines) - 1].strip()
    if here == str(token):
        lines |= {_line(text, found[n].start_pos or 0) for n in (number - 1, number + 1) if 0 <= n < len(found)}
    open_: list[int] = []
    for n, one in enumerate(found):
        if one.type in _BRACKETS:
            open_.append(n)
        elif one.type in _BRACKETS.values() and open_:
            pair = open_.pop()
            if number in (pair, n):
                lines |= {_line(text, found[m].start_pos or 0) for m in (pair, n)}
    return frozenset(lines)


def _pick(text: str, chance: random.Random, behind: int = 0) -> tuple[list[Token], int]:
    found = _words(text)
    while True:
        number = chance.randrange(len(found) - behind)
        if all(one.type != "_NL" for one in found[number : number + behind + 1]):
            return found, number


def _deleted(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]]:
    found, number = _pick(text, chance)
    token = found[number]
    return (token.start_pos or 0, token.end_pos or 0, " "), _around(text, found, number)


def _doubled(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]]:
    found, number = _pick(text, chance)
    token = found[number]
    return (token.end_pos or 0, token.end_pos or 0, f" {token}"), _around(text, found, number)


def _swapped(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]]:
    found, number = _pick(text, chance, 1)
    one, other = found[number : number + 2]
    between = text[one.end_pos : other.start_pos] or " "
    edit = (one.start_pos or 0, other.end_pos or 0, f" {other}{between}{one} ")
    return edit, _around(text, found, number) | _around(text, found, number + 1)


def _misspelled(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]] | None:
    names = [token for token in _words(text) if token.type == "NAME" and len(token) > 2]
    token = chance.choice(names)
    at = chance.randrange(1, len(token))
    word = str(token)
    before, letter, behind = word[: at - 1], word[at - 1], word[at:]
    new = chance.choice([before + behind, before + letter + letter + behind, before + behind[0] + letter + behind[1:]])
    place = token.start_pos or 0
    lines = {_line(text, place)}
    if _defines(text, place):  # its uses are lost with it
        lines |= {_line(text, one.start_pos or 0) for one in names if str(one) == word}
    return (place, token.end_pos or 0, new), frozenset(lines)


def _defines(text: str, place: int) -> bool:
    """Whether the name at a place is one that something is called by."""
    for tree in _trees(text):
        given = [getattr(tree, name, None) for name in ("name", "label", "index")] + [*getattr(tree, "targets", ())]
        if any(isinstance(one, ast.Name) and one.span.start == place for one in given):
            return not isinstance(tree, (ast.Argument, ast.Attribute))
    return False


def _number(
    text: str, chance: random.Random, called: tuple[str, ...], plain: bool
) -> tuple[Edit, frozenset[int]] | None:
    """Another number, of what is called like one of these; or, if `plain`, of an argument that has no name."""
    spans = set()
    for tree in _trees(text):
        if isinstance(tree, (ast.Argument, ast.Param, ast.ChooseValue, ast.Assign, ast.Const)):
            named = tree.targets[0] if isinstance(tree, ast.Assign) else getattr(tree, "label", None)
            named = named or getattr(tree, "name", None)
            wanted = plain and isinstance(tree, ast.Argument)
            if any(word in named.text for word in called) if named is not None else wanted:
                spans |= {one.span for one in walk(tree) if isinstance(one, ast.Literal) and one.span.text.isdigit()}
    if not spans:
        return None
    span = chance.choice(sorted(spans, key=lambda one: one.start))
    value = int(span.text)
    new = max(1, value + chance.choice([-3, -1, 1, 2, 5, value, 7]))
    return (span.start, span.end, str(new)), frozenset({span.line})


def _widths(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]] | None:
    return _number(text, chance, ("channels", "width", "groups", "hidden", "features"), True)


def _heads(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]] | None:
    return _number(text, chance, ("head",), False)


def _arity(text: str, chance: random.Random) -> tuple[Edit, frozenset[int]] | None:
    calls = [tree for tree in _trees(text) if isinstance(tree, ast.Call) and tree.arguments]
    if not calls:
        return None
    call = chance.choice(calls)
    number = chance.randrange(len(call.arguments))
    span = call.arguments[number].span
    lines = frozenset({call.span.line, span.line})
    if chance.random() < 0.5:
        return (span.end, span.end, f", {span.text}"), lines
    if number + 1 < len(call.arguments):
        return (span.start, call.arguments[number + 1].span.start, ""), lines
    before = call.arguments[number - 1].span.end if number else span.start
    return (before, span.end, ""), lines


KINDS: dict[str, Callable[[str, random.Random], tuple[Edit, frozenset[int]] | None]] = {
    "deleted": _deleted,
    "doubled": _doubled,
    "swapped": _swapped,
    "name": _misspelled,
    "width": _widths,
    "heads": _heads,
    "arity": _arity,
}
