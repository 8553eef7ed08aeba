"""Rescoring of the best candidates from an earlier phase by a more accurate score.

GLiT, for example, fully trains its five best candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.recipes.recipe import Phase
from archir.recipes.trials import Scorer, TrialOptions
from archir.search.ask_tell import Listed
from archir.search.objectives import objective
from archir.spaces.space import Space
from archir.utils.settings import Count, Path
from archir_torch.search.comparison import comparison_source, with_default_objectives
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.trials import GIVES, TrialStrategy


class TrainingScorer(Scorer):
    """How finalists are scored: by default by training from scratch."""

    kind: str = "training"


class FinalistsOptions(TrialOptions):
    """Options of `finalists`: the number of candidates, and the score."""

    scorer: TrainingScorer = TrainingScorer()
    count: Count = 5
    objective: str = "accuracy:max"
    """Score by which the trials of the earlier phase are ranked, and then the finalists."""


@strategy("finalists", FinalistsOptions, gives=GIVES)
class Finalists(TrialStrategy):
    """Strategy that scores the best trials of `start.trials` that satisfy `where`, in one batch."""

    def __init__(self, job: Job, options: FinalistsOptions) -> None:
        options = with_default_objectives(options, comparison_source(job))
        aim, phase = objective(options.objective), job.phase
        scored = [
            candidate
            for candidate in job.earlier
            if candidate.status == "done" and candidate.scores.get(aim.name) is not None
        ]
        if not scored:
            raise ArchError(_no_trials(phase, aim.name))
        ranked = sorted(scored, key=lambda candidate: float(candidate.scores[aim.name] or 0.0), reverse=aim.maximize)

        def search(space: Space, seed: int) -> Listed:
            chosen = [self.restrict(job.space.architecture(candidate.architecture)) for candidate in ranked]
            within = [candidate for candidate in chosen if space.within(candidate)][: options.count]
            if not within:
                text = f"phase `{phase.name}`: none of {len(chosen)} trials satisfies `{options.where}`"
                raise fail("A2213", text, None, "set the same `where` in the phase that tries the candidates")
            return Listed(space, options.objective, within, seed)

        super().__init__(job, options, search)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: FinalistsOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield an error if the phase has no trials to start from."""
        if phase.start.trials is None:
            yield ("strategy",), _no_trials(phase, objective(options.objective).name)


def _no_trials(phase: Phase, score: str) -> Diagnostic:
    """Return the error (A2213) for a phase that has no trials with this score to start from."""
    hint = 'start.trials = "..." names a phase that tried candidates'
    return Diagnostic("A2213", f"phase `{phase.name}` has no trials with `{score}` to choose from", None, hint)
