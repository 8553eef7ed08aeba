"""Character-level grammar for constrained generation, derived from `arch.lark`.

The lark grammar is defined over tokens: whitespace and comments between tokens are skipped, newlines in some
positions are ignored, and keywords are distinguished from names by context. The exported grammar makes all of that
explicit. Each rule exists in two versions: for normal lines, and for the inside of parentheses and square brackets,
where newlines are whitespace. Whitespace is optional between tokens, but required where two words would otherwise
merge. Left recursion is replaced by repetition. Names exclude the keywords of the language, so the exported grammar
describes a subset of it; the only exception is `none` as the name of an alternative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from re import _constants, _parser
from typing import Any, TypeAlias

from lark import Token, Tree
from lark.load_grammar import GrammarBuilder

from archir_grammar import grammar, keywords

Characters: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of Unicode code points, both ends included."""
LAST = 0x10FFFF
"""The largest code point."""
_WORD_CHARS: Characters = ((48, 57), (65, 90), (95, 95), (97, 122))
_OPENING, _CLOSING = {"(": True, "[": True, "{": False}, {")", "]", "}"}
_LINE, _INSIDE = "", "-in"


@dataclass(frozen=True)
class Literal:
    """Grammar part that matches exactly the characters of `text`."""

    text: str


@dataclass(frozen=True)
class CharClass:
    """Grammar part that matches one character from any of the ranges."""

    ranges: Characters


@dataclass(frozen=True)
class Ref:
    """Grammar part that refers to a rule by name."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """Grammar part that matches all its parts in order."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Choice:
    """Grammar part that matches one of its parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat:
    """Grammar part that matches a part at least `least` times (0 or 1), and at most once unless `endless`."""

    part: Part
    least: int = 0
    endless: bool = True


Part: TypeAlias = Literal | CharClass | Ref | Sequence | Choice | Repeat
Rules: TypeAlias = dict[str, Part]


@cache
def exported_rules() -> Rules:
    """Return the exported grammar as rules by name; the rule `start` comes first."""
    return _Exporter().rules


class _Exporter:
    """Converter from lark's rules over tokens to rules over characters."""

    def __init__(self) -> None:
        builder = GrammarBuilder()
        builder.load_grammar(_without_ambiguities(grammar()), "arch")
        compiled = builder.build()
        self.trees = {str(name): tree for name, _, tree, _ in compiled.rule_defs}
        self.terms = {str(name): tree for name, (tree, _) in compiled.term_defs}
        self.edges = self._edges()
        self.rules: Rules = {}
        self._rule("start", _LINE)
        self.rules["start"] = Sequence((Ref("joined"), self.rules["start"]))
        self.rules |= _space_rules()

    def _rule(self, name: str, mode: str) -> Ref:
        """Add the version of a rule for a mode (`_LINE` or `_INSIDE`), if it is new, and return a reference to it."""
        rule_name = _rule_name(name, mode)
        if rule_name not in self.rules:
            self.rules[rule_name] = Literal("")  # placeholder: reserves its position, and stops the recursion
            alternatives = _alternatives(self.trees[name])
            recursive = [body for body in alternatives if _first_name(body) == name]
            self.rules[rule_name] = self._choice([body for body in alternatives if body not in recursive], mode, False)
            if recursive:
                tails = self._choice(recursive, mode, self.edges[name][1], skip=1)
                self.rules[rule_name] = Sequence((self.rules[rule_name], Repeat(tails)))
        return Ref(rule_name)

    def _choice(self, alternatives: list[Tree[Token]], mode: str, word: bool, skip: int = 0) -> Part:
        """Convert the alternatives of a lark rule, without their first `skip` symbols.

        `word` is True if the preceding text may end in a word.
        """
        parts = tuple(self._sequence(body.children[skip:], mode, word, skip > 0) for body in alternatives)
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _sequence(self, children: list[Any], mode: str, word: bool, follows: bool) -> Part:
        """Convert consecutive symbols of a lark rule to a sequence with whitespace between them.

        `word` is True if the preceding text may end in a word; `follows` is True if any text precedes the sequence.
        """
        parts: list[Part] = []
        modes, before = [mode], ""
        for index, child in enumerate(children):
            text = _literal(child)
            _, last, empty = self._edge(child)
            if empty and not follows and _optional(child) is None and index + 1 < len(children):
                gap = _gap(mode, last and self._edge(children[index + 1])[0], False)  # `own block`, or `block`
                parts.append(Repeat(Sequence((self._part(child, mode), gap)), 0, False))
                continue
            joined = before in ("{", ",") or text in ("|>", "}")
            at_line_end = _is_terminal(child, "_NL") or before == "_NL"
            parts += self._spaced(
                child, modes[-1] if text != "}" else modes[-2], follows and not at_line_end, word, joined
            )
            if text in _CLOSING:
                modes.pop()
            if text in _OPENING:
                modes.append(_INSIDE if _OPENING[text] else _LINE)
            word = last or (empty and word)
            follows, before = (
                True,
                "_NL" if _is_terminal(child, "_NL") else text if text is not None else before if empty else "",
            )
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _spaced(self, child: Any, mode: str, follows: bool, word: bool, joined: bool) -> list[Part]:
        """Convert a symbol, with whitespace before it if anything precedes it.

        If the symbol is optional or repeated, the whitespace belongs to the optional part.
        """
        inner = _optional(child)
        first = self._edge(child)[0]
        if inner is None:
            gap = [_gap(mode, word and first, joined)] if follows else []
            return [*gap, self._part(child, mode)]
        body, least, endless = inner
        word = word or (endless and self._edge(body)[1])
        sequences = tuple(self._sequence(option.children, mode, word, False) for option in _alternatives(body))
        choice = sequences[0] if len(sequences) == 1 else Choice(sequences)
        head = _alternatives(body)[0].children[0]
        if _is_terminal(head, "_NL") or not (follows or endless):
            return [Repeat(choice, least, endless)]
        joined = joined or _literal(head) == "|>"
        return [Repeat(Sequence((_gap(mode, word and first, joined), choice)), least, endless)]

    def _part(self, child: Any, mode: str) -> Part:
        """Convert a symbol to a literal, a group of alternatives, or a reference to the exported rule.

        Rules and terminals of the lark grammar are both exported as rules.
        """
        text = _literal(child)
        if text is not None:
            return Literal(text)
        (value,) = child.children if child.data == "value" else (child,)
        if isinstance(value, Tree):
            return self._choice(_alternatives(value), mode, False)
        name = str(value.name)
        return self._rule(name, mode) if name in self.trees else self._terminal(name)

    def _terminal(self, name: str) -> Part:
        """Add the rule for a terminal, if it is new, and return a reference to it."""
        rule_name = "nl" if name == "_NL" else "name" if name == "NAME" else f"{name.lower()}-token"
        if rule_name not in self.rules and rule_name != "nl":
            parts = [_of_regexp(pattern) for pattern in _patterns(self.terms[name])]
            self.rules[rule_name] = parts[0] if len(parts) == 1 else Choice(tuple(parts))
            if name == "NAME":
                self.rules |= _names_except(sorted(keywords()))
        return Ref(rule_name)

    def _edges(self) -> dict[str, tuple[bool, bool, bool]]:
        """Compute for each rule and terminal whether it can begin with a word, can end with a word, and can be
        empty."""
        edges: dict[str, tuple[bool, bool, bool]] = {}
        for name, tree in self.terms.items():
            texts = [*_literals(tree)] or ["0" if name in ("INT", "FLOAT", "NAME") else "@a" if name == "TAG" else " "]
            edges[name] = (
                any(_is_word_char(text[:1]) for text in texts),
                any(_is_word_char(text[-1:]) for text in texts),
                False,
            )
        edges |= dict.fromkeys(self.trees, (False, False, False))
        changed = True
        while changed:
            self.edges = edges
            updated = {name: self._edge(tree) for name, tree in self.trees.items()}
            changed = any(edges[name] != edge for name, edge in updated.items())
            edges = edges | updated
        return edges

    def _edge(self, part: Any) -> tuple[bool, bool, bool]:
        """Return whether a part of a rule can begin with a word, can end with a word, and can be empty."""
        text = _literal(part)
        if text is not None:
            return _is_word_char(text[:1]), _is_word_char(text[-1:]), False
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


