"""Runs and supernets that tests of trials share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.cli import main
from archir.runs import Run
from archir_torch.search.job import Job, create_strategy
from archir_torch.training.loop import run as through
from tests.torch_backend.tried import job, recipe


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a run of all phases, and the command's last output."""
    folder = tmp_path_factory.mktemp("tried")
    arguments = ["search", str(recipe(folder)), "-o", str(folder / "run"), "--device", "cpu"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder / "run", done.stdout


@pytest.fixture(scope="session")
def run(said: tuple[Path, str]) -> Run:
    """Return the run."""
    return Run.open(said[0])


@pytest.fixture(scope="session")
def supernet() -> Job:
    """Return a phase that inherits a supernet's weights."""
    phase_job = job("sandwich")
    strategy = create_strategy(phase_job)
    through(strategy, epochs=1, steps=strategy.steps)
    outcome = strategy.outcome()
    return replace(phase_job, weights=outcome.weights, supernet=outcome.supernet)
