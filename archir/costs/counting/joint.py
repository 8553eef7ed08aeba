"""How many architectures keep several bounds at once, and uniform draws among them.

What is left of each bound, its room, is followed along the chain of choices: first which rooms there are before each
stride, then, from the end, how many ways of going on each of them allows. Those that allow every way are one, and those
that allow none are left out. Where there are too many they are rounded, all up or all down: then more are counted
than there are, or fewer, and what is drawn may break a bound by as much as was rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import NamedTuple, TypeAlias

from archir.costs.counting.merged_steps import Stride, Strides
from archir.costs.counting.slack import Lattice, Numbers
from archir.costs.counting.totals import Counts, carry, exact, floats, limbs_for, widened
from archir.costs.dynamic import State
from archir.costs.extremes import witnesses as bounds
from archir.utils.arrays import NDArray, np
from archir.utils.draws import Distribution

MOST_SORTED = 2**20
"""Rooms that are sorted; more are rounded until they can be marked."""
DRAWN = 20_000
"""Architectures that are drawn at a time."""


RARE = 44
"""One in 2 to so many draws is for what is lighter than that."""

Weights: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.int64]]"
"""Mantissas and exponents of 2."""


class Limit(NamedTuple):
    """A bound: `sign` times a cost is at most `most`."""

    cost: int
    sign: int
    most: int


class Move(NamedTuple):
    """A stride, and what it takes of each room."""

    costs: tuple[int, ...]
    after: State
    stride: Stride


class Place(NamedTuple):
    """The rooms before a stride in one state: a lattice, and the numbers of those that there are."""

    lattice: Lattice
    numbers: Numbers

    def find(self, rooms: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """Which of these rooms allow anything, and which of those that there are they are."""
        some, numbers = self.lattice.numbers(rooms)
        return some, np.searchsorted(self.numbers, numbers)


class Rooms:
    """The rooms of a chain under bounds, up to `entries` before each stride; rounded `up` or down if there are more."""

    def __init__(self, strides: Strides, limits: Sequence[Limit], entries: int, up: bool) -> None:
        self.strides, self.entries, self.up = strides, entries, up
        self.rounded = False
        constant = strides.chain.constant
        first = [limit.most - limit.sign * constant[limit.cost] for limit in limits]
        signed = [
            {
                state: [Move(tuple(l.sign * s.costs[l.cost] for l in limits), s.after, s) for s in found]
                for state, found in level.items()
            }
            for level in strides.levels
        ]
        least = [[min(move.costs[i] for move in _all(level)) for level in signed] for i in range(len(limits))]
        units = [
            gcd(*(m.costs[i] - low for level, low in zip(signed, least[i], strict=True) for m in _all(level))) or 1
            for i in range(len(limits))
        ]
        self.levels = [
            {
                state: [
                    Move(tuple((c - least[i][n]) // units[i] for i, c in enumerate(m.costs)), m.after, m.stride)
                    for m in moves
                ]
                for state, moves in level.items()
            }
            for n, level in enumerate(signed)
        ]
        self.first = [(room - sum(low)) // unit for room, low, unit in zip(first, least, units, strict=True)]
        self.places = list(self._reached())

    def _reached(self) -> Iterator[dict[State, Place]]:
        """The rooms before each stride, and at the end."""
        sides = [[bounds.ahead(self.levels, i, sign) for i in range(len(self.first))] for sign in (1, -1)]
        found: dict[State, list[list[Numbers]]] = {(): [[np.array([room], np.int64) for room in self.first]]}
        for number in range(len(self.levels) + 1):
            ends = {
                state: ([rest[number][state] for rest in sides[0]], [-rest[number][state] for rest in sides[1]])
                for state in found
                if state in sides[0][0][number]
            }
            places = self._settled({state: found[state] for state in ends}, ends)
            yield places
            found = {}
            for state, place in places.items() if number < len(self.levels) else ():
                rooms = place.lattice.rooms(place.numbers)
                for move in self.levels[number][state]:
                    moved = [room - cost for room, cost in zip(rooms, move.costs, strict=True)]
                    found.setdefault(move.after, []).append(moved)

    def _settled(
        self, found: Mapping[State, list[list[Numbers]]], ends: Mapping[State, tuple[list[int], list[int]]]
    ) -> dict[State, Place]:
        """The different rooms of each state, in a lattice that is as fine as their number allows."""
        units = [1] * len(self.first)
        rows = sum(len(rooms[0]) for moved in found.values() for rooms in moved)
        while True:
            while rows > MOST_SORTED and not all(Lattice(*pair, units, self.up).small for pair in ends.values()):
                units = self._coarser(units, ends)
            places: dict[State, Place] = {}
            for state, moved in found.items():
                lattice = Lattice(*ends[state], units, self.up)
                numbers = lattice.distinct([lattice.numbers(rooms)[1] for rooms in moved])
                if len(numbers):
                    places[state] = Place(lattice, numbers)
            rows = sum(len(place.numbers) for place in places.values())
            if rows <= self.entries or max(max(place.lattice.sizes) for place in places.values()) <= 2:
                return places
            found = {state: [place.lattice.rooms(place.numbers)] for state, place in places.items()}
            units = self._coarser(units, ends)
            rows = MOST_SORTED + 1

    def _coarser(self, units: list[int], ends: Mapping[State, tuple[list[int], list[int]]]) -> list[int]:
        """Twice the unit of the bound that has most rooms."""
        self.rounded = True
        sizes = np.max([Lattice(*pair, units, self.up).sizes for pair in ends.values()], axis=0)
        return [unit << int(i == np.argmax(sizes)) for i, unit in enumerate(units)]

    @property
    def count(self) -> int:
        """How many architectures keep the bounds; more, or fewer, where rooms are rounded."""
        return self._ways[0]

    @cached_property
    def _ways(self) -> tuple[int, list[dict[State, Weights]]]:
        """How many ways there are from the first room, exact; and how many from each, rounded to 53 bits."""
        ways: dict[State, Counts] = {state: np.ones((1, 1), np.int64) for state in self.places[-1]}
        rounded = [{state: floats(found) for state, found in ways.items()}]
        paths = dict.fromkeys(ways, 1)
        for level, places, after in reversed(list(zip(self.levels, self.places[:-1], self.places[1:], strict=True))):
            paths = {
                state: sum(move.stride.times * paths[move.after] for move in level[state] if move.after in paths)
                for state in places
            }
            limbs = limbs_for(max(paths.values(), default=0))
            further = {state: widened(found, limbs) for state, found in ways.items()}
            ways = {state: np.zeros((len(place.numbers), limbs), np.int64) for state, place in places.items()}
            for state, place in places.items():
                rooms = place.lattice.rooms(place.numbers)
                for move in level[state]:
                    if move.after in after:
                        some, index = _moved(rooms, move, after)
                        ways[state][some] += further[move.after][index] * move.stride.times
                carry(ways[state])
            rounded.append({state: floats(found) for state, found in ways.items()})
        return exact(ways[()][0]) if ways else 0, rounded[::-1]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """`n` architectures that keep the bounds, uniformly, as rows of outcomes; there must be some. Where rooms are
        rounded up, all that keep the bounds are drawn, and others that break them."""
        parts = [self._drawn(min(DRAWN, n - start), rng) for start in range(0, n, DRAWN)]
        return np.concatenate(parts)

    def _drawn(self, n: int, rng: np.random.Generator) -> NDArray[np.int16]:
        codes = np.empty((n, self.strides.cuts[-1]), np.int16)
        ways = self._ways[1]
        groups: dict[State, tuple[Numbers, Numbers]] = {(): (np.arange(n), np.zeros(n, np.int64))}
        for number, level in enumerate(self.levels):
            columns = slice(self.strides.cuts[number], self.strides.cuts[number + 1])
            places, after = self.places[number], self.places[number + 1]
            moved: dict[State, list[tuple[Numbers, Numbers]]] = {}
            for state, (rows, found) in groups.items():
                moves = [move for move in level[state] if move.after in after]
                rooms = places[state].lattice.rooms(places[state].numbers[found])
                mantissas = np.zeros((len(moves), len(rows)))
                exponents = np.full((len(moves), len(rows)), np.iinfo(np.int32).min // 2)
                indices = np.zeros((len(moves), len(rows)), np.int64)
                for i, move in enumerate(moves):
                    some, indices[i, some] = _moved(rooms, move, after)
                    mantissa, exponent = ways[number + 1][move.after]
                    mantissas[i, some] = mantissa[indices[i, some]] * move.stride.times
                    exponents[i, some] = exponent[indices[i, some]]
                drawn = _drawn(mantissas, exponents, rng)
                for i in np.unique(drawn):
                    (part,) = np.nonzero(drawn == i)
                    outcomes = moves[i].stride.outcomes
                    codes[rows[part], columns] = outcomes[rng.integers(len(outcomes), size=len(part))]
                    moved.setdefault(moves[i].after, []).append((rows[part], indices[i, part]))
            groups = {
                state: (np.concatenate([rows for rows, _ in parts]), np.concatenate([index for _, index in parts]))
                for state, parts in moved.items()
            }
        return codes


def _moved(rooms: Sequence[Numbers], move: Move, after: Mapping[State, Place]) -> tuple[Numbers, Numbers]:
    """Which of these rooms allow a move, and which rooms it leads to."""
    return after[move.after].find([room - cost for room, cost in zip(rooms, move.costs, strict=True)])


def _drawn(
    mantissas: NDArray[np.float64], exponents: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:  # fmt: skip
    """Of each column of weights [rows, n], a row in proportion. Rows that are so much lighter than others that a sum of
    floats does not notice them are drawn as well, as often as they are likely."""
    weights = np.ldexp(mantissas, exponents - exponents.max(axis=0))
    sums = np.cumsum(weights, axis=0)
    points = rng.random(weights.shape[1])
    drawn: NDArray[np.int64] = (sums <= points * sums[-1]).sum(axis=0)
    for column in np.flatnonzero(points < 2.0**-RARE):
        lowest = int(exponents[mantissas[:, column] > 0, column].min())
        exact = [
            int(mantissa * 2**53) << int(exponent) - lowest if mantissa else 0
            for mantissa, exponent in zip(mantissas[:, column], exponents[:, column], strict=True)
        ]
        share = sum(exact) >> RARE  # what points as low as this stand for
        light = [weight if weight * len(exact) < share else 0 for weight in exact]
        among = Distribution.of(*light, share - sum(light))
        found = int(among.draws(1, rng)[0])
        drawn[column] = found if found < len(exact) else drawn[column]
    return drawn


def _all(level: Mapping[State, Sequence[Move]]) -> Iterator[Move]:
    for moves in level.values():
        yield from moves
