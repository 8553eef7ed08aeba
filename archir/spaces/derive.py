"""The architecture that architecture parameters stand for.

What is derived depends on the form of a choice and the strength of its alternatives alone. One of several: the
strongest. Several at once: the strongest ones, where an alternative that holds a further choice is as strong as its
weight times the strongest alternative in there (Liu et al. 2019, DARTS, section 2.4). Constraints are kept by taking
the next strongest instead, the strongest being taken first: "the two strongest, at least one of them a feature" (Li et
al., Neural Operator Search, section 3.3) is a space's `where`, not a rule of its own.

This is the rule of the papers, and it is followed wherever it comes to an architecture. Where it does not, because what
was taken first leaves nothing of another choice, or only what is not to be taken, all choices are decided together. So
they are where there are bounds on costs: what is derived gives up least of all that is within them, and that is proved.
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
from archir.diagnostics.work import bounded
from archir.diagrams.cases import Choice, Value, at, fix, support, when
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Decision
from archir.spaces.architecture import Architecture
from archir.spaces.counting import Factors
from archir.spaces.optimal.strongest import check_some, strongest
from archir.spaces.space import Space

Found = TypeVar("Found")
Strengths = Mapping[str, Sequence[float]]
"""By path, how strong each alternative of a choice is, 0 or more. Choices that are missing have equal ones."""

DRAWS = 20_000
"""Architectures that are looked at where bounds on costs are no sums, or choices are too entangled: all, if there are
no more."""
LEAST = 1e-30
"""What strengths of 0 count as: not to be taken where anything else can be."""
CLIMBS = 200
"""Steps from the best of them to better neighbours, at most."""


def derive(
    space: Space, strengths: Strengths, exclude: Collection[str] = (), also: Sequence[Value] = ()
) -> Architecture:
    """The strongest architecture; alternatives with labels in `exclude` are not taken, conditions in `also` hold.

    Strongest first, if that comes to an architecture without alternatives of strength 0; else the one that gives up
    least: strengths that are taken, each by the greatest of its choice, have the largest product. So it is always where
    there are bounds on costs. Raises ArchError: A2101 (the constraints leave nothing to derive), A3301 (nothing is
    within the bounds).
    """
    given = space, strengths, frozenset(exclude), also
    try:
        first = _Derivation(*given)
        found = first.result()
        found = _Derivation(*given).best() if first.gives_up(found) else found
    except ArchError:  # what was taken first left nothing of something else
        found = _Derivation(*given).best()
    architecture = space.decode(
        space.encode({c.path: c.label(found[c.path]) for c in space.choices if c.path in found})
    )
    return _Derivation(*given).within_bounds(architecture) if space.bounded else architecture


def check_derivable(space: Space, exclude: Collection[str] = (), also: Sequence[Value] = ()) -> None:
    """Raise ArchError (A1603, A2101, A3301) if it is known that nothing can be derived, whatever is strong."""
    space.prove()
    _Derivation(space, {}, frozenset(exclude), also).within(check_some)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An alternative of a choice, maybe with the outcome of the only choice inside it."""

    strength: float
    alternative: int
    inner: tuple[Choice, int] | None = None


