"""What a step of a supernet trains: the largest, the smallest, uniform draws, operators first, alternatives alike."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

import archir
from archir.spaces.completion import complete, largest, smallest
from archir.spaces.path_sampling import fair, sandwich, single
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

BLOCK = """
net block() {
    input x: f32[4, 8, 8]
    operator = choose operator @operator("conv", "local", "axial")
    y = match operator {
        "conv" => x |> conv(choose conv_width(4, 8), kernel=choose conv_kernel(1, 3, 5))
        "local" => x |> conv(
            choose local_width(4, 8) * choose local_value(1, 2), kernel=choose local_kernel(1, 3, 5)
        ) |> conv(choose local_heads(4, 8) * choose local_query(1, 2), kernel=1)
        "axial" => x |> conv(choose axial_width(4, 8) * choose axial_value(1, 2), kernel=1) |> conv(
            choose axial_heads(4, 8) * choose axial_query(1, 2), kernel=1
        )
    }
    output logits = y |> global_avg_pool |> linear(3)
}
"""
"""One block with operators of 6, 48 and 16 settings, as TrioNet's (Pi et al. 2021, table 1)."""
OPERATORS = ("conv", "local", "axial")


@pytest.fixture(scope="module")
def block() -> Space:
    return archir.loads(BLOCK)


@pytest.fixture(scope="module")
def trionet() -> Space:
    return archir.load(EXAMPLES / "trionet" / "trionet.arch", channels=64, size=32, classes=4)


def operators(space: Space, count: int, draw: str) -> list[int]:
    """How often a step, or a uniform draw, has each operator."""
    rng = random.Random(0)
    found: Counter[object] = Counter()
    for _ in range(count):
        if draw == "hierarchical":
            found.update(path["operator"] for path in sandwich(space, rng, 1, {"operator"})[2:])
        else:
            found.update([space.sample(rng)["operator"]])
    return [found[name] for name in OPERATORS]


def test_hierarchical_sampling_is_uniform_over_operators(block: Space) -> None:
    """Uniform over operators, where uniform over candidates is 6 : 48 : 16 (section 3.4)."""
    assert block.size == 6 + 48 + 16
    count = 2_000
    hierarchical = operators(block, count, "hierarchical")
    assert chisquare(hierarchical).pvalue > 1e-3
    uniform = operators(block, count, "uniform")
    assert chisquare(uniform, [count * part / 70 for part in (6, 48, 16)]).pvalue > 1e-3
    assert chisquare(uniform).pvalue < 1e-9


def test_sandwich_samples_uniformly_over_architectures_on_request(block: Space) -> None:
    rng = random.Random(2)
    draws = [sandwich(block, rng, 1, policy="architectures")[2]["operator"] for _ in range(2_000)]
    counts = Counter(map(str, draws))
    found = [counts[name] for name in ("conv", "local", "axial")]
    assert chisquare(found, [2_000 * part / 70 for part in (6, 48, 16)]).pvalue > 1e-3


def test_settings_are_uniform_given_the_operator(block: Space) -> None:
    rng = random.Random(1)
    draws = [sandwich(block, rng, 1, {"operator"})[2] for _ in range(2_000)]
    local = Counter(str(path["local_kernel"]) for path in draws if path["operator"] == "local")
    assert chisquare(list(local.values())).pvalue > 1e-3
    assert len(local) == 3


def test_all_paths_of_a_step_have_the_same_operators(trionet: Space) -> None:
    first = {choice.path for choice in trionet.choices if "operator" in choice.tags}
    for seed in range(8):
        paths = sandwich(trionet, random.Random(seed), 2, first)
        for path in first:
            assert len({one[path] for one in paths if path in one}) == 1


CONSTRAINED = """
net constrained() {{
    input x: f32[4, 8, 8]
    depth = choose depth(1, 2)
    other = choose other(1, 3, 5)
    shared = choose shared(1, 3, 5)
    x = x |> conv(4, kernel=other) |> conv(4, kernel=shared)
    repeat depth {{ x = x |> choose op {{ conv: conv(4, kernel=1), act: relu, wide: conv(4, kernel=3) }} }}
    {require}
    output y = x
}}
"""


@pytest.mark.parametrize("policy", ["choices", "architectures"])
@pytest.mark.parametrize("shared", [{"shared"}, {"shared", "op[0]", "op[1]"}])
@pytest.mark.parametrize("require", ["require other == shared", "require shared != 5", "require other + shared <= 6"])
def test_constrained_paths_of_a_step_share_their_outcomes(require: str, shared: set[str], policy: Any) -> None:
    space = archir.loads(CONSTRAINED.format(require=require))
    everything = set(space.enumerate())
    drawn = set()
    for seed in range(20):
        paths = sandwich(space, random.Random(seed), 4, shared, policy=policy)
        assert everything.issuperset(paths)
        for path in shared:
            assert len({one[path] for one in paths if path in one}) == 1
        drawn.add(paths[0]["shared"])
        assert paths[0]["depth"] == 2
    assert drawn == {one["shared"] for one in everything}


