"""Textual notations of the exported grammar: EBNF and GBNF.

EBNF is the notation of the W3C's XML recommendation (section 6); GBNF is the notation of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from archir_grammar.exporting import (
    Characters,
    CharClass,
    Choice,
    Literal,
    Part,
    Ref,
    Repeat,
    Rules,
    Sequence,
    exported_rules,
)

_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_IN_CLASS = {**_ESCAPED, '"': '"', "]": "\\]", "^": "\\^", "-": "\\-"}


def ebnf() -> str:
    """Return the exported grammar in the W3C's EBNF, in which `#xA` is a character by its code point."""
    return _grammar_text(exported_rules(), "start", _ebnf_literal, _ebnf_class)


def gbnf() -> str:
    """Return the exported grammar in llama.cpp's GBNF notation, in which the first rule is `root`."""
    return _grammar_text({"root": Ref("start"), **exported_rules()}, "root", _gbnf_literal, _gbnf_class)


def _grammar_text(rules: Rules, first: str, literal: Callable[[str], str], ranges: Callable[[Characters], str]) -> str:
    """Return rules as text, beginning with the rule `first`.

    The functions `literal` and `ranges` format a literal and a character class in the notation.
    """

    def part_text(part: Part, inside: bool) -> str:
        match part:
            case Literal():
                return literal(part.text)
            case CharClass():
                return ranges(part.ranges)
            case Ref():
                return part.name
            case Sequence():
                text = " ".join(part_text(child, isinstance(child, Choice)) for child in part.parts)
                return f"({text})" if inside else text
            case Choice():
                text = " | ".join(part_text(child, isinstance(child, Choice)) for child in part.parts)
                return f"({text})" if inside else text
            case Repeat():
                sign = ("+" if part.least else "*") if part.endless else "?"
                inner = part_text(part.part, True)
                return f"({inner}){sign}" if isinstance(part.part, Repeat) else f"{inner}{sign}"

    names = [first, *(name for name in rules if name != first)]
    return "".join(f"{name} ::= {part_text(rules[name], False)}\n" for name in names)


def _ebnf_literal(text: str) -> str:
    plain = all(" " <= char <= "~" for char in text)
    if plain and '"' not in text:
        return f'"{text}"'
    return f"'{text}'" if plain and "'" not in text else " ".join(f"#x{ord(char):X}" for char in text)


def _ebnf_class(ranges: Characters) -> str:
    def end(code: int) -> str:
        return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"#x{code:X}"

    return f"[{''.join(end(low) if low == high else f'{end(low)}-{end(high)}' for low, high in ranges)}]"


def _gbnf_literal(text: str) -> str:
    return '"' + "".join(_ESCAPED.get(char, char) for char in text) + '"'


def _gbnf_class(ranges: Characters) -> str:
    def end(code: int) -> str:
        char = chr(code)
        return _IN_CLASS.get(char, char) if " " <= char <= "~" or char in "\n\r\t" else f"\\U{code:08X}"

    return f"[{''.join(end(low) if low == high else f'{end(low)}-{end(high)}' for low, high in ranges)}]"