class _Derivation:
    def __init__(self, space: Space, strengths: Strengths, exclude: frozenset[str], also: Sequence[Value] = ()) -> None:
        self.space, self.strengths, self.exclude, self.also = space, strengths, exclude, also
        self.known: dict[str, int] = {}
        self._known_candidates: dict[str, list[_Candidate]] = {}
        conditions = [*(c.condition for c in space.graph.constraints if c.cost is None), *also]
        self.left = [condition for condition in conditions if condition is not True]

    def result(self) -> dict[str, int]:
        """Strongest first, of the choices that are known to be there."""
        pending = {decision.choice.path: decision for decision in self.space.order}
        while pending:
            ready = [d for d in pending.values() if not any(c.path in pending for c in support(d.active))]
            there = [d.choice for d in ready if at(d.active, self.known) is True and d.choice.path not in self.known]
            for decision in ready:
                if decision.choice not in there:
                    del pending[decision.choice.path]
            if there:
                choice = max(there, key=self._best)
                if choice.take is None:
                    self._take_one(choice)
                else:
                    self._take_several(choice, choice.take)
        return {d.choice.path: self.known[d.choice.path] for d in self.space.order if at(d.active, self.known) is True}

    def _best(self, choice: Choice) -> float:
        known = choice.path in self.strengths  # what nothing is known of can wait
        return max((candidate.strength for candidate in self._candidates(choice)), default=0) if known else -1

    def strength(self, choice: Choice, alternative: int) -> float:
        """How strong an alternative is by itself; 0 for what is excluded."""
        if str(choice.alternatives[alternative]) in self.exclude:
            return 0.0
        given = self.strengths.get(choice.path)
        return float(given[alternative]) if given is not None else 1.0

    def _take_one(self, choice: Choice) -> None:
        ranked = sorted(range(choice.outcomes), key=lambda i: -self.strength(choice, i))
        for outcome in (i for i in ranked if not self._excluded(choice, i)):
            if self._possible({choice: outcome}):
                return self._decide({choice: outcome})
        raise self._nothing(choice)

    def _take_several(self, choice: Choice, take: int) -> None:
        """The strongest alternative first, with the others that go together with it."""
        candidates = sorted(self._candidates(choice), key=lambda candidate: -candidate.strength)
        taken: list[_Candidate] = []
        while len(taken) < take:
            used = {candidate.alternative for candidate in taken}
            found = next((c for c in candidates if c.alternative not in used and self._fits(choice, [*taken, c])), None)
            if found is None:
                raise self._nothing(choice)
            taken.append(found)
        outcome = self._outcomes(choice, taken)[0]
        self._decide({choice: outcome, **dict(c.inner for c in taken if c.inner is not None)})

    def _candidates(self, choice: Choice) -> list[_Candidate]:
        if choice.path not in self._known_candidates:
            alternatives = range(len(choice.alternatives))
            self._known_candidates[choice.path] = [c for i in alternatives for c in self._candidates_of(choice, i)]
        return self._known_candidates[choice.path]

    def _candidates_of(self, choice: Choice, alternative: int) -> Iterable[_Candidate]:
        if self._excluded(choice, alternative):
            return []
        own = self.strength(choice, alternative)
        inner = [decision.choice for decision in self._inside(choice, alternative)]
        if len(inner) == 1 and inner[0].take is None:
            (only,) = inner
            options = [i for i in range(only.outcomes) if not self._excluded(only, i)]
            return [_Candidate(own * self.strength(only, i), alternative, (only, i)) for i in options]
        strongest = (max(self.strength(each, i) for i in range(len(each.alternatives))) for each in inner)
        return [_Candidate(own * prod(strongest), alternative)]

    def _inside(self, choice: Choice, alternative: int) -> list[Decision]:
        """The choices that are there only if an alternative is taken, and are there whatever else is chosen."""
        taken = [o for o, subset in enumerate(choice.subsets) if alternative in subset]
        others = [o for o in range(choice.outcomes) if o not in taken]
        return [
            decision
            for decision in self.space.order
            if support(decision.active) == [choice]
            and all(fix(decision.active, choice, o) is True for o in taken)
            and not any(fix(decision.active, choice, o) is True for o in others)
        ]

    def _excluded(self, choice: Choice, alternative: int) -> bool:
        return str(choice.alternatives[alternative]) in self.exclude

    def _outcomes(self, choice: Choice, taken: Sequence[_Candidate]) -> list[int]:
        wanted = {candidate.alternative for candidate in taken}
        return [outcome for outcome, subset in enumerate(choice.subsets) if wanted <= set(subset)]

    def _fits(self, choice: Choice, taken: Sequence[_Candidate]) -> bool:
        inner = dict(candidate.inner for candidate in taken if candidate.inner is not None)
        return any(self._possible({choice: outcome, **inner}) for outcome in self._outcomes(choice, taken))

    def _possible(self, outcomes: Mapping[Choice, int]) -> bool:
        """Whether no constraint is broken by this alone."""
        return all(_under(condition, outcomes) is not False for condition in self.left)

    # all together

    def gives_up(self, found: Mapping[str, int]) -> bool:
        """Whether something is taken that has no strength."""
        there = [choice for choice in self.space.choices if choice.path in found]
        return any(self.strength(choice, i) <= 0 for choice in there for i in choice.subsets[found[choice.path]])

    def best(self) -> dict[str, int]:
        """What gives up least: strengths that are taken, each by the greatest of its choice, have the largest product.

        Exact, by elimination as of `archir.spaces.counting`, with the largest in the place of the sum. Without
        constraints nothing is given up, and this is what `result` takes.
        """
        with bounded():
            return self._eliminated(Factors(lift(lambda fine: 0.0 if fine else -inf, one) for one in self.left))

    def _eliminated(self, factors: Factors) -> dict[str, int]:
        weighed: dict[str, Value] = {}
        for decision in reversed(self.space.order):
            choice = decision.choice
            others: Value = reduce(lambda one, other: lift(add, one, other), factors.taken(choice), 0.0)
            losses = self._losses(choice)
            weights = [lift(partial(add, loss), fix(others, choice, i)) for i, loss in enumerate(losses)]
            weighed[choice.path] = lift(lambda *parts: parts, *weights)
            factors.add(if_else(decision.active, lift(lambda *parts: max(parts), *weights), fix(others, choice, 0)))
        found: dict[str, int] = {}
        for decision in self.space.order:
            if at(decision.active, found) is True:
                weights = at(weighed[decision.choice.path], found)
                if max(weights) == -inf:
                    raise self._nothing(decision.choice)
                found[decision.choice.path] = weights.index(max(weights))
        return found

    def _losses(self, choice: Choice) -> list[float]:
        """The logarithms of how strong outcomes are beside the strongest; minus infinity for what is excluded."""
        if choice.take is None:
            strengths = [self.strength(choice, i) for i in range(choice.outcomes)]
        else:
            each = [
                max((c.strength for c in self._candidates_of(choice, i)), default=0.0)
                for i in range(len(choice.alternatives))
            ]
            strengths = [prod(max(each[i], LEAST) for i in subset) for subset in choice.subsets]
        out = [any(self._excluded(choice, i) for i in subset) for subset in choice.subsets]
        most = max((s for s, gone in zip(strengths, out, strict=True) if not gone), default=1.0)
        return [-inf if gone else log(max(s, LEAST) / max(most, LEAST)) for s, gone in zip(strengths, out, strict=True)]

    def within_bounds(self, first: Architecture) -> Architecture:
        """What gives up least and keeps the bounds on costs, too; `first` is what is taken without them."""
        losses = {choice.path: self._losses(choice) for choice in self.space.choices}
        fine = self.space.within(first)
        if fine and not any(losses[path][outcome] for path, outcome in first.outcomes.items()):
            return first

        def found(bounds: Space) -> Architecture:
            best = strongest(bounds, losses)
            return best if best is not None else first if fine else self._looked_for(bounds)

        return self.space.decode(self.within(found).codes)

    def within(self, of: Callable[[Space], Found]) -> Found:
        """What a function says of the space without what is excluded. Raises ArchError (A2101) if it finds nothing."""
        added = [Constraint(condition) for condition in (*self.also, *self._excluding())]
        graph = copy(self.space.graph)
        graph.constraints = [*graph.constraints, *added]
        try:
            return of(Space(graph))
        except ArchError as error:
            if not added:
                raise
            why = error.diagnostics[0].message
            raise fail("A2101", f"nothing can be derived: of what is not excluded, {why}") from error

    def _looked_for(self, bounds: Space) -> Architecture:
        """What gives up least of all within the bounds, or of many draws and their neighbours."""
        without = bounds.unbounded
        listed = without.satisfying <= DRAWS
        codes = _listed(without, bounds) if listed else bounds.sample_codes(DRAWS, np.random.default_rng(0))
        if not len(codes):
            bounds.prove()
            raise fail("A2101", "nothing can be derived: no architecture keeps all bounds on costs")
        losses = [np.array([*self._losses(choice), 0.0]) for choice in self.space.choices]  # the last: not there

        def kept(codes: NDArray[np.int16]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = sum((each[codes[:, i]] for i, each in enumerate(losses)), np.zeros(len(codes)))
            return found

        best = codes[int(np.argmax(kept(codes)))]
        for _ in range(0 if listed else CLIMBS):
            near = np.array([one.codes for one in bounds.neighbors(bounds.decode(best))], np.int16)
            if not len(near) or kept(near).max() <= kept(best[None])[0]:
                break
            best = near[int(np.argmax(kept(near)))]
        return bounds.decode(best)

    def _excluding(self) -> Iterable[Value]:
        """The conditions that nothing is taken that is excluded."""
        for decision in self.space.order:
            choice = decision.choice
            fine = [o for o, subset in enumerate(choice.subsets) if not any(self._excluded(choice, i) for i in subset)]
            if len(fine) < choice.outcomes:
                yield if_else(decision.active, when(choice, fine), True)

    def _decide(self, outcomes: Mapping[Choice, int]) -> None:
        self.known |= {choice.path: outcome for choice, outcome in outcomes.items()}
        self.left = [condition for c in self.left if (condition := _under(c, outcomes)) is not True]

    def _nothing(self, choice: Choice) -> Exception:
        names = ", ".join(sorted(self.exclude & {str(label) for label in choice.alternatives}))
        hint = f"excluded: {names}" if names else "what was derived before rules out every alternative"
        return fail("A2101", f"nothing can be derived for `{choice.path}`", choice.span, hint)


def _listed(free: Space, bounds: Space) -> NDArray[np.int16]:
    """Of all architectures of a space those that keep the bounds of another."""
    codes = np.array([one.codes for one in free.enumerate()], np.int16)
    return codes[bounds.keeping(codes)]


def _under(condition: Value, outcomes: Mapping[Choice, int]) -> Value:
    for choice in support(condition):
        if choice in outcomes:
            condition = fix(condition, choice, outcomes[choice])
    return condition