def test_sandwich_is_uniform_over_architectures_with_the_shared_outcomes() -> None:
    space = archir.loads("""
        net uneven() {
            input x: f32[4, 8, 8]
            x = x |> choose op { act: relu, conv: conv(4, kernel=choose kernel(1, 3, 5, 7)) }
            output y = x
        }
    """)
    rng = random.Random(0)
    draws = Counter(
        str(path["op"]) for path in sandwich(space, rng, 1_000, {"op.conv.kernel"}, "macs", "architectures")[2:]
    )
    assert chisquare(list(draws.values())).pvalue > 1e-3
    assert len(draws) == 2


def test_outcomes_that_only_excluded_outcomes_of_other_choices_allow_are_impossible() -> None:
    space = archir.loads("""
        net pair() {
            input x: f32[4]
            first = choose first(0, 1)
            second = choose second(0, 1, 2)
            require first == 0
            require second != 2 or first == 1
            output y = x |> linear(4 + first) |> linear(4 + second)
        }
    """)
    assert space.possible_outcomes == {"first": [0], "second": [0, 1]}


def test_shared_outcomes_of_inactive_choices_are_possible() -> None:
    """An outcome that no active choice can have would rule out the architectures in which the choice is active."""
    space = archir.loads("""
        net conditional() {
            input x: f32[4, 8, 8]
            depth = choose depth(1, 2)
            widths = [choose width(1, 3, 5) if i < depth else 0 for i in 0..2]
            require widths[1] != 5
            output y = x |> conv(depth * 8 + sum(widths))
        }
    """)
    path = space.choices[-1].path
    for seed in range(20):
        top = sandwich(space, random.Random(seed), 0, {path})[0]
        assert top["depth"] == 2
        assert top[path] in (1, 3)


@pytest.mark.parametrize("by", ["macs", "params"])
def test_the_sandwich_has_the_true_largest_and_smallest(block: Space, by: str) -> None:
    """Of all with the same operator, by brute force."""
    everything = list(block.enumerate())
    costs = dict(zip(everything, block.cost(everything, [by])[by].tolist(), strict=True))
    for seed in range(30):
        top, bottom, *_ = sandwich(block, random.Random(seed), 2, {"operator"}, by)
        same = [costs[one] for one in everything if one["operator"] == top["operator"]]
        assert (costs[top], costs[bottom]) == (max(same), min(same))
        assert bottom["operator"] == top["operator"]


def test_largest_and_smallest_equal_cost_extremes(trionet: Space) -> None:
    least, greatest = trionet.account.extremes("macs")
    costs = trionet.cost([smallest(trionet), largest(trionet)], ["macs"])["macs"].tolist()
    assert costs == [least.value, greatest.value]
    heads = {path: label for path, label in largest(trionet).items() if path.endswith("heads")}
    assert heads
    assert set(heads.values()) == {8}  # heads cost nothing: of equals, the last is taken, and the first in the smallest


def test_fair_step_uses_each_alternative_equally_often(block: Space) -> None:
    paths = fair(block, random.Random(0))
    assert len(paths) == 6  # the least common multiple of 3 and 2
    assert set(Counter(path["operator"] for path in paths).values()) == {2}


def test_paths_satisfy_constraints(tmp_path: Path) -> None:
    space = archir.loads("""
        net bounded() {
            input x: f32[4, 8, 8]
            a = choose a(4, 8, 16)
            b = choose b(4, 8, 16)
            require a != b
            require macs <= 20K
            output logits = x |> conv(a, kernel=1) |> conv(b, kernel=1) |> global_avg_pool |> linear(3)
        }
    """)
    rng = random.Random(0)
    everything = set(space.enumerate())
    for _ in range(50):
        for path in [*single(space, rng), *sandwich(space, rng, 2), *fair(space, rng)]:
            assert path in everything
    made = {"a": 0, "b": 0}  # against the first constraint: the second choice is drawn
    assert complete(space, made, rng) in everything


def test_paths_are_deterministic_for_a_seed(trionet: Space) -> None:
    for draw in (single, sandwich, fair):
        assert draw(trionet, random.Random(7)) == draw(trionet, random.Random(7))  # type: ignore[operator]
