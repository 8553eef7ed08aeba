"""Derivation: converts architecture parameters to an architecture.

The rule depends only on the kind of a choice and the strengths of its alternatives. A choice of one alternative takes
the strongest one. A choice of several takes the strongest ones, where the strength of an alternative that contains
another choice is its own strength times that of the inner choice's strongest alternative (Liu et al. 2019, DARTS,
section 2.4). Choices are decided in order of decreasing strength; if constraints exclude an alternative, the next
strongest is taken. A rule such as "the two strongest, at least one of them a feature" (Li et al., Neural Operator
Search, section 3.3) is not built in: a `where` of the space expresses it.

This is the rule of the papers, and it is used whenever it yields an architecture. If it does not, because earlier
decisions leave another choice with no alternative or only excluded ones, all choices are decided together. The same
applies to spaces with bounds on costs: the result is then provably the architecture within the bounds with the smallest
loss of strength.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial, reduce
from math import inf, log, prod
from operator import add
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import work_budget
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, Value, fix_choice, outcome_in, support, value_at
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Decision
from archir.spaces.architecture import Architecture
from archir.spaces.counting import Factors
from archir.spaces.space import Space

Result = TypeVar("Result")
Strengths = Mapping[str, Sequence[float]]
"""Strengths (at least 0) of the alternatives of choices, by path.

If a choice is missing, its alternatives are equally strong.
"""

MAX_COMPARED = 20_000
"""Maximum number of architectures that are compared if exact optimisation within the bounds is impossible.

Exact optimisation is impossible if a bound is not on a sum of costs, or if the size limit of decision diagrams is
exceeded. If the space has at most this many architectures, all of them are compared.
"""
MIN_STRENGTH = 1e-30
"""Minimum strength, to which smaller ones are raised.

Alternatives of strength 0 are thus taken only if necessary.
"""
MAX_CLIMBING_STEPS = 200
"""Maximum number of steps of hill climbing, which starts from the best sampled architecture."""


def derive(
    space: Space, strengths: Strengths, exclude: Collection[str] = (), also: Sequence[Value] = ()
) -> Architecture:
    """Return the strongest architecture without the alternatives `exclude` that satisfies the conditions `also`.

    Alternatives are excluded by their labels. Choices are decided in order of decreasing strength, if that yields an
    architecture without alternatives of strength 0. Otherwise, and always for spaces with bounds on costs, the result
    has the smallest loss: it maximises the product, over all taken alternatives, of the strength divided by the largest
    strength in the same choice. Raises ArchError: A2101 (the constraints leave no architecture), A3301 (no architecture
    is within the bounds).
    """
    problem = space, strengths, frozenset(exclude), also
    try:
        first = _Derivation(*problem)
        outcomes = first.strongest_first()
        outcomes = _Derivation(*problem).smallest_loss() if first.has_zero_strength(outcomes) else outcomes
    except ArchError:  # earlier decisions left no alternative of another choice
        outcomes = _Derivation(*problem).smallest_loss()
    architecture = space.decode(
        space.encode({c.path: c.label(outcomes[c.path]) for c in space.choices if c.path in outcomes})
    )
    return _Derivation(*problem).within_bounds(architecture) if space.has_cost_bounds else architecture


def check_derivable(space: Space, exclude: Collection[str] = (), also: Sequence[Value] = ()) -> None:
    """Raise ArchError (A1603, A2101, A3301) if it can be proved that `derive` fails for all strengths."""
    from archir.spaces.optimal.strongest import require_feasible

    space.check_bounds()
    _Derivation(space, {}, frozenset(exclude), also).without_excluded(require_feasible)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An alternative of a choice; if it contains exactly one further choice, with one of that choice's outcomes."""

    strength: float
    alternative: int
    inner: tuple[Choice, int] | None = None


