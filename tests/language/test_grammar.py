"""The grammar: stored tables are current, terminals never backtrack, and the reader equals lark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from itertools import product

import pytest
from lark import Lark, Tree, UnexpectedCharacters, UnexpectedToken

from archir.diagnostics.errors import ArchError
from archir.language.formatter import canonical
from archir.language.syntax.builder import Builder
from archir.language.syntax.layout import Layout, NestingError
from archir.language.syntax.parse import parse
from archir_grammar import TABLES, grammar, keywords, parser, tables
from archir_grammar.reading import NotReadError, Place, Reader
from tests.conftest import EXAMPLES
from tests.editor.mutations import mutations
from tests.language.reference.grow import program

TERMINALS = {
    f"{name}:{terminal.name}": terminal.pattern.to_regexp()
    for name, text in {"arch": grammar(), "ir": (files("archir_grammar") / "ir.lark").read_text("utf-8")}.items()
    for terminal in Lark(text, parser="lalr", maybe_placeholders=True).terminals
    if terminal.pattern.type == "re"
}
ALPHABET = ["a", "0", ".", "_", '"', "#", "\n", "\r\n", "\r", " ", "\t", "@", "%", "-", "e", "\\", "|>", "}", "/", "K"]
SEEDS = [
    *ALPHABET,
    *map("".join, product(ALPHABET, repeat=2)),
    *map("".join, product(["a", "0", ".", "#", "\n", "\r\n", " "], repeat=3)),
]
"""What a text may repeat to make a terminal try many ways to match."""


def test_stored_tables_match_the_grammar() -> None:
    stored = json.loads((files("archir_grammar") / TABLES).read_text("utf-8"))
    assert stored["made_from"] == json.loads(tables())["made_from"], "the grammar changed: run python -m archir_grammar"


def test_keywords_are_the_words_that_the_parser_expects() -> None:
    fixed = {terminal.pattern.value for terminal in parser(None).terminals if terminal.pattern.type == "str"}
    assert keywords() == {word for word in fixed if word.isidentifier()}


def test_grammar_is_compiled_when_tables_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'net n {\n input x: f32[3]  # comment\n output y = x\n |> relu\n}\nimport "a.arch"\n'
    stored = parser(Layout()).parse(text)
    monkeypatch.setattr("archir_grammar.TABLES", "missing.json")
    assert parser(Layout()).parse(text) == stored


@pytest.mark.parametrize("name", TERMINALS)
def test_terminals_match_in_linear_time(name: str) -> None:
    """However a text goes on, four times its length takes about four times as long."""
    pattern = re.compile(TERMINALS[name])
    for seed, end in product(SEEDS, ("", "!", "\n!", "x")):
        assert _growth(lambda count, s=seed, e=end: _once(pattern.match, s * count + e), 6, 12, 24) < 64, (seed, end)
        assert _growth(lambda count, s=seed, e=end: _once(pattern.match, s * count + e), 500, 2_000) < 30, (seed, end)


TEXTS = {
    "comments": "# a licence }\n",
    "comments in CRLF": "# a licence |>\r\n",
    "mixed ends": "# a\r\n \n\r\n\t# b\n",
    "blank lines": " \t\r\n",
    "statements": "const a = 1.5e3 # three\r\n",
    "lists": "const a = [1,\r\n # b\r\n 2]\n",
    "pipes": "const a = b # c\r\n |> d # e }\r\n |> f\n",
    "blocks": 'block b(x) {\r\n # }\r\n x = "a" # b\r\n return x\r\n}\r\n',
    "choices": "const a = choose b { c: d, # e }\r\n f: g\r\n}\n",
    "tags": "const a = choose @b @c (1, 2)\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_parsing_and_formatting_take_linear_time(name: str) -> None:
    unit = TEXTS[name]
    for read in (parse, canonical):
        assert _growth(lambda count, read=read: _once(read, unit * count), 100, 400) < 16


def test_comment_contents_are_not_tokens() -> None:
    for text in ("\n  # a }\n  x = 1\n", "\r\n# |> b\r\n# }\r\n  x = 1\r\n", "\n x = 1 # }\n # } |>\n"):
        body = parse(f"block b() {{{text}}}").items[0].body  # type: ignore[attr-defined]
        assert [statement.span.text for statement in body] == ["x = 1"]


def test_line_endings_parse_alike_and_format_to_newlines() -> None:
    """Either end of line is one, alone or mixed; places count from the start of the line; a layout has one kind."""
    plain = "# a\nconst a = 1\n# b\nconst b = [\n    1,\n    2,\n]\n"
    assert canonical(plain) == plain
    for ends in (["\r\n"], ["\n", "\r\n"], ["\r\n", "\n"]):
        lines = plain.split("\n")
        text = "".join(line + ends[i % len(ends)] for i, line in enumerate(lines[:-1]))
        assert parse(text) == parse(plain)
        assert canonical(text) == plain == canonical("\ufeff" + text)
        with pytest.raises(ArchError) as caught:
            parse(text + "const ? = 3")
        assert str(caught.value).startswith("<input>:8:7: error[A0101]: unexpected `?`\n    const ? = 3\n          ^")


@pytest.mark.parametrize(
    "text", ["const a = 1\rconst b = 2", "# a\rconst a = 1\n", 'const a = "a\rb"', "const a = 1\f\n"]
)
def test_rejects_other_control_characters(text: str) -> None:
    """What hides in a terminal does not hide in a comment."""
    for read in (parse, canonical):
        with pytest.raises(ArchError) as caught:
            read(text)
        assert caught.value.diagnostics[0].code in ("A0101", "A0103")


def test_byte_order_mark_is_allowed_at_start_only() -> None:
    assert parse("\ufeffconst a = 1") == parse("const a = 1")
    with pytest.raises(ArchError):
        parse("const a = 1\n\ufeffconst b = 2")


@pytest.mark.parametrize(
    "text",
    ["nettiny {\n}", "consta = 1", "net n {\n    x = 1 ifb else 2\n}", "const a = [i fori in b]", "ownblock f(x) {}"],
)
def test_keyword_prefix_of_word_is_not_a_keyword(text: str) -> None:
    """Where no name can stand, neither: a keyword is not a beginning of a word."""
    with pytest.raises(ArchError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code == "A0102"


@pytest.mark.parametrize("between", [", ", "\n"])
@pytest.mark.parametrize("word", ["none", "true", "not", "match", "else", "for"])
def test_alternatives_may_be_named_like_keywords(word: str, between: str) -> None:
    """Behind a newline as behind a comma."""
    assert parse(f"const a = choose {{{word}: 1{between}b: 2{between}{word}_: 3}}\n")
    assert parse(f"const a = choose {{b: 1{between}{word}: 2}}\n")


def _growth(took: Callable[[int], float], *counts: int) -> float:
    """How many times as long the last takes as the first, as the quickest of a few tries has it; what hangs at the last
    is noticed before."""
    times: list[float] = []
    for count in counts:
        times.append(max(took(count), 2e-5))
        for _ in range(4):
            if times[-1] / times[0] < counts[-1] / counts[0] * 2:
                break
            times[0], times[-1] = max(took(counts[0]), times[0]), min(took(count), times[-1])
        if times[-1] / times[0] > 1000:
            break
    return times[-1] / times[0]


def _once(work: Callable[[str], object], text: str) -> float:
    begin = time.process_time()
    work(text)
    return time.process_time() - begin


class Trees:
    """Makes of each rule the tree that lark makes, beside its place."""

    def __getattr__(self, name: str) -> Callable[[Place, list[object]], object]:
        return lambda place, parts: (name, place, parts)


def as_read(tree: object) -> object:
    """A tree of lark's as `Trees` makes it."""
    if not isinstance(tree, Tree):
        return tree
    place = (0, 0) if tree.meta.empty else (tree.meta.start_pos, tree.meta.end_pos)
    return str(tree.data), place, [as_read(child) for child in tree.children]


