"""Names from the code's former private vocabulary are not used again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

WORDS = {
    "one", "two", "found", "known", "given", "made", "that", "those", "told", "written", "apart", "settled", "lent",
    "taught", "jointly", "agreed", "alone", "blamed", "misfits", "complaint", "habits", "foreign", "makers",
    "wishes", "otherwise", "marks", "rough", "room", "rooms", "desk", "crew", "hire", "keeper", "trainee", "watch",
    "nowhere", "silent", "guides", "judges", "judge", "aims", "portion", "anew", "afford", "likeness", "entangled",
    "beside", "gathered", "dealt", "tied", "few", "many",
}  # fmt: skip
"""Words that say nothing of what a name holds, or that had a meaning only here."""

KEPT = {
    ("archir/cli/check.py", "watch"): "the option --watch",
    ("archir/language/syntax/builder.py", "otherwise"): "a rule of the grammar, for `else`",
    ("archir/language/decompiler/imported.py", "rest"): "a field of import maps",
    ("archir/spaces/scores.py", "made"): "a key of files of scores",
    ("archir/studies/study.py", "apart"): "a key of studies",
    ("archir/tools/mcp/answers.py", "written"): "a field of an answer of the MCP server",
    ("backends/archir_onnx/quantization/quantize.py", "alone"): "a field of reports of quantisation",
    ("backends/archir_onnx/lowering/operations/lookup.py", "one"): "the name of a weight of `one_hot`",
    ("backends/archir_torch/lowering/operations/lookup.py", "one"): "the name of a weight of `one_hot`",
    ("backends/archir_torch/reuse/measures.py", "made"): "a method that plugins call",
}
"""Names that users see, by file, and what each is."""


def bound(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that a file binds, with its line: variables, parameters, functions, classes, attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def test_code_uses_no_banned_names() -> None:
    wrong = [
        f"{place}:{line}: {name}"
        for folder in ("archir", "backends", "grammar", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for place in [path.relative_to(ROOT).as_posix()]
        for line, name in bound(path)
        if name.strip("_").lower() in WORDS and (place, name) not in KEPT
    ]
    assert not wrong


def test_limits_are_called_maxima() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("archir", "backends", "grammar", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for _, name in bound(path)
        if name.lstrip("_").startswith(("MOST_", "LARGEST_", "FEW_", "MANY_"))
    ]
    assert not wrong


def test_exempted_names_exist() -> None:
    assert all(name in {found for _, found in bound(ROOT / place)} for place, name in KEPT)
