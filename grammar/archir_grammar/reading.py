"""A text read along the parse tables, straight to what its rules mean.

Lark makes a tree of its own first, asks each rule where it begins and ends, and hands a number in a list through
twenty rules that say nothing of it. Here positions stand on a stack, rules that hand on their only part are passed in
one step, and no tree is made in between. Where a text is wrong, the stack says what could have stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule

END = "$END"

Place = tuple[int, int]
"""Where something begins and ends."""


_Scanner = tuple[Callable[..., Any], frozenset[str], Mapping[str, Callable[[Token], Token]]]
"""What finds a word, which words are left out, and how words are told from names."""


class NotReadError(Exception):
    """The text is none of the language from the offset `at` on.

    `token` is the word that cannot stand there, None for a character that no word begins with.
    """

    def __init__(self, at: int, token: Token | None, expected: Callable[[], frozenset[str]]) -> None:
        super().__init__(at)
        self.at, self.token, self._expected = at, token, expected

    def expected(self) -> frozenset[str]:
        """The terminals that could stand there, as lark tells them."""
        return self._expected()


@dataclass(frozen=True)
class _Rule:
    """How what a rule consists of becomes what it stands for."""

    size: int
    origin: str
    means: str | None
    """The name of what it is; None for rules that stand for a list of parts."""
    parts: tuple[tuple[int, bool, int], ...]
    """Of each part: its index, whether it is a list of parts, and how many are missing before it."""
    missing: int
    """How many are missing at the end."""
    alone: bool
    """Whether one part by itself is what the rule stands for."""
    passes: bool
    """Whether it always is."""

    @staticmethod
    def of(rule: Rule) -> _Rule:
        """The rule as lark has it."""
        options: Any = rule.options
        missing = "".join("1" if empty else "0" for empty in options.empty_indices).split("0")
        gaps = [len(ones) for ones in missing] if options.empty_indices else [0] * (len(rule.expansion) + 1)
        parts, gap = [], 0
        symbols: list[Any] = list(rule.expansion)
        for index, symbol in enumerate(symbols):
            gap += gaps[index]
            if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out):
                parts.append((index, not symbol.is_term and symbol.name.startswith("_"), gap))
                gap = 0
        gap += gaps[-1]
        origin = str(rule.origin.name)
        name = rule.alias or origin
        alone = bool(options.expand1) and rule.alias is None
        passes = alone and len(rule.expansion) == 1 and parts == [(0, False, 0)] and gap == 0
        means = None if name.startswith("_") else name
        return _Rule(len(rule.expansion), origin, means, tuple(parts), gap, alone, passes)

    def kept(self, children: list[Any]) -> list[Any]:
        """The parts, with None for those that are missing."""
        kept: list[Any] = []
        for index, many, before in self.parts:
            if before:
                kept += [None] * before
            if not many:
                kept.append(children[index])
            elif kept:
                kept += children[index]
            else:
                kept = children[index]  # nothing else has it: lists grow at their end
        if self.missing:
            kept += [None] * self.missing
        return kept


class Reader:
    """Reads texts by the tables of a parser that lark made."""

    def __init__(self, made: Lark) -> None:
        frontend: Any = made.parser
        table = frontend.parser.parser.parse_table
        (self._first,), (self._last,) = table.start_states.values(), table.end_states.values()
        self._layout = frontend.lexer.postlexer
        self._lexer = frontend.lexer.lexer
        self._lexers = self._lexer.lexers
        self._anywhere: _Scanner | None = None
        self._scanners: dict[int, _Scanner] = {}
        rules: dict[int, _Rule] = {}
        self._actions: dict[int, dict[str, int | _Rule]] = {}
        for state, actions in table.states.items():
            found = self._actions[state] = {}
            for name, (_, arg) in actions.items():
                if isinstance(arg, Rule) and id(arg) not in rules:
                    rules[id(arg)] = _Rule.of(arg)
                found[name] = rules[id(arg)] if isinstance(arg, Rule) else arg
        self._passed: dict[tuple[int, int, str], int] = {}

    def read(self, text: str, builder: object, begin: int = 0, end: int | None = None) -> Any:
        """What a builder makes of a text, or of the part `begin:end` of it. Its method of a rule's name has the rule's
        place, (0, 0) if it has no characters, and its parts. Raises NotReadError, and what the layout and the builder
        raise."""
        end = len(text) if end is None else end
        actions, passed, last = self._actions, self._passed, self._last
        states, values = [self._first], []
        places: list[Place | None] = []  # None for what has no characters
        words = self._layout.process(self._tokens(text, states, begin, end))
        for token in chain(words, (Token(END, "", end),)):
            kind = token.type
            while True:
                rule = actions[states[-1]].get(kind)
                if rule is None:
                    raise NotReadError(token.start_pos or 0, token, lambda: self._expected(states))
                if isinstance(rule, int):
                    states.append(rule)
                    values.append(token)
                    places.append((token.start_pos, token.end_pos))
                    break
                if rule.passes:
                    key = states[-2], states[-1], kind
                    if key not in passed:
                        passed[key] = self._behind(*key)
                    states[-1] = passed[key]
                else:
                    size = rule.size
                    children: list[Any] = []
                    place = None
                    if size:
                        children, among = values[-size:], places[-size:]
                        del states[-size:], values[-size:], places[-size:]
                        place = among[0] if size == 1 else _around(among)
                    parts = rule.kept(children)
                    if rule.alone and len(parts) == 1:
                        value = parts[0]
                    elif rule.means is None:
                        value = parts
                    else:
                        value = getattr(builder, rule.means)(place or (0, 0), parts)
                    states.append(actions[states[-1]][rule.origin])
                    values.append(value)
                    places.append(place)
                if states[-1] == last and kind == END:
                    return values[-1]
        raise AssertionError("the end is always the last word")

    def _expected(self, states: list[int]) -> frozenset[str]:
        """The terminals behind which a stack of states can go on; those that the last state knows if there is none."""
        known = [name for name in self._actions[states[-1]] if name.isupper()]
        return frozenset(name for name in known if self._goes_on([*states], name)) or frozenset(known)

    def _goes_on(self, states: list[int], name: str) -> bool:
        while (rule := self._actions[states[-1]].get(name)) is not None:
            if isinstance(rule, int):
                return True
            if rule.size:
                del states[-rule.size :]
            behind = self._actions[states[-1]][rule.origin]
            assert isinstance(behind, int)
            states.append(behind)
            if behind == self._last and name == END:
                return True
        return False

    def _behind(self, below: int, state: int, kind: str) -> int:
        """The state behind all rules that hand on their only part, where `kind` comes next."""
        while isinstance(rule := self._actions[state].get(kind), _Rule) and rule.passes:
            behind = self._actions[below][rule.origin]
            assert isinstance(behind, int)
            state = behind
            if state == self._last:
                break
        return state

    def _tokens(self, text: str, states: list[int], at: int, end: int) -> Iterator[Token]:
        """The words of `text[at:end]`, each as one that may stand where the parser is."""
        while at < end:
            state = states[-1]
            if state not in self._scanners:
                self._scanners[state] = _scanner(self._lexers[state])
            match, ignored, kinds = self._scanners[state]
            found = match(text, at, end)
            if found is None:
                raise self._no_word(text, at, end, states)
            kind = found.lastgroup
            if kind not in ignored:
                token = Token(kind, found[0], at, end_pos=found.end())
                yield kinds[kind](token) if kind in kinds else token
            at = found.end()

    def _no_word(self, text: str, at: int, end: int, states: list[int]) -> NotReadError:
        """What is not read where nothing that may stand there begins: a word that could stand elsewhere, or none."""
        if self._anywhere is None:
            self._anywhere = _scanner(self._lexer.root_lexer)
        match, _, kinds = self._anywhere
        found = match(text, at, end)
        if found is None:
            lexer = self._lexers[states[-1]]
            return NotReadError(at, None, lambda: frozenset(lexer.scanner.allowed_types - lexer.ignore_types))
        token = Token(found.lastgroup, found[0], at, end_pos=found.end())
        token = kinds[token.type](token) if token.type in kinds else token
        return NotReadError(at, token, lambda: self._expected(states))


def _scanner(lexer: Any) -> _Scanner:
    (expression,) = lexer.scanner._mres
    return expression.match, frozenset(lexer.ignore_types), lexer.callback


def _around(places: list[Place | None]) -> Place | None:
    """From where the first begins to where the last ends."""
    first, last = places[0], places[-1]
    if first is None or last is None:
        known = [place for place in places if place is not None]
        if not known:
            return None
        first, last = known[0], known[-1]
    return first[0], last[1]
