"""A space: every architecture of a graph, counted exactly and drawn uniformly, without building any."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any

from archir.costs.account import Account
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.visible import one_line
from archir.diagrams.cases import MOST_CHOICES, Case, Value, at, support, when
from archir.diagrams.conditions import either, met
from archir.equivalence.canonical import Canonical
from archir.ir.contradictions import contradiction
from archir.ir.graph import Constraint, Decision, Graph
from archir.language.elaboration.written_bounds import read_bounds
from archir.passes.specialize import specialize
from archir.spaces.architecture import Architecture, encoded
from archir.spaces.bounds import Bounds, account_of
from archir.spaces.counting import Program, compile_program, concerned, drawing_order, many, quickly
from archir.spaces.rows import MOST_AT_ONCE, Codes, Policy, Rows, kept
from archir.utils.arrays import NDArray, np
from archir.utils.draws import Distribution

FEW_STEPS = 200
"""Combinations that are ruled out before architectures are counted, where one is enough."""
MOST_TRIES = 10_000
"""Draws in a row that may break bounds on costs, or were there before."""
MOST_COUNTED = 50_000
"""Architectures that are listed to be counted, where bounds are not plain."""
MOST_HASHES = 100_000
"""Canonical hashes that are remembered."""
MOST_LISTED = 1_000_000
"""Architectures of a space that is listed without being asked how many are wanted."""
Otherwise = Callable[[int, Sequence[int]], int]
"""Of the position of a choice and its possible outcomes, the one to take."""


class Space:
    """The architectures of a graph.

    Random numbers come from a seed or a generator that is passed in: `random.Random` for single architectures,
    `numpy.random.Generator` for arrays of them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order: list[Decision] = drawing_order(graph.decisions.values())
        self.choices = [decision.choice for decision in self.order]
        self._rows = Rows(self.order)
        self._bounds = [c for c in graph.constraints if c.cost is not None]

    def __repr__(self) -> str:
        size = many(quickly(lambda: self.size), "architecture")
        bounds = "".join(f", {one.text}" for one in self._bounds[:3])
        choices = many(len(self.choices), "choice")
        return one_line(f"<Space {self.name}: {size}{bounds}, {choices}, {self.graph.signature}>")

    @property
    def name(self) -> str:
        """The name of the net."""
        return self.graph.name

    # size

    @cached_property
    def size(self) -> int:
        """How many architectures there are, before any `require`."""
        return compile_program(self.order, self._conditions("where")).size

    @cached_property
    def _program(self) -> Program:
        program = compile_program(self.order, self._conditions("where", "require"))
        if program.size == 0:
            self.prove_some()
        return program

    def prove_some(self) -> None:
        """Raise ArchError (A0510) if no architecture satisfies the constraints on choices, naming the fewest of them
        that contradict each other."""
        constraints = [one for one in self.graph.constraints if one.cost is None and one.condition is not True]
        if self._none(constraints):
            raise ArchError(contradiction(constraints, self._none))

    def _none(self, constraints: Sequence[Constraint]) -> bool:
        """Whether no architecture satisfies these. Choices that they have nothing to do with are not counted."""
        conditions = [one.condition for one in constraints]
        needed = concerned(self.order, conditions)
        still = [either(one.active, when(one.choice, [0])) for one in needed if one.active is not True]
        # choices that are not made have their first outcome
        if len(needed) <= MOST_CHOICES and met([*conditions, *still], FEW_STEPS):
            return False
        return compile_program(needed, conditions).size == 0

    @property
    def satisfying(self) -> int:
        """How many architectures satisfy the `require`s on choices. Raises ArchError (A0510) if none does."""
        return self._program.size

    @property
    def bounded(self) -> bool:
        """Whether there are `require`s on costs, which `satisfying` does not count."""
        return bool(self._bounds)

    def holding(self, when: Value) -> int:
        """In how many architectures a condition holds, `require`s on costs aside."""
        conditions = [one.condition for one in self.graph.constraints if one.cost is None]
        return compile_program(self.order, [*conditions, when]).size

    def _conditions(self, *words: str) -> list[Value]:
        return [c.condition for c in self.graph.constraints if c.word in words and c.cost is None]

    # single architectures

    def sample(self, seed: int | random.Random = 0, policy: Policy = "architectures") -> Architecture:
        """One architecture that satisfies every constraint, uniform over architectures.

        `policy="choices"` draws every choice uniformly, from the first to the last, instead.
        """
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        if self._bounds and self.bounds.drawable:
            return self.bounds.drawn(lambda: self.unbounded.sample(rng, policy))
        if self._bounds:
            return self.decode(self.sample_codes(1, np.random.default_rng(rng.getrandbits(64)), policy)[0])
        return self._decoded(self._complete([-2] * len(self.order), rng, policy))

    def mutate(self, architecture: Architecture, seed: int | random.Random = 0) -> Architecture:
        """An architecture that differs in one choice, drawn uniformly; choices that this turns on are drawn anew."""
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        codes = architecture.codes
        open_ = [i for i, code in enumerate(codes) if code >= 0 and self.choices[i].outcomes > 1]
        for _ in range(MOST_TRIES if open_ else 0):
            position = rng.choice(open_)
            outcome = rng.randrange(self.choices[position].outcomes - 1)
            outcome += outcome >= codes[position]
            changed = [*codes[:position], outcome, *codes[position + 1 :]]
            if not self.apart[position]:
                later = self._dependents[position]
                draft = [-2 if i in later else code for i, code in enumerate(changed)]
                changed = self._complete(draft, rng, keep=codes)
                if not self._allowed(changed):
                    continue
            mutant = self._decoded(changed)
            if not self._bounds or self.within(mutant):
                return mutant
        raise fail("A1006", "this architecture has no neighbour that satisfies the constraints")

    def near(self, wishes: Sequence[int], rng: random.Random) -> Architecture:
        """The architecture that takes, choice by choice, the outcome wished for where that is still possible; where it
        is not, or the wish is -1, each possible outcome is as likely. It may break bounds on costs."""
        return self._decoded(self.nearest(wishes, drawing(rng)))

    def nearest(self, wishes: Sequence[int], otherwise: Otherwise) -> tuple[int, ...]:
        """The codes of `near`, where `otherwise` decides the choices that cannot take their wish."""
        codes = [-1] * len(self.order)
        outcomes: dict[str, int] = {}
        for position, (path, active, distribution) in enumerate(self._steps):
            if active is True or at(active, outcomes) is True:
                found = at(distribution, outcomes) if type(distribution) is Case else distribution
                wish = wishes[position]
                code = wish if wish in found.possible else otherwise(position, found.possible)
                codes[position] = outcomes[path] = code
        return (*codes,)

    def neighbors(self, architecture: Architecture) -> Iterator[Architecture]:
        """All architectures that differ in one choice; choices that this turns on take their first outcome."""
        for position, code in enumerate(architecture.codes):
            for outcome in range(self.choices[position].outcomes if code >= 0 else 0):
                if outcome == code:
                    continue
                draft = [*architecture.codes[:position], outcome, *architecture.codes[position + 1 :]]
                later = self._dependents[position]
                changed = self._complete(
                    [-2 if i in later else c for i, c in enumerate(draft)], None, keep=architecture.codes
                )
                other = self._decoded(changed)
                if self._allowed(changed) and (not self._bounds or self.within(other)):
                    yield other

    def enumerate(self, most: int = MOST_LISTED) -> Iterator[Architecture]:
        """Every architecture that satisfies the constraints. Raises ArchError (A1007) if there are more than `most`."""
        if self.satisfying > most:
            raise fail("A1007", f"`{self.name}` has {self.satisfying:,} architectures, more than {most:,}")

        def walk(position: int, codes: list[int], outcomes: dict[str, int]) -> Iterator[list[int]]:
            if position == len(self.order):
                yield codes
                return
            decision = self.order[position]
            if at(decision.active, outcomes) is not True:
                yield from walk(position + 1, [*codes, -1], outcomes)
                return
            path = decision.choice.path
            for outcome in at(self._program.distributions[path], outcomes).possible:
                yield from walk(position + 1, [*codes, outcome], {**outcomes, path: outcome})

        rows, size = walk(0, [], {}), 1
        while batch := list(islice(rows, size)):
            kept = self.keeping(np.array(batch, np.int16))
            yield from (self._decoded(codes) for codes, keep in zip(batch, kept, strict=True) if keep)
            size = min(2 * size, MOST_AT_ONCE)  # the first is there at once, and many are looked at together

    def exactly(self, outcomes: Mapping[str, int]) -> Architecture:
        """The architecture with these outcomes by path; those of choices that it does not have are left out.

        It may break bounds on costs. Raises ArchError: A1004 (a choice is missing), A1008 (it breaks a constraint).
        """
        codes: list[int] = []
        taken: dict[str, int] = {}
        for decision in self.order:
            path = decision.choice.path
            active = at(decision.active, taken) is True
            if active and path not in outcomes:
                raise fail("A1004", f"`{path}` is missing")
            codes.append(outcomes[path] if active else -1)
            if active:
                taken[path] = outcomes[path]
        self._require(taken)
        return self._decoded(codes)

    def completed(self, made: Mapping[str, int], rng: random.Random, policy: Policy = "architectures") -> list[int]:
        """Codes of an architecture with these outcomes where constraints leave them; the others are drawn."""
        keep = [made.get(choice.path, -1) for choice in self.choices]
        return self._complete([-2] * len(self.order), rng, policy, keep)

    def _complete(
        self,
        draft: Sequence[int],
        rng: random.Random | None,
        policy: Policy = "architectures",
        keep: Sequence[int] = (),
    ) -> list[int]:
        """Codes with every -2 decided: inactive, as in `keep` where that is possible, or drawn."""
        codes = list(draft)
        outcomes: dict[str, int] = {}
        for position, (path, active, distribution) in enumerate(self._steps):
            code = codes[position]
            if code == -2:
                if active is not True and at(active, outcomes) is not True:
                    codes[position] = -1
                    continue
                found = at(distribution, outcomes) if type(distribution) is Case else distribution
                kept = keep and keep[position] in found.possible
                codes[position] = code = keep[position] if kept else _draw(found, rng, policy)
            if code >= 0:
                outcomes[path] = code
        return codes

    @cached_property
    def _steps(self) -> list[tuple[str, Value, Value]]:
        """Of each choice its path, when it is active, and what it is drawn from."""
        paths = [(one.choice.path, one.active) for one in self.order]
        return [(path, active, self._program.distributions[path]) for path, active in paths]

    @cached_property
    def outcomes(self) -> list[int]:
        """How many each choice has."""
        return [choice.outcomes for choice in self.choices]

    @cached_property
    def apart(self) -> list[bool]:
        """Whether changing each choice changes nothing about any other."""
        return [not later and i not in self._constrained for i, later in enumerate(self._dependents)]

    def _allowed(self, codes: Sequence[int]) -> bool:
        outcomes = {choice.path: code for choice, code in zip(self.choices, codes, strict=True) if code >= 0}
        return all(at(condition, outcomes) is True for condition in self._conditions("where", "require"))

    def within(self, architecture: Architecture) -> bool:
        """Whether an architecture keeps every bound on costs."""
        return not self._bounds or bool(self.keeping(np.array([architecture.codes], np.int16))[0])

    @cached_property
    def _dependents(self) -> list[set[int]]:
        """For each choice, the later ones whose being active depends on it, directly or not."""
        found: list[set[int]] = [set() for _ in self.order]
        for position, decision in enumerate(self.order):
            for choice in support(decision.active):
                found[self._rows.index[choice.path]].add(position)
        for position in reversed(range(len(found))):
            for later in list(found[position]):
                found[position] |= found[later]
        return found

    @cached_property
    def _constrained(self) -> set[int]:
        return {
            self._rows.index[c.path] for condition in self._conditions("where", "require") for c in support(condition)
        }

    def _decoded(self, codes: Iterable[int]) -> Architecture:
        return Architecture(self.choices, tuple(codes), self.graph.name, self.graph)

    # which are the same

    def canonical(self, architecture: Architecture) -> str:
        """A hash that is equal for architectures that compute the same (see `archir.equivalence.canonical`).

        Hashes are cached by the choices that the network depends on: architectures that differ in others share one.
        """
        live = self._canonical.live(architecture.outcomes)
        key = tuple(
            [code if choice.path in live else -1 for choice, code in zip(self.choices, architecture.codes, strict=True)]
        )
        found = self._hashes.get(key)
        if found is None:
            if len(self._hashes) >= MOST_HASHES:
                self._hashes.clear()
            found = self._hashes[key] = self._canonical.hash(architecture.outcomes)
        return found

    @cached_property
    def _hashes(self) -> dict[tuple[int, ...], str]:
        return {}

    @cached_property
    def _canonical(self) -> Canonical:
        return Canonical(self.graph)

    def unique(self, architectures: Iterable[Architecture]) -> Iterator[Architecture]:
        """Those that do not compute the same as one before."""
        seen: set[str] = set()
        for architecture in architectures:
            name = self.canonical(architecture)
            if name not in seen:
                seen.add(name)
                yield architecture

    def sample_unique(
        self, n: int, seed: int | random.Random = 0, policy: Policy = "architectures"
    ) -> list[Architecture]:
        """`n` architectures that all compute something else, in the order in which `sample` first draws them.

        Raises ArchError (A1009) if there are fewer, or if they are too rare to be found.
        """
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        met: set[Architecture] = set()

        def drawn() -> Iterator[Architecture]:
            """Each once; what draws no longer find is listed, in a space that can be."""
            tries = 0
            while len(met) < self.satisfying and tries < MOST_TRIES:
                architecture = self.sample(rng, policy)
                tries = 0 if architecture not in met else tries + 1
                if tries == 0:
                    met.add(architecture)
                    yield architecture
            if len(met) < self.satisfying <= MOST_LISTED:
                yield from (architecture for architecture in self.enumerate() if architecture not in met)

        found = list(islice(self.unique(drawn()), n))
        if len(found) < n:
            reason = "there are no more" if self.satisfying <= MOST_LISTED else "draws hardly find any others"
            raise fail("A1009", f"found {len(found):,} different architectures of {n:,}: {reason}")
        return found

    # many architectures at once

    def sample_codes(self, n: int, rng: np.random.Generator, policy: Policy = "architectures") -> Codes:
        """`n` architectures as rows of outcomes, -1 for inactive choices, in the order of `choices`."""
        if not self._bounds:
            return self._drawn(n, rng, policy)
        return kept(n, len(self.order), self._drawing(policy), self.keeping, rng, self._bounds[0])

    def _drawing(self, policy: Policy) -> Callable[[int, np.random.Generator], Codes]:
        """How architectures are drawn, of which almost all keep the plain bounds; uniformly, if asked for."""
        self.prove()
        ranges = self.bounds.ranges
        if policy == "choices" or not ranges or not self.bounds.followed:
            return lambda n, rng: self._drawn(n, rng, policy)
        return lambda n, rng: self.bounds.account.draw(ranges, n, rng)

    def _drawn(self, n: int, rng: np.random.Generator, policy: Policy) -> Codes:
        """Rows that satisfy the constraints on choices."""
        return self._rows.drawn(self._program.distributions, n, rng, policy)

    def keeping(self, codes: Codes) -> NDArray[np.bool_]:
        """Which rows of outcomes keep every bound on costs."""
        return self.bounds.keeping(codes) if self._bounds else np.ones(len(codes), bool)

    # costs

    @cached_property
    def account(self) -> Account:
        """What the architectures within all bounds cost. Raises ArchError (A1501, A1502, A1507) for tables of latencies
        that cannot be read."""
        return self.bounds.bounded if self._bounds else self.bounds.account

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds on costs. Raises ArchError as `account` does."""

        def draw(n: int, rng: np.random.Generator) -> Codes:
            return self._drawn(n, rng, "architectures")

        conditions = self._conditions("where", "require")
        return Bounds(self._bounds, account_of(self.graph, self.order, conditions, self._bounds, draw), self._rows)

    def cost(
        self, architectures: Architecture | Sequence[Architecture] | Codes, names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The costs of one or many architectures, arrays by name: exact, without building any.

        `peak_bytes`, and latencies such as `latency("cpu.json")` that no `require` bounds, only if asked for.
        """
        if isinstance(architectures, Architecture):
            architectures = [architectures]
        codes = architectures if isinstance(architectures, np.ndarray) else np.array([a.codes for a in architectures])
        return dict(self.bounds.account.at(codes.astype(np.int16), names))

    def where(self, text: str) -> Space:
        """The architectures that keep further bounds on costs, such as `macs <= 600M and params < 5M`.

        `macs <= 0.5x` is half of the most that choices allow, whatever bounds on costs there are. `latency("cpu.json")`
        is the table in a file, looked for from the current folder on; single quotes do, too.
        """
        graph = copy(self.graph)
        further = read_bounds(text, self._most, (choice.path for choice in self.choices))
        graph.constraints = [*self.graph.constraints, *further]
        return Space(graph)

    @cached_property
    def unbounded(self) -> Space:
        """The architectures that satisfy all but bounds on costs."""
        graph = copy(self.graph)
        graph.constraints = [constraint for constraint in graph.constraints if constraint.cost is None]
        return Space(graph)

    def _most(self, cost: str) -> int:
        return self.where(f"{cost} >= 0").bounds.account.limits(cost)[1]

    def prove(self) -> None:
        """Raise ArchError (A1603) if a bound on a cost is one that no architecture keeps, with the nearest cost."""
        self.bounds.prove()

    def count(self) -> tuple[int, int]:
        """At least and at most how many architectures satisfy every constraint: the same number, and exact, unless
        costs have more different totals than are told apart, bounds are not plain, or choices are too entangled."""
        everything, bounds = self.satisfying, self.bounds
        if not (bounds.plain and bounds.followed) and everything <= MOST_COUNTED:
            exact = sum(1 for _ in self.enumerate())
            return exact, exact
        return bounds.count(everything)

    def encode(self, labels: Mapping[str, Any]) -> Codes:
        """The row of outcomes for labels by path. Raises ArchError (A1002 to A1004) naming all that does not fit."""
        return np.array(encoded(labels, self.order, self.name), np.int16)

    def decode(self, codes: Sequence[int] | Codes) -> Architecture:
        """The architecture of a row of outcomes."""
        return self._decoded(codes if isinstance(codes, list | tuple) else map(int, codes))

    def architecture(self, labels: Mapping[str, Any]) -> Architecture:
        """The architecture with these labels by path. Raises ArchError if they make none, or break a `require`."""
        architecture = self.decode(encoded(labels, self.order, self.name))
        self._require(architecture.outcomes)
        if self._bounds and not self.within(architecture):
            text = ", ".join(f"`{bound.text}`" for bound in self._bounds)
            raise fail("A1008", f"the architecture breaks a bound on its cost: {text}", self._bounds[0].span)
        return architecture

    def _require(self, outcomes: Mapping[str, int]) -> None:
        """Raise ArchError (A1008) for outcomes that break a constraint on choices."""
        for constraint in self.graph.constraints:
            if constraint.cost is None and at(constraint.condition, outcomes) is not True:
                raise fail("A1008", f"the architecture breaks `{constraint.word} {constraint.text}`", constraint.span)

    def specialize(self, architecture: Architecture | Mapping[str, Any]) -> Graph:
        """The graph of one architecture, or of its labels by path, without choices. Raises ArchError as `architecture`
        does."""
        if not isinstance(architecture, Architecture):
            if not isinstance(architecture, Mapping):
                wanted = "an architecture, such as `space.sample(0)`, or its labels by path"
                raise TypeError(f"`specialize` takes {wanted}, and got {architecture!r}")
            architecture = self.architecture(architecture)
        return specialize(self.graph, architecture.outcomes)


def drawing(rng: random.Random) -> Otherwise:
    """Draws an outcome, each possible one with the same probability."""

    def drawn(place: int, possible: Sequence[int]) -> int:
        return possible[int(rng.random() * len(possible))] if possible else 0  # the caller checks the constraints

    return drawn


def _draw(distribution: Distribution, rng: random.Random | None, policy: Policy) -> int:
    if not distribution.possible:
        return 0  # reached by changing a choice against a constraint: the caller looks whether that is allowed
    if rng is None:
        return distribution.possible[0]
    return rng.choice(distribution.possible) if policy == "choices" else distribution.draw(rng)
