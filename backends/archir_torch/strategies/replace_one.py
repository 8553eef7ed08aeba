"""Scoring of single replacements in a reference architecture.

One choice at a time, each alternative replaces the alternative in the reference architecture. Scores use
inherited weights; `archir scores` turns the scores into tables.
"""

from __future__ import annotations

from pydantic import model_validator

from archir.recipes.trials import Scorer, TrialOptions
from archir.scoring.replacement import replacements
from archir.search.ask_tell import Listed
from archir.spaces.completion import largest
from archir_torch.search.comparison import comparison_source, with_default_objectives
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.trials import GIVES, TrialStrategy


class ReplaceOptions(TrialOptions):
    """Options of `replace_one`: the scorer, and the score."""

    scorer: Scorer = Scorer()
    objective: str = "accuracy:max"

    @model_validator(mode="after")
    def _check_unbounded(self) -> ReplaceOptions:
        if self.where:
            raise ValueError(
                "`replace_one` scores all alternatives; set `where` in the phase that selects by the scores"
            )
        return self


@strategy("replace_one", ReplaceOptions, gives=GIVES)
class ReplaceOne(TrialStrategy):
    """Strategy that scores, in one batch, a reference architecture and all that differ from it in one choice.

    The reference is the architecture from which the phase starts or, without one, the architecture with the most
    multiply-accumulates.
    """

    def __init__(self, job: Job, options: ReplaceOptions) -> None:
        options = with_default_objectives(options, comparison_source(job))
        space = job.space
        reference = space.architecture(job.architecture) if job.architecture else largest(space)
        candidates = [reference, *(replacement.architecture for replacement in replacements(space, reference))]
        super().__init__(
            job,
            options,
            lambda part, seed: Listed(part, options.objective, list(map(self.restrict, candidates)), seed),
        )