def test_reader_trees_equal_those_of_lark() -> None:
    made = parser(Layout())
    reader = Reader(made)
    examples = [path.read_text() for path in sorted(EXAMPLES.rglob("*.arch"))[:8]]
    for text in ["", "\n", "# nothing\n", "const a = ((1))", *examples, *map(program, range(40))]:
        assert reader.read(text, Trees()) == as_read(made.parse(text))


def test_reader_rejects_texts_that_are_no_programs() -> None:
    reader = Reader(parser(Layout()))
    for text in ("net", "net n { ? }", 'const a = "', "const a = 1 2", "block b() { return 1"):
        with pytest.raises(NotReadError):
            reader.read(text, Trees())


@pytest.mark.parametrize("many", [200, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_reader_errors_equal_those_of_lark(many: int) -> None:
    """The same word or character, and the same terminals expected in its place: those of the grammar also before a
    character that begins no terminal, for which lark itself would report those of its lexer."""
    made = parser(Layout())
    reader, refused = Reader(made), 0
    for text in mutations(4, many, 1500 if many == 200 else 2**20):
        found: tuple[object, ...] = ()
        wanted: tuple[object, ...] = ()
        try:
            reader.read(text, Trees())
        except NotReadError as error:
            found = error.at, None if error.token is None else error.token.type, error.expected()
        except NestingError:
            continue
        try:
            made.parse(text)
        except UnexpectedCharacters as error:
            interactive = made.parse_interactive(text)
            with suppress(UnexpectedCharacters):
                interactive.exhaust_lexer()
            wanted = error.pos_in_stream, None, interactive.accepts()
        except UnexpectedToken as error:
            at = len(text) if error.token.type == "$END" else error.token.start_pos
            wanted = at, error.token.type, error.accepts or error.expected
        assert found == wanted, text
        refused += bool(found)
    assert refused > many / 2


def test_every_grammar_rule_has_a_builder() -> None:
    """Also those that no example has."""
    for rule in parser(Layout()).rules:
        name = str(rule.alias or rule.origin.name)
        handed_on = rule.options.expand1 and rule.alias is None
        assert name.startswith(("_", "$")) or handed_on or callable(getattr(Builder, name, None)), name
