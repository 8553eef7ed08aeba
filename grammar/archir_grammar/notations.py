"""The exported grammar as others read it: EBNF of the W3C's XML recommendation (section 6), and GBNF of llama.cpp."""

from __future__ import annotations

from collections.abc import Callable

from archir_grammar.exporting import Characters, Choice, Class, Literal, Part, Ref, Repeat, Rules, Sequence, exported

_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_IN_CLASS = {**_ESCAPED, '"': '"', "]": "\\]", "^": "\\^", "-": "\\-"}


def ebnf() -> str:
    """The grammar in the notation of the W3C: `#xA` is a character by its number."""
    return _written(exported(), "start", _ebnf_literal, _ebnf_class)


def gbnf() -> str:
    """The grammar in llama.cpp's notation, whose first rule is `root`."""
    return _written({"root": Ref("start"), **exported()}, "root", _gbnf_literal, _gbnf_class)


def _written(rules: Rules, first: str, literal: Callable[[str], str], ranges: Callable[[Characters], str]) -> str:
    def part(one: Part, inside: bool) -> str:
        match one:
            case Literal():
                return literal(one.text)
            case Class():
                return ranges(one.ranges)
            case Ref():
                return one.name
            case Sequence():
                made = " ".join(part(each, isinstance(each, Choice)) for each in one.parts)
                return f"({made})" if inside else made
            case Choice():
                made = " | ".join(part(each, isinstance(each, Choice)) for each in one.parts)
                return f"({made})" if inside else made
            case Repeat():
                sign = ("+" if one.least else "*") if one.endless else "?"
                inner = part(one.part, True)
                return f"({inner}){sign}" if isinstance(one.part, Repeat) else f"{inner}{sign}"

    names = [first, *(name for name in rules if name != first)]
    return "".join(f"{name} ::= {part(rules[name], False)}\n" for name in names)


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
