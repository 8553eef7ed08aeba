"""The tree-sitter grammar accepts and rejects what the lark grammar does."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from lark import LarkError

from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast
from archir.language.syntax.layout import NestingError
from archir.language.syntax.parse import parse
from archir.language.syntax.strict_parse import grammar
from tests.editor.mutations import ROOT, mutations, programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

tree_sitter = pytest.importorskip("tree_sitter")
HOME = ROOT / "editors" / "tree-sitter-arch"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="the grammar is C, and no C compiler is on PATH")


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Parser:
    """The grammar, compiled as editors compile it."""
    library = tmp_path_factory.mktemp("arch") / "arch.so"
    sources = [str(HOME / "src" / name) for name in ("parser.c", "scanner.c")]
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    include = ["-I", str(HOME / "src")]
    subprocess.run(
        [str(COMPILER), "-std=c11", "-shared", "-fPIC", *strict, *include, "-o", library, *sources], check=True
    )
    language = ctypes.CDLL(str(library)).tree_sitter_arch
    language.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return tree_sitter.Parser(tree_sitter.Language(capsule(language(), b"tree_sitter.Language", None)))


def accepted(parser: Parser, text: str) -> bool:
    return not parser.parse(text.encode()).root_node.has_error


def accepted_by_lark(text: str) -> bool:
    """Whether words and their order are right; what numbers and names may be is not the grammar's."""
    try:
        grammar().parse(text)
    except (LarkError, NestingError):
        return False
    return True


def test_accepts_same_programs_as_lark(parser: Parser) -> None:
    wanted = {str(path): accepted_by_lark(text) for path, text in programs()}
    assert {str(path): accepted(parser, text) for path, text in programs()} == wanted
    assert sum(wanted.values()) > 200
    assert not all(wanted.values())


