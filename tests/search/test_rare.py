"""Rare alternatives: exact integer weights keep them possible in sampling, completion and evolution."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.job import SupernetRecord
from archir.recipes.open_choices import fix_choices
from archir.search import variation
from archir.spaces.completion import complete, largest, smallest
from archir.spaces.path_sampling import fair, single
from archir.spaces.space import Space
from archir.utils.distributions import Distribution
from archir_torch.supernet.network import SuperNetwork, extract

ORDERS = ("deep: branch, skip: identity", "skip: identity, deep: branch")


def beside(alternatives: str) -> Space:
    """`skip` is one architecture beside 7^20, which is 8e16."""
    return archir.loads(f"""
        cell branch(x) {{
            for i in 0..20 {{
                x = x |> choose op {{ a: relu, b: gelu, c: silu, d: tanh, e: sigmoid, f: identity, g: conv(4) }}
            }}
            return x
        }}
        net rare() {{ input x: f32[4, 6, 6]
            output y = x |> choose way {{ {alternatives} }} |> global_avg_pool |> linear(2)
        }}
    """)


@pytest.fixture(params=ORDERS, scope="module")
def space(request: pytest.FixtureRequest) -> Space:
    return beside(request.param)


def ways(architectures: object) -> Counter[str]:
    return Counter(one["way"] for one in architectures)  # type: ignore[attr-defined]


def test_samplers_by_choices_find_rare_alternative(space: Space) -> None:
    assert space.size == 7**20 + 1
    rng = random.Random(0)
    assert 200 < ways(space.sample(rng, "choices") for _ in range(500))["skip"] < 300
    assert 200 < ways(map(space.decode, space.sample_codes(500, np.random.default_rng(0), "choices")))["skip"] < 300
    assert 20 < ways(single(space, rng, samples=80))["skip"] < 60
    for _ in range(3):
        assert ways(fair(space, rng)) == {"skip": 7, "deep": 7}


def test_completed_rare_architecture_stays_unchanged(space: Space) -> None:
    rng = random.Random(0)
    skip = space.architecture({"way": "skip"})
    assert space.decode(space.complete_codes(skip.outcomes, rng)) == skip
    assert complete(space, skip.outcomes, rng) == skip
    assert space.from_outcomes(skip.outcomes) == skip
    assert space.repair(skip.codes, rng) == skip
    assert smallest(space, skip.outcomes) == largest(space, skip.outcomes) == skip
    opened = fix_choices(space, ["*"], {}, None)
    assert opened.completed(skip) == opened.restricted(skip) == skip


def test_mutation_reaches_and_leaves_rare_architecture(space: Space) -> None:
    rng = random.Random(0)
    skip = space.architecture({"way": "skip"})
    deep = space.mutate(skip, rng)
    assert deep["way"] == "deep"
    assert skip in space.neighbors(deep)
    assert [one["way"] for one in space.neighbors(skip)] == ["deep"]
    assert skip in {space.mutate(deep, rng) for _ in range(300)}
    assert skip in {variation.moved(space, deep, rng) for _ in range(300)}
    assert skip.codes in {variation.resample_codes(space, deep.codes, rng, 0.5) for _ in range(50)}
    assert skip.codes in {variation.crossover_codes(space, deep.codes, skip.codes, rng) for _ in range(50)}


def test_rare_architecture_inherits_supernet_weights(space: Space) -> None:
    model = SuperNetwork(space.graph, torch.Generator().manual_seed(0))
    skip = space.architecture({"way": "skip"})
    own = SupernetRecord.of(fix_choices(space, ["*"], {}, None), model.graph, "heads").to_supernet(model.graph, skip)
    assert own == skip
    images = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(extract(model, own)(images), model(images, skip), rtol=0, atol=0)


def test_rejects_outcomes_that_break_constraints_or_lack_choices() -> None:
    space = archir.loads("""
        net small() { input x: f32[4, 6, 6]
            a = choose a(1, 2)
            b = choose b(1, 2)
            require a != b
            output y = x |> conv(a) |> conv(b) |> choose c { one: relu, two: conv(choose width(2, 4)) }
        }
    """)
    with pytest.raises(ArchError, match=r"A1008.*breaks `require a != b`"):
        space.from_outcomes({"a": 0, "b": 0, "c": 0})
    with pytest.raises(ArchError, match=r"A1004.*`c.two.width` is missing"):
        space.from_outcomes({"a": 0, "b": 1, "c": 1})
    assert space.from_outcomes({"a": 0, "b": 1, "c": 0, "c.two.width": 1, "other": 3}).outcomes == {
        "a": 0,
        "b": 1,
        "c": 0,
    }
    narrow = fix_choices(space, ["b", "c", "c.two.width"], {"a": 1}, None)
    with pytest.raises(ArchError, match=r"A2209.*`a` is held at 1, but this architecture has 2"):
        narrow.restricted(space.architecture({"a": 2, "b": 1, "c": "one"}))
    assert narrow.completed(narrow.space.from_outcomes({"b": 1, "c": 0})) == space.from_outcomes(
        {"a": 0, "b": 1, "c": 0}
    )


# distributions

WEIGHTS = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 10**40)), min_size=1, max_size=6).filter(any)


class Scripted:
    """A source of random bits, as both kinds of generators ask for them: first 53 of a float, then 53 at a time."""

    def __init__(self, point: int, length: int) -> None:
        self.left = [point >> 53 * i & 2**53 - 1 for i in reversed(range(length))]

    def random(self, n: int | None = None) -> object:
        first = self.left.pop(0) / 2**53
        return first if n is None else np.array([first])

    def getrandbits(self, bits: int) -> int:
        assert bits == 53
        return self.left.pop(0)

    def integers(self, most: int) -> int:
        assert most == 2**53
        return self.left.pop(0)


def near(weights: list[int]) -> st.SearchStrategy[int]:
    """Points of 12 * 53 bits, many of them next to where an outcome ends."""
    ends = [(end << 12 * 53) // sum(weights) for end in accumulate(weights)]
    offsets = st.one_of(st.integers(-3, 3), st.integers(-(2**600), 2**600))
    beside = st.builds(lambda end, by: min(max(end + by, 0), 2 ** (12 * 53) - 1), st.sampled_from(ends), offsets)
    return beside | st.integers(0, 2 ** (12 * 53) - 1)


@given(st.data())
def test_samples_equal_exact_fractions(data: st.DataObject) -> None:
    weights = data.draw(WEIGHTS)
    point = data.draw(near(weights))
    distribution = Distribution.of(*weights)
    assert distribution.possible == tuple(i for i, weight in enumerate(weights) if weight)
    exact = bisect_right([Fraction(end, sum(weights)) for end in accumulate(weights)], Fraction(point, 2 ** (12 * 53)))
    try:
        assert distribution.sample(Scripted(point, 12)) == exact  # type: ignore[arg-type]
        assert distribution.sample_many(1, Scripted(point, 12)).tolist() == [exact]  # type: ignore[arg-type]
    except IndexError:  # the point lies so near an end that more bits are wanted
        ends = [Fraction(end, sum(weights)) for end in accumulate(weights)]
        assert any(abs(Fraction(point, 2 ** (12 * 53)) - end) <= Fraction(1, 2 ** (12 * 53)) for end in ends)


def test_batched_samples_equal_single_samples() -> None:
    distribution = Distribution.of(3, 0, 10**16, 1, 7)
    numbers = np.random.default_rng(0).random(1000)

    class Given:
        def __init__(self) -> None:
            self.left = list(numbers)

        def random(self, n: int | None = None) -> object:
            return self.left.pop(0) if n is None else numbers

    one_by_one = Given()
    alone = [distribution.sample(one_by_one) for _ in numbers]  # type: ignore[arg-type]
    assert distribution.sample_many(1000, Given()).tolist() == alone  # type: ignore[arg-type]


def test_sample_frequencies_match_weights() -> None:
    distribution = Distribution.of(0, 1, 2, 0, 5)
    counts = np.bincount(distribution.sample_many(80_000, np.random.default_rng(0)), minlength=5)
    assert np.abs(counts - np.array([0, 10_000, 20_000, 0, 50_000])).max() < 700
