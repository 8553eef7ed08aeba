"""The parser reports several syntax errors per file and still parses the intact definitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archir.diagnostics.errors import ArchError, Source
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast
from archir.language.syntax.parse import parse, parse_partial
from archir.language.syntax.recovery import MAX_PROBLEMS
from archir.language.syntax.strict_parse import ItemCache, ParseError, parse_source
from tests.conftest import EXAMPLES
from tests.editor.mutations import mutations

TEXT = (EXAMPLES / "nas_bench_201" / "nas_bench_201.arch").read_text("utf-8")
BROKEN = """
block one(x) {
    y = x |> conv(8 8)
    return y |> relu
}

block two(x {
    return x
}

const WIDTH = = 3

net three {
    input image: f32[3, 8, 8]
    for i on 0..3 {
        x = image |> relu
    }
    output y = image |> one |> )
}
"""


def lines(text: str) -> list[int]:
    with pytest.raises(ArchError) as caught:
        parse(text)
    return [one.span.line for one in caught.value.diagnostics if one.span is not None]


def test_every_syntax_error_is_reported_once_in_order() -> None:
    assert lines(BROKEN) == [3, 7, 11, 15, 18]


def test_intact_definitions_keep_their_spans() -> None:
    found = parse_partial(BROKEN)
    names = [item.name.text for item in found.file.items if isinstance(item, ast.Definition)]
    assert names == ["one", "three"]
    for item in found.file.items:
        assert isinstance(item, ast.Definition)
        assert BROKEN[item.name.span.start : item.name.span.end] == item.name.text
        assert item.span.source.text == BROKEN


@pytest.mark.parametrize("text", ["", "\n", "}", "net", "net x {", '"', "\x00", "((((", "block f(x) { return x }\n}}"])
def test_partial_parse_terminates_on_any_text(text: str) -> None:
    found = parse_partial(text)
    assert bool(found.problems) == bool(text.strip())


def test_number_of_reported_problems_is_limited() -> None:
    assert len(parse_partial("const A = = 1\n" * 100).problems) == MAX_PROBLEMS


def test_20000_broken_lines_report_at_most_max_problems() -> None:
    found = parse_partial("net a { x = = }\n" * 20_000)
    assert 1 <= len(found.problems) <= MAX_PROBLEMS


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_partial_parse_finds_errors_exactly_when_full_parse_fails(seed: int, many: int) -> None:
    """Whatever is deleted: what is read begins where the text does, and places lie within it."""
    chance, text = random.Random(seed), TEXT
    for _ in range(many):
        at = chance.randrange(len(text))
        text = text[:at] + text[at + chance.randrange(1, 12) :]
    found = parse_partial(text)
    assert all(one.span is not None and 0 <= one.span.start <= len(text) for one in found.problems)
    if not found.problems:
        parse(text)
    else:
        with pytest.raises(ArchError):
            parse(text)


def places(tree: ast.File) -> list[tuple[str, int, int, int]]:
    return [(type(one).__name__, one.span.start, one.span.end, one.depth) for one in walk(tree)]


@pytest.mark.parametrize("many", [150, pytest.param(5_000, marks=pytest.mark.soak)])
def test_parse_by_items_equals_full_parse(many: int) -> None:
    """The same trees at the same places, or the same problem."""

    def said(text: str, by_items: bool) -> object:
        source = Source("net.arch", text)
        try:
            return places(parse_source(source, source, {} if by_items else None))
        except ParseError as error:
            return str(error.problem), error.at

    for text in mutations(6, many, 3_000):
        assert said(text, True) == said(text, False), text


@pytest.mark.parametrize("many", [40, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_cached_reparse_equals_fresh_parse(many: int) -> None:
    """As if each text were the first: the tree, the lines of its places, the problems and what is left out."""
    chance, kept = random.Random(7), ItemCache()
    original = BROKEN.replace("const WIDTH = = 3", "const WIDTH = 3") + TEXT
    text, reused = original, 0
    for _ in range(many):
        if chance.random() < 0.2:
            text = original
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(["", "\n", "(", "}", "x", "\n\n", "# "]) + text[at + chance.randrange(3) :]
        reused += len(kept.update(text))
        found, wanted = parse_partial(text, cache=kept), parse_partial(text)
        assert places(found.file) == places(wanted.file)
        assert [one.span.line for one in walk(found.file)] == [one.span.line for one in walk(wanted.file)]
        assert list(map(str, found.problems)) == list(map(str, wanted.problems))
        assert found.skipped == wanted.skipped
    assert reused > many
