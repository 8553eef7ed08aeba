"""Optuna and Nevergrad decide choices: conditional ones, with requirements and bounds kept."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.search.adaptors import architecture_from_picks
from archir.spaces.space import Space
from tests.search.test_multi import BOUND, PLAIN, REQUIRED, fits

SPACES = {"plain": PLAIN, "required": REQUIRED, "bound": BOUND}
LISTS = archir.loads(
    "net lists {\n input x: f32[4, 6, 6]\n some = choose some 2 of [1, 2, 3]\n wide = choose wide(1..2001)\n"
    " output y = x |> conv(some[0]) |> conv(some[1]) |> conv(wide)\n}"
)


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def studied(space: Space, score: Callable[[Any], float], trials: int, seed: int = 0) -> optuna.Study:
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(lambda trial: score(archir.optuna.suggest(trial, space)), n_trials=trials)
    return study


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_optuna_suggestions_are_valid_architectures(space: Space) -> None:
    tried = []

    def score(architecture: Any) -> float:
        tried.append(architecture)
        return random.Random(str(architecture.codes)).random()

    study = studied(space, score, 40)
    assert all(fits(space, one) for one in tried)
    assert len(set(tried)) > 20
    for architecture, trial in zip(tried, study.trials, strict=True):
        assert trial.user_attrs["archir"] == dict(architecture)
        assert archir.optuna.suggest(trial, space) == architecture  # type: ignore[arg-type]
        asked_for = set(trial.params)
        assert asked_for <= {choice.path for choice in space.choices}
        if space is PLAIN:
            assert trial.params == dict(architecture), "conditional choices are suggested where they are active alone"


def test_optuna_is_no_worse_than_300_random_samples() -> None:
    def score(architecture: Any) -> float:
        return -float(PLAIN.cost([architecture], ["params"])["params"][0])

    least = score(min((PLAIN.sample(seed) for seed in range(300)), key=lambda one: -score(one)))
    assert studied(PLAIN, score, 60).best_value >= least


def test_optuna_handles_subset_and_very_large_choices() -> None:
    study = studied(LISTS, lambda one: float(one["wide"]), 8)
    assert set(study.best_params) == {"some", "wide"}
    assert study.best_params["some"] in ("0, 1", "0, 2", "1, 2")
    assert study.best_trial.user_attrs["archir"]["some"] in ([0, 1], [0, 2], [1, 2])
    assert study.best_params["wide"] + 1 == study.best_value


def test_picks_beyond_bound_give_nearest_architecture_within() -> None:
    """Every architecture of a small space as a wish: what keeps the bound is taken as it is."""
    far = []
    for wish in REQUIRED.enumerate():
        outcomes = wish.outcomes
        found = architecture_from_picks(BOUND, lambda choice, outcomes=outcomes: outcomes.get(choice.path, 0))  # type: ignore[misc]
        assert BOUND.within(found)
        if BOUND.within(wish):
            assert found.codes == wish.codes
        else:
            far.append(int((np.array(found.codes) != np.array(wish.codes)).sum()))
        if len(far) == 40:
            break
    assert np.mean(far) < 6


class Nevergrad:
    """As much of Nevergrad's parameters as is used."""

    class Choice:
        def __init__(self, options: Any) -> None:
            self.options = list(options)

    class TransitionChoice(Choice):
        pass

    @staticmethod
    def Dict(**parts: Any) -> dict[str, Any]:
        return parts


def test_nevergrad_parametrization_gives_valid_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nevergrad", type("module", (), {"p": Nevergrad}))
    varied = archir.nevergrad.parametrization(BOUND)
    assert isinstance(varied["width"], Nevergrad.TransitionChoice)
    assert not isinstance(varied["op[0]"], Nevergrad.TransitionChoice)
    rng = random.Random(0)
    for _ in range(30):
        values = {path: rng.choice(one.options) for path, one in varied.items()}
        assert fits(BOUND, archir.nevergrad.architecture(values, BOUND))


def test_missing_nevergrad_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nevergrad", None)
    with pytest.raises(ArchError, match=r"A2602.*the package `nevergrad` is missing"):
        archir.nevergrad.parametrization(PLAIN)


def test_adaptors_import_neither_optuna_nor_nevergrad() -> None:
    script = (
        "import sys, archir; archir.optuna.suggest; archir.nevergrad; print({'optuna', 'nevergrad'} & {*sys.modules})"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"
    )
