"""Mistakes planted at random into the examples, one per program: tokens, names, widths, heads and numbers of
arguments."""

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
"""Examples that are checked within a quarter of a second."""
_BRACKETS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
Edit = tuple[int, int, str]


@dataclass(frozen=True)
class Planted:
    """An example with a mistake of some kind, and the lines at which it may be reported."""

    file: str
    kind: str
    text: str
    lines: frozenset[int]

    @property
    def path(self) -> Path:
        """The path of the example."""
        return EXAMPLES / self.file

    @property
    def original(self) -> str:
        """The text without the mistake."""
        return self.path.read_text("utf-8")

    def diagnose(self) -> list[Diagnostic]:
        """Return the diagnostics of the text."""
        return problems(self.text, self.path)

    def is_reported(self) -> bool:
        """True if a diagnostic, or a note of one, points to the mistake."""
        text = "\n".join(map(str, self.diagnose()))
        lines = re.findall(rf"{re.escape(str(self.path))}:(\d+):", text)
        return bool(self.lines & {int(line) for line in lines})


def problems(text: str, path: Path) -> list[Diagnostic]:
    """Return the diagnostics of `archir check` for a text at a path."""
    try:
        load_checked(text, path.parent, str(path), None, None, None, None)
    except ArchError as error:
        return list(error.diagnostics)
    return []


def plant(seed: int, kind: str) -> Planted:
    """Return a random example with a mistake of some kind that is refused."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        file = rng.choice(QUICK)
        text = (EXAMPLES / file).read_text("utf-8")
        edit = KINDS[kind](text, rng)
        if edit is None:
            continue
        (start, end, new), lines = edit
        mistake = Planted(file, kind, text[:start] + new + text[end:], lines)
        if mistake.text != text and mistake.diagnose():
            return mistake


@cache
def _words(text: str) -> list[Token]:
    return tokens(text)


@cache
def _trees(text: str) -> list[ast.Tree]:
    return list(walk(parse(text)))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _around(text: str, tokens_: list[Token], number: int) -> frozenset[int]:
    """Return the line of a token and of the bracket it pairs with, and of its neighbours if it is alone on its line."""
    token = tokens_[number]
    lines = {_line(text, token.start_pos or 0)}
    line_text = text.split("\n")[min(lines) - 1].strip()
    if line_text == str(token):
        lines |= {_line(text, tokens_[n].start_pos or 0) for n in (number - 1, number + 1) if 0 <= n < len(tokens_)}
    open_: list[int] = []
    for n, token_ in enumerate(tokens_):
        if token_.type in _BRACKETS:
            open_.append(n)
        elif token_.type in _BRACKETS.values() and open_:
            pair = open_.pop()
            if number in (pair, n):
                lines |= {_line(text, tokens_[m].start_pos or 0) for m in (pair, n)}
    return frozenset(lines)


def _pick(text: str, rng: random.Random, extra: int = 0) -> tuple[list[Token], int]:
    token_list = _words(text)
    while True:
        number = rng.randrange(len(token_list) - extra)
        if all(token.type != "_NL" for token in token_list[number : number + extra + 1]):
            return token_list, number


def _deleted(text: str, rng: random.Random) -> tuple[Edit, frozenset[int]]:
    token_list, number = _pick(text, rng)
    token = token_list[number]
    return (token.start_pos or 0, token.end_pos or 0, " "), _around(text, token_list, number)


def _doubled(text: str, rng: random.Random) -> tuple[Edit, frozenset[int]]:
    token_list, number = _pick(text, rng)
    token = token_list[number]
    return (token.end_pos or 0, token.end_pos or 0, f" {token}"), _around(text, token_list, number)


def _swapped(text: str, rng: random.Random) -> tuple[Edit, frozenset[int]]:
    token_list, number = _pick(text, rng, 1)
    first, second = token_list[number : number + 2]
    between = text[first.end_pos : second.start_pos] or " "
    edit = (first.start_pos or 0, second.end_pos or 0, f" {second}{between}{first} ")
    return edit, _around(text, token_list, number) | _around(text, token_list, number + 1)


def _misspelled(text: str, rng: random.Random) -> tuple[Edit, frozenset[int]] | None:
    names = [token for token in _words(text) if token.type == "NAME" and len(token) > 2]
    token = rng.choice(names)
    at = rng.randrange(1, len(token))
    word = str(token)
    before, letter, behind = word[: at - 1], word[at - 1], word[at:]
    new = rng.choice([before + behind, before + letter + letter + behind, before + behind[0] + letter + behind[1:]])
    place = token.start_pos or 0
    lines = {_line(text, place)}
    if _defines(text, place):  # its uses become undefined
        lines |= {_line(text, name.start_pos or 0) for name in names if str(name) == word}
    return (place, token.end_pos or 0, new), frozenset(lines)


def _defines(text: str, place: int) -> bool:
    """True if the name at a position defines something."""
    for tree in _trees(text):
        names = [getattr(tree, name, None) for name in ("name", "label", "index")] + [*getattr(tree, "targets", ())]
        if any(isinstance(item, ast.Name) and item.span.start == place for item in names):
            return not isinstance(tree, (ast.Argument, ast.Attribute))
    return False


def _number(text: str, rng: random.Random, called: tuple[str, ...], plain: bool) -> tuple[Edit, frozenset[int]] | None:
    """Change a number: in a value whose name contains one of `called`, or, if `plain`, in an argument without a
    name."""
    spans = set()
    for tree in _trees(text):
        if isinstance(tree, (ast.Argument, ast.Param, ast.ChooseValue, ast.Assign, ast.Const)):
            named = tree.targets[0] if isinstance(tree, ast.Assign) else getattr(tree, "label", None)
            named = named or getattr(tree, "name", None)
            matches = plain and isinstance(tree, ast.Argument)
            if any(word in named.text for word in called) if named is not None else matches:
                spans |= {
                    literal.span
                    for literal in walk(tree)
                    if isinstance(literal, ast.Literal) and literal.span.text.isdigit()
                }
    if not spans:
        return None
    span = rng.choice(sorted(spans, key=lambda literal: literal.start))
    value = int(span.text)
    new = max(1, value + rng.choice([-3, -1, 1, 2, 5, value, 7]))
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
