"""Nearly correct programs give graphs or diagnostics, and stable layouts."""

from __future__ import annotations

from collections import Counter

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from tests.language.fuzz import failure, program, survives


@pytest.mark.parametrize("body", ["", "return x", "output y = x"])
def test_unsatisfiable_nets_get_diagnostics_with_position(body: str) -> None:
    text = f"net n {{\n input x: f32[4]\n a = choose a(1, 2)\n require a == 3\n {body}\n}}\n"
    with pytest.raises(ArchError) as caught:
        elaborate(text, "n.arch")
    assert all(problem.span is not None for problem in caught.value.diagnostics)


def test_random_programs_give_graphs_or_diagnostics() -> None:
    wrong = {seed: said for seed in range(100) if (said := failure(seed)) is not None}
    assert wrong == {}


def test_random_programs_include_valid_and_rejected_ones() -> None:
    met = Counter(survives(*program(seed)) for seed in range(300, 360))
    assert met["refused"] > 20
    assert met["net"] + met["space"] + met["library"] > 4


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("portion", range(10))
def test_fifty_thousand_programs_give_graphs_or_diagnostics(portion: int) -> None:
    """Five thousand a portion; `python -m tests.language.fuzz 1000 1001000` goes through a million, in hours."""
    first = 100 + portion * 5_000
    wrong = {seed: said for seed in range(first, first + 5_000) if (said := failure(seed)) is not None}
    assert wrong == {}
