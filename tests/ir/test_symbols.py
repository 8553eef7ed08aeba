"""Long integer ranges are not listed, with the same results as listed ones."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import work_budget
from archir.diagrams import symbols
from archir.diagrams.diagram import value_at
from archir.ir import typing
from archir.ir.reachability import reachability_conditions
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.language.elaboration.elaborate import elaborate

STEPS = [
    "x = x |> linear(a)",
    "x = x |> linear(b) |> gelu",
    "x = x |> linear(2 * a) |> layer_norm",
    "x = x + (x |> linear(b) |> linear(x.channels))",
    "x = x |> linear(a) + (x |> linear(b))",
    "x = concat(x, x |> linear(b))",
    "x = x[0:a]",
    "x = x |> linear(c * 4) |> linear(b) if a > 3 else x |> linear(a)",
    "x = x |> rms_norm |> transpose(0, 1) |> linear(b) |> transpose(0, 1)",
    "x = x |> reshape(x.channels, 4)",
    "x = x |> linear(a - 3)",
]


Told = list[tuple[object, ...]]


def told(text: str) -> Told:
    """The shapes of all nodes of a net in each architecture that needs them, or what is wrong with it, and where."""
    try:
        graph = elaborate(text)
        verify(graph)
    except ArchError as error:
        return [(problem.code, problem.span and problem.span.start) for problem in error.diagnostics]
    types, needed = infer(graph), reachability_conditions(graph)
    choices = [decision.choice for decision in graph.decisions.values()]
    found: Told = []
    for row in product(*(range(choice.outcome_count) for choice in choices)):
        outcomes = {choice.path: outcome for choice, outcome in zip(choices, row, strict=True)}
        found += [(row, n, types[n].at(outcomes)) for n in graph if n in needed and value_at(needed[n], outcomes)]
    return found


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), st.integers(2, 4))
@settings(deadline=None, max_examples=60)
def test_unlisted_ranges_give_same_results_as_listed(steps: list[str], first: int) -> None:
    lines = ["input x: f32[4, 8]", f"a = choose a({first}..9)", "b = choose b(1..7)", "c = choose c(1, 2)", *steps]
    text = "net t {\n    " + "\n    ".join(lines) + "\n    output y = x\n}\n"
    listed = told(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "MAX_LISTED", 0)
        patch.setattr(symbols, "LONG_RANGE", 1)
        unlisted = told(text)
    assert unlisted == listed


def test_elastic_language_model_ranges_verify_within_budget() -> None:
    text = """
net elastic(layers = 6) {
    input tokens: f32[16, 64]
    width = choose width(64..513)
    x = tokens |> linear(width)
    for i in 0..layers {
        inner = choose inner(1..2049)
        x = x + (x |> layer_norm |> linear(inner) |> gelu |> linear(width))
    }
    output y = x |> linear(10)
}
"""
    with work_budget() as work:
        verify(elaborate(text))
        assert work.spent < 1_000_000
