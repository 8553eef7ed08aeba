"""The grammar of the archir language, and its parse tables.

Computing the tables takes a tenth of a second, a quarter of the time of `archir check`, so they are stored beside the
grammar as JSON. `python -m archir_grammar` rewrites them after a change of the grammar. Tables of another grammar or
of another version of lark are ignored.
"""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.resources import files
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

TABLES = "arch.json"
"""Name of the file of the stored parse tables, beside the grammar."""
_OPTIONS: dict[str, Any] = {"parser": "lalr", "propagate_positions": True, "maybe_placeholders": True}


def grammar() -> str:
    """Return the text of `arch.lark`."""
    return (files("archir_grammar") / "arch.lark").read_text(encoding="utf-8")


def parser(postlex: Any) -> Lark:
    """Return lark's parser of the language, from the stored tables if they are up to date. `postlex` filters its
    tokens."""
    try:
        stored = json.loads(
            (files("archir_grammar") / TABLES).read_text(encoding="utf-8"), object_pairs_hook=_with_integer_keys
        )
    except (OSError, ValueError):
        stored = {}
    if stored.get("made_from") == _made_from():
        load_from_dict: Any = Lark._load_from_dict  # lark loads its standalone parsers with it
        lark_parser: Lark = load_from_dict(stored["data"], stored["memo"], postlex=postlex)
        return lark_parser
    return Lark(grammar(), postlex=postlex, **_OPTIONS)


def tables() -> str:
    """Return the parse tables of the grammar, as JSON."""
    data, memo = Lark(grammar(), **_OPTIONS).memo_serialize([TerminalDef, Rule])
    return json.dumps({"made_from": _made_from(), "data": data, "memo": memo}, sort_keys=True) + "\n"


def _made_from() -> list[str]:
    """Return the version of lark and the SHA-256 of the grammar: stored tables are valid if both are equal."""
    return [lark.__version__, sha256(grammar().encode()).hexdigest()]


def _with_integer_keys(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Return a JSON object as a dictionary, with keys of digits as integers: lark numbers states and references."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
