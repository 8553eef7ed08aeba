"""The grammar for programs that write: every character, spaces and newlines included, and nothing to the left.

Lark's grammar is of tokens, between which spaces and comments are skipped, newlines are joined, and words are told from
names by the place. Here each rule is written once for lines and once for the inside of parentheses and brackets, where
newlines are spaces; spaces stand where they may, and must where two words would become one; names are no words of the
language; and what begins with itself is a repetition. All of it is derived from `arch.lark`; what the grammar gives is
a part of the language: it has no word of the language for a name, but `none` for an alternative's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from re import _constants, _parser
from typing import Any, TypeAlias

from lark import Token, Tree
from lark.load_grammar import GrammarBuilder

from archir_grammar import grammar

Characters: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included."""
LAST = 0x10FFFF
_WORDS: Characters = ((48, 57), (65, 90), (95, 95), (97, 122))
_OPENING, _CLOSING = {"(": True, "[": True, "{": False}, {")", "]", "}"}
_LINE, _INSIDE = "", "-in"


@dataclass(frozen=True)
class Literal:
    """These characters."""

    text: str


@dataclass(frozen=True)
class Class:
    """One character of these."""

    ranges: Characters


@dataclass(frozen=True)
class Ref:
    """What a rule says."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Choice:
    """One of these."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat:
    """So often, at least 0 or 1 times; at most once, or without an end."""

    part: Part
    least: int = 0
    endless: bool = True


Part: TypeAlias = Literal | Class | Ref | Sequence | Choice | Repeat
Rules: TypeAlias = dict[str, Part]


@cache
def exported() -> Rules:
    """Every rule by its name, `start` first."""
    return _Exporter().rules


class _Exporter:
    def __init__(self) -> None:
        builder = GrammarBuilder()
        builder.load_grammar(_settled(grammar()), "arch")
        made = builder.build()
        self.trees = {str(name): tree for name, _, tree, _ in made.rule_defs}
        self.terms = {str(name): tree for name, (tree, _) in made.term_defs}
        literals = {word for tree in self.trees.values() for word in _literals(tree)}
        literals |= {word for tree in self.terms.values() for word in _literals(tree)}
        self.words = sorted(word for word in literals if word.isidentifier())
        self.edges = self._edges()
        self.rules: Rules = {}
        self._rule("start", _LINE)
        self.rules["start"] = Sequence((Ref("joined"), self.rules["start"]))
        self.rules |= _spaces()

    def _rule(self, name: str, mode: str) -> Ref:
        made = _named(name, mode)
        if made not in self.rules:
            self.rules[made] = Literal("")  # keeps its place, and ends the recursion
            alternatives = _alternatives(self.trees[name])
            first = [one for one in alternatives if _begins(one) == name]
            self.rules[made] = self._choice([one for one in alternatives if one not in first], mode, False)
            if first:
                tails = self._choice(first, mode, self.edges[name][1], skip=1)
                self.rules[made] = Sequence((self.rules[made], Repeat(tails)))
        return Ref(made)

    def _choice(self, alternatives: list[Tree[Token]], mode: str, word: bool, skip: int = 0) -> Part:
        parts = tuple(self._sequence(one.children[skip:], mode, word, skip > 0) for one in alternatives)
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _sequence(self, children: list[Any], mode: str, word: bool, behind: bool) -> Part:
        """Parts with spaces between them. `word` says that a word may stand before, `behind` that anything does."""
        parts: list[Part] = []
        modes, before = [mode], ""
        for place, child in enumerate(children):
            text = _literal(child)
            _, last, empty = self._edge(child)
            if empty and not behind and _optional(child) is None and place + 1 < len(children):
                gap = _gap(mode, last and self._edge(children[place + 1])[0], False)  # `own block`, or `block`
                parts.append(Repeat(Sequence((self._part(child, mode), gap)), 0, False))
                continue
            joined = before in ("{", ",") or text in ("|>", "}")
            ends = _is(child, "_NL") or before == "_NL"
            parts += self._spaced(child, modes[-1] if text != "}" else modes[-2], behind and not ends, word, joined)
            if text in _CLOSING:
                modes.pop()
            if text in _OPENING:
                modes.append(_INSIDE if _OPENING[text] else _LINE)
            word = last or (empty and word)
            behind, before = True, "_NL" if _is(child, "_NL") else text if text is not None else before if empty else ""
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _spaced(self, child: Any, mode: str, behind: bool, word: bool, joined: bool) -> list[Part]:
        """A part and, if anything is before it, a gap, which is inside of what may be left out."""
        inner = _optional(child)
        first = self._edge(child)[0]
        if inner is None:
            gap = [_gap(mode, word and first, joined)] if behind else []
            return [*gap, self._part(child, mode)]
        body, least, endless = inner
        word = word or (endless and self._edge(body)[1])
        found = tuple(self._sequence(one.children, mode, word, False) for one in _alternatives(body))
        made = found[0] if len(found) == 1 else Choice(found)
        head = _alternatives(body)[0].children[0]
        if _is(head, "_NL") or not (behind or endless):
            return [Repeat(made, least, endless)]
        joined = joined or _literal(head) == "|>"
        return [Repeat(Sequence((_gap(mode, word and first, joined), made)), least, endless)]

    def _part(self, child: Any, mode: str) -> Part:
        text = _literal(child)
        if text is not None:
            return Literal(text)
        (value,) = child.children if child.data == "value" else (child,)
        if isinstance(value, Tree):
            return self._choice(_alternatives(value), mode, False)
        name = str(value.name)
        return self._rule(name, mode) if name in self.trees else self._terminal(name)

    def _terminal(self, name: str) -> Part:
        made = "nl" if name == "_NL" else "name" if name == "NAME" else f"{name.lower()}-token"
        if made not in self.rules and made != "nl":
            found = [_of_regexp(one) for one in _patterns(self.terms[name])]
            self.rules[made] = found[0] if len(found) == 1 else Choice(tuple(found))
            if name == "NAME":
                self.rules |= _but(self.words)
        return Ref(made)

    def _edges(self) -> dict[str, tuple[bool, bool, bool]]:
        """Of each rule and terminal whether a word may begin it, may end it, and whether it may be empty."""
        found: dict[str, tuple[bool, bool, bool]] = {}
        for name, tree in self.terms.items():
            texts = [*_literals(tree)] or ["0" if name in ("INT", "FLOAT", "NAME") else "@a" if name == "TAG" else " "]
            found[name] = (any(_wordy(one[:1]) for one in texts), any(_wordy(one[-1:]) for one in texts), False)
        found |= dict.fromkeys(self.trees, (False, False, False))
        changed = True
        while changed:
            self.edges = found
            made = {name: self._edge(tree) for name, tree in self.trees.items()}
            changed = any(found[name] != edge for name, edge in made.items())
            found = found | made
        return found

    def _edge(self, part: Any) -> tuple[bool, bool, bool]:
        text = _literal(part)
        if text is not None:
            return _wordy(text[:1]), _wordy(text[-1:]), False
        if not isinstance(part, Tree):
            return self.edges[str(part.name)]
        if part.data == "expr":
            first, last, empty = self._edge(part.children[0])
            return first, last, empty or part.children[1] in ("*", "?")
        if part.data == "maybe":
            return (*self._edge(part.children[0])[:2], True)
        if part.data == "alias":
            return self._edge(part.children[0])
        edges = [self._edge(child) for child in part.children]
        if part.data != "expansion":
            return any(e[0] for e in edges), any(e[1] for e in edges), any(e[2] for e in edges) if edges else True
        first = any(edge[0] and all(e[2] for e in edges[:i]) for i, edge in enumerate(edges))
        last = any(edge[1] and all(e[2] for e in edges[i + 1 :]) for i, edge in enumerate(edges))
        return first, last, all(e[2] for e in edges)


