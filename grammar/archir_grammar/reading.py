"""LALR parser that runs on lark's parse tables and builds the result directly, without a parse tree.

Lark itself builds a tree first, asks each rule for its start and end, and passes a number in a list through twenty
rules that do nothing. This parser keeps source positions on a stack, skips chains of rules that only pass on their
single child in one step, and builds no intermediate tree. After a syntax error, the stack determines which terminals
were expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule

END = "$END"
"""Terminal that marks the end of a text."""

Place = tuple[int, int]
"""Start and end offset of a syntax element."""


_Scanner = tuple[Callable[..., Any], frozenset[str], Mapping[str, Callable[[Token], Token]]]
"""Token scanner: match function, ignored token types, and callbacks that turn names into keywords."""


class NotReadError(Exception):
    """Syntax error at the offset `at`.

    `token` is the unexpected token, or None if no token begins with the character there.
    """

    def __init__(self, at: int, token: Token | None, expected: Callable[[], frozenset[str]]) -> None:
        super().__init__(at)
        self.at, self.token, self._expected = at, token, expected

    def expected(self) -> frozenset[str]:
        """Return the names of the terminals that would have been accepted at the error, as lark would report them."""
        return self._expected()


@dataclass(frozen=True)
class _Rule:
    """Grammar rule, reduced to what is needed to build its value from its children."""

    size: int
    origin: str
    means: str | None
    """Name of the builder method that creates the rule's value.

    None for rules whose value is the list of their children.
    """
    parts: tuple[tuple[int, bool, int], ...]
    """For each kept child: its index, whether it is a list to splice in, and the number of Nones before it.

    A None stands for an optional child that is absent.
    """
    missing: int
    """Number of Nones, for absent optional children, after the last kept child."""
    unwraps: bool
    """True if a rule with exactly one child has this child as its value."""
    passes: bool
    """True if the rule always has exactly one child, which is its value."""

    @staticmethod
    def from_lark(rule: Rule) -> _Rule:
        """Convert a rule of lark."""
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
        """Return the children that are kept, with None for absent optional ones."""
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
    """Parser that uses the parse tables and the lexer of a lark parser."""

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
        """Parse a text, or its part `begin:end`, and return the value that a builder creates for it.

        For each rule, the builder's method with the rule's name is called with the rule's place (its start and end
        offset) and its children. The place is (0, 0) if the rule matched no characters. Raises NotReadError for syntax
        errors, and any exception that the layout filter or the builder raises.
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
        """Return the terminals with which parsing can continue from a stack of states.

        If there are none, return all terminals in the table of the top state.
        """
        terminals = [name for name in self._actions[states[-1]] if name.isupper()]
        return frozenset(name for name in terminals if self._can_shift([*states], name)) or frozenset(terminals)

    def _can_shift(self, states: list[int], name: str) -> bool:
        """Return whether a stack of states can shift the terminal `name`, possibly after reductions."""
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
        """Return the state after reducing all rules that only pass on their single child.

        `kind` is the lookahead terminal, and `below` the state under `state` on the stack.
        """
        while isinstance(rule := self._actions[state].get(kind), _Rule) and rule.passes:
            target = self._actions[below][rule.origin]
            assert isinstance(target, int)
            state = target
            if state == self._last:
                break
        return state

    def _tokens(self, text: str, states: list[int], at: int, end: int) -> Iterator[Token]:
        """Yield the tokens of `text[at:end]`; each is scanned with the terminals allowed in the parser's current
        state."""
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
        """Return the error for a position at which none of the allowed terminals matches.

        If another terminal of the language matches there, the error contains its token.
        """
        if self._anywhere is None:
            self._anywhere = _scanner(self._lexer.root_lexer)
        match, _, kinds = self._anywhere
        token_match = match(text, at, end)
        if token_match is None:
            return NotReadError(at, None, lambda: self._expected(states))
        token = Token(token_match.lastgroup, token_match[0], at, end_pos=token_match.end())
        token = kinds[token.type](token) if token.type in kinds else token
        return NotReadError(at, token, lambda: self._expected(states))


def _scanner(lexer: Any) -> _Scanner:
    """Create the token scanner for a lexer of lark."""
    (expression,) = lexer.scanner._mres
    return expression.match, frozenset(lexer.ignore_types), lexer.callback


def _enclosing_place(places: list[Place | None]) -> Place | None:
    """Return the place from the start of the first element to the end of the last one; None if all are empty."""
    first, last = places[0], places[-1]
    if first is None or last is None:
        present = [place for place in places if place is not None]
        if not present:
            return None
        first, last = present[0], present[-1]
    return first[0], last[1]
