"""Random programs give the same result as a reference evaluator that makes every choice before it computes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest

from tests.language.reference.compare import disagreement
from tests.language.reference.grow import program
from tests.language.reference.shrink import smaller

PART = 125
MOST_SKIPPED = 0.15


@pytest.fixture(autouse=True)
def without_collecting() -> Iterator[None]:
    """Programs are small and leave next to no cycles: looking for them takes a tenth of the time."""
    gc.disable()
    yield
    gc.enable()


def agree(seeds: range) -> None:
    """Both agree about the programs of these seeds, and few are beyond what can be compared."""
    skipped = 0
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
    for seed in seeds:
        found = disagreement(program(seed))
        if found is not None and found.startswith("skipped"):
            skipped += 1
        elif found is not None:
            text = smaller(program(seed), found)
            pytest.fail(f"program({seed}): {found}\n\nsmaller: {disagreement(text)}\n\n{text}")
    assert skipped <= MOST_SKIPPED * len(seeds)


@pytest.mark.parametrize("first", range(0, 250, PART))
def test_programs_agree_with_reference_evaluator(first: int) -> None:
    agree(range(first, first + PART))


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("portion", range(10))
def test_many_programs_agree_with_reference_evaluator(portion: int) -> None:
    """20,000, in ten portions; ARCHIR_PROGRAMS=200000 is how many there are instead, for hours."""
    many = int(os.environ.get("ARCHIR_PROGRAMS", "20000")) // 10
    first = 250 + portion * many
    for start in range(first, first + many, PART):
        agree(range(start, min(start + PART, first + many)))
