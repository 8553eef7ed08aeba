"""Costs of choices over long integer ranges: unlisted products against listed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.costs import account, sums
from archir.costs.account import Account
from archir.costs.chain import Chain
from archir.costs.evaluators import NodeSums, TermSums
from archir.costs.extremes import arrays
from archir.costs.extremes import witnesses as bounds
from archir.costs.symbolic import SymbolicCosts
from archir.diagnostics.errors import fail
from archir.diagnostics.work import MAX_WORK, work_budget
from archir.diagrams import symbols
from archir.diagrams.diagram import outcome_in
from archir.ir import typing
from archir.passes.cost import ADDITIVE_COSTS
from archir.spaces.space import Space

FIRST = "x = x |> linear(a) |> gelu |> linear(b)"
STEPS = [
    "x = x |> linear(b, bias=choose bias(true, false))",
    "x = x |> choose op { one: linear(a) |> linear(c), two: linear(b) |> layer_norm, none: identity }",
    "repeat choose depth(1, 2) { x = x |> linear(choose inner(2..6)) |> linear(a) }",
    "x = concat(x |> linear(a), x |> linear(b))",
    "x = x |> linear(a) |> layer_norm |> choose kept { yes: linear(b), no: linear(a) }",
]
CONDITIONS = ["", "require a <= b", "require a + b <= 9"]


def space_of(steps: list[str], condition: str = "") -> Space:
    lines = ["input image: f32[3, 4]", "x = image"]
    lines += ["a = choose a(3..7)", "b = choose b(1..6)", "c = choose c(2, 5)", condition, FIRST, *steps]
    return archir.loads("net t {\n    " + "\n    ".join(lines) + "\n    output y = x\n}\n")


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_listed() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "MAX_LISTED", 0)
        patch.setattr(sums, "MAX_LISTED", 0)
        patch.setattr(symbols, "LONG_RANGE", 1)
        yield


def listed(space: Space, codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The costs of architectures, one after another."""
    found = [archir.cost(space.specialize(space.decode(row))) for row in codes]
    return np.array([[getattr(one, name) for name in ADDITIVE_COSTS] for one in found])


@given(st.lists(st.sampled_from(STEPS), max_size=2, unique=True), st.sampled_from(CONDITIONS))
@settings(deadline=None, max_examples=12)
def test_long_range_costs_equal_brute_force(steps: list[str], condition: str) -> None:
    space = space_of(steps, condition)
    codes = space.sample_codes(40, np.random.default_rng(0))
    wanted = listed(space, codes)
    index = {decision.choice.path: i for i, decision in enumerate(space.order)}
    symbolic = SymbolicCosts(space.graph)
    assert any(type(term) is sums.Product for term in symbolic.total_terms()["params"])
    assert space.account.table.at(codes).tolist() == wanted.tolist()
    assert TermSums(symbolic.total_terms(), index).at(codes).tolist() == wanted.tolist()
    rough = SymbolicCosts(space.graph, approximate=True)
    assert NodeSums(space.graph, rough.own_terms(), index).at(codes).tolist() == wanted.tolist()


@given(st.lists(st.sampled_from(STEPS), max_size=2, unique=True), st.sampled_from(CONDITIONS))
@settings(deadline=None, max_examples=12)
def test_extremes_agree_between_algorithms(steps: list[str], condition: str) -> None:
    space = space_of(steps, condition)
    for name in ADDITIVE_COSTS:
        chain = space.account.chain(name)
        for sign in (1, -1):
            wanted = bounds.extreme(chain, 0, sign)
            assert arrays.extreme(chain, 0, sign) == wanted
            assert wanted is not None
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(account, "MAX_SMALL_STEPS", 0)
                patch.setattr(arrays, "extreme", too_large)
                patch.setattr(Account, "_try_chain", lambda *_: None)
                found = space.account._find_extreme(name, sign)
            assert sign * found.bound <= sign * wanted.value <= sign * found.value
            assert found.codes is not None
            assert space.cost(np.array([found.codes]), [name])[name].tolist() == [found.value]
            if not condition:
                assert found.value == wanted.value


def too_large(*_: Any) -> None:
    raise fail("A1601", "too large")


def test_unsatisfiable_conditions_have_no_extreme() -> None:
    chain = space_of([]).account.chain("params")
    choice = chain.order[1].choice
    never = Chain(chain.order, [outcome_in(choice, [0]), outcome_in(choice, [1, 2])], chain.groups, chain.constant)
    assert arrays.extreme(never, 0, 1) is None
    assert bounds.extreme(never, 0, 1) is None


def test_scope_means_sum_to_total_mean() -> None:
    from archir.costs.means import means
    from archir.costs.scopes import total_costs

    space = space_of(STEPS[:3])
    account = space.account
    assert sum(means(account, "macs").values()) == total_costs(account)["macs"].mean


def elastic(layers: int) -> Space:
    block = "x = x + (x |> layer_norm |> linear(choose inner(1..2049)) |> gelu |> linear(width))"
    return archir.loads(
        "net elastic {\n input tokens: f32[16, 64]\n width = choose width(64..513)\n x = tokens |> linear(width)\n"
        f" for i in 0..{layers} {{ {block} }}\n output y = x |> linear(10)\n}}\n"
    )


def params(width: int, inner: int, layers: int) -> int:
    """The parameters of an elastic language model whose inner widths are all the same."""
    return 65 * width + layers * (2 * width + (width + 1) * inner + (inner + 1) * width) + 10 * width + 10


@pytest.mark.parametrize("layers", [1, 3, 24])  # tables of the last would be too large
def test_elastic_language_model_parameter_extremes_are_exact(layers: int) -> None:
    with pytest.MonkeyPatch.context() as patch, work_budget(2 * MAX_WORK):
        patch.setattr(typing, "MAX_LISTED", 4_096)
        patch.setattr(sums, "MAX_LISTED", 4_096)
        patch.setattr(symbols, "LONG_RANGE", 64)
        space = elastic(layers)
        least, greatest = space.account.extremes("params")
        assert (least.value, greatest.value) == (params(64, 1, layers), params(512, 2_048, layers))
        assert least.exact
        assert greatest.exact
        codes = space.sample_codes(2, np.random.default_rng(0))
        assert space.cost(codes)["params"].tolist() == listed(space, codes)[:, 0].tolist()
        few = space.where(f"params <= {params(100, 100, layers)}")
        if layers == 1:
            drawn = few.sample_codes(20, np.random.default_rng(0))
            assert few.cost(drawn)["params"].max() <= params(100, 100, layers)


def test_small_products_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "MAX_LISTED", 4_096)
    terms = SymbolicCosts(space_of(STEPS[:2]).graph).total_terms()
    assert all(type(term) is not sums.Product for own in terms.values() for term in own)
