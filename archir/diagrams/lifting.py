"""Functions of plain values, lifted to values that depend on choices: applied to every reachable combination."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from archir.diagnostics.errors import FAULTS, Note, RuleError, Span, unforeseen
from archir.diagnostics.work import WorkError, at_hand, spend
from archir.diagrams.cases import (
    MOST_STEPS,
    NEVER,
    Case,
    Choice,
    EntangledError,
    Value,
    at,
    branch_of,
    branches_of,
    case,
    keys,
    order_of,
    reachable,
    smallest,
    support,
)
from archir.diagrams.conditions import both, hull, narrowed, negate


@dataclass(frozen=True, eq=False)
class _Failure:
    error: RuleError


class CaseError(RuleError):
    """A rule refused some combination; `assignment` is the smallest one (choice to outcome; empty: all)."""

    def __init__(self, error: RuleError, assignment: Mapping[Choice, int]) -> None:
        super().__init__(error.message, error.hint, error.code, error.span)
        self.assignment = dict(assignment)
        if assignment:
            self.diagnostics = (replace(self.diagnostics[0], notes=(self.note(),)),)

    def note(self, span: Span | None = None) -> Note:
        """The combination, as a note."""
        outcomes = tuple((choice.path, outcome) for choice, outcome in self.assignment.items())
        return Note(f"when {self.combination}", span, outcomes)

    @property
    def combination(self) -> str:
        """The combination in words, such as `layer[2].op = conv5`."""
        return describe(self.assignment)


def describe(assignment: Mapping[Choice, int]) -> str:
    """An assignment in words."""
    parts = []
    for choice, outcome in assignment.items():
        label = choice.label(outcome)
        parts.append(f"{choice.path} = {label if not isinstance(label, list) else ' + '.join(map(str, label))}")
    return ", ".join(parts)


class Excluded(Exception):  # noqa: N818  (no error: what runs here never happens)
    """The conditions that are given leave no combination under which this could happen."""


def lift(rule: Callable[..., Value], *values: Value, under: Value = True, given: Sequence[Value] = ()) -> Value:
    """`rule` applied to every combination of plain values that `under` lets happen.

    The rule may itself return a Case. Combinations outside `under` get an arbitrary value, chosen so that the
    result is small; so do those that it refuses and the conditions `given` rule out. Raises CaseError with the smallest
    failing combination if the rule raises RuleError, or anything else by mistake, for another; and Excluded if no
    combination is left.
    """
    for value in values:
        if type(value) is Case:
            break
    else:
        if under is not False:
            return _once(rule, values, under, given)
    try:
        if len(values) == 1 and under is True:
            try:
                return _Mapped(rule).of(values[0])
            except _Unmapped:
                pass
        return _lifted(rule, values, under, given)
    except EntangledError:
        weaker = hull(under, frozenset(support(*values)))  # of choices that no value depends on, rules are not told
        if weaker is under:
            raise
        return _lifted(rule, values, weaker, given)


def _once(rule: Callable[..., Value], values: tuple[Value, ...], under: Value, given: Sequence[Value]) -> Value:
    """`rule` applied to plain values."""
    spend(2)
    try:
        return rule(*values)
    except WorkError:
        raise
    except RuleError as error:
        refusal = error
    except FAULTS as error:
        refusal = unforeseen(error)
    if under is True and not given:
        raise refusal
    return _excused(_Failure(refusal), under, given)


class _Unmapped(Exception):  # noqa: N818  (no error: another way is taken)
    """A rule refuses a leaf, or what it makes of one depends on choices itself."""


class _Mapped:
    """A rule applied to every leaf of one value."""

    __slots__ = ("known", "rule")

    def __init__(self, rule: Callable[..., Value]) -> None:
        self.rule = rule
        self.known: dict[int, Value] = {}

    def of(self, value: Value) -> Value:
        if type(value) is not Case:
            spend(1)
            try:
                found = self.rule(value)
            except WorkError:
                raise
            except (RuleError, *FAULTS):
                raise _Unmapped from None
            if type(found) is Case:
                raise _Unmapped
            return found
        found = self.known.get(id(value), self)
        if found is self:
            if len(self.known) > MOST_STEPS:
                raise EntangledError
            spend(2)
            found = self.known[id(value)] = case(value.choice, [self.of(branch) for branch in value.branches])
        return found


def _lifted(rule: Callable[..., Value], values: tuple[Value, ...], under: Value, given: Sequence[Value]) -> Value:
    failed = False
    held: dict[int, _Held] = {}
    memo: dict[Hashable, Value] = {}
    work = at_hand()

    def walk(state: tuple[Value, ...]) -> Value:
        """The result for what is left of `under`, which comes first, and of the values."""
        nonlocal failed
        care = state[0]
        if care is False:
            return NEVER
        values, top = state[1:], None
        for value in values:
            if type(value) is Case and (top is None or value.choice.order < top.order):
                top = value.choice
        if top is None:
            if work is not None:
                work.left -= 1
            try:
                result = rule(*values)
            except WorkError:
                raise
            except RuleError as error:
                failed = True
                return _Failure(error)
            except FAULTS as error:
                failed = True
                return _Failure(unforeseen(error))
            return held.setdefault(id(result), _Held(result)) if type(result) is Case else result
        name = keys(state)
        if name in memo:
            return memo[name]
        if len(memo) > MOST_STEPS:
            raise EntangledError
        if type(care) is Case and care.choice.order < top.order:
            top = care.choice
        if work is not None:
            work.left -= 1.5 + top.outcomes / 4
            if work.left < 0:
                raise WorkError
        branches = [walk(below) for below in branches_of(state, top)]
        result = memo[name] = case(top, branches) if care is True else _join(top, branches)
        return result

    result = walk((under, *values))
    if held:
        result = _composed(result, list(held.values()))
    return result if not failed else _excused(result, under, given)


@dataclass(frozen=True, eq=False, slots=True)
class _Held:
    """A Case that stands as a leaf of another, until they are composed."""

    value: Case


def _composed(outer: Value, held: list[_Held]) -> Value:
    """A value whose leaves may be held Cases, which may test choices that come before those above them.

    All are walked together, so that it takes as long as the result is large.
    """
    within: dict[int, tuple[int, ...]] = {}
    memo: dict[Hashable, Value] = {}
    places = {id(one): place for place, one in enumerate(held)}

    def reach(value: Value) -> tuple[int, ...]:
        """The places of the Cases below a value."""
        if type(value) is _Held:
            return (places[id(value)],)
        if type(value) is not Case:
            return ()
        if id(value) not in within:
            within[id(value)] = tuple(sorted({place for branch in value.branches for place in reach(branch)}))
        return within[id(value)]

    def walk(value: Value, inner: tuple[Value, ...]) -> Value:
        """`inner` is what is left of the Cases at `reach(value)`."""
        if type(value) is not Case:
            return inner[0] if type(value) is _Held else value
        if not inner:
            return value
        name = value, keys(inner)
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            spend(2 + len(inner) + value.choice.outcomes / 2)
            top = min([value.choice, *(one.choice for one in inner if type(one) is Case)], key=order_of)
            left = dict(zip(reach(value), inner, strict=True))
            branches = []
            for outcome in range(top.outcomes):
                below = branch_of(value, top, outcome)
                branches.append(walk(below, tuple([branch_of(left[place], top, outcome) for place in reach(below)])))
            memo[name] = case(top, branches)
        return memo[name]

    return walk(outer, tuple([held[place].value for place in reach(outer)]))


def _join(choice: Choice, branches: list[Value]) -> Value:
    """A case whose branches may be unreachable, or failures: what stands for the unreachable is a value if one is."""
    filler = next((branch for branch in branches if branch is not NEVER and type(branch) is not _Failure), NEVER)
    return reachable(choice, branches, filler)


def _excused(result: Value, under: Value, given: Sequence[Value]) -> Value:
    """A result where no rule failed, if what is given rules the others out; raises the smallest failure if not."""
    failing = both(under, lift(lambda leaf: type(leaf) is _Failure, result))
    left = narrowed(failing, given)
    if left is False:
        fine = both(under, negate(failing))
        if fine is False:
            raise Excluded
        return lift(lambda leaf: leaf, result, under=fine)
    found = smallest(left, lambda leaf: leaf is True)
    assert found is not None, "a rule failed at a combination that is reachable"
    about = set(support(failing))
    found = {choice: outcome for choice, outcome in found.items() if choice in about}
    leaf = at(result, {choice.path: outcome for choice, outcome in found.items()})
    raise CaseError(leaf.error, found)
