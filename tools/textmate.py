"""Write editors/vscode/syntaxes/arch.tmLanguage.json: what words are, for editors that colour lines by patterns.

    python tools/textmate.py

The patterns of words are the terminals of grammar/archir_grammar/arch.lark, and its keywords. What is added is where a
word that is written like a keyword is a name: lark decides that by the words around it, patterns by those on its line.
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
"""What keywords are to whoever picks colours."""
DEFINES, CALLED = "storage.type", "entity.name.function"
SEPARATING = set("()[]{},.:")
STARTS = {"return", "require", "repeat"}
"""Keywords that statements begin with; anywhere else these, and those that define, are names."""
NOT_ANYWHERE = STARTS | ROLES[DEFINES] | ROLES["keyword.control.import"]
BETWEEN = {"if", "for", "in", "of", "where", "and", "or", "else"}
"""Keywords that stand behind a value: names where none is."""
SPACE, END = r"[ \t]*", r"(?![A-Za-z0-9_])"
GOES_ON = rf"(?!{SPACE}(?:[,)\].:]|=(?!>)))"
"""Behind a keyword that is no value stands none of these."""
START = rf"(?:\A\ufeff|^|(\{{)){SPACE}"
LAST = r"\r?$"
"""The end of a line, whatever ends lines."""


def written() -> str:
    """The text of the file."""
    return json.dumps(language(), indent=2) + "\n"


def language() -> dict[str, Any]:
    """The grammar as TextMate has it: at each place the first of the patterns that match there."""
    terminals = {one.name: one.pattern for one in grammar().terminals}
    spelled = {str(one.value) for one in terminals.values() if one.type == "str"}
    assert {word for word in spelled if word.isalpha()} == set().union(*ROLES.values()), "a keyword without a role"
    signs = sorted((sign for sign in spelled if not sign.isalpha()), key=lambda sign: (-len(sign), sign))
    patterns = {kind: terminals[kind].to_regexp() for kind in terminals}
    return {
        "name": "archir",
        "scopeName": "source.arch",
        "fileTypes": ["arch"],
        "patterns": [
            _one("comment.line.number-sign", patterns["COMMENT"]),
            _one("string.quoted.double", patterns["STRING"]),
            _one("constant.numeric", patterns["FLOAT"]),
            _one("constant.numeric", patterns["INT"]),
            _one("entity.other.attribute-name", patterns["TAG"]),
            *_in_places(patterns["NAME"]),
            _one("punctuation.whitespace", "\\A\ufeff"),
            *(
                _one(role, _any(words - NOT_ANYWHERE) + ("" if role == "constant.language" else GOES_ON))
                for role, words in ROLES.items()
                if words - NOT_ANYWHERE
            ),
            _one("entity.name.function", rf"{patterns['NAME']}(?={SPACE}\()"),
            _one("variable.other", patterns["NAME"]),
            _one("keyword.operator", "|".join([re.escape(one) for one in signs if one not in SEPARATING])),
            _one("keyword.operator", rf"{patterns['FACTOR']}|{patterns['SIGN']}"),
            _one("punctuation", rf"[{re.escape(''.join(sorted(SEPARATING)))}]"),
            _one("invalid.illegal", r'"[^"\r\n]*"?|\r(?!$)|[^ \t\r\n]'),
        ],
    }


def _in_places(name: str) -> list[dict[str, Any]]:
    """Words that are something else than they look like, for the words around them."""
    constants = _any(ROLES["constant.language"])
    values = _any(ROLES["constant.language"] | {"choose", "match", "own"})
    own = rf"{START}(?:(own){END}{SPACE})?"
    opening = "punctuation"
    return [
        _parts(
            rf"{own}(block|cell){END}{SPACE}({name})(?={SPACE}(?:\(|#|{LAST}))",
            opening,
            "storage.modifier",
            DEFINES,
            CALLED,
        ),
        _parts(rf"{START}(net){END}{SPACE}({name})(?={SPACE}(?:[({{#]|{LAST}))", opening, DEFINES, CALLED),
        _parts(
            rf"{START}(const|output){END}{SPACE}({name})(?={SPACE}(?:[=#}}]|{LAST}))",
            opening,
            DEFINES,
            "variable.other",
        ),
        _parts(
            rf"{START}(input){END}{SPACE}({name}){SPACE}(:){SPACE}((?!{constants}){name})",
            opening,
            DEFINES,
            "variable.other",
            "punctuation",
            "variable.other",
        ),
        _parts(rf"{START}(input){END}{SPACE}({name})(?={SPACE}(?:[:#]|{LAST}))", opening, DEFINES, "variable.other"),
        _parts(
            rf"(?:\A\ufeff|^){SPACE}(import){END}(?!{SPACE}[=:,)\]])(?:{SPACE}({name}))?",
            "keyword.control.import",
            "entity.name.namespace",
        ),
        _parts(
            rf"{START}({_any(STARTS)})(?:{SPACE}({_any(BETWEEN)})|(?!{SPACE}(?:=(?!=)|:|\|(?!>))))",
            opening,
            "keyword.control",
            "variable.other",
        ),
        _parts(rf"(as){END}{SPACE}({name})", "keyword.control.import", "variable.other"),
        _parts(
            rf"(\.\.)(?:{SPACE}({_any(BETWEEN | {'not'})})(?!{SPACE}=>))?|(\.){SPACE}({name})",
            "keyword.operator",
            "variable.other",
            "punctuation",
            "variable.other.property",
        ),
        _one("variable.parameter", rf"{name}(?={SPACE}=(?![=>]))"),
        _parts(rf"(?:^|([{{,])){SPACE}({name})(?={SPACE}:)", "punctuation", "entity.name.label"),
        _parts(
            rf"(==|!=|<=|>=|=>|\*\*|//|[-+*/%<>=(\[,:]){SPACE}({_any(BETWEEN)})(?!{SPACE}=>)",
            "keyword.operator",
            "variable.other",
        ),
        _parts(rf"(==|!=|<=|>=|\*\*|//|[-+*/%<>]){SPACE}(not{END})", "keyword.operator", "variable.other"),
        _parts(rf"((?:if|and|or|in|of|where){END}){SPACE}({_any(BETWEEN)})", "keyword.control", "variable.other"),
        _parts(rf"(not{END}){SPACE}({_any(BETWEEN - {'in'})})", "keyword.operator.word", "variable.other"),
        _parts(
            rf"((?:if|and|or|where){END}){SPACE}(not{END}){SPACE}(in{END})",
            "keyword.control",
            "keyword.operator.word",
            "variable.other",
        ),
        _parts(rf"(\}}){SPACE}(else){END}", "punctuation", "keyword.control"),
        _parts(rf"(else){END}{SPACE}({_any(BETWEEN)})(?!{SPACE}=>)", "keyword.control", "variable.other"),
        _parts(
            rf"(for){END}{SPACE}({name})(?:{SPACE}(,){SPACE}({name}))?",
            "keyword.control",
            "variable.other",
            "punctuation",
            "variable.other",
        ),
        _one("entity.name.function", rf"for{END}(?={SPACE}\()"),
        _parts(rf"(choose){END}{SPACE}({name})", "keyword.control", "entity.name.label"),
        _parts(rf"(\|>){SPACE}((?!{values}){name})", "keyword.operator", "entity.name.function"),
    ]


def _any(words: set[str]) -> str:
    return rf"(?:{'|'.join(sorted(words))}){END}"


def _one(role: str, pattern: str) -> dict[str, Any]:
    return {"match": pattern, "name": f"{role}.arch"}


def _parts(pattern: str, *roles: str) -> dict[str, Any]:
    captures = {str(number): {"name": f"{role}.arch"} for number, role in enumerate(roles, 1)}
    return {"match": pattern, "captures": captures}


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(written(), encoding="utf-8")