class _Derivation:
    """State of one derivation: the outcomes decided so far, and the remaining conditions."""

    def __init__(self, space: Space, strengths: Strengths, exclude: frozenset[str], also: Sequence[Value] = ()) -> None:
        self.space, self.strengths, self.exclude, self.also = space, strengths, exclude, also
        self.decided: dict[str, int] = {}
        self._candidate_cache: dict[str, list[_Candidate]] = {}
        conditions = [*(c.condition for c in space.graph.constraints if c.cost is None), *also]
        self.remaining = [condition for condition in conditions if condition is not True]

    def strongest_first(self) -> dict[str, int]:
        """Decide the active choices in order of decreasing strength; return the outcomes by path."""
        pending = {decision.choice.path: decision for decision in self.space.order}
        while pending:
            ready = [d for d in pending.values() if not any(c.path in pending for c in support(d.active))]
            active = [
                d.choice
                for d in ready
                if value_at(d.active, self.decided) is True and d.choice.path not in self.decided
            ]
            for decision in ready:
                if decision.choice not in active:
                    del pending[decision.choice.path]
            if active:
                choice = max(active, key=self._max_strength)
                if choice.k is None:
                    self._take_one(choice)
                else:
                    self._take_several(choice, choice.k)
        return {
            d.choice.path: self.decided[d.choice.path]
            for d in self.space.order
            if value_at(d.active, self.decided) is True
        }

    def _max_strength(self, choice: Choice) -> float:
        """Return the strength of a choice's strongest candidate.

        For a choice without strengths, returns -1, so that it is decided last.
        """
        has_strengths = choice.path in self.strengths  # choices without strengths are decided last
        return max((candidate.strength for candidate in self._candidates(choice)), default=0) if has_strengths else -1

    def strength(self, choice: Choice, alternative: int) -> float:
        """Return the strength of an alternative itself, without choices inside it; 0 if it is excluded."""
        if str(choice.alternatives[alternative]) in self.exclude:
            return 0.0
        strengths = self.strengths.get(choice.path)
        return float(strengths[alternative]) if strengths is not None else 1.0

    def _take_one(self, choice: Choice) -> None:
        """Decide a choice of one alternative."""
        ranked = sorted(range(choice.outcome_count), key=lambda i: -self.strength(choice, i))
        for outcome in (i for i in ranked if not self._is_excluded(choice, i)):
            if self._is_possible({choice: outcome}):
                return self._decide({choice: outcome})
        raise self._no_alternative(choice)

    def _take_several(self, choice: Choice, take: int) -> None:
        """Decide a choice of several alternatives: the strongest first, then those that can be combined with it."""
        candidates = sorted(self._candidates(choice), key=lambda candidate: -candidate.strength)
        taken: list[_Candidate] = []
        while len(taken) < take:
            used = {candidate.alternative for candidate in taken}
            strongest = next(
                (c for c in candidates if c.alternative not in used and self._can_take(choice, [*taken, c])), None
            )
            if strongest is None:
                raise self._no_alternative(choice)
            taken.append(strongest)
        outcome = self._outcomes(choice, taken)[0]
        self._decide({choice: outcome, **dict(c.inner for c in taken if c.inner is not None)})

    def _candidates(self, choice: Choice) -> list[_Candidate]:
        """Return the candidates of all alternatives of a choice."""
        if choice.path not in self._candidate_cache:
            alternatives = range(len(choice.alternatives))
            self._candidate_cache[choice.path] = [c for i in alternatives for c in self._candidates_of(choice, i)]
        return self._candidate_cache[choice.path]

    def _candidates_of(self, choice: Choice, alternative: int) -> Iterable[_Candidate]:
        """Return the candidates of one alternative."""
        if self._is_excluded(choice, alternative):
            return []
        own = self.strength(choice, alternative)
        inner = [decision.choice for decision in self._choices_inside(choice, alternative)]
        if len(inner) == 1 and inner[0].k is None:
            (only,) = inner
            options = [i for i in range(only.outcome_count) if not self._is_excluded(only, i)]
            return [_Candidate(own * self.strength(only, i), alternative, (only, i)) for i in options]
        strongest = (max(self.strength(each, i) for i in range(len(each.alternatives))) for each in inner)
        return [_Candidate(own * prod(strongest), alternative)]

    def _choices_inside(self, choice: Choice, alternative: int) -> list[Decision]:
        """Return the choices that are active exactly if an alternative is taken, whatever else is chosen."""
        taken = [o for o, subset in enumerate(choice.subsets) if alternative in subset]
        others = [o for o in range(choice.outcome_count) if o not in taken]
        return [
            decision
            for decision in self.space.order
            if support(decision.active) == [choice]
            and all(fix_choice(decision.active, choice, o) is True for o in taken)
            and not any(fix_choice(decision.active, choice, o) is True for o in others)
        ]

    def _is_excluded(self, choice: Choice, alternative: int) -> bool:
        """Return True if an alternative's label is among the excluded ones."""
        return str(choice.alternatives[alternative]) in self.exclude

    def _outcomes(self, choice: Choice, taken: Sequence[_Candidate]) -> list[int]:
        """Return those outcomes of a choice (subsets of its alternatives) that contain all taken alternatives."""
        wanted = {candidate.alternative for candidate in taken}
        return [outcome for outcome, subset in enumerate(choice.subsets) if wanted <= set(subset)]

    def _can_take(self, choice: Choice, taken: Sequence[_Candidate]) -> bool:
        """Return True if some outcome that contains the taken alternatives violates no condition."""
        inner = dict(candidate.inner for candidate in taken if candidate.inner is not None)
        return any(self._is_possible({choice: outcome, **inner}) for outcome in self._outcomes(choice, taken))

    def _is_possible(self, outcomes: Mapping[Choice, int]) -> bool:
        """Return True if no remaining condition becomes false when these outcomes are decided."""
        return all(_substitute(condition, outcomes) is not False for condition in self.remaining)

    # deciding all choices together

    def has_zero_strength(self, outcomes: Mapping[str, int]) -> bool:
        """Return True if these outcomes take an alternative of strength 0."""
        active = [choice for choice in self.space.choices if choice.path in outcomes]
        return any(self.strength(choice, i) <= 0 for choice in active for i in choice.subsets[outcomes[choice.path]])

    def smallest_loss(self) -> dict[str, int]:
        """Return the outcomes with the smallest loss of strength, ignoring bounds on costs.

        They maximise the product of strengths, each divided by the largest strength in its choice. The result is exact,
        by variable elimination as in `archir.spaces.counting`, with maxima in place of sums. Without constraints, the
        loss is zero, and the outcomes are those of `strongest_first`.
        """
        with work_budget():
            return self._eliminate(
                Factors(lift(lambda is_met: 0.0 if is_met else -inf, condition) for condition in self.remaining)
            )

    def _eliminate(self, factors: Factors) -> dict[str, int]:
        """Eliminate the choices from last to first, then read off the best outcomes from first to last."""
        weights_by_path: dict[str, Value] = {}
        for decision in reversed(self.space.order):
            choice = decision.choice
            others: Value = reduce(lambda left, right: lift(add, left, right), factors.pop(choice), 0.0)
            losses = self._losses(choice)
            weights = [lift(partial(add, loss), fix_choice(others, choice, i)) for i, loss in enumerate(losses)]
            weights_by_path[choice.path] = lift(lambda *parts: parts, *weights)
            factors.add(
                if_else(decision.active, lift(lambda *parts: max(parts), *weights), fix_choice(others, choice, 0))
            )
        outcomes: dict[str, int] = {}
        for decision in self.space.order:
            if value_at(decision.active, outcomes) is True:
                weights = value_at(weights_by_path[decision.choice.path], outcomes)
                if max(weights) == -inf:
                    raise self._no_alternative(decision.choice)
                outcomes[decision.choice.path] = weights.index(max(weights))
        return outcomes

    def _losses(self, choice: Choice) -> list[float]:
        """Return, for each outcome, the logarithm of its strength divided by the largest; -inf for excluded
        outcomes."""
        if choice.k is None:
            strengths = [self.strength(choice, i) for i in range(choice.outcome_count)]
        else:
            each = [
                max((c.strength for c in self._candidates_of(choice, i)), default=0.0)
                for i in range(len(choice.alternatives))
            ]
            strengths = [prod(max(each[i], MIN_STRENGTH) for i in subset) for subset in choice.subsets]
        is_excluded = [any(self._is_excluded(choice, i) for i in subset) for subset in choice.subsets]
        largest = max((s for s, excluded in zip(strengths, is_excluded, strict=True) if not excluded), default=1.0)
        return [
            -inf if excluded else log(max(s, MIN_STRENGTH) / max(largest, MIN_STRENGTH))
            for s, excluded in zip(strengths, is_excluded, strict=True)
        ]

    def within_bounds(self, first: Architecture) -> Architecture:
        """Return the architecture with the smallest loss that satisfies the bounds on costs.

        `first` is the result without these bounds.
        """
        from archir.spaces.optimal.strongest import strongest

        losses = {choice.path: self._losses(choice) for choice in self.space.choices}
        is_within = self.space.within(first)
        if is_within and not any(losses[path][outcome] for path, outcome in first.outcomes.items()):
            return first

        def best_within(bounds: Space) -> Architecture:
            best = strongest(bounds, losses)
            return best if best is not None else first if is_within else self._search_within(bounds)

        return self.space.decode(self.without_excluded(best_within).codes)

    def without_excluded(self, function: Callable[[Space], Result]) -> Result:
        """Return the result of calling `function` on the space without the excluded alternatives.

        Raises ArchError (A2101) if `function` raises ArchError and conditions or exclusions may be the cause.
        """
        added = [Constraint(condition) for condition in (*self.also, *self._exclusions())]
        graph = copy(self.space.graph)
        graph.constraints = [*graph.constraints, *added]
        try:
            return function(Space(graph))
        except ArchError as error:
            if not added:
                raise
            why = error.diagnostics[0].message
            raise fail("A2101", f"nothing can be derived without the excluded alternatives: {why}") from error

    def _search_within(self, bounds: Space) -> Architecture:
        """Return the architecture with the smallest loss among those within the bounds.

        If there are too many architectures, only many samples and their neighbours are compared.
        """
        unbounded = bounds.unbounded
        is_small = unbounded.satisfying <= MAX_COMPARED
        codes = (
            _enumerate_within(unbounded, bounds)
            if is_small
            else bounds.sample_codes(MAX_COMPARED, np.random.default_rng(0))
        )
        if not len(codes):
            bounds.check_bounds()
            raise fail("A2101", "nothing can be derived: no architecture keeps all bounds on costs")
        losses = [np.array([*self._losses(choice), 0.0]) for choice in self.space.choices]  # index -1: inactive

        def total_loss(codes: NDArray[np.int16]) -> NDArray[np.float64]:
            totals: NDArray[np.float64] = sum(
                (each[codes[:, i]] for i, each in enumerate(losses)), np.zeros(len(codes))
            )
            return totals

        best = codes[int(np.argmax(total_loss(codes)))]
        for _ in range(0 if is_small else MAX_CLIMBING_STEPS):
            neighbors = np.array([neighbor.codes for neighbor in bounds.neighbors(bounds.decode(best))], np.int16)
            if not len(neighbors) or total_loss(neighbors).max() <= total_loss(best[None])[0]:
                break
            best = neighbors[int(np.argmax(total_loss(neighbors)))]
        return bounds.decode(best)

    def _exclusions(self) -> Iterable[Value]:
        """Yield, for each excluded alternative, the condition that it is not taken."""
        for decision in self.space.order:
            choice = decision.choice
            allowed = [
                o for o, subset in enumerate(choice.subsets) if not any(self._is_excluded(choice, i) for i in subset)
            ]
            if len(allowed) < choice.outcome_count:
                yield if_else(decision.active, outcome_in(choice, allowed), True)

    def _decide(self, outcomes: Mapping[Choice, int]) -> None:
        """Record decided outcomes, and simplify the remaining conditions."""
        self.decided |= {choice.path: outcome for choice, outcome in outcomes.items()}
        self.remaining = [condition for c in self.remaining if (condition := _substitute(c, outcomes)) is not True]

    def _no_alternative(self, choice: Choice) -> Exception:
        """Return the error that none of a choice's alternatives can be taken."""
        names = ", ".join(sorted(self.exclude & {str(label) for label in choice.alternatives}))
        hint = f"excluded: {names}" if names else "earlier decisions rule out every alternative"
        return fail("A2101", f"nothing can be derived for `{choice.path}`", choice.span, hint)


def _enumerate_within(free: Space, bounds: Space) -> NDArray[np.int16]:
    """Return the codes of all architectures of `free` that satisfy the bounds of another space."""
    codes = np.array([architecture.codes for architecture in free.enumerate()], np.int16)
    return codes[bounds.bounds_mask(codes)]


def _substitute(condition: Value, outcomes: Mapping[Choice, int]) -> Value:
    """Return a condition with these outcomes substituted for the choices."""
    for choice in support(condition):
        if choice in outcomes:
            condition = fix_choice(condition, choice, outcomes[choice])
    return condition
