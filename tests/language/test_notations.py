"""Exported grammars: the language parses every text drawn from them, and they accept handwritten programs."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from lark import Lark

from archir.cli import main
from archir.diagnostics.errors import Source
from archir.language.syntax import strict_parse
from archir_grammar.exporting import CharClass, Choice, Literal, Part, Ref, Repeat, Sequence, exported_rules
from archir_grammar.notations import ebnf, gbnf
from tests.conftest import EXAMPLES
from tests.language.notations import Grammar

NOTATIONS = {"ebnf": (ebnf, False), "gbnf": (gbnf, True)}
SEMANTIC = ("A0104", "A0106")
"""Nesting that is too deep and numbers that are too large: nothing that a grammar could say."""


@cache
def read(name: str) -> Grammar:
    write, escapes = NOTATIONS[name]
    return Grammar(write(), escapes)


def refused(text: str) -> str | None:
    """What is wrong with the words of a text and their order."""
    try:
        strict_parse.parse_source(Source("drawn.arch", text))
    except strict_parse.ParseError as error:
        said = error.problem
        return None if said.code in SEMANTIC else f"{said.message} at {error.at} of {text!r}"
    return None


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
@pytest.mark.parametrize("name", NOTATIONS)
def test_texts_drawn_from_grammar_parse(name: str, count: int) -> None:
    grammar = read(name)
    for seed in range(count):
        rng = random.Random(seed)
        text = grammar.drawn(rng, rng.randint(12, 34))
        assert refused(text) is None, seed


def test_draws_reach_every_rule() -> None:
    """Or what is drawn says little."""
    grammar, met = read("gbnf"), set[str]()
    drawn = grammar._drawn

    def noted(part: tuple[str, object], rng: random.Random, depth: int) -> str:
        if part[0] == "ref":
            met.add(str(part[1]))
        return drawn(part, rng, depth)

    grammar._drawn = noted  # type: ignore[method-assign]
    wanted = {name for name in grammar.rules if not name.startswith("name-")} - {grammar.first}
    try:
        for seed in range(400):
            grammar.drawn(random.Random(seed), 26)
            if wanted <= met:
                break
    finally:
        del grammar._drawn  # type: ignore[method-assign]
    assert wanted <= met


def test_both_notations_are_the_same_grammar() -> None:
    one, other = read("ebnf"), read("gbnf")
    assert other.rules.pop("root") == ("ref", "start")
    assert one.rules.keys() == other.rules.keys()
    for seed in range(30):
        drawn = [each._drawn(("ref", "start"), random.Random(seed), 20) for each in (one, other)]
        assert drawn[0] == drawn[1]


def test_no_rule_is_left_recursive() -> None:
    """llama.cpp does not read such rules."""
    rules = exported_rules()

    def first(part: Part) -> set[str]:
        match part:
            case Ref():
                return {part.name}
            case Choice():
                return set().union(*map(first, part.parts))
            case Repeat():
                return first(part.part)
            case Sequence():
                found: set[str] = set()
                for one in part.parts:
                    found |= first(one)
                    if not empty(one):
                        break
                return found
        return set()

    def empty(part: Part) -> bool:
        match part:
            case Repeat():
                return part.least == 0 or empty(part.part)
            case Ref():
                return part.name in nothing
            case Sequence():
                return all(map(empty, part.parts))
            case Choice():
                return any(map(empty, part.parts))
        return False

    nothing: set[str] = set()
    while (more := {name for name, rule in rules.items() if empty(rule)}) != nothing:
        nothing = more
    begins = {name: first(rule) for name, rule in rules.items()}
    for _ in range(len(rules)):
        begins = {name: found.union(*(begins[one] for one in found)) for name, found in begins.items()}
    assert not [name for name, found in begins.items() if name in found]


@cache
def earley() -> Lark:
    """A parser that was made of the exported rules alone, character by character."""

    def rule(name: str) -> str:
        return "r_" + name.replace("-", "_")

    def character(code: int) -> str:
        return f"\\{chr(code)}" if chr(code) in "]\\\\[^-/" else f"\\U{code:08x}"

    def written(part: Part) -> str:
        match part:
            case Literal():
                return '"' + part.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            case CharClass():
                return f"/[{''.join(f'{character(low)}-{character(high)}' for low, high in part.ranges)}]/"
            case Ref():
                return rule(part.name)
            case Sequence():
                return "(" + " ".join(map(written, part.parts)) + ")"
            case Choice():
                return "(" + " | ".join(map(written, part.parts)) + ")"
        sign = ("+" if part.least else "*") if part.endless else "?"
        return f"({written(part.part)}){sign}"

    text = "".join(f"{rule(name)}: {written(part)}\n" for name, part in exported_rules().items())
    return Lark(text, start="r_start", parser="earley", lexer="dynamic", ambiguity="resolve")


WRITTEN = """\
# A comment.
import std.cells as cells
import "blocks.arch" as mine
const WIDTHS = [(16, 1), (24, 2)]  # behind a line

block b(x, width = 8, act = relu,) {
    y = x
        |> conv(
            width,  # inside
            kernel = choose kernel @tag (3, 5),
        )
        |> act
    return y if width > 8 and not x.channels == 3 else x
}
net n() {
    input a: f32[3, 8, 8]
    for w, s in WIDTHS {
        a = a |> b(w) |> choose op { one: relu, none: identity, two: own gelu
            three: cells.sep_conv(3) }
    }
    repeat 2 as i { a = a |> match i { 0 => relu, else => gelu } }
    if 1 < 2 { z = a } else if true { z = a[0:2] } else { z = [x for x in [a] if 1..3] }
    picked = choose part 2 of [1, 2] where part == 1
    output o = -z ** 2 * 3.5e1 + (1, )
    require macs <= 600M
}
"""


def test_grammar_accepts_handwritten_program() -> None:
    assert refused(WRITTEN) is None
    earley().parse(WRITTEN)


@pytest.mark.soak
@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.arch"), key=lambda one: one.stat().st_size)[:12])
def test_examples_are_in_the_grammar(path: Path) -> None:
    earley().parse(path.read_text())


@pytest.mark.parametrize("name", NOTATIONS)
def test_grammar_command_writes_notation(name: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["grammar", "--to", name], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.output == NOTATIONS[name][0]()
    CliRunner().invoke(main, ["grammar", "--to", name, "-o", str(tmp_path / "arch.txt")], catch_exceptions=False)
    assert (tmp_path / "arch.txt").read_text() == done.output