_SETTLED = {
    'choose_subset: "choose" [NAME] tags count "of"':
    'choose_subset: ("choose" NAME tags count | "choose" TAG+ count | "choose" INT) "of"',
    'alternative: NAME ":"': 'alternative: (NAME | "none") ":"',
    '"[" expr comprehension_part+ "]"': '"[" expr ("for" targets "in" or_) comprehension_part* "]"',
}  # fmt: skip
"""What lark decides where two rules fit, written out: a name behind `choose` is the choice's, wherever it can be, so
that a count is one only behind that; an alternative may be called `none`; and `if` behind the first part of a list is
followed by `else`."""


def _settled(text: str) -> str:
    for before, after in _SETTLED.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def _named(name: str, mode: str) -> str:
    return name.strip("_").replace("_", "-") + mode


def _wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


def _gap(mode: str, needed: bool, joined: bool) -> Ref:
    if mode == _INSIDE:
        return Ref("spaces-in" if needed else "space-in")
    return Ref("spaces" if needed else "joined" if joined else "space")


def _spaces() -> Rules:
    """What may stand between two words or signs: in a line, where lines are joined, and inside of brackets."""
    blank, comment = Class(((9, 9), (32, 32))), Ref("comment")
    line = Sequence((Repeat(blank), Repeat(comment, 0, False), Literal("\n")))
    return {
        "comment": Sequence((Literal("#"), Repeat(Class(((0, 9), (11, 12), (14, LAST)))))),
        "line-end": line,
        "nl": Sequence((Repeat(Ref("line-end"), 1), Repeat(blank))),
        "space": Repeat(blank),
        "spaces": Repeat(blank, 1),
        "joined": Sequence((Repeat(Ref("line-end")), Repeat(blank))),
        "space-in": Sequence((Repeat(Ref("line-end")), Repeat(blank))),
        "spaces-in": Choice((Ref("spaces"), Ref("nl"))),
    }


