"""Optima, fronts and contradictions under random sets of bounds, against listing all architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

import archir
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.soak import with_soak

SPACES = {
    "taps": """
        net taps() {
            input image: f32[3, 8, 8]
            w = choose width(4, 8, 12)
            x = image |> conv(w, kernel=choose kernel(1, 3))
            repeat choose depth(1, 2, 3) {
                x = x |> choose op {
                    wide:   conv(2 * w) |> relu |> conv(w, kernel=1)
                    narrow: conv(w, kernel=1)
                    keep:   identity
                }
            }
            picked = choose taps 2 of [x |> relu, x |> conv(w, kernel=1), x |> sigmoid]
            x = concat(picked)
            require w > 4 or w == 4 and x.features == 8
            output logits = x |> global_avg_pool |> linear(10)
        }
    """,
    "nested": """
        block branch(x, w) {
            return x |> choose kind {
                deep: conv(choose inner(2, 4, 6), kernel=3) |> relu |> conv(w, kernel=1)
                flat: conv(w, kernel=choose size(1, 3, 5))
                keep: identity
            }
        }
        net nested() {
            input image: f32[4, 6, 6]
            x = image
            for i in 0..2 { x = x |> branch(4) }
            n = choose n(1, 2, 3)
            y = concat(choose some 2 of [x |> conv(4, kernel=1), x |> relu, x |> sigmoid, x |> conv(4)])
            if n > 1 { y = y |> conv(4 * n, kernel=1) }
            OWN
            output logits = y |> global_avg_pool |> linear(choose last(3, 5))
        }
    """,
    "bench": (EXAMPLES / "nas_bench_201" / "nas_bench_201.arch").read_text(),
}
OWN = "params <= (700 if n == 3 else 900)"
"""What `nested` requires itself."""
COSTS = "params", "macs", "kernels", "activation_bytes", "flops", "peak_bytes"
KEEPS: Mapping[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater, "==": np.equal
}  # fmt: skip
SETS, CONTRADICTIONS = 200, 50


@cache
def everything(name: str) -> tuple[Space, np.ndarray, Mapping[str, np.ndarray]]:
    """A space, all architectures of it, bounds of its own left out (of the largest, two thousand, to which it is cut),
    and what each costs."""
    space = archir.loads(SPACES[name].replace("OWN", ""))
    if name == "bench":
        first, second = space.choices[0].path, space.choices[1].path
        fixed = {first: space.choices[0].label(3), second: space.choices[1].label(0)}
        rows = [one.codes for one in space.enumerate() if all(one[path] == label for path, label in fixed.items())]
    else:
        rows = [one.codes for one in space.enumerate()]
    codes = np.array(rows, np.int16)
    return space, codes, space.cost(codes, COSTS)


def bounds(rng: np.random.Generator, costs: Mapping[str, np.ndarray], most: int) -> list[tuple[str, np.ndarray]]:
    """Random bounds, and the architectures that keep each."""
    found = []
    for _ in range(int(rng.integers(1, most + 1))):
        cost, relation = str(rng.choice(COSTS)), str(rng.choice(list(KEEPS)))
        limit = int(np.sort(costs[cost])[int(rng.random() ** 2 * (len(costs[cost]) - 1))])
        limit = limit if relation in ("<=", "<", "==") else int(costs[cost].max()) - limit + int(costs[cost].min())
        found.append((f"{cost} {relation} {limit}", KEEPS[relation](costs[cost], limit)))
    return found


def scores(rng: np.random.Generator, space: Space) -> AdditiveScores:
    """Of choices and pairs of them."""
    choices = {choice.path: choice for choice in space.choices}
    paths = [(path,) for path in choices] + [tuple(rng.choice(list(choices), 2, replace=False)) for _ in range(3)]
    terms = []
    for one in dict.fromkeys(paths):
        outcomes = product(*(range(choices[path].outcome_count) for path in one))
        terms.append(Term(one, {o: Fraction(int(rng.integers(-99, 99)), 7) for o in outcomes}))
    return AdditiveScores(space.name, tuple(terms), Fraction(1, 3))


def checked(seed: int, most: int = 4) -> int:
    """Compare an answer with the list; how many bounds contradict each other."""
    rng = np.random.default_rng(seed)
    name = ("taps", "nested", "bench")[seed % 3]
    space, codes, costs = everything(name)
    fixed = {} if name != "bench" else {one.path: one.label((3, 0)[i]) for i, one in enumerate(space.choices[:2])}
    held = bounds(rng, costs, most)
    if name == "nested":
        thrice = [space.decode(row)["n"] == 3 for row in codes]
        held.append((OWN, costs["params"] <= np.where(thrice, 700, 900)))
    fine = np.logical_and.reduce([one for _, one in held])
    where = " and ".join(text for text, _ in held if text != OWN)
    space = archir.loads(SPACES[name].replace("OWN", f"require {OWN}"))
    best = int(rng.integers(1, 4))
    if rng.random() < 0.5:
        wanted = scores(rng, space)
        each = [wanted(space.decode(row)) for row in codes[fine]]
        answer = archir.optimize(space, maximize=wanted, where=where, fixed=fixed, best=best)
        values = sorted(each, reverse=True)[:best]
    else:
        cost, greatest = str(rng.choice(COSTS[:-1])), bool(rng.random() < 0.5)
        named = {"maximize": cost} if greatest else {"minimize": cost}
        answer = archir.optimize(space, **named, where=where, fixed=fixed, best=best)
        values = sorted(map(Fraction, costs[cost][fine].tolist()), reverse=greatest)[:best]
    assert answer.proved
    assert list(answer.values) == values, (seed, where)
    if values:
        return 0
    assert answer.is_minimal
    kept = dict(held)
    parts = [kept[one.bound.text] for one in answer.conflict]
    assert not np.logical_and.reduce(parts).any(), "what contradicts each other leaves something"
    for i in range(len(parts)):
        others = [part for j, part in enumerate(parts) if j != i]
        assert not others or np.logical_and.reduce(others).any(), "one bound less still leaves nothing"
    return len(parts)


@pytest.mark.parametrize("seed", with_soak(range(SETS), range(7)))
def test_optimum_or_conflict_equals_brute_force(seed: int) -> None:
    checked(seed)


@pytest.mark.soak
def test_conflicts_are_minimal() -> None:
    """Fifty of two bounds and more: each bound left out, there are architectures."""
    sizes = []
    for seed in range(10_000, 12_000):
        sizes.append(checked(seed, 5))
        if sum(size >= 2 for size in sizes) == CONTRADICTIONS:
            break
    assert sum(size >= 2 for size in sizes) == CONTRADICTIONS
