"""Search space: all architectures of a graph, counted exactly and sampled uniformly without building any."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from archir.costs.tables import Codes
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.escaping import escape_to_line
from archir.diagrams.conditions import check_satisfiable, conjoin, disjoin, negate
from archir.diagrams.diagram import MAX_CHOICES, Diagram, Value, leaves, outcome_in, support, value_at
from archir.diagrams.lifting import lift
from archir.ir.contradictions import contradiction
from archir.ir.graph import Constraint, Decision, Graph
from archir.passes.specialize import specialize
from archir.spaces.architecture import Architecture, encode_labels
from archir.spaces.counting import (
    CountingProgram,
    compile_program,
    relevant_decisions,
    sampling_order,
    try_quickly,
)
from archir.spaces.rows import MAX_BATCH, Policy, RowSampler, rejection_sample
from archir.utils.counts import count_noun, inflect, round_count
from archir.utils.distributions import Distribution

if TYPE_CHECKING:  # counting and sampling need no costs, and no hashes
    from archir.costs.account import Account
    from archir.equivalence.canonical import Canonical
    from archir.spaces.bounds import Bounds

MAX_PROOF_STEPS = 200
"""Maximum number of steps in the search for an architecture that satisfies the constraints.

If the search needs more steps, all architectures that satisfy the constraints are counted instead.
"""
MAX_TRIES = 10_000
"""Maximum number of changes that `mutate` tries to find one that satisfies the constraints."""
MAX_REPEATS = 1_000
"""Maximum number of consecutive samples that compute the function of an earlier sample; each may need a canonical hash,
which takes milliseconds."""
MAX_COUNTED = 50_000
"""Maximum number of architectures that are enumerated to count those within bounds.

