"""Cost extremes of spaces with chosen wiring and widths are exact or stated as bounds."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archir.cli import main
from archir.costs.extremes import forward_search
from archir.costs.extremes.elimination import minimize
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import WorkError, work_budget
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, make_diagram, value_at
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision
from archir.language.elaboration.elaborate import elaborate
from archir.passes.cost import ADDITIVE_COSTS, cost
from archir.spaces.space import Space
from tests.conftest import ROOT
from tests.ir.test_needs import ORDERED
from tests.soak import with_soak

SPACES = ROOT / "tests" / "spaces"
CHOICES = [Choice(f"c{i}", (0, 1, 2), i) for i in range(4)]
DECISIONS = [Decision(choice) for choice in CHOICES]


def loaded(name: str, **parameters: int) -> Space:
    return Space(elaborate((SPACES / f"{name}.arch").read_text(), parameters=parameters, folder=SPACES))


def made(numbers: list[int], choices: list[Choice]) -> Value:
    """The diagram of a table."""
    if not choices:
        return numbers[0]
    size = len(numbers) // choices[0].outcome_count
    parts = [numbers[i * size : (i + 1) * size] for i in range(choices[0].outcome_count)]
    return make_diagram(choices[0], [made(part, choices[1:]) for part in parts])


@st.composite
def terms(draw: st.DrawFn) -> Value:
    chosen = sorted(draw(st.sets(st.sampled_from(CHOICES), min_size=1, max_size=3)), key=lambda c: c.order)
    numbers = draw(
        st.lists(st.sampled_from([-1, -1, -1, 0, 2, 5]), min_size=3 ** len(chosen), max_size=3 ** len(chosen))
    )
    return made(numbers, chosen)


@given(
    st.lists(terms(), min_size=1, max_size=5), st.lists(terms(), max_size=2), st.sampled_from([0, 2, 4_000]),
    st.sampled_from([inf, 100, 400]),
)  # fmt: skip
@example(
    [made([-1, -1, -1, 0, 2, 5, 0, 2, 5], CHOICES[:2]), made([4, 2, 3, 4, 2, 3, 9, 9, 8], CHOICES[:2])], [], 4_000, inf
)
@settings(deadline=None)
def test_minimize_gives_exact_minimum_or_bound(
    values: list[Value], wanted: list[Value], most: int, work: float
) -> None:  # fmt: skip
    conditions = [lift(lambda leaf: leaf > -1, value) for value in wanted]
    totals = []
    for number in range(3 ** len(CHOICES)):
        outcomes = {choice.path: number // 3**i % 3 for i, choice in enumerate(CHOICES)}
        if all(value_at(condition, outcomes) for condition in conditions):
            totals.append(sum(value_at(value, outcomes) for value in values))
    searches = (
        lambda: minimize(values, conditions, DECISIONS, most),
        lambda: forward_search.minimize(values, conditions, DECISIONS),
    )
    for search in searches:
        try:
            with work_budget(work):
                found = search()
        except WorkError:
            assert work < inf
            continue
        if found is None:
            assert not totals
        elif totals:
            assert found.bound <= min(totals)
            if found.exact:
                assert found.bound == min(totals)
                assert found.outcomes is not None
                assert sum(value_at(value, found.outcomes) for value in values) == min(totals)
                assert all(value_at(condition, found.outcomes) for condition in conditions)
        assert min(most, work) < 4_000 or found is None or found.exact


def test_forward_search_distinguishes_states_beyond_64_bits() -> None:
    choices = [Choice(f"c{i}", tuple(range(6)), i) for i in range(40)]
    alike = [made([a == b for a in range(6) for b in range(6)], [*pair]) for pair in pairwise(choices)]
    terms = [made([(a - 3) ** 2 + b for a in range(6) for b in range(6)], [one, choices[-1]]) for one in choices[:-1]]
    found = forward_search.minimize(terms, alike, [Decision(choice) for choice in choices])
    assert found is not None
    assert found.bound == min(39 * ((a - 3) ** 2 + a) for a in range(6))
    assert set(found.outcomes.values()) == {2}  # type: ignore[union-attr]


def test_forward_search_stops_at_too_many_states() -> None:
    choices = [Choice(f"c{i}", tuple(range(6)), i) for i in range(20)]
    pairs = [made([a * b for a in range(6) for b in range(6)], [one, choices[-1]]) for one in choices[:-1]]
    with pytest.raises(DiagramSizeError):
        forward_search.minimize(pairs, [], [Decision(choice) for choice in choices])


@pytest.mark.parametrize(
    "name",
    with_soak(
        ["enas_macro", "enas_micro", "nasnet", "amoebanet", "nas_bert"], ["enas_macro", "enas_micro", "nas_bert"]
    ),
)
def test_parameter_extremes_are_exact(name: str) -> None:
    space = loaded(name)
    codes = space.sample_codes(20, np.random.default_rng(0))
    costs = space.account.at(codes, ["params"])["params"]
    least_, greatest = space.account.extremes("params")
    assert least_.exact
    assert greatest.exact
    assert least_.value <= costs.min()
    assert costs.max() <= greatest.value
    for end in (least_, greatest):
        assert cost(space.specialize(space.decode(end.codes))).params == end.value


@pytest.mark.parametrize("layers", with_soak([6, 7], [6]))
def test_inexact_extremes_bound_all_sampled_costs(layers: int) -> None:
    space = Space(elaborate(ORDERED % layers))
    names = [*ADDITIVE_COSTS, "peak_bytes"]
    codes = space.sample_codes(10, np.random.default_rng(0))
    costs = space.account.at(codes, names)
    for row, architecture in enumerate(map(space.decode, codes)):
        alone = cost(space.specialize(architecture))
        assert {name: int(column[row]) for name, column in costs.items()} == {n: getattr(alone, n) for n in names}
    for name in ("macs", "params"):
        least_, greatest = space.account.extremes(name)
        assert least_.bound <= least_.value <= costs[name].min()
        assert costs[name].max() <= greatest.value <= greatest.bound
    narrow = space.where(f"macs <= {space.account.extremes('macs')[0].value}")
    low, high = narrow.count()
    assert 0 <= low <= high <= space.satisfying


@pytest.mark.soak
def test_cost_command_marks_inexact_extremes(tmp_path: Path) -> None:
    path = tmp_path / "ordered.arch"
    path.write_text(ORDERED % 7)
    result = CliRunner().invoke(main, ["cost", str(path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["bounds"]["macs"][0] <= found["extremes"]["macs"][0]
    assert found["exact"]["macs"] == (found["bounds"]["macs"] == found["extremes"]["macs"])


def test_costs_beyond_64_bits_of_a_net_without_choices_are_refused() -> None:
    layer = "conv(8, kernel=2 ** 30 + 1)"
    net = Space(elaborate(f"net n {{\n input x: f32[8, 8, 8]\n output y = x |> {layer} |> {layer}\n}}"))
    for name in ("params", "macs"):
        with pytest.raises(ArchError, match=r"A1601.*64 bits"):
            net.account.extremes(name)