def _is(child: Any, name: str) -> bool:
    """Whether a part is this terminal, or begins with nothing else."""
    if isinstance(child, Tree) and child.data in ("value", "expansion", "expansions") and child.children:
        return _is(child.children[0], name) if child.data == "value" else False
    return not isinstance(child, Tree | Token) and str(getattr(child, "name", "")) == name


def _optional(child: Any) -> tuple[Tree[Token], int, bool] | None:
    """What may be left out or repeated, how often at least, and whether without an end."""
    if not isinstance(child, Tree):
        return None
    if child.data == "maybe":
        return child.children[0], 0, False
    if child.data == "expr":
        inner, sign = child.children[0], str(child.children[1])
        body = inner if inner.data == "expansions" else Tree("expansions", [Tree("expansion", [inner])])
        return body, int(sign == "+"), sign != "?"
    return None


def _alternatives(tree: Any) -> list[Any]:
    if not isinstance(tree, Tree) or tree.data not in ("expansions", "alias", "expansion"):
        return [Tree("expansion", [tree])]
    if tree.data == "alias":
        return _alternatives(tree.children[0])
    return [tree] if tree.data == "expansion" else [one for child in tree.children for one in _alternatives(child)]


def _begins(expansion: Any) -> str | None:
    """The rule that an alternative begins with."""
    first = expansion.children[0] if expansion.children else None
    if isinstance(first, Tree) and first.data == "value" and hasattr(first.children[0], "name"):
        return str(first.children[0].name)
    return None


def _literal(child: Any) -> str | None:
    """The text of a part that is one in quotes."""
    while isinstance(child, Tree) and child.data in ("value", "literal") and len(child.children) == 1:
        child = child.children[0]
    return str(child)[1:-1] if isinstance(child, Token) and child.type == "STRING" else None


def _literals(tree: Any) -> Iterator[str]:
    if isinstance(tree, Tree):
        text = _literal(tree) if tree.data == "value" else None
        if text is not None:
            yield text
        else:
            for child in tree.children:
                yield from _literals(child)


def _patterns(tree: Any) -> Iterator[tuple[str, bool]]:
    """The texts and patterns of a terminal, and whether they are patterns."""
    for token in tree.scan_values(lambda token: token.type in ("STRING", "REGEXP")):
        yield (str(token)[1:-1], False) if token.type == "STRING" else (str(token)[1 : str(token).rindex("/")], True)


def _of_regexp(pattern: tuple[str, bool]) -> Part:
    text, is_pattern = pattern
    return _of_parsed(_parser.parse(text)) if is_pattern else Literal(text)


def _of_parsed(parsed: Any) -> Part:
    parts = tuple(_of_operation(name, given) for name, given in parsed)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _of_operation(name: Any, given: Any) -> Part:
    if name is _constants.LITERAL:
        return Literal(chr(given))
    if name is _constants.IN:
        return Class(_ranges(given))
    if name is _constants.BRANCH:
        return Choice(tuple(_of_parsed(one) for one in given[1]))
    if name is _constants.SUBPATTERN:
        return _of_parsed(given[3])
    assert name is _constants.MAX_REPEAT, name
    least, most, part = given
    return Repeat(_of_parsed(part), least, most is _constants.MAXREPEAT)


def _ranges(given: Any) -> Characters:
    negated = given[0][0] is _constants.NEGATE
    found = sorted(
        (value, value) if name is _constants.LITERAL else value for name, value in given[1 if negated else 0 :]
    )
    if not negated:
        return tuple(found)
    edges = [-1, *(edge for low, high in found for edge in (low, high)), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in pairs if low + 1 <= high - 1)


def _but(words: list[str]) -> Rules:
    """Names that are none of these words: one rule for each beginning of a word."""
    letters = tuple(one for one in _WORDS if one != (48, 57))
    rules: Rules = {}
    begun = {word[:i] for word in words for i in range(len(word) + 1)}
    for begin in sorted(begun, key=lambda one: (len(one), one)):
        following = sorted({word[len(begin)] for word in words if word.startswith(begin) and word != begin})
        others = _without(letters if not begin else _WORDS, [ord(one) for one in following])
        parts: list[Part] = [Sequence((Class(others), Repeat(Class(_WORDS))))]
        for char in following:
            onward = begin + char
            parts.append(Sequence((Literal(char), Ref(_beginning(onward)))))
        made = parts[0] if len(parts) == 1 else Choice(tuple(parts))
        rules[_beginning(begin)] = made if not begin or begin in words else Repeat(made, 0, False)
    return rules


def _beginning(text: str) -> str:
    return f"name-{text}" if text else "name"


def _without(ranges: Characters, codes: list[int]) -> Characters:
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        for code in sorted(codes):
            if low <= code <= high:
                if low < code:
                    found.append((low, code - 1))
                low = code + 1
        if low <= high:
            found.append((low, high))
    return tuple(found)
