"""A shift-reduce parser over lark's parse tables that builds a tree directly.

Lark itself builds a tree of its own first, searches the extent of each rule in it, and passes a number in a list
through twenty rules with a single part. This parser keeps positions on a stack, skips a chain of single-part rules in
one step, and builds no intermediate tree. On a syntax error, the stack gives the terminals that are allowed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule

END = "$END"
"""The terminal at the end of a text."""

Place = tuple[int, int]
"""Start and end offsets of a piece of text."""


_Scanner = tuple[Callable[..., Any], frozenset[str], Mapping[str, Callable[[Token], Token]]]
"""The scanner of a parser state: its match function, the terminals that it skips, and callbacks that turn names into
keywords."""


class NotReadError(Exception):
    """A syntax error at the offset `at`.

    `token` is the token that is not allowed there, None for a character that begins no token.
    """

    def __init__(self, at: int, token: Token | None, expected: Callable[[], frozenset[str]]) -> None:
        super().__init__(at)
        self.at, self.token, self._expected = at, token, expected

    def expected(self) -> frozenset[str]:
        """Return the terminals that are allowed there, by lark's names."""
        return self._expected()


@dataclass(frozen=True)
class _Rule:
    """A rule of the grammar: how the values of its parts become its own value."""

    size: int
    origin: str
    means: str | None
    """Name of the builder's method for the rule; None if its value is the list of its parts."""
    parts: tuple[tuple[int, bool, int], ...]
    """Of each part: its index, whether its value is a list of parts, and how many optional parts are missing before
    it."""
    missing: int
    """Number of optional parts that are missing at the end."""
    unwraps: bool
    """True if the value of a single part is the value of the rule."""
    passes: bool
    """True if the rule always has a single part whose value it passes on."""

    @staticmethod
    def from_lark(rule: Rule) -> _Rule:
        """Return the rule for a rule of lark."""
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
        unwraps = bool(options.expand1) and rule.alias is None
        passes = unwraps and len(rule.expansion) == 1 and parts == [(0, False, 0)] and gap == 0
        means = None if name.startswith("_") else name
        return _Rule(len(rule.expansion), origin, means, tuple(parts), gap, unwraps, passes)

    def part_values(self, children: list[Any]) -> list[Any]:
        """Return the values of the parts, with None for missing optional parts."""
        part_values: list[Any] = []
        for index, is_list, before in self.parts:
            if before:
                part_values += [None] * before
            if not is_list:
                part_values.append(children[index])
            elif part_values:
                part_values += children[index]
            else:
                part_values = children[index]  # nothing else refers to this list, so it can grow in place
        if self.missing:
            part_values += [None] * self.missing
        return part_values


class Reader:
    """Parses texts with the parse tables of a parser that lark built."""

    def __init__(self, lark_parser: Lark) -> None:
        frontend: Any = lark_parser.parser
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
            row = self._actions[state] = {}
            for name, (_, arg) in actions.items():
                if isinstance(arg, Rule) and id(arg) not in rules:
                    rules[id(arg)] = _Rule.from_lark(arg)
                row[name] = rules[id(arg)] if isinstance(arg, Rule) else arg
        self._passed: dict[tuple[int, int, str], int] = {}

    def read(self, text: str, builder: object, begin: int = 0, end: int | None = None) -> Any:
        """Parse a text, or its part `begin:end`, and return the value that the builder gives it.

        The builder has a method for each rule, called with the rule's place, (0, 0) if it has no characters, and the
        values of its parts. Raises NotReadError, and the errors of the layout filter and of the builder.
        """
        end = len(text) if end is None else end
        actions, passed, last = self._actions, self._passed, self._last
        states, values = [self._first], []
        places: list[Place | None] = []  # None for values without characters
        tokens = self._layout.process(self._tokens(text, states, begin, end))
        for token in chain(tokens, (Token(END, "", end),)):
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
                        passed[key] = self._state_after_passing(*key)
                    states[-1] = passed[key]
                else:
                    size = rule.size
                    children: list[Any] = []
                    place = None
                    if size:
                        children, part_places = values[-size:], places[-size:]
                        del states[-size:], values[-size:], places[-size:]
                        place = part_places[0] if size == 1 else _enclosing_place(part_places)
                    parts = rule.part_values(children)
                    if rule.unwraps and len(parts) == 1:
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
        raise AssertionError("the last token is always the end")

    def _expected(self, states: list[int]) -> frozenset[str]:
        """Return the terminals after which parsing can go on; if there are none, all terminals of the last state."""
        terminals = [name for name in self._actions[states[-1]] if name.isupper()]
        return frozenset(name for name in terminals if self._can_shift([*states], name)) or frozenset(terminals)

    def _can_shift(self, states: list[int], name: str) -> bool:
        """True if a stack of states can shift the terminal `name`."""
        while (rule := self._actions[states[-1]].get(name)) is not None:
            if isinstance(rule, int):
                return True
            if rule.size:
                del states[-rule.size :]
            state = self._actions[states[-1]][rule.origin]
            assert isinstance(state, int)
            states.append(state)
            if state == self._last and name == END:
                return True
        return False

    def _state_after_passing(self, below: int, state: int, kind: str) -> int:
        """Return the state after all single-part rules that end before a token of type `kind`."""
        while isinstance(rule := self._actions[state].get(kind), _Rule) and rule.passes:
            target = self._actions[below][rule.origin]
            assert isinstance(target, int)
            state = target
            if state == self._last:
                break
        return state

    def _tokens(self, text: str, states: list[int], at: int, end: int) -> Iterator[Token]:
        """Yield the tokens of `text[at:end]`, each scanned with the terminals that the parser's current state
        allows."""
        while at < end:
            state = states[-1]
            if state not in self._scanners:
                self._scanners[state] = _scanner(self._lexers[state])
            match, ignored, kinds = self._scanners[state]
            token_match = match(text, at, end)
            if token_match is None:
                raise self._scan_error(text, at, end, states)
            kind = token_match.lastgroup
            if kind not in ignored:
                token = Token(kind, token_match[0], at, end_pos=token_match.end())
                yield kinds[kind](token) if kind in kinds else token
            at = token_match.end()

    def _scan_error(self, text: str, at: int, end: int, states: list[int]) -> NotReadError:
        """Return the error where no allowed token begins, with the token of another place that is there, if any."""
        if self._anywhere is None:
            self._anywhere = _scanner(self._lexer.root_lexer)
        match, _, kinds = self._anywhere
        token_match = match(text, at, end)
        if token_match is None:
            lexer = self._lexers[states[-1]]
            return NotReadError(at, None, lambda: frozenset(lexer.scanner.allowed_types - lexer.ignore_types))
        token = Token(token_match.lastgroup, token_match[0], at, end_pos=token_match.end())
        token = kinds[token.type](token) if token.type in kinds else token
        return NotReadError(at, token, lambda: self._expected(states))


def _scanner(lexer: Any) -> _Scanner:
    """Return the scanner of a lexer of lark."""
    (expression,) = lexer.scanner._mres
    return expression.match, frozenset(lexer.ignore_types), lexer.callback


def _enclosing_place(places: list[Place | None]) -> Place | None:
    """Return the place from the start of the first part to the end of the last; None if no part has characters."""
    first, last = places[0], places[-1]
    if first is None or last is None:
        present = [place for place in places if place is not None]
        if not present:
            return None
        first, last = present[0], present[-1]
    return first[0], last[1]