_REPLACEMENTS = {
    'choose_subset: "choose" [NAME] tags count "of"':
    'choose_subset: ("choose" NAME tags count | "choose" TAG+ count | "choose" INT) "of"',
    'alternative: NAME ":"': 'alternative: (NAME | "none") ":"',
    '"[" expr comprehension_part+ "]"': '"[" expr ("for" targets "in" or_) comprehension_part* "]"',
}  # fmt: skip
"""Replacements for ambiguous rules in `arch.lark`, which make explicit how lark resolves the ambiguity.

A name after `choose` is the choice's name wherever possible, so that a count needs a name or tag before it; an
alternative may be called `none`; and an `if` directly after the first item of a list begins a conditional expression,
which needs an `else`.
"""


def _without_ambiguities(text: str) -> str:
    """Return the text of the grammar with its ambiguous rules replaced."""
    for before, after in _REPLACEMENTS.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def _rule_name(name: str, mode: str) -> str:
    return name.strip("_").replace("_", "-") + mode


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def _gap(mode: str, needed: bool, joined: bool) -> Ref:
    """Return a reference to the rule for whitespace between two parts.

    `needed` is True if whitespace is required, because words on both sides would otherwise merge; `joined` is True if a
    line may be broken there.
    """
    if mode == _INSIDE:
        return Ref("spaces-in" if needed else "space-in")
    return Ref("spaces" if needed else "joined" if joined else "space")


