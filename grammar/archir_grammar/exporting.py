"""The grammar at the level of characters, for programs that generate text from left to right.

Lark's grammar is one of tokens: its lexer skips spaces and comments, joins lines, and decides by the position whether a
word is a keyword or a name. Here spaces and newlines are explicit. Each rule has two versions: one for lines, and one
for the inside of parentheses and brackets, where newlines are spaces. Spaces are allowed wherever lark skips them, and
required between two words. Names differ from all keywords. Left recursion becomes repetition. All rules are derived
from `arch.lark`. They generate a part of the language: no keyword is a name, except `none` as the name of an
alternative.
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
"""Inclusive ranges of code points."""
LAST = 0x10FFFF
"""The largest code point."""
_WORD_CHARS: Characters = ((48, 57), (65, 90), (95, 95), (97, 122))
_OPENING, _CLOSING = {"(": True, "[": True, "{": False}, {")", "]", "}"}
_LINE, _INSIDE = "", "-in"


@dataclass(frozen=True)
class Literal:
    """A fixed text."""

    text: str


@dataclass(frozen=True)
class CharClass:
    """One character of some ranges."""

    ranges: Characters


@dataclass(frozen=True)
class Ref:
    """A reference to a rule, by its name."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """Parts that follow each other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives, one of which matches."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat:
    """A repeated part: at least `least` times (0 or 1), at most once unless `endless`."""

    part: Part
    least: int = 0
    endless: bool = True


Part: TypeAlias = Literal | CharClass | Ref | Sequence | Choice | Repeat
Rules: TypeAlias = dict[str, Part]


@cache
def exported_rules() -> Rules:
    """Return all rules by name, `start` first."""
    return _Exporter().rules


class _Exporter:
    """Derives rules of characters from lark's rules of tokens."""

    def __init__(self) -> None:
        builder = GrammarBuilder()
        builder.load_grammar(_without_ambiguities(grammar()), "arch")
        compiled = builder.build()
        self.trees = {str(name): tree for name, _, tree, _ in compiled.rule_defs}
        self.terms = {str(name): tree for name, (tree, _) in compiled.term_defs}
        literals = {word for tree in self.trees.values() for word in _literals(tree)}
        literals |= {word for tree in self.terms.values() for word in _literals(tree)}
        self.words = sorted(word for word in literals if word.isidentifier())
        self.edges = self._edges()
        self.rules: Rules = {}
        self._rule("start", _LINE)
        self.rules["start"] = Sequence((Ref("joined"), self.rules["start"]))
        self.rules |= _space_rules()

    def _rule(self, name: str, mode: str) -> Ref:
        """Add the version of a rule for a mode (`_LINE` or `_INSIDE`), and return a reference to it."""
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
        """Return the alternatives of a rule without their first `skip` parts. `word`: the text before may end in a
        word."""
        parts = tuple(self._sequence(body.children[skip:], mode, word, skip > 0) for body in alternatives)
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _sequence(self, children: list[Any], mode: str, word: bool, follows: bool) -> Part:
        """Return parts with gaps between them. `word`: the text before may end in a word. `follows`: there is text
        before."""
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
        """Return a part with a gap before it if it follows text; of an optional part, the gap is optional too."""
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
        """Return a literal, a group of alternatives, or a reference to a rule or terminal."""
        text = _literal(child)
        if text is not None:
            return Literal(text)
        (value,) = child.children if child.data == "value" else (child,)
        if isinstance(value, Tree):
            return self._choice(_alternatives(value), mode, False)
        name = str(value.name)
        return self._rule(name, mode) if name in self.trees else self._terminal(name)

    def _terminal(self, name: str) -> Part:
        """Add the rule of a terminal, and return a reference to it."""
        rule_name = "nl" if name == "_NL" else "name" if name == "NAME" else f"{name.lower()}-token"
        if rule_name not in self.rules and rule_name != "nl":
            parts = [_of_regexp(pattern) for pattern in _patterns(self.terms[name])]
            self.rules[rule_name] = parts[0] if len(parts) == 1 else Choice(tuple(parts))
            if name == "NAME":
                self.rules |= _names_except(self.words)
        return Ref(rule_name)

    def _edges(self) -> dict[str, tuple[bool, bool, bool]]:
        """Return three flags for each rule and terminal: a word can begin it, a word can end it, it can be empty."""
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
        """Return the three flags of `_edges` for a part of a rule."""
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
"""Texts of ambiguous rules in `arch.lark` and their replacements, which state how lark resolves the ambiguity.

A name after `choose` is the name of the choice wherever it can be, so a name is a count only after the name of the
choice; an alternative may be called `none`; `if` after the first part of a list needs an `else`.
"""


def _without_ambiguities(text: str) -> str:
    """Return the grammar with its ambiguous rules replaced."""
    for before, after in _REPLACEMENTS.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def _rule_name(name: str, mode: str) -> str:
    return name.strip("_").replace("_", "-") + mode


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"


def _gap(mode: str, needed: bool, joined: bool) -> Ref:
    """Return the rule of the spaces between two parts. `needed`: both are words. `joined`: a line may be broken
    there."""
    if mode == _INSIDE:
        return Ref("spaces-in" if needed else "space-in")
    return Ref("spaces" if needed else "joined" if joined else "space")


def _space_rules() -> Rules:
    """Return the rules of spaces: within a line, where lines are joined, and inside of brackets."""
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
    """True if a part is the terminal `name`, or a value that consists of it."""
    if isinstance(child, Tree) and child.data in ("value", "expansion", "expansions") and child.children:
        return _is_terminal(child.children[0], name) if child.data == "value" else False
    return not isinstance(child, Tree | Token) and str(getattr(child, "name", "")) == name


def _optional(child: Any) -> tuple[Tree[Token], int, bool] | None:
    """Return the body of an optional or repeated part, its least number of repetitions, and whether it is endless; else
    None."""
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
    """Return the name of the rule or terminal that an alternative begins with, if there is one."""
    first = expansion.children[0] if expansion.children else None
    if isinstance(first, Tree) and first.data == "value" and hasattr(first.children[0], "name"):
        return str(first.children[0].name)
    return None


def _literal(child: Any) -> str | None:
    """Return the text of a part that is a quoted text, None for other parts."""
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
    """Yield the texts and regular expressions of a terminal, each with True if it is a regular expression."""
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
    """Return rules of names that differ from all `words`: one rule for each prefix of a word."""
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
    """Return ranges without some code points."""
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