Used if the bounds are not all ranges.
"""
MAX_CACHED_HASHES = 100_000
"""Maximum number of cached canonical hashes."""
MAX_FIXED_PROGRAMS = 64
"""Maximum number of cached programs of architectures with fixed outcomes."""
MAX_ENUMERATED = 1_000_000
"""Default for the maximum number of architectures that may be enumerated."""
Fallback = Callable[[int, Sequence[int]], int]
"""Function that picks one of the possible outcomes of the choice at a position."""


class Space:
    """Search space: the architectures of a graph.

    Randomness comes from a seed or generator in the arguments: `random.Random` for single architectures,
    `numpy.random.Generator` for arrays. Attributes: `graph` is the graph of the whole space, with choices as `select`
    nodes; `choices` lists the choices, each with `path`, `alternatives`, `k` and `tags`.

    Examples:
        >>> space = archir.load("space.arch")
        >>> space.size, [choice.path for choice in space.choices][:2]
        (20, ['depth', 'op[0]'])
        >>> one = space.sample(seed=0)
        >>> one in set(space.neighbors(space.mutate(one, seed=1)))
        True
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order: list[Decision] = sampling_order(graph.decisions.values())
        self.choices = [decision.choice for decision in self.order]
        self._rows = RowSampler(self.order)
        self._bounds = [c for c in graph.constraints if c.cost is not None]
        self._named_bounds = self._bounds  # they say from which files costs such as `latency("cpu.json")` are read

    def __repr__(self) -> str:
        size = try_quickly(lambda: self.size)
        architectures = f"{'many' if size is None else round_count(size)} {inflect('architecture', size)}"
        bounds = "".join(f", {bound.text}" for bound in self._bounds[:3])
        choices = count_noun(len(self.choices), "choice")
        return escape_to_line(f"<Space {self.name}: {architectures}{bounds}, {choices}, {self.graph.signature}>")

    @property
    def name(self) -> str:
        """Name of the net."""
        return self.graph.name

    # size

    @cached_property
    def size(self) -> int:
        """Number of architectures of the space as `where` lines define it, ignoring every `require`."""
        return compile_program(self.order, self._conditions("where")).size

    @cached_property
    def _program(self) -> CountingProgram:
        """Number of architectures, and distributions to sample from, under all constraints on choices.

        Raises ArchError (A0510) if no architecture satisfies the constraints.
        """
        program = compile_program(self.order, self._conditions("where", "require"))
        if program.size == 0:
            self.check_satisfiable()
        return program

    def check_satisfiable(self) -> None:
        """Raise ArchError (A0510), naming a minimal set of contradictory constraints, if no architecture satisfies all.

        Only constraints on choices are considered.
        """
        constraints = [
            constraint
            for constraint in self.graph.constraints
            if constraint.cost is None and constraint.condition is not True
        ]
        if self._is_unsatisfiable(constraints):
            raise ArchError(contradiction(constraints, self._is_unsatisfiable))

    def _is_unsatisfiable(self, constraints: Sequence[Constraint]) -> bool:
        """Return True if no architecture satisfies these constraints; choices that they do not depend on are
        ignored."""
        conditions = [item.condition for item in constraints]
        needed = relevant_decisions(self.order, conditions)
        inactive_outcomes = [
            disjoin(item.active, outcome_in(item.choice, [0])) for item in needed if item.active is not True
        ]
        # an inactive choice is represented by its first outcome
        if len(needed) <= MAX_CHOICES and check_satisfiable([*conditions, *inactive_outcomes], MAX_PROOF_STEPS):
            return False
        return compile_program(needed, conditions).size == 0

    @property
    def satisfying(self) -> int:
        """Number of architectures that satisfy all constraints on choices, including every `require`.

        Raises ArchError (A0510) if there is none.
        """
        return self._program.size

    @property
    def has_cost_bounds(self) -> bool:
        """True if the space has bounds on costs, which `size` and `satisfying` ignore."""
        return bool(self._bounds)

    def count_where(self, condition: Value) -> int:
        """Return the number of architectures for which a condition holds; bounds on costs are ignored."""
        conditions = [constraint.condition for constraint in self.graph.constraints if constraint.cost is None]
        return compile_program(self.order, [*conditions, condition]).size

    def _conditions(self, *words: str) -> list[Value]:
        """Return the conditions of those constraints on choices that have one of these keywords."""
        return [c.condition for c in self.graph.constraints if c.keyword in words and c.cost is None]

    # single architectures

    def sample(self, seed: int | random.Random = 0, policy: Policy = "architectures") -> Architecture:
        """Sample an architecture that satisfies all constraints, uniformly over architectures.

        With `policy="choices"`, the choices are sampled in order, each uniformly over its possible outcomes.
        """
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        if self._bounds:
            return self.decode(self.sample_codes(1, np.random.default_rng(rng.getrandbits(64)), policy)[0])
        return self._architecture_of(self._complete([-2] * len(self.order), rng, policy))

    def mutate(self, architecture: Architecture, seed: int | random.Random = 0) -> Architecture:
        """Return an architecture that differs in one uniformly sampled choice.

        Choices that become active are sampled, too. Raises ArchError (A1006) if no neighbour is found that satisfies
        the constraints.
        """
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        codes = architecture.codes
        open_ = [i for i, code in enumerate(codes) if code >= 0 and self.choices[i].outcome_count > 1]
        for _ in range(MAX_TRIES if open_ else 0):
            position = rng.choice(open_)
            outcome = rng.randrange(self.choices[position].outcome_count - 1)
            outcome += outcome >= codes[position]
            changed = [*codes[:position], outcome, *codes[position + 1 :]]
            if not self.is_independent[position]:
                dependents = self._dependents[position]
                draft = [-2 if i in dependents else code for i, code in enumerate(changed)]
                changed = self._complete(draft, rng, keep=codes)
                if not self._satisfies_constraints(changed):
                    continue
            mutant = self._architecture_of(changed)
            if not self._bounds or self.within(mutant):
                return mutant
        raise fail("A1006", "this architecture has no neighbour that satisfies the constraints")

    def repair(self, preferred: Sequence[int] | Mapping[int, int], rng: random.Random) -> Architecture:
        """Return an architecture in which each choice has its preferred outcome, if the constraints on choices allow
        it.

        If they do not, or if the preference is -1, one of the possible outcomes is sampled uniformly. The result may
        violate bounds on costs.
        """
        return self._architecture_of(self.repair_codes(preferred, random_fallback(rng)))

    def repair_codes(self, preferred: Sequence[int] | Mapping[int, int], fallback: Fallback) -> tuple[int, ...]:
        """Return the codes of a repaired architecture (see `repair`); `fallback` picks outcomes where preferences
        fail."""
        codes = [-1] * len(self.order)
        outcomes: dict[str, int] = {}
        for position, (path, active, distribution) in enumerate(self._steps):
            if active is True or value_at(active, outcomes) is True:
                resolved = value_at(distribution, outcomes) if type(distribution) is Diagram else distribution
                preference = preferred[position]
                code = preference if preference in resolved.possible else fallback(position, resolved.possible)
                codes[position] = outcomes[path] = code
        return (*codes,)

    def neighbors(self, architecture: Architecture) -> Iterator[Architecture]:
        """Yield all architectures that differ in one choice.

        Choices that become active take their first possible outcome.
        """
        for position, code in enumerate(architecture.codes):
            for outcome in range(self.choices[position].outcome_count if code >= 0 else 0):
                if outcome == code:
                    continue
                draft = [*architecture.codes[:position], outcome, *architecture.codes[position + 1 :]]
                dependents = self._dependents[position]
                changed = self._complete(
                    [-2 if i in dependents else c for i, c in enumerate(draft)], None, keep=architecture.codes
                )
                other = self._architecture_of(changed)
                if self._satisfies_constraints(changed) and (not self._bounds or self.within(other)):
                    yield other

    def enumerate(self, most: int = MAX_ENUMERATED) -> Iterator[Architecture]:
        """Yield every architecture that satisfies all constraints.

        Raises ArchError (A1007) if more than `most` architectures satisfy the constraints on choices.
        """
        if self.satisfying > most:
            raise fail("A1007", f"`{self.name}` has {self.satisfying:,} architectures, more than {most:,}")

        rows, size = self._all_codes(), 1
        while batch := list(islice(rows, size)):
            mask = self.bounds_mask(np.array(batch, np.int16))
            yield from (self._architecture_of(codes) for codes, is_kept in zip(batch, mask, strict=True) if is_kept)
            size = min(2 * size, MAX_BATCH)  # the first architecture comes without delay, later ones in batches

    def _all_codes(self) -> Iterator[tuple[int, ...]]:
        """Yield the codes of every architecture that satisfies all constraints on choices, in ascending order."""
        stack: list[tuple[tuple[int, ...], dict[str, int]]] = [((), {})]
        while stack:
            codes, outcomes = stack.pop()
            if len(codes) == len(self._steps):
                yield codes
                continue
            path, active, distribution = self._steps[len(codes)]
            if value_at(active, outcomes) is True:
                possible = value_at(distribution, outcomes).possible
                stack += [((*codes, outcome), {**outcomes, path: outcome}) for outcome in reversed(possible)]
            else:
                stack.append(((*codes, -1), outcomes))

    def from_outcomes(self, outcomes: Mapping[str, int]) -> Architecture:
        """Return the architecture with these outcomes by path; outcomes of inactive choices are ignored.

        It may violate bounds on costs. Raises ArchError: A1004 (an active choice has no outcome), A1008 (a constraint
        on choices is violated).
        """
        codes: list[int] = []
        taken: dict[str, int] = {}
        for decision in self.order:
            path = decision.choice.path
            active = value_at(decision.active, taken) is True
            if active and path not in outcomes:
                raise fail("A1004", f"`{path}` is missing")
            codes.append(outcomes[path] if active else -1)
            if active:
                taken[path] = outcomes[path]
        self._check_constraints(taken)
        return self._architecture_of(codes)

    def complete_codes(
        self, fixed: Mapping[str, int], rng: random.Random, policy: Policy = "architectures"
    ) -> list[int]:
        """Return the codes of an architecture with these fixed outcomes, as far as constraints allow them.

        All other choices are sampled.
        """
        keep = [fixed.get(choice.path, -1) for choice in self.choices]
        return self._complete([-2] * len(self.order), rng, policy, keep)

    def sample_fixed(
        self, fixed: Mapping[str, int], rng: random.Random, policy: Policy = "architectures"
    ) -> Architecture:
        """Sample one of the architectures in which the choices in `fixed` have these outcomes where they are active.

        It satisfies all constraints on choices, and is sampled according to `policy`; bounds on costs are ignored.
        Raises ArchError (A0510) if there is no such architecture.
        """
        program = self._program
        if fixed and (policy != "choices" or self._constrained):  # otherwise, all outcomes are always possible
            program = self._fixed_program(tuple(sorted(fixed.items())))
        steps = self._steps_of(program)
        keep = [fixed.get(choice.path, -1) for choice in self.choices]
        return self._architecture_of(self._complete([-2] * len(self.order), rng, policy, keep, steps))

    def _fixed_program(self, fixed: tuple[tuple[str, int], ...]) -> CountingProgram:
        """Return the program of the architectures with these fixed outcomes (cached)."""
        program = self._fixed_programs.get(fixed)
        if program is None:
            conditions = [*self._conditions("where", "require"), *fixed_conditions(self.order, dict(fixed))]
            program = compile_program(self.order, conditions)
            if program.size == 0:
                self.check_satisfiable()
                raise fail("A0510", "no architecture with the fixed outcomes satisfies the constraints")
            if len(self._fixed_programs) >= MAX_FIXED_PROGRAMS:
                self._fixed_programs.clear()
            self._fixed_programs[fixed] = program
        return program

    @cached_property
    def _fixed_programs(self) -> dict[tuple[tuple[str, int], ...], CountingProgram]:
        """Cached programs by fixed outcomes."""
        return {}

    @cached_property
    def possible_outcomes(self) -> dict[str, list[int]]:
        """For each choice by path, the outcomes that it can have in some architecture in which it is active."""
        possible: dict[str, list[int]] = {}
        for position, (path, active, distribution) in enumerate(self._steps):
            parts = lift(lambda is_active, each: each.possible if is_active else (), active, distribution)
            outcomes = sorted({outcome for part in leaves(parts) for outcome in part})
            if position in self._constrained:  # other constraints may exclude the architectures with an outcome
                choice = self.choices[position]
                conditions = {outcome: conjoin(active, outcome_in(choice, [outcome])) for outcome in outcomes}
                outcomes = [outcome for outcome, condition in conditions.items() if self.count_where(condition)]
            possible[path] = outcomes
        return possible

    def _complete(
        self,
        draft: Sequence[int],
        rng: random.Random | None,
        policy: Policy = "architectures",
        keep: Sequence[int] = (),
        steps: Sequence[tuple[str, Value, Value]] | None = None,
    ) -> list[int]:
        """Return codes in which every -2 (undecided) is replaced; `steps` are by default those of the whole space.

        An inactive choice gets -1. An active choice gets its outcome in `keep` if that is possible; otherwise a sampled
        one, or without `rng` the first possible one.
        """
        codes = list(draft)
        outcomes: dict[str, int] = {}
        for position, (path, active, distribution) in enumerate(steps or self._steps):
            code = codes[position]
            if code == -2:
                if active is not True and value_at(active, outcomes) is not True:
                    codes[position] = -1
                    continue
                resolved = value_at(distribution, outcomes) if type(distribution) is Diagram else distribution
                is_kept = keep and keep[position] in resolved.possible
                codes[position] = code = keep[position] if is_kept else _sample_outcome(resolved, rng, policy)
            if code >= 0:
                outcomes[path] = code
        return codes

    @cached_property
    def _steps(self) -> list[tuple[str, Value, Value]]:
        """Steps of the whole space: see `_steps_of`."""
        return self._steps_of(self._program)

    def _steps_of(self, program: CountingProgram) -> list[tuple[str, Value, Value]]:
        """Return, for each choice, its path, the condition under which it is active, and its distribution given earlier
        choices."""
        paths = [(decision.choice.path, decision.active) for decision in self.order]
        return [(path, active, program.distributions[path]) for path, active in paths]

    @cached_property
    def outcome_counts(self) -> list[int]:
        """Number of outcomes of each choice."""
        return [choice.outcome_count for choice in self.choices]

    @cached_property
    def is_independent(self) -> list[bool]:
        """For each choice, True if changing it affects no other choice's activity and no constraint on choices."""
        return [not later and i not in self._constrained for i, later in enumerate(self._dependents)]

    def _satisfies_constraints(self, codes: Sequence[int]) -> bool:
        """Return True if codes satisfy all constraints on choices."""
        outcomes = {choice.path: code for choice, code in zip(self.choices, codes, strict=True) if code >= 0}
        return all(value_at(condition, outcomes) is True for condition in self._conditions("where", "require"))

    def within(self, architecture: Architecture) -> bool:
        """Return True if an architecture satisfies every bound on costs."""
        return not self._bounds or bool(self.bounds_mask(np.array([architecture.codes], np.int16))[0])

    @cached_property
    def _dependents(self) -> list[set[int]]:
        """For each choice, the positions of later choices whose activity depends on it, directly or indirectly."""
        dependents: list[set[int]] = [set() for _ in self.order]
        for position, decision in enumerate(self.order):
            for choice in support(decision.active):
                dependents[self._rows.index[choice.path]].add(position)
        for position in reversed(range(len(dependents))):
            for later in list(dependents[position]):
                dependents[position] |= dependents[later]
        return dependents

    @cached_property
    def _constrained(self) -> set[int]:
        """Positions of the choices that constraints depend on."""
        return {
            self._rows.index[c.path] for condition in self._conditions("where", "require") for c in support(condition)
        }

    def _architecture_of(self, codes: Iterable[int]) -> Architecture:
        """Return the architecture with these codes."""
        return Architecture(self.choices, tuple(codes), self.graph.name, self.graph)

    # equivalence

    def canonical(self, architecture: Architecture) -> str:
        """Return a hash that is equal only for architectures that compute the same function.

        See `archir.equivalence.canonical`. Hashes are cached by the choices that the network depends on: architectures
        that differ only in other choices share a cache entry.
        """
        live = self._canonical.live(architecture.outcomes)
        key = tuple(
            [code if choice.path in live else -1 for choice, code in zip(self.choices, architecture.codes, strict=True)]
        )
        digest = self._hashes.get(key)
        if digest is None:
            if len(self._hashes) >= MAX_CACHED_HASHES:
                self._hashes.clear()
            digest = self._hashes[key] = self._canonical.hash(architecture.outcomes)
        return digest

    @cached_property
    def _hashes(self) -> dict[tuple[int, ...], str]:
        """Cached hashes by live codes: the codes, with -1 for choices on which the network does not depend."""
        return {}

    @cached_property
    def _canonical(self) -> Canonical:
        """Computes the canonical hashes of the graph's architectures."""
        from archir.equivalence.canonical import Canonical

        return Canonical(self.graph)

    def unique(self, architectures: Iterable[Architecture]) -> Iterator[Architecture]:
        """Yield those architectures that do not compute the same function as an earlier one."""
        seen: set[str] = set()
        for architecture in architectures:
            name = self.canonical(architecture)
            if name not in seen:
                seen.add(name)
                yield architecture

    def sample_unique(
        self, n: int, seed: int | random.Random = 0, policy: Policy = "architectures"
    ) -> list[Architecture]:
        """Return `n` sampled architectures that all compute different functions, in sampling order.

        Raises ArchError (A1009) if the space has fewer than `n` such architectures, or if the missing ones are too rare
        to be found by sampling.
        """
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        seen: set[Architecture] = set()
        different: dict[str, Architecture] = {}
        repeats = 0
        while len(different) < n and len(seen) < self.satisfying and repeats < MAX_REPEATS:
            architecture = self.sample(rng, policy)
            repeats += 1
            if architecture not in seen:
                seen.add(architecture)
                if different.setdefault(self.canonical(architecture), architecture) is architecture:
                    repeats = 0
        if len(different) < n and len(seen) < self.satisfying <= MAX_ENUMERATED:
            for architecture in self.enumerate():
                if architecture not in seen:
                    different.setdefault(self.canonical(architecture), architecture)
                    if len(different) == n:
                        break
        if len(different) < n:
            reason = "there are no more" if self.satisfying <= MAX_ENUMERATED else "sampling hardly finds any others"
            raise fail("A1009", f"found {len(different):,} different architectures of {n:,}: {reason}")
        return list(different.values())

    # many architectures at once

    def sample_codes(self, n: int, rng: np.random.Generator, policy: Policy = "architectures") -> Codes:
        """Sample `n` architectures as rows of outcomes in the order of `choices`, with -1 for inactive choices."""
        if not self._bounds:
            return self._sample_unbounded(n, rng, policy)
        return rejection_sample(n, len(self.order), self._sampler(policy), self.bounds_mask, rng, self._bounds[0])

    def _sampler(self, policy: Policy) -> Callable[[int, np.random.Generator], Codes]:
        """Return a function that samples rows, of which almost all satisfy the bounds that are ranges.

        Unless `policy` is "choices", it samples uniformly.
        """
        self.check_bounds()
        ranges = self.bounds.ranges
        if policy == "choices" or not ranges or not self.bounds.is_countable:
            return lambda n, rng: self._sample_unbounded(n, rng, policy)
        return lambda n, rng: self.bounds.account.sample(ranges, n, rng)

    def _sample_unbounded(self, n: int, rng: np.random.Generator, policy: Policy) -> Codes:
        """Sample rows that satisfy the constraints on choices; bounds on costs are ignored."""
        return self._rows.sample(self._program.distributions, n, rng, policy)

    def bounds_mask(self, codes: Codes) -> NDArray[np.bool_]:
        """Return a mask of the rows of outcomes that satisfy every bound on costs."""
        return self.bounds.mask(codes) if self._bounds else np.ones(len(codes), bool)

    # costs

    @cached_property
    def account(self) -> Account:
        """Costs of the architectures that satisfy all bounds.

        Raises ArchError (A1501, A1502, A1507) if a latency table cannot be read.
        """
        return self.bounds.bounded_account if self._bounds else self.bounds.account

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds on costs. Raises ArchError as `account` does."""
        from archir.costs.account import Account
        from archir.spaces.bounds import Bounds, bounded_cost_rules

        def draw(n: int, rng: np.random.Generator) -> Codes:
            """Sample rows from which costs are estimated."""
            return self._sample_unbounded(n, rng, "architectures")

        conditions = self._conditions("where", "require")
        return Bounds(
            self._bounds,
            Account(self.graph, self.order, conditions, bounded_cost_rules(self.graph, self._named_bounds), draw),
            self._rows,
        )

    def cost(
        self, architectures: Architecture | Sequence[Architecture] | Codes, names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the costs of one or many architectures: an array for each cost, by name.

        Costs are exact, and no network is built. `peak_bytes`, and latencies such as `latency("cpu.json")` that no
        `require` bounds, are only computed if they are in `names`.
        """
        if isinstance(architectures, Architecture):
            architectures = [architectures]
        codes = architectures if isinstance(architectures, np.ndarray) else np.array([a.codes for a in architectures])
        return dict(self.bounds.account.at(codes.astype(np.int16), names))

    def where(self, text: str) -> Space:
        """Return the space restricted by further bounds on costs, such as `macs <= 600M and params < 5M`.

        `macs <= 0.5x` means half of the largest value that the choices allow, ignoring other bounds on costs. In
        `latency("cpu.json")`, the path of the table is relative to the current folder; single quotes are also accepted.
        """
        from archir.language.elaboration.cost_bounds import read_bounds

        graph = copy(self.graph)
        new_bounds = read_bounds(text, self._max_cost, (choice.path for choice in self.choices))
        graph.constraints = [*self.graph.constraints, *new_bounds]
        return Space(graph)

    @cached_property
    def unbounded(self) -> Space:
        """Space of the architectures that satisfy all constraints except bounds on costs.

        A cost such as `latency("cpu.json")` is read from the same file as in those bounds.
        """
        graph = copy(self.graph)
        graph.constraints = [constraint for constraint in graph.constraints if constraint.cost is None]
        space = Space(graph)
        space._named_bounds = self._named_bounds
        return space

    def _max_cost(self, cost: str) -> int:
        """Return the largest value of a cost, ignoring bounds on costs."""
        return self.where(f"{cost} >= 0").bounds.account.limits(cost)[1]

    def check_bounds(self) -> None:
        """Raise ArchError (A1603) if no architecture satisfies the bounds on costs.

        The hint gives the nearest existing cost.
        """
        self.bounds.check()

    def count(self) -> tuple[int, int]:
        """Return lower and upper limits on the number of architectures that satisfy all constraints.

        The two limits are equal, and the number is exact, unless costs have too many different totals, some bounds are
        not ranges, or a size limit is exceeded.
        """
        everything, bounds = self.satisfying, self.bounds
        if not (bounds.has_only_ranges and bounds.is_countable) and everything <= MAX_COUNTED:
            exact = sum(1 for _ in self.enumerate())
            return exact, exact
        return bounds.count(everything)

    def encode(self, labels: Mapping[str, Any]) -> Codes:
        """Return the row of outcomes for labels by path.

        Raises ArchError (A1002 to A1004), which names all invalid labels.
        """
        return np.array(encode_labels(labels, self.order, self.name), np.int16)

    def decode(self, codes: Sequence[int] | Codes) -> Architecture:
        """Return the architecture of a row of outcomes."""
        return self._architecture_of(codes if isinstance(codes, list | tuple) else map(int, codes))

    def architecture(self, labels: Mapping[str, Any]) -> Architecture:
        """Return the architecture with these labels by path.

        Raises ArchError if the labels are not an architecture of the space (A1002 to A1004), or violate a constraint
        (A1008).
        """
        architecture = self.decode(encode_labels(labels, self.order, self.name))
        self._check_constraints(architecture.outcomes)
        if self._bounds and not self.within(architecture):
            text = ", ".join(f"`{bound.text}`" for bound in self._bounds)
            raise fail("A1008", f"the architecture breaks a bound on its cost: {text}", self._bounds[0].span)
        return architecture

    def _check_constraints(self, outcomes: Mapping[str, int]) -> None:
        """Raise ArchError (A1008) if outcomes violate a constraint on choices."""
        for constraint in self.graph.constraints:
            if constraint.cost is None and value_at(constraint.condition, outcomes) is not True:
                raise fail(
                    "A1008", f"the architecture breaks `{constraint.keyword} {constraint.text}`", constraint.span
                )

    def specialize(self, architecture: Architecture | Mapping[str, Any]) -> Graph:
        """Return the network of one architecture, a graph without choices.

        The architecture may be given as labels by path. Raises ArchError as `architecture` does.
        """
        if not isinstance(architecture, Architecture):
            if not isinstance(architecture, Mapping):
                wanted = "an architecture, such as `space.sample(0)`, or its labels by path"
                raise TypeError(f"`specialize` takes {wanted}, and got {architecture!r}")
            architecture = self.architecture(architecture)
        return specialize(self.graph, architecture.outcomes)


def fixed_conditions(order: Iterable[Decision], fixed: Mapping[str, int]) -> Iterator[Value]:
    """Yield, for each choice in `fixed`, the condition that it has its fixed outcome or is inactive."""
    for decision in order:
        if decision.choice.path in fixed:
            yield disjoin(negate(decision.active), outcome_in(decision.choice, [fixed[decision.choice.path]]))


def random_fallback(rng: random.Random) -> Fallback:
    """Return a `Fallback` that samples uniformly from the possible outcomes."""

    def choose(position: int, possible: Sequence[int]) -> int:
        return possible[int(rng.random() * len(possible))] if possible else 0  # the caller checks the constraints

    return choose


def _sample_outcome(distribution: Distribution, rng: random.Random | None, policy: Policy) -> int:
    """Return a possible outcome: sampled according to `policy`, or the first one if `rng` is None."""
    if not distribution.possible:
        return 0  # reached by changing a choice against a constraint: the caller checks the constraints
    if rng is None:
        return distribution.possible[0]
    return rng.choice(distribution.possible) if policy == "choices" else distribution.sample(rng)
