"""The TextMate grammar classifies tokens as the lark grammar does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from lark import Lark, Token, UnexpectedCharacters

from archir.diagnostics.errors import ArchError
from archir.language.syntax.parse import tokens
from archir_grammar import grammar
from tests.editor.mutations import mutations, programs
from tests.editor.textmate import EXTENSION, arch
from tools import textmate

KINDS = {
    "comment": "comment", "string": "string", "constant.numeric": "number", "entity.other.attribute-name": "tag",
    "constant.language": "keyword", "keyword.operator.word": "keyword", "keyword.operator": "sign",
    "keyword.control": "keyword", "storage": "keyword", "entity.name": "name", "variable": "name",
    "punctuation": "sign", "invalid.illegal": "illegal",
}  # fmt: skip
"""What scopes say of a word, by how they begin: the longest beginning counts."""
Word = tuple[int, int, str]
MARK = "punctuation.whitespace.arch"
PLAIN = Lark(grammar(), parser=None, lexer="basic")
"""Lark's words wherever they stand."""


def kind(scope: str) -> str:
    return KINDS[max((one for one in KINDS if scope.startswith(one)), key=len)]


def coloured(text: str) -> list[Word]:
    """The words of a text as the grammar has them."""
    return [(start, end, kind(scope)) for start, end, scope in arch().scopes(text) if scope != MARK]


def words(text: str, found: Iterable[Token]) -> list[Word]:
    """The words of a text as lark has them, comments between them; the last is `illegal` where lark stops."""
    said: list[Word] = []
    end = 0
    try:
        for token in found:
            start = token.start_pos or 0
            said += _comments(text, end, start)
            end = token.end_pos or 0
            if token.type != "_NL":
                said.append((start, end, _kind(token)))
            else:
                end = start  # comments may stand in it
    except UnexpectedCharacters as error:
        return [
            *said,
            *_comments(text, end, error.pos_in_stream),
            (error.pos_in_stream, error.pos_in_stream, "illegal"),
        ]
    return said + _comments(text, end, len(text))


def _comments(text: str, begin: int, end: int) -> list[Word]:
    return [(*one.span(), "comment") for one in re.compile(r"#[^\r\n]*").finditer(text, begin, end)]


def _kind(token: Token) -> str:
    if token.type in ("NAME", "STRING", "TAG"):
        return token.type.lower()
    if token.type in ("INT", "FLOAT"):
        return "number"
    return "keyword" if token.isalpha() else "sign"


def up_to_what_is_illegal(found: list[Word]) -> list[Word]:
    """The words before the first that is none, and where that begins."""
    for number, (start, _, kind) in enumerate(found):
        if kind == "illegal":
            return [*found[:number], (start, start, kind)]
    return found


def continued(text: str, found: Iterable[Token]) -> set[int]:
    """Where the first words of lines begin that are inside of brackets. Patterns see a line at a time: of a word there
    that is written like a keyword, they cannot know that it begins no statement."""
    depth, places = 0, set()
    for token in found:
        start = token.start_pos or 0
        if depth and not text[:start].rpartition("\n")[2].strip(" \t"):
            places.add(start)
        depth += (token in ("(", "[")) - (token in (")", "]"))
    return places


def differences(text: str) -> list[str]:
    """Where the words of a text are not lark's. A word that is written like a keyword may be a name where it stands,
    which is told of right texts alone."""
    inside: set[int] = set()
    try:
        right = words(text, tokens(text))
        inside = continued(text, tokens(text))
    except ArchError:
        right = None
    theirs = up_to_what_is_illegal(coloured(text))
    ours = right if right is not None else words(text, PLAIN.lex(text))
    if right is None:
        spelled = {(start, end) for start, end, kind in ours if kind == "keyword"}
        theirs = [(start, end, "keyword" if (start, end) in spelled else kind) for start, end, kind in theirs]
    return [f"{text[one[0] : one[1]]!r} {one}" for one in sorted(set(ours) ^ set(theirs)) if one[0] not in inside]


def test_textmate_file_is_generated_from_grammar() -> None:
    """After a change of arch.lark, `python tools/textmate.py` writes it anew."""
    assert (EXTENSION / "syntaxes" / "arch.tmLanguage.json").read_text("utf-8") == textmate.json_text()


def test_tokens_of_all_programs_equal_lark() -> None:
    assert {str(path): found for path, text in programs() if (found := differences(text))} == {}


@pytest.mark.parametrize("word", ["choose", "match", "if", "own", "net", "in"])
def test_words_in_type_position_are_names(word: str) -> None:
    text = f"net a {{\n    input x: {word} [8, 4, 4]\n    output y = x\n}}\n"
    assert differences(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "xs = [x for of in 0..3]", "for  of  in 0..3 { x = x }", "for i, as in [(1, 2)] { x = x }", "y = for(x)",
        "for i in 0..in { x = x }", "for i in 0..not { x = x }", "w = 1 if 3 else else", "w = 1 if 3 else  if",
        "if a == 1 { x = x } else if not in(2) { x = x } else { x = x }", "return for", "w = match k { 1 => not else }",
        "w = match k { require | 5 => x }", "output image\r",
    ],
)  # fmt: skip
def test_names_spelled_like_keywords_are_names(line: str) -> None:
    text = f"block a(x, k) {{\n    {line}\n    return x\n}}\n"
    tokens(text)  # raises ArchError for what is not a program
    assert differences(text) == []


def test_keyword_names_on_continued_lines_are_the_known_exception() -> None:
    text = "const A = [\n    return,\n    2\n]\n"
    assert continued(text, tokens(text)) == {text.index("return"), text.index("2"), text.index("]")}
    assert coloured(text) != words(text, tokens(text))
    assert differences(text) == []


@pytest.mark.parametrize(
    ("many", "longest"),
    [(300, 1000), pytest.param(10_000, 2**20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_tokens_of_mutated_programs_equal_lark(many: int, longest: int) -> None:
    texts = [
        text for text in mutations(2, many, longest) if not re.search(r"\r(?!\n)", text)
    ]  # editors end lines there
    found = {text: there for text in texts if (there := differences(text))}
    assert found == {}
    assert 0.02 * many < sum(any(kind == "illegal" for *_, kind in coloured(text)) for text in texts) < 0.5 * many


NODE = shutil.which("node")
INSTALLED = (EXTENSION / "node_modules" / "vscode-textmate").is_dir()


@pytest.mark.skipif(NODE is None or not INSTALLED, reason="`make editors` installs VS Code's engine, for node")
def test_vscode_engine_finds_same_scopes() -> None:
    texts = [text for _, text in programs()] + mutations(3, 300, 2000)
    texts = [text for text in texts if not re.search(r"\r(?!\n)", text)]
    done = subprocess.run(
        [str(NODE), str(EXTENSION / "test" / "scopes.js")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    for text, theirs in zip(texts, json.loads(done.stdout), strict=True):
        ours = [[*one] for one in arch().scopes(text)]
        assert joined(theirs) == joined(ours), text


def joined(found: list[list[Any]]) -> list[list[Any]]:
    """Neighbours of one scope as one: engines cut what is alike at different places."""
    whole: list[list[Any]] = []
    for start, end, scope in found:
        if whole and whole[-1][1:] == [start, scope]:
            whole[-1][1] = end
        else:
            whole.append([start, end, scope])
    return whole
