"""Write editors/vscode/syntaxes/arch.tmLanguage.json, the TextMate grammar for editors that colour lines by patterns.

    python tools/textmate.py

Patterns of tokens and keywords come from grammar/archir_grammar/arch.lark. This file adds patterns for names that are
spelled like keywords: lark recognises them by all surrounding tokens, TextMate by those on the same line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from archir.language.syntax.strict_parse import grammar

FILE = Path(__file__).resolve().parent.parent / "editors" / "vscode" / "syntaxes" / "arch.tmLanguage.json"
ROLES = {
    "constant.language": {"true", "false", "none"},
    "keyword.operator.word": {"and", "or", "not", "in"},
    "keyword.control": {"if", "else", "for", "repeat", "return", "require", "choose", "of", "where", "match"},
    "keyword.control.import": {"import", "as"},
    "storage.type": {"const", "block", "cell", "net", "input", "output"},
    "storage.modifier": {"own"},
}
"""TextMate scopes of keywords."""
DEFINES, CALLED = "storage.type", "entity.name.function"
PUNCTUATION = set("()[]{},.:")
"""Punctuation; all other signs are operators."""
STATEMENT_WORDS = {"return", "require", "repeat"}
"""Keywords at the start of statements. Elsewhere these words, and those that begin definitions, are names."""
CONTEXTUAL = STATEMENT_WORDS | ROLES[DEFINES] | ROLES["keyword.control.import"]
"""Keywords that only the patterns of certain places highlight."""
AFTER_VALUE = {"if", "for", "in", "of", "where", "and", "or", "else"}
"""Keywords that follow a value; without a value before them, they are names."""
SPACE, END = r"[ \t]*", r"(?![A-Za-z0-9_])"
NOT_A_NAME = rf"(?!{SPACE}(?:[,)\].:]|=(?!>)))"
"""Lookahead after a keyword that is no value: the word is a name if one of these signs follows."""
LINE_START = rf"(?:\A\ufeff|^|(\{{)){SPACE}"
"""The start of a line or block."""
LINE_END = r"\r?$"
"""The end of a line, with any line ending."""


def json_text() -> str:
    """Return the text of the file."""
    return json.dumps(textmate_grammar(), indent=2) + "\n"


def textmate_grammar() -> dict[str, Any]:
    """Return the TextMate grammar. At each position, the first matching pattern applies."""
    terminals = {terminal.name: terminal.pattern for terminal in grammar().terminals}
    literals = {str(pattern.value) for pattern in terminals.values() if pattern.type == "str"}
    assert {word for word in literals if word.isalpha()} == set().union(*ROLES.values()), "a keyword without a role"
    signs = sorted((sign for sign in literals if not sign.isalpha()), key=lambda sign: (-len(sign), sign))
    patterns = {kind: terminals[kind].to_regexp() for kind in terminals}
    return {
        "name": "archir",
        "scopeName": "source.arch",
        "fileTypes": ["arch"],
        "patterns": [
            _rule("comment.line.number-sign", patterns["COMMENT"]),
            _rule("string.quoted.double", patterns["STRING"]),
            _rule("constant.numeric", patterns["FLOAT"]),
            _rule("constant.numeric", patterns["INT"]),
            _rule("entity.other.attribute-name", patterns["TAG"]),
            *_contextual_rules(patterns["NAME"]),
            _rule("punctuation.whitespace", "\\A\ufeff"),
            *(
                _rule(role, _any_word(words - CONTEXTUAL) + ("" if role == "constant.language" else NOT_A_NAME))
                for role, words in ROLES.items()
                if words - CONTEXTUAL
            ),
            _rule("entity.name.function", rf"{patterns['NAME']}(?={SPACE}\()"),
            _rule("variable.other", patterns["NAME"]),
            _rule("keyword.operator", "|".join([re.escape(sign) for sign in signs if sign not in PUNCTUATION])),
            _rule("keyword.operator", rf"{patterns['FACTOR']}|{patterns['SIGN']}"),
            _rule("punctuation", rf"[{re.escape(''.join(sorted(PUNCTUATION)))}]"),
            _rule("invalid.illegal", r'"[^"\r\n]*"?|\r(?!$)|[^ \t\r\n]'),
        ],
    }


def _contextual_rules(name: str) -> list[dict[str, Any]]:
    """Return patterns of words whose role depends on the words around them."""
    constants = _any_word(ROLES["constant.language"])
    values = _any_word(ROLES["constant.language"] | {"choose", "match", "own"})
    own = rf"{LINE_START}(?:(own){END}{SPACE})?"
    opening = "punctuation"
    return [
        _group_rule(
            rf"{own}(block|cell){END}{SPACE}({name})(?={SPACE}(?:\(|#|{LINE_END}))",
            opening,
            "storage.modifier",
            DEFINES,
            CALLED,
        ),
        _group_rule(
            rf"{LINE_START}(net){END}{SPACE}({name})(?={SPACE}(?:[({{#]|{LINE_END}))", opening, DEFINES, CALLED
        ),
        _group_rule(
            rf"{LINE_START}(const|output){END}{SPACE}({name})(?={SPACE}(?:[=#}}]|{LINE_END}))",
            opening,
            DEFINES,
            "variable.other",
        ),
        _group_rule(
            rf"{LINE_START}(input){END}{SPACE}({name}){SPACE}(:){SPACE}((?!{constants}){name})",
            opening,
            DEFINES,
            "variable.other",
            "punctuation",
            "variable.other",
        ),
        _group_rule(
            rf"{LINE_START}(input){END}{SPACE}({name})(?={SPACE}(?:[:#]|{LINE_END}))",
            opening,
            DEFINES,
            "variable.other",
        ),
        _group_rule(
            rf"(?:\A\ufeff|^){SPACE}(import){END}(?!{SPACE}[=:,)\]])(?:{SPACE}({name}))?",
            "keyword.control.import",
            "entity.name.namespace",
        ),
        _group_rule(
            rf"{LINE_START}({_any_word(STATEMENT_WORDS)})(?:{SPACE}({_any_word(AFTER_VALUE)})|(?!{SPACE}(?:=(?!=)|:|\|(?!>))))",
            opening,
            "keyword.control",
            "variable.other",
        ),
        _group_rule(rf"(as){END}{SPACE}({name})", "keyword.control.import", "variable.other"),
        _group_rule(
            rf"(\.\.)(?:{SPACE}({_any_word(AFTER_VALUE | {'not'})})(?!{SPACE}=>))?|(\.){SPACE}({name})",
            "keyword.operator",
            "variable.other",
            "punctuation",
            "variable.other.property",
        ),
        _rule("variable.parameter", rf"{name}(?={SPACE}=(?![=>]))"),
        _group_rule(rf"(?:^|([{{,])){SPACE}({name})(?={SPACE}:)", "punctuation", "entity.name.label"),
        _group_rule(
            rf"(==|!=|<=|>=|=>|\*\*|//|[-+*/%<>=(\[,:]){SPACE}({_any_word(AFTER_VALUE)})(?!{SPACE}=>)",
            "keyword.operator",
            "variable.other",
        ),
        _group_rule(rf"(==|!=|<=|>=|\*\*|//|[-+*/%<>]){SPACE}(not{END})", "keyword.operator", "variable.other"),
        _group_rule(
            rf"((?:if|and|or|in|of|where){END}){SPACE}({_any_word(AFTER_VALUE)})", "keyword.control", "variable.other"
        ),
        _group_rule(
            rf"(not{END}){SPACE}({_any_word(AFTER_VALUE - {'in'})})", "keyword.operator.word", "variable.other"
        ),
        _group_rule(
            rf"((?:if|and|or|where){END}){SPACE}(not{END}){SPACE}(in{END})",
            "keyword.control",
            "keyword.operator.word",
            "variable.other",
        ),
        _group_rule(rf"(\}}){SPACE}(else){END}", "punctuation", "keyword.control"),
        _group_rule(rf"(else){END}{SPACE}({_any_word(AFTER_VALUE)})(?!{SPACE}=>)", "keyword.control", "variable.other"),
        _group_rule(
            rf"(for){END}{SPACE}({name})(?:{SPACE}(,){SPACE}({name}))?",
            "keyword.control",
            "variable.other",
            "punctuation",
            "variable.other",
        ),
        _rule("entity.name.function", rf"for{END}(?={SPACE}\()"),
        _group_rule(rf"(choose){END}{SPACE}({name})", "keyword.control", "entity.name.label"),
        _group_rule(rf"(\|>){SPACE}((?!{values}){name})", "keyword.operator", "entity.name.function"),
    ]


def _any_word(words: set[str]) -> str:
    """Return a pattern of any of some words."""
    return rf"(?:{'|'.join(sorted(words))}){END}"


def _rule(role: str, pattern: str) -> dict[str, Any]:
    """Return a rule that gives a match one scope."""
    return {"match": pattern, "name": f"{role}.arch"}


def _group_rule(pattern: str, *roles: str) -> dict[str, Any]:
    """Return a rule that gives each group of a match its own scope."""
    captures = {str(number): {"name": f"{role}.arch"} for number, role in enumerate(roles, 1)}
    return {"match": pattern, "captures": captures}


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json_text(), encoding="utf-8")
