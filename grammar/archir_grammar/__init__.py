"""The grammar of the archir language, and its parse tables.

Making the tables takes a tenth of a second, a quarter of what `archir check` takes; so they are kept beside the
grammar, as JSON. `python -m archir_grammar` writes them anew after a change; tables of another grammar, or another
version of lark, are not used.
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
_OPTIONS: dict[str, Any] = {"parser": "lalr", "propagate_positions": True, "maybe_placeholders": True}


def grammar() -> str:
    """The text of `arch.lark`."""
    return (files("archir_grammar") / "arch.lark").read_text(encoding="utf-8")


def parser(postlex: Any) -> Lark:
    """The parser of the language, its tokens filtered by `postlex`."""
    try:
        stored = json.loads((files("archir_grammar") / TABLES).read_text(encoding="utf-8"), object_pairs_hook=_keyed)
    except (OSError, ValueError):
        stored = {}
    if stored.get("made_from") == _made_from():
        load: Any = Lark._load_from_dict  # what lark's own standalone parsers are loaded with
        made: Lark = load(stored["data"], stored["memo"], postlex=postlex)
        return made
    return Lark(grammar(), postlex=postlex, **_OPTIONS)


def tables() -> str:
    """The parse tables of the grammar, as JSON."""
    data, memo = Lark(grammar(), **_OPTIONS).memo_serialize([TerminalDef, Rule])
    return json.dumps({"made_from": _made_from(), "data": data, "memo": memo}, sort_keys=True) + "\n"


def _made_from() -> list[str]:
    return [lark.__version__, sha256(grammar().encode()).hexdigest()]


def _keyed(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """An object whose keys are numbers where they look like it: states and references are numbered."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}
