"""The grammar: its tables are up to date, and no terminal can be made to backtrack."""

from __future__ import annotations

import json
import re
import time
from importlib.resources import files

import pytest
from lark import Lark

from archir.syntax.layout import Layout
from archir_grammar import TABLES, grammar, parser, tables

TERMINALS = {
    f"{name}:{terminal.name}": terminal.pattern.to_regexp()
    for name, text in {"arch": grammar(), "ir": (files("archir_grammar") / "ir.lark").read_text("utf-8")}.items()
    for terminal in Lark(text, parser="lalr", maybe_placeholders=True).terminals
}


def test_the_tables_are_those_of_the_grammar() -> None:
    stored = json.loads((files("archir_grammar") / TABLES).read_text("utf-8"))
    assert stored["made_from"] == json.loads(tables())["made_from"], "the grammar changed: run python -m archir_grammar"


def test_without_tables_the_grammar_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'net n {\n input x: f32[3]  # comment\n output y = x\n |> relu\n}\nimport "a.arch"\n'
    stored = parser(Layout()).parse(text)
    monkeypatch.setattr("archir_grammar.TABLES", "missing.json")
    assert parser(Layout()).parse(text) == stored


@pytest.mark.parametrize("name", TERMINALS)
def test_terminals_are_linear(name: str) -> None:
    """Inputs that nearly match: sixteen times the length may not take over a hundred times as long."""
    pattern = re.compile(TERMINALS[name])
    for seed in (
        "a",
        "0",
        "0.",
        "0_",
        '"',
        '"a',
        "#",
        "\n",
        "\n ",
        "\n#",
        "\r\n",
        " ",
        "\t",
        "\n#a",
        "@a",
        "%1",
        "-1",
        "1e",
    ):
        for end in ("", "!", "\0", '"', "\n!", "x"):
            took = []
            for count in (500, 8_000):
                text = seed * count + end
                best = min(_time(pattern, text) for _ in range(3))
                took.append(max(best, 2e-6))
            assert took[1] / took[0] < 100, (seed, end)


def _time(pattern: re.Pattern[str], text: str) -> float:
    begin = time.perf_counter()
    pattern.match(text)
    return time.perf_counter() - begin
