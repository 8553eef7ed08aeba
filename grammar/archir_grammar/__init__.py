"""Grammar of the archir language, and its LALR parse tables.

Computing the tables takes a tenth of a second, a quarter of the run time of `archir check`. They are therefore stored
as JSON beside the grammar. `python -m archir_grammar` regenerates them after a change of the grammar. Tables made
from another grammar or by another version of lark are ignored.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from importlib.resources import files
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

TABLES = "arch.json"
"""Name of the file, beside the grammar, that stores the parse tables."""
_OPTIONS: dict[str, Any] = {"parser": "lalr", "propagate_positions": True, "maybe_placeholders": True}


def grammar() -> str:
    """Return the text of the grammar file `arch.lark`."""
    return (files("archir_grammar") / "arch.lark").read_text(encoding="utf-8")


def keywords() -> frozenset[str]:
    """Return the keywords of the language: the words in quotes in the grammar."""
    return frozenset(re.findall(r'"([a-z]+)"', re.sub(r"^ *//.*", "", grammar(), flags=re.MULTILINE)))


def parser(postlex: Any) -> Lark:
    """Return the lark parser of the language; `postlex` filters its tokens.

    Stored parse tables are used if they are current.
    """
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
    """Compute the parse tables of the grammar and return them as JSON."""
    data, memo = Lark(grammar(), **_OPTIONS).memo_serialize([TerminalDef, Rule])
    return json.dumps({"made_from": _made_from(), "data": data, "memo": memo}, sort_keys=True) + "\n"


def _made_from() -> list[str]:
    """Return the version of lark and the SHA-256 of the grammar; stored tables are current if both match."""
    return [lark.__version__, sha256(grammar().encode()).hexdigest()]


def _with_integer_keys(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Build a dict from JSON pairs, converting numeric keys to integers: states and references are numbered."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
