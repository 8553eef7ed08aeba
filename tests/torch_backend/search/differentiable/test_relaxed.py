"""Curvature, limits, schedules and penalties of searches with architecture parameters."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError
from archir.passes.cost import cost
from archir.recipes.derivation import derive_limited, overfull_cells
from archir.recipes.recipe import Derive, SkipLimit
from archir.recipes.training import AlphasOptimizer, Training
from archir_torch.strategies.curvature import dominant_eigenvalue, rollback_epoch
from archir_torch.strategies.expected_cost import ExpectedCost
from archir_torch.strategies.relaxed import Relaxed
from archir_torch.training.loop import run
from tests.torch_backend.searches import doubles, space, strategy, tiny


def test_dominant_eigenvalue_equals_hessian_eigenvalue() -> None:
    matrix = doubles(6, 6)
    matrix = matrix + matrix.T
    point = doubles(2, 3, seed=1)

    def loss() -> Tensor:
        x = parameters.flatten()
        return (x @ matrix @ x) / 2 + 1e-3 * x.pow(4).sum()

    parameters = point.clone().requires_grad_()
    hessian = torch.autograd.functional.hessian(
        lambda x: (x @ matrix @ x) / 2 + 1e-3 * x.pow(4).sum(), point.flatten(), vectorize=False
    )
    values = torch.linalg.eigvalsh(hessian)
    wanted = float(values[values.abs().argmax()])
    noise = torch.Generator().manual_seed(0)
    found = dominant_eigenvalue(loss, parameters, noise, iterations=500, tolerance=1e-9)
    assert found == pytest.approx(wanted, rel=1e-4)
    torch.testing.assert_close(parameters.detach(), point, rtol=0, atol=0)


def test_rollback_epoch_detects_rapid_eigenvalue_rise() -> None:
    """Zela et al., section 4.3: the mean of five, five epochs ago, over the mean of five now, below 0.75."""
    calm = [1.0] * 12
    assert rollback_epoch(calm) is None
    assert rollback_epoch([*calm, 2.0]) is None  # mean 1.2 now: 0.83
    assert rollback_epoch([*calm, 2.0, 2.0]) == 8  # mean 1.4: 0.71; five epochs before the last
    assert rollback_epoch([1.0, 5.0, 9.0]) is None, "there is nothing to compare with yet"


def test_skip_limit_replaces_weakest_skips_first() -> None:
    made = space(
        "net n() { input x: f32[4, 4, 4]; y = x |> cell1; output z = y |> cell2 }; "
        + "; ".join(
            f"block cell{i}(x) {{ a = x |> choose a {{ skip: identity, op: relu }}; "
            "b = a |> choose b { skip: identity, op: relu }; "
            "return b |> choose c { skip: identity, op: relu, other: gelu } }"
            for i in (1, 2)
        )
    )
    strengths = {
        "cell1.a": [0.6, 0.4], "cell1.b": [0.9, 0.1], "cell1.c": [0.7, 0.1, 0.2],
        "cell2.a": [0.1, 0.9], "cell2.b": [0.8, 0.2], "cell2.c": [0.5, 0.3, 0.2],
    }  # fmt: skip

    def found(**settings: Any) -> dict[str, Any]:
        limit = SkipLimit(labels=("skip",), **settings)
        return dict(derive_limited(made, strengths, Derive(limit=limit)))

    free = dict(derive_limited(made, strengths, Derive()))
    assert free == found(most=3)
    assert [free[f"cell1.{c}"] for c in "abc"] == ["skip"] * 3
    assert found(most=2) == {**free, "cell1.a": "op"}
    assert found(most=1) == {**free, "cell1.a": "op", "cell1.c": "other", "cell2.c": "op"}
    assert "skip" not in found(most=0).values()
    assert strengths["cell1.a"] == [0.6, 0.4]


def searched(options: dict[str, Any], epochs: int = 4, kind: str = "darts") -> Relaxed:
    optimizer = AlphasOptimizer(lr=0.1, betas=(0.9, 0.999), weight_decay=0)
    search = strategy(kind, options, epochs=epochs, alphas=optimizer)
    assert isinstance(search, Relaxed)
    run(search, epochs=search.epochs, steps=search.steps)
    return search


def entropy(search: Relaxed) -> float:
    return float(search.alphas.entropy().detach())


def test_the_weight_of_the_entropy_changes_by_epochs() -> None:
    search = strategy("darts", {"entropy": {"first": -1.0, "last": 2.0}}, epochs=4)
    assert isinstance(search, Relaxed)
    with torch.no_grad():
        each = float(search.alphas.entropy())
        found = [float(search._regularization(epoch * search.steps + step)) for epoch in range(4) for step in (0, 2)]
    assert found == pytest.approx([weight * each for weight in (-1, -1, 0, 0, 1, 1, 2, 2)], abs=1e-6)


def test_entropy_sharpens_or_levels_choices() -> None:
    free, sharp, level = (
        entropy(searched({"entropy": {"first": weight, "last": weight}}, epochs=10)) for weight in (0.0, 10.0, -10.0)
    )
    assert sharp < free < level
    assert sharp < 0.8 * free


def test_derived_architecture_keeps_bounds_and_fixed_choices() -> None:
    made = space(
        "net n() { input x: f32[1, 6, 6]; x = x |> conv(4); x = x |> choose a { wide: conv(4), skip: identity }; "
        "x = x |> choose b { wide: conv(4), skip: identity }; output y = x |> global_avg_pool |> linear(3) }"
    )
    most = int(made.account.extremes("macs")[1].value)

    def found(options: dict[str, Any], **more: Any) -> dict[str, Any]:
        search = strategy("darts", options, space=made, **more)
        assert isinstance(search, Relaxed)
        search.history.append(torch.tensor([[5.0, 0.0], [2.0, 0.0]])[: len(search.alphas.choices)])
        return dict(search.outcome().architecture or {})

    assert found({}) == found({"where": f"macs <= {most}"}) == {"a": "wide", "b": "wide"}
    assert found({"where": f"macs < {most}"}) == {"a": "wide", "b": "skip"}
    assert found({"where": f"macs < {most}"}, open=["a"], fixed={"b": "wide"}) == {"a": "skip", "b": "wide"}
    assert found({}, fixed={"b": "skip"}) == {"a": "wide", "b": "skip"}, "without `open`, `fixed` holds what it names"


def test_a_penalty_lowers_the_expected_cost() -> None:
    def cost(search: Relaxed) -> float:
        with torch.no_grad():
            return float(ExpectedCost(search.job.space, "macs")(search.alphas.outcome_probabilities()))

    least = float(
        ExpectedCost(tiny(), "macs")({"first": torch.tensor([1.0, 0, 0, 0]), "inner": torch.tensor([1.0, 0])})
    )
    free = cost(searched({}))
    heavy = cost(searched({"penalty": {"weight": 30.0}}, epochs=8))
    assert least <= heavy < least + 0.1 * (free - least)
    target = (free + least) / 2
    near = cost(searched({"penalty": {"weight": 30.0, "target": target}}, epochs=8))
    assert heavy < near < target, "below the target, the penalty is nothing"


def test_a_penalty_is_of_the_choices_that_are_open() -> None:
    made = space(
        "net n() { input x: f32[1, 6, 6]; x = x |> choose a { wide: conv(4), skip: conv(2) }; "
        "x = x |> choose b { wide: conv(16), skip: conv(1) }; output y = x |> global_avg_pool |> linear(3) }"
    )
    search = strategy("darts", {"penalty": {"weight": 1.0}}, space=made, fixed={"b": "skip"})
    assert isinstance(search, Relaxed)
    assert search.expected is not None
    wanted = [made.specialize(made.architecture({"a": label, "b": "skip"})) for label in ("wide", "skip")]
    with torch.no_grad():
        found = float(search.expected(search.alphas.outcome_probabilities()))
    assert found == pytest.approx(sum(cost(graph).macs for graph in wanted) / 2, rel=1e-2)


def test_rejects_sharding_of_objectives_with_weights() -> None:
    training = Training(epochs=1, sharding="full")
    one = space("net one() { input x: f32[1, 6, 6]; y = x |> conv(4, kernel=3); output logits = y |> global_avg_pool }")
    with pytest.raises(ArchError, match=r"A1109.*an objective with weights of its own"):
        strategy("train", space=one, training=training, objective={"kind": "context_autoregression"})


@pytest.mark.parametrize("kind", ["darts", "gdas", "snas"])
def test_a_search_without_architecture_parameters_is_refused(kind: str) -> None:
    several = space(
        "net n() { input x: f32[1, 6, 6]; c = choose c 2 of [x |> relu, x |> gelu, x]; "
        "output y = sum(c) |> conv(3) |> global_avg_pool |> linear(3) }"
    )
    with pytest.raises(ArchError, match=r'A2215.*\n.*options.edges = "weighted"'):
        strategy(kind, space=several)
    assert {"loss", "alphas_loss"} == set(strategy(kind, {"edges": "weighted"}, space=several).step(0))
    alone = space("net n() { input x: f32[1, 6, 6]; output y = x |> conv(3) |> global_avg_pool |> linear(3) }")
    with pytest.raises(ArchError, match=r"A2215.*\n.*`train`"):
        strategy(kind, space=alone)


KINDS = ('"skip"', '"act"', '"pool"')


def test_unsatisfiable_skip_limit_is_an_error() -> None:
    """The space asks for what is limited: giving it up again and again would not end."""
    made = space(
        "net n() { input x: f32[2, 4, 4]; x = x |> choose a { skip: identity, act: relu }; "
        "x = x |> choose b { skip: identity, act: relu }; output y = x }"
    )
    forced = space(
        'net n() { input x: f32[2, 4, 4]; a = choose a("skip", "act"); b = choose b("skip", "act"); '
        'require a == "skip"; output y = x |> conv(1 if a == b else 2) }'
    )
    equal = {"a": [0.5, 0.5], "b": [0.6, 0.4]}
    limit = SkipLimit(labels=("skip",), most=0)
    assert dict(derive_limited(made, equal, Derive(limit=limit))) == {"a": "act", "b": "act"}
    with pytest.raises(ArchError, match=r"A2101.*no more than 0 of `skip` cannot be kept"):
        derive_limited(forced, equal, Derive(limit=limit))


def test_skip_limit_is_kept_whenever_satisfiable() -> None:
    """Also where giving up the weakest one by one leads to nothing: in spaces of two cells with requirements between
    them, against a list of their architectures."""
    ends = {True: 0, False: 0}
    for seed in range(40):
        draw = random.Random(seed)
        chosen = "; ".join(f"{name} = choose {name}({', '.join(KINDS)})" for name in "ab")
        cells = [f"block cell{i}(x) {{ {chosen}; return [a, b] }}" for i in (1, 2)]
        names = ["one", "two", "three", "four"]
        rules = [
            f"require ({one} == {draw.choice(KINDS)}) != ({other} == {draw.choice(KINDS)})"
            for one, other in (draw.sample(names, 2) for _ in range(draw.randint(2, 4)))
        ]
        text = "; ".join([
            "net n() { input x: f32[2, 4, 4]", "one, two = cell1(x)", "three, four = cell2(x)", *rules,
            "output y = x |> conv(len([0 for kind in [one, two, three, four] if kind == \"act\"]) + 1) }", *cells,
        ])  # fmt: skip
        try:
            made = space(text)
            every = list(made.enumerate())
        except ArchError:
            continue
        most = draw.choice([0, 0, 1])
        limit = SkipLimit(labels=("skip",), most=most)
        strengths = {one.path: [draw.random() + 0.5, draw.random(), draw.random()] for one in made.choices}
        possible = any(not overfull_cells(one, limit) for one in every)
        ends[possible] += 1
        if possible:
            assert not overfull_cells(derive_limited(made, strengths, Derive(limit=limit)), limit), text
        else:
            with pytest.raises(ArchError, match="A2101"):
                derive_limited(made, strengths, Derive(limit=limit))
    assert min(ends.values()) >= 3, ends
