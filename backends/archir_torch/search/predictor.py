"""Accuracy predictor: a small network that is fitted to trials and predicts the score of an architecture.

Source: Once-for-all (Cai et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.ranks import spearman
from archir_torch.training.optimizer import AdamW

MIN_TRIALS = 8
"""Minimum number of trials to which a predictor is fitted."""
FOLDS = 5
"""Number of folds in cross-validation."""


class Predictor:
    """Two-layer network fitted to pairs of architecture (one-hot encoding of every choice) and score."""

    def __init__(self, space: Space, architectures: Sequence[Architecture], scores: Sequence[float], seed: int) -> None:
        self.space = space
        self.mean, self.scale = fmean(scores), pstdev(scores) or 1.0
        features = torch.stack([self._features(architecture) for architecture in architectures])
        targets = (torch.tensor(list(scores), dtype=torch.float32) - self.mean) / self.scale
        generator = torch.Generator().manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(features.shape[1], 128), nn.ReLU(), nn.Linear(128, 1))
        with torch.no_grad():
            for parameter in self.model.parameters():
                bound = parameter.shape[-1] ** -0.5
                parameter.uniform_(-bound, bound, generator=generator)
        optimizer = AdamW(self.model.parameters(), 5e-3, weight_decay=0.1)
        for _ in range(300):
            optimizer.zero_grad()
            (self.model(features).squeeze(1) - targets).square().mean().backward()
            optimizer.step()

    def _features(self, architecture: Architecture) -> Tensor:
        """Return the one-hot encoding of the choices in an architecture."""
        features = []
        for choice, code in zip(self.space.choices, architecture.codes, strict=True):
            features += [float(code == outcome) for outcome in range(choice.outcome_count)]
        return torch.tensor(features)

    @torch.no_grad()
    def __call__(self, architecture: Architecture) -> float:
        """Return the predicted score of an architecture."""
        return float(self.model(self._features(architecture))) * self.scale + self.mean


def fit_predictor(space: Space, trials: Sequence[Trial], score: str, seed: int) -> Predictor:
    """Fit a predictor of a score to completed trials. Raises ArchError (A2211) if there are too few."""
    return Predictor(space, *_training_set(space, trials, score), seed)


def cross_validate(space: Space, trials: Sequence[Trial], score: str, seed: int) -> float | None:
    """Return the rank correlation between true scores and cross-validated predictions; None if all scores are equal."""
    architectures, scores = _training_set(space, trials, score)
    predicted = [0.0] * len(scores)
    for fold in range(FOLDS):
        training = [i for i in range(len(scores)) if i % FOLDS != fold]
        predictor = Predictor(space, [architectures[i] for i in training], [scores[i] for i in training], seed)
        for i in range(fold, len(scores), FOLDS):
            predicted[i] = predictor(architectures[i])
    return spearman(scores, predicted)


def require_enough(trials: Sequence[Trial], score: str) -> None:
    """Raise ArchError (A2211) if fewer than `MIN_TRIALS` completed trials have this score."""
    if (count := len(_scored_trials(trials, score))) < MIN_TRIALS:
        hint = 'start.trials = "..." names a phase that tried candidates'
        raise fail("A2211", f"a predictor needs at least {MIN_TRIALS} trials with `{score}`, not {count}", None, hint)


def _scored_trials(trials: Sequence[Trial], score: str) -> list[Trial]:
    """Return the completed trials that have this score."""
    return [trial for trial in trials if trial.status == "done" and trial.scores.get(score) is not None]


def _training_set(space: Space, trials: Sequence[Trial], score: str) -> tuple[list[Architecture], list[float]]:
    """Return the architectures and scores of completed trials. Raises ArchError (A2211) if there are too few."""
    require_enough(trials, score)
    scored = _scored_trials(trials, score)
    return [space.architecture(trial.architecture) for trial in scored], [
        float(trial.scores[score] or 0.0) for trial in scored
    ]
