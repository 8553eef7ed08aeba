"""Predicting a score from an architecture: a small network fitted to trials, as Once-for-all has (Cai et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

import torch
from torch import Tensor, nn

from archir.costs.latencies.fill import spearman
from archir.diagnostics.errors import fail
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir_torch.training.uncompiled_optimizers import AdamW

LEAST = 8
"""Trials that a predictor is fitted to, at least."""
FOLDS = 5
"""Parts of the trials, of which each is predicted from the others to see how good predictions are."""


class Predictor:
    """Fitted to architectures (a one for each outcome that is chosen, else zeros) and their scores."""

    def __init__(self, space: Space, architectures: Sequence[Architecture], scores: Sequence[float], seed: int) -> None:
        self.space = space
        self.mean, self.scale = fmean(scores), pstdev(scores) or 1.0
        features = torch.stack([self._features(architecture) for architecture in architectures])
        wanted = (torch.tensor(list(scores), dtype=torch.float32) - self.mean) / self.scale
        numbers = torch.Generator().manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(features.shape[1], 128), nn.ReLU(), nn.Linear(128, 1))
        with torch.no_grad():
            for parameter in self.model.parameters():
                bound = parameter.shape[-1] ** -0.5
                parameter.uniform_(-bound, bound, generator=numbers)
        optimizer = AdamW(self.model.parameters(), 5e-3, weight_decay=0.1)
        for _ in range(300):
            optimizer.zero_grad()
            (self.model(features).squeeze(1) - wanted).square().mean().backward()
            optimizer.step()

    def _features(self, architecture: Architecture) -> Tensor:
        found = []
        for choice, code in zip(self.space.choices, architecture.codes, strict=True):
            found += [float(code == outcome) for outcome in range(choice.outcomes)]
        return torch.tensor(found)

    @torch.no_grad()
    def __call__(self, architecture: Architecture) -> float:
        """The predicted score."""
        return float(self.model(self._features(architecture))) * self.scale + self.mean


def fitted(space: Space, trials: Sequence[Trial], score: str, seed: int) -> Predictor:
    """A predictor of a score of trials that were done. Raises ArchError (A2211) if there are too few of these."""
    return Predictor(space, *_known(space, trials, score), seed)


def agreement(space: Space, trials: Sequence[Trial], score: str, seed: int) -> float | None:
    """The rank correlation of scores and predictions from the other folds; None if all scores are the same."""
    architectures, scores = _known(space, trials, score)
    predicted = [0.0] * len(scores)
    for fold in range(FOLDS):
        others = [i for i in range(len(scores)) if i % FOLDS != fold]
        predictor = Predictor(space, [architectures[i] for i in others], [scores[i] for i in others], seed)
        for i in range(fold, len(scores), FOLDS):
            predicted[i] = predictor(architectures[i])
    return spearman(scores, predicted)


def require_enough(trials: Sequence[Trial], score: str) -> None:
    """Raise ArchError (A2211) if a predictor of a score has too few trials."""
    if (count := len(_done(trials, score))) < LEAST:
        hint = 'start.trials = "..." names a phase that tried candidates'
        raise fail("A2211", f"a predictor is fitted to {LEAST} trials with `{score}`, not {count}", None, hint)


def _done(trials: Sequence[Trial], score: str) -> list[Trial]:
    return [one for one in trials if one.status == "done" and one.scores.get(score) is not None]


def _known(space: Space, trials: Sequence[Trial], score: str) -> tuple[list[Architecture], list[float]]:
    require_enough(trials, score)
    done = _done(trials, score)
    return [space.architecture(one.architecture) for one in done], [float(one.scores[score] or 0.0) for one in done]
