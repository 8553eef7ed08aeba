"""Expected costs of relaxed networks, against the mean of all architectures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from archir.diagrams.diagram import Choice, value_at
from archir.spaces.space import Space
from archir_torch.strategies.alphas import Alphas
from archir_torch.strategies.expected_cost import ExpectedCost
from tests.torch_backend.searches import doubles, space

COSTLY = """
cell body(x, n) { return x |> choose op { wide: conv(n), narrow: conv(n, kernel=1), none: identity } }

net costly() {
    input x: f32[4, 8, 8]
    width = choose width(4, 8)
    x = x |> conv(width) |> body(width)
    repeat choose depth(1, 2) {
        x = x |> choose act { one: conv(width, kernel=1) |> relu, two: relu }
    }
    picks = choose picks 2 of [x, x |> conv(width), x |> conv(width, kernel=1)]
    output y = picks[0] + picks[1] |> body(width)
}
"""
"""A value, a tied choice, conditional ones, two of three."""


def brute_force(made: Space, probabilities: dict[str, Tensor], cost: str) -> Tensor:
    """Over every combination of outcomes of all choices, those that are inactive among them."""
    known: dict[str, float] = {}
    total = torch.zeros((), dtype=torch.double)
    for outcomes in product(*(range(choice.outcome_count) for choice in made.choices)):
        chosen = dict(zip([choice.path for choice in made.choices], outcomes, strict=True))
        architecture = made.decode(made.encode(labelled(made, chosen)))
        key = str(architecture.codes)
        if key not in known:
            known[key] = float(made.cost([architecture], [cost])[cost][0])
        p = torch.ones((), dtype=torch.double)
        for path, outcome in chosen.items():
            p = p * probabilities[path][outcome]
        total = total + p * known[key]
    return total


def labelled(made: Space, outcomes: dict[str, int]) -> dict[str, Any]:
    """Labels of the choices that exist under some outcomes."""
    found: dict[str, Any] = {}
    for decision in made.order:
        path = decision.choice.path
        if value_at(decision.active, outcomes) is True:
            found[path] = decision.choice.label(outcomes[path])
    return found


def drawn_probabilities(choices: Sequence[Choice], seed: int) -> dict[str, Tensor]:
    return {c.path: doubles(c.outcome_count, seed=seed + i).softmax(0) for i, c in enumerate(choices)}


@pytest.mark.parametrize("cost", ["macs", "params"])
def test_expected_costs_are_the_mean_of_all_architectures(cost: str) -> None:
    made = space(COSTLY)
    expected = ExpectedCost(made, cost)
    p = drawn_probabilities(made.choices, 3)
    torch.testing.assert_close(expected(p), brute_force(made, p, cost), rtol=1e-12, atol=0)
    uniform = {c.path: torch.full((c.outcome_count,), 1 / c.outcome_count, dtype=torch.double) for c in made.choices}
    torch.testing.assert_close(expected({}), brute_force(made, uniform, cost), rtol=1e-12, atol=0)


def test_expected_cost_gradient_equals_finite_differences() -> None:
    made = space(COSTLY)
    expected = ExpectedCost(made, "macs")
    alphas = Alphas(made.choices, [c.path for c in made.choices], "zeros").double()
    with torch.no_grad():
        alphas.logits.copy_(doubles(*alphas.logits.shape))
    expected(alphas.outcome_probabilities()).backward()  # type: ignore[no-untyped-call]
    gradient = alphas.logits.grad
    assert gradient is not None
    for row, choice in enumerate(alphas.choices):
        for position in range(len(choice.alternatives)):
            sides = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    alphas.logits[row, position] += step
                    sides.append(float(expected(alphas.outcome_probabilities())))
                    alphas.logits[row, position] -= step
            assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(float(gradient[row, position]), rel=1e-5, abs=1e-3)
    assert all(gradient.abs().amax(1) > 1)
