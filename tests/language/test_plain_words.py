"""Error messages contain no internal terms of how archir holds values."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from tests.language.test_hints import IN_A_NET, ITEMS, STATEMENTS

INSIDE = re.compile(
    r"\w+\(node=|case\(|Items|Fraction\(|<archir|0x[0-9a-f]{5,}|<[a-z_]+ |object at|Case\b|UNBOUND|(?<!`)\bNone\b"
)

AROUND = """import std.gates as gates

block unit(x, k = 3) {{
    return x |> conv(8, k)
}}

net tiny {{
    input x: f32[8, 4, 4]
    n = choose n(1, 2, 3)
    k = choose k("a", "b")
    t = choose t {{ one: x |> relu, two: x |> conv(8) }}
    w = x |> conv(8 * n)
    if n == 2 {{
        u = 3
    }}
    {statement}
    output y = x
}}
"""
VALUES = [
    "x", "t", "w", "n", "k", "u", "n / 2", "1 / 2", "0.5", "-1", '"a"', "none", "true", "0..3", "0..n", "[n, x]", "[t]",
    "[[1, n], k]", "[1 / 2]", "[]", "relu", "conv", "unit", "gates", "gates.se", "len", "n == 2", "x.shape", "w.shape",
]  # fmt: skip
ONE = [
    "z = -({})", "z = not ({})", "z = ({}).foo", "z = ({}).height", "z = ({})()", "z = x |> conv({})",
    "z = x |> conv(8, padding={})", "z = x |> reshape({})", "z = x |> transpose({})", "z = x |> ({})", "z = concat({})",
    "z = sum({})", "z = len({})", "z = sorted({})", "z = enumerate({})", "z = max({})", "z = all({})", "z = sqrt({})",
    "z = choose c({})", "z = choose c {{ p: {}, q: x }} |> relu", "z = choose c 1 of {}", "z = choose c ({}) of [1, 2]",
    "z = [i for i in {}]", "p, q = {}", "for p, q in {} {{ }}", "repeat {} {{ }}", "require {}", "if {} {{ }}",
    "z = x if {} else 3", "z = x |> unit({})", "output z = {}", "input z: f32[{}]", "z = match {} {{ 7 => 1 }}",
    "require macs < ({})", "z = parameter({})", "z = x |> group_norm(eps={})", "z = x |> batch_norm(affine={})",
    "z = x |> rotary({})", "z = matmul(x, {})", "z = ({})[5]", "z = [1, 2][{}]", "z = ({})[{{}}]", "z = x[{}:]",
]  # fmt: skip
TWO = ["z = ({}) + ({})", "z = ({}) ** ({})", "z = ({}) < ({})", "z = ({}) in ({})", "z = ({})..({})", "z = ({})[{}]"]


def said(text: str, folder: Path | None = None) -> str:
    try:
        elaborate(text, "tiny.arch", folder=folder)
    except ArchError as error:
        return "\n".join(
            f"{d.message}\n{d.hint}" if d.hint else d.message
            for d in error.diagnostics
            for d in [d, *(type(d)(d.code, note.text) for note in d.notes)]
        )
    return ""


def wrong(statements: list[str]) -> dict[str, str]:
    """Messages in which something is found that does not belong there, by program."""
    texts = {statement: said(AROUND.format(statement=statement)) for statement in statements}
    return {statement: text for statement, text in texts.items() if INSIDE.search(text)}


PROGRAMS = [form.format(value) for form in ONE for value in VALUES]
PROGRAMS += [form.format(a, b) for form in TWO for a, b in product(VALUES, VALUES)]


def test_sampled_value_errors_have_no_internal_terms() -> None:
    assert wrong(random.Random(0).sample(PROGRAMS, 50)) == {}


@pytest.mark.soak
def test_all_value_errors_have_no_internal_terms() -> None:
    assert wrong(PROGRAMS) == {}


@pytest.mark.parametrize("name", ["wrong", "lint"])
def test_errors_of_program_files_have_no_internal_terms(name: str) -> None:
    folder = Path(__file__).parent / name
    for path in sorted(folder.glob("*.arch")):
        text = said(path.read_text(), folder)
        assert not INSIDE.search(text), text


def test_foreign_syntax_hints_have_no_internal_terms() -> None:
    programs = [IN_A_NET.format(statement=statement) for statement in STATEMENTS]
    programs += [f"{item}\n{IN_A_NET.format(statement='')}" for item in ITEMS]
    assert [text for program in programs if INSIDE.search(text := said(program))] == []
