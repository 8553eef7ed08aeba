"""Fuzzing of every input: only diagnostics may escape, within time and memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from archir.diagnostics.errors import fail
from tests.conftest import ROOT
from tests.fuzz.harness import find_failures, run_case
from tests.fuzz.kinds import KINDS
from tests.soak import with_soak

SLOW = {
    "models": 40, "run_folders": 15, "commands": 40, "graph_json": 60, "graph_text": 60, "where": 60, "imports": 10,
    "torch_imports": 10,
}  # fmt: skip
"""How many of those that take tens of milliseconds each."""
USUAL = 120
PORTIONS, PORTION = 5, 5_000
IMPORTS = 1_000
"""Models of each kind in a portion, each of which torch.export may trace."""


@pytest.mark.parametrize("kind", with_soak(KINDS, KINDS.keys() - {"torch_imports"}))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_only_diagnostics_escape_random_inputs(kind: str, tmp_path: Path) -> None:
    findings = find_failures(KINDS[kind](tmp_path), kind, SLOW.get(kind, USUAL))
    assert not findings, "\n".join(map(str, findings))


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("number", range(PORTIONS))
@pytest.mark.parametrize("kind", KINDS)
def test_only_diagnostics_escape_many_random_inputs(kind: str, number: int, tmp_path: Path) -> None:
    count = IMPORTS if kind.endswith("imports") else PORTION
    findings = find_failures(KINDS[kind](tmp_path), kind, count, number * count)
    assert not findings, "\n".join(map(str, findings))


def spin() -> None:
    while True:
        pass


def refused() -> None:
    raise fail("A1202", "no")


GREEDY = """
from tests.fuzz.harness import run_case
held = []
print(run_case((0, lambda: held.append(b"x" * 2**28)), "x", max_growth=2**26))
"""


def test_harness_detects_memory_growth() -> None:
    """In a small process, of which the system takes nothing back meanwhile."""
    done = subprocess.run([sys.executable, "-c", GREEDY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "grew by" in done.stdout


def test_harness_detects_exceptions_and_timeouts() -> None:
    assert run_case((0, lambda: 1 / 0), "x") is not None
    assert run_case((0, refused), "x") is None
    late = run_case((0, spin), "x", seconds=0.1)
    assert late is not None
    assert "more than 0.1 s" in str(late)
    kind = KINDS["where"](Path())
    assert [kind(random.Random(5))[0] for _ in range(2)] == [kind(random.Random(5))[0]] * 2
