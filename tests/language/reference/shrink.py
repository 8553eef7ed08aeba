"""Reduction of programs about which archir and the interpreter disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archir.diagnostics.errors import ArchError
from archir.language.syntax import ast
from archir.language.syntax.parse import parse
from tests.language.reference.compare import disagreement


def smaller(text: str, disagreement_text: str, most: int = 400) -> str:
    """Return a program with the same disagreement that no omitted statement or replaced part makes smaller."""
    gist, tries = _gist(disagreement_text), 0
    while True:
        for candidate in sorted(set(_candidates(text)), key=len):
            tries += 1
            if tries > most:
                return text
            try:
                still = disagreement(candidate)
            except (ArchError, RecursionError, AssertionError):
                continue
            if still is not None and _gist(still) == gist:
                text = candidate
                break
        else:
            return text


def _gist(disagreement_text: str) -> str:
    codes = re.findall(r"A\d{4}", disagreement_text)
    return " ".join([re.sub(r"[^a-z ]", "", disagreement_text.split(":")[0]), *codes[:1]])


def _candidates(text: str) -> Iterator[str]:
    tree = parse(text)
    for part in _parts(tree):
        start, end = part.span.start, part.span.end
        if isinstance(part, (ast.Item, ast.Statement)):
            yield text[:start] + text[end:]
        if isinstance(part, (ast.If, ast.ForLoop, ast.Repeat)):
            for statement in _parts(part):
                if isinstance(statement, ast.Statement) and statement is not part:
                    yield text[:start] + statement.span.text + text[end:]
        if isinstance(part, ast.Expr):
            for inner in _parts(part):
                if isinstance(inner, ast.Expr) and inner is not part:
                    yield text[:start] + f"{inner.span.text}" + text[end:]


def _parts(tree: object) -> Iterator[ast.Tree]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _parts(part)
    elif isinstance(tree, ast.Tree):
        yield tree
        for name, part in vars(tree).items():
            if name != "span":
                yield from _parts(part)