def _space_rules() -> Rules:
    """Return the rules for whitespace between tokens: within a line, where lines are joined, and inside brackets."""
    blank, comment = CharClass(((9, 9), (32, 32))), Ref("comment")
    line = Sequence((Repeat(blank), Repeat(comment, 0, False), Literal("\n")))
    return {
        "comment": Sequence((Literal("#"), Repeat(CharClass(((0, 9), (11, 12), (14, LAST)))))),
        "line-end": line,
        "nl": Sequence((Repeat(Ref("line-end"), 1), Repeat(blank))),
        "space": Repeat(blank),
        "spaces": Repeat(blank, 1),
        "joined": Sequence((Repeat(Ref("line-end")), Repeat(blank))),
        "space-in": Sequence((Repeat(Ref("line-end")), Repeat(blank))),
        "spaces-in": Choice((Ref("spaces"), Ref("nl"))),
    }


def _is_terminal(child: Any, name: str) -> bool:
    """Return whether a symbol of a lark rule is the terminal `name`, or a value that consists of it."""
    if isinstance(child, Tree) and child.data in ("value", "expansion", "expansions") and child.children:
        return _is_terminal(child.children[0], name) if child.data == "value" else False
    return not isinstance(child, Tree | Token) and str(getattr(child, "name", "")) == name


def _optional(child: Any) -> tuple[Tree[Token], int, bool] | None:
    """Return the body of an optional or repeated symbol, its minimum count, and whether it has no maximum.

    Returns None for other symbols.
    """
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
    return [tree] if tree.data == "expansion" else [body for child in tree.children for body in _alternatives(child)]


def _first_name(expansion: Any) -> str | None:
    """Return the name of the rule or terminal with which an alternative begins, or None if there is none."""
    first = expansion.children[0] if expansion.children else None
    if isinstance(first, Tree) and first.data == "value" and hasattr(first.children[0], "name"):
        return str(first.children[0].name)
    return None


def _literal(child: Any) -> str | None:
    """Return the text of a symbol that is a quoted string, or None for other symbols."""
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
    """Yield the strings and regular expressions of a terminal, each with True if it is a regular expression."""
    for token in tree.scan_values(lambda token: token.type in ("STRING", "REGEXP")):
        yield (str(token)[1:-1], False) if token.type == "STRING" else (str(token)[1 : str(token).rindex("/")], True)


def _of_regexp(pattern: tuple[str, bool]) -> Part:
    text, is_pattern = pattern
    return _of_parsed(_parser.parse(text)) if is_pattern else Literal(text)


def _of_parsed(parsed: Any) -> Part:
    parts = tuple(_of_operation(name, arg) for name, arg in parsed)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _of_operation(name: Any, arg: Any) -> Part:
    if name is _constants.LITERAL:
        return Literal(chr(arg))
    if name is _constants.IN:
        return CharClass(_ranges(arg))
    if name is _constants.BRANCH:
        return Choice(tuple(_of_parsed(branch) for branch in arg[1]))
    if name is _constants.SUBPATTERN:
        return _of_parsed(arg[3])
    assert name is _constants.MAX_REPEAT, name
    least, most, part = arg
    return Repeat(_of_parsed(part), least, most is _constants.MAXREPEAT)


def _ranges(items: Any) -> Characters:
    negated = items[0][0] is _constants.NEGATE
    ranges = sorted(
        (value, value) if name is _constants.LITERAL else value for name, value in items[1 if negated else 0 :]
    )
    if not negated:
        return tuple(ranges)
    edges = [-1, *(edge for low, high in ranges for edge in (low, high)), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in pairs if low + 1 <= high - 1)


def _names_except(words: list[str]) -> Rules:
    """Return rules for names that are not among the given words, with one rule for each prefix of a word."""
    letters = tuple(bounds for bounds in _WORD_CHARS if bounds != (48, 57))
    rules: Rules = {}
    prefixes = {word[:i] for word in words for i in range(len(word) + 1)}
    for prefix in sorted(prefixes, key=lambda text: (len(text), text)):
        following = sorted({word[len(prefix)] for word in words if word.startswith(prefix) and word != prefix})
        others = _without(letters if not prefix else _WORD_CHARS, [ord(char) for char in following])
        parts: list[Part] = [Sequence((CharClass(others), Repeat(CharClass(_WORD_CHARS))))]
        for char in following:
            onward = prefix + char
            parts.append(Sequence((Literal(char), Ref(_prefix_rule(onward)))))
        choice = parts[0] if len(parts) == 1 else Choice(tuple(parts))
        rules[_prefix_rule(prefix)] = choice if not prefix or prefix in words else Repeat(choice, 0, False)
    return rules


def _prefix_rule(text: str) -> str:
    return f"name-{text}" if text else "name"


def _without(ranges: Characters, codes: list[int]) -> Characters:
    """Return the given ranges without some code points."""
    remaining: list[tuple[int, int]] = []
    for low, high in ranges:
        for code in sorted(codes):
            if low <= code <= high:
                if low < code:
                    remaining.append((low, code - 1))
                low = code + 1
        if low <= high:
            remaining.append((low, high))
    return tuple(remaining)
