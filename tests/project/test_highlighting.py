"""Syntax highlighting of `.arch` programs by Pygments."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Text, Token

from archir.language.syntax.parse import tokens
from archir_grammar import parser
from archir_grammar.highlighting import KINDS, ArchLexer
from tests.conftest import EXAMPLES, ROOT

PROGRAM = """import std.conv as c  # the library
net one(width = 1_000K) {
    input image: f32[3, 8, 8]
    x = image |> choose op @search { own: conv(2 ** 3), none: relu if not true else c.same("a") }
    output logits = x |> linear(0.5e-1..2)
}
"""
PROGRAMS = [*sorted(EXAMPLES.glob("*.arch")), *sorted((ROOT / "archir" / "language" / "std").glob("*.arch"))]


def coloured(text: str) -> list[tuple[object, str]]:
    return [(kind, word) for kind, word in ArchLexer().get_tokens(text) if word.strip()]


def test_lexer_is_found_by_name_and_file_suffix() -> None:
    assert [one.value for one in entry_points(group="pygments.lexers") if one.name == "arch"]
    assert type(get_lexer_by_name("arch")) is type(get_lexer_for_filename("net.arch")) is ArchLexer


def test_words_get_expected_token_types() -> None:
    found = {word: kind for kind, word in coloured(PROGRAM)}
    wanted = {
        "import": Keyword.Namespace, "net": Keyword.Declaration, "choose": Keyword, "not": Operator.Word,
        "true": Keyword.Constant, "1_000K": Number.Integer, "0.5e-1": Number.Float, "@search": Name.Decorator,
        '"a"': String, "# the library": Comment.Single, "|>": Operator, "**": Operator, "=": Operator,
        "..": Punctuation, "(": Punctuation, "conv": Name.Function, "image": Name,
    }  # fmt: skip
    assert {word: found[word] for word in wanted} == wanted


def test_highlighted_keywords_occur_in_grammar() -> None:
    fixed = {one.pattern.value for one in parser(None).terminals}
    assert {word for of in KINDS.values() for word in of} <= fixed


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_highlighter_tokens_equal_parser_tokens(path: Path) -> None:
    """But for comments, which it leaves out."""
    text = path.read_text("utf-8")
    seen = [word for kind, word in coloured(text) if kind is not Comment.Single]
    assert seen == [str(one) for one in tokens(text) if one.type not in ("_NL", "$END")]


def test_invalid_program_is_highlighted_without_error_tokens() -> None:
    found = list(ArchLexer().get_tokens('net ? { input x: "a\n'))
    assert (Text, "?") in found
    assert not [kind for kind, _ in found if kind in Error]
    assert all(kind in Token for kind, _ in found)
