"""Each alternative alone in a reference, scored with inherited weights: what `archir scores` makes a table of."""

from __future__ import annotations

from pydantic import model_validator

from archir.recipes.trials import Scorer, TrialOptions
from archir.scoring.replacing import replacements
from archir.search.strategies.listed import Listed
from archir.spaces.partial import largest
from archir_torch.search.aims import aimed, compared
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.trials import GIVES, Trials


class ReplaceOptions(TrialOptions):
    """By what, and with which weights."""

    scorer: Scorer = Scorer(kind="inherited")
    objective: str = "accuracy:max"

    @model_validator(mode="after")
    def _unbounded(self) -> ReplaceOptions:
        if self.where:
            raise ValueError("all alternatives are scored, whatever they cost; bounds are for the phase that chooses")
        return self


@strategy("replace_one", ReplaceOptions, gives=GIVES)
class ReplaceOne(Trials):
    """One batch: the reference, which is the architecture that the phase starts from, or the one of most
    multiply-accumulates, and then all that differ from it in one choice."""

    def __init__(self, job: Job, options: ReplaceOptions) -> None:
        options = aimed(options, compared(job))
        space = job.space
        reference = space.architecture(job.architecture) if job.architecture else largest(space)
        several = [reference, *(one.architecture for one in replacements(space, reference))]
        super().__init__(
            job, options, lambda part, seed: Listed(part, options.objective, list(map(self.restricted, several)), seed)
        )