@pytest.mark.parametrize(
    ("many", "longest"),
    [(300, 1500), pytest.param(10_000, 2**20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_accepts_same_mutated_programs_as_lark(parser: Parser, many: int, longest: int) -> None:
    texts = mutations(1, many, longest)
    wanted = [accepted_by_lark(text) for text in texts]
    assert [text for text, right in zip(texts, wanted, strict=True) if accepted(parser, text) != right] == []
    assert 0.1 * many < sum(wanted) < 0.9 * many


KINDS = {
    ast.Definition: ["block", "cell", "net"], ast.Const: ["const"], ast.Param: ["param"], ast.Input: ["input"],
    ast.Output: ["output"], ast.Return: ["return"], ast.Assign: ["assign"], ast.ForLoop: ["for_loop"],
    ast.Repeat: ["repeat"], ast.If: ["if"], ast.Require: ["require"], ast.IfElse: ["if_else"], ast.Pipe: ["pipe"],
    ast.Logical: ["any_of", "all_of"], ast.Not: ["not"], ast.Comparison: ["comparison"], ast.Range: ["interval"],
    ast.Chain: ["chain", "power"], ast.Signed: ["signed"], ast.Argument: ["argument"], ast.Attribute: ["attribute"],
    ast.Index: ["index"], ast.Slice: ["part"], ast.Sequence: ["sequence"], ast.Comprehension: ["comprehension"],
    ast.ChooseValue: ["choose_value"], ast.ChooseOne: ["choose_one"], ast.Alternative: ["alternative"],
    ast.ChooseSubset: ["choose_subset"], ast.Match: ["match"], ast.Arm: ["arm"],
}  # fmt: skip
"""What our trees are made of, and what it is called in editors."""


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.named_children:
        yield from nodes(child)


def test_tree_nodes_match_those_of_the_parser(parser: Parser) -> None:
    """Whatever has a place in our trees is of the same kind at the same place in an editor's."""
    kinds = {name: kind.__name__ for kind, names in KINDS.items() for name in names}
    compared = 0
    for path, text in programs():
        if not path.is_relative_to(ROOT / "examples"):
            continue
        file = parse(text)
        at = [place for place, char in enumerate(text) for _ in char.encode()] + [len(text)]
        ours = {(type(one).__name__, one.span.start, one.span.end) for one in walk(file) if type(one) in KINDS}
        found = [one for one in nodes(parser.parse(text.encode()).root_node) if one.type in kinds]
        theirs = {(kinds[one.type], at[one.start_byte], at[one.end_byte]) for one in found}
        assert theirs == ours, path
        compared += len(ours)
    assert compared > 5_000


CASES = [
    (file.stem, *case)
    for file in sorted((HOME / "test" / "corpus").glob("*.txt"))
    for case in re.findall(
        r"^=+\n(.+)\n(?::error\n)?=+\n\n((?:.|\n)*?)\n---\n\n((?:[ (].*\n)*)", file.read_text("utf-8"), re.M
    )
]


@pytest.mark.parametrize(("file", "name", "text", "tree"), CASES, ids=[f"{file}-{name}" for file, name, *_ in CASES])
def test_corpus_cases_parse_to_expected_trees(parser: Parser, file: str, name: str, text: str, tree: str) -> None:
    """What `tree-sitter test` compares; a case without a tree is an error."""
    root = parser.parse(text.encode()).root_node
    if tree:
        assert re.sub(r"\s+", " ", tree).strip() == str(root)
    else:
        assert root.has_error


def test_bracket_depth_limit_equals_that_of_parser(parser: Parser) -> None:
    for deep in (100, 101):
        text = f"const a = {'(' * deep}1{')' * deep}\n"
        assert accepted(parser, text) == accepted_by_lark(text) == (deep == 100)


def test_definitions_around_syntax_error_are_kept(parser: Parser) -> None:
    text = "block f(x) {\n    return x |> conv(\n}\n\nnet n {\n    input x: f32[3]\n    output y = x |> f\n}\n"
    found = [one for one in nodes(parser.parse(text.encode()).root_node) if one.type == "net"]
    assert [one.start_point[0] for one in found] == [4]


def captures(parser: Parser, query: str, text: str) -> list[tuple[str, str]]:
    root = parser.parse(text.encode()).root_node
    cursor = tree_sitter.QueryCursor(tree_sitter.Query(parser.language, (HOME / "queries" / query).read_text("utf-8")))
    found = [
        (node.start_byte, name, node.text.decode()) for name, some in cursor.captures(root).items() for node in some
    ]
    return [(name, said) for _, name, said in sorted(found)]


def test_highlight_query_captures_expected_names(parser: Parser) -> None:
    text = "net tiny(w = 8) {  # c\n    y = x.shape |> conv(w, kernel=3) |> choose op @t {a: relu, b: none}\n}\n"
    assert captures(parser, "highlights.scm", text) == [
        ("keyword", "net"), ("type", "tiny"), ("punctuation.bracket", "("), ("variable.parameter", "w"),
        ("operator", "="), ("number", "8"), ("punctuation.bracket", ")"), ("punctuation.bracket", "{"),
        ("comment", "# c"), ("variable", "y"), ("operator", "="), ("punctuation.delimiter", "."), ("property", "shape"),
        ("operator", "|>"), ("function.call", "conv"), ("punctuation.bracket", "("), ("punctuation.delimiter", ","),
        ("variable.parameter", "kernel"), ("operator", "="), ("number", "3"), ("punctuation.bracket", ")"),
        ("operator", "|>"), ("keyword", "choose"), ("label", "op"), ("attribute", "@t"), ("punctuation.bracket", "{"),
        ("label", "a"), ("punctuation.delimiter", ":"), ("punctuation.delimiter", ","), ("label", "b"),
        ("punctuation.delimiter", ":"), ("constant.builtin", "none"), ("punctuation.bracket", "}"),
        ("punctuation.bracket", "}"),
    ]  # fmt: skip


def test_every_node_is_highlighted_once(parser: Parser) -> None:
    cursor = tree_sitter.QueryCursor(
        tree_sitter.Query(parser.language, (HOME / "queries" / "highlights.scm").read_text("utf-8"))
    )
    for path, text in programs()[::5]:
        root = parser.parse(text.encode()).root_node
        if root.has_error:
            continue
        found = [node.id for some in cursor.captures(root).values() for node in some]
        assert len(found) == len(set(found)), path
        leaves = {one.id for one in _leaves(root) if one.type != "name" and one.text}
        assert leaves <= set(found), path


def _leaves(node: Node) -> Iterator[Node]:
    if not node.children:
        yield node
    for child in node.children:
        yield from _leaves(child)


def test_fold_and_local_queries_capture_definitions(parser: Parser) -> None:
    text = "block f(x) {\n    for i in 0..3 {\n        x = x |> f\n    }\n    return x\n}\n"
    folds = captures(parser, "folds.scm", text)
    assert [said.split("\n")[0] for _, said in folds] == ["(x)", "{", "{"]
    found = captures(parser, "locals.scm", text)
    assert ("local.definition.function", "f") in found
    assert ("local.definition.parameter", "x") in found
    assert ("local.definition.var", "i") in found
    assert found.count(("local.reference", "x")) == 4
