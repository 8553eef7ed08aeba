"""The best of an earlier phase, scored again, with more care: trained one by one, say, as GLiT does with five."""

from __future__ import annotations

from collections.abc import Iterator

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.recipes.recipe import Phase
from archir.recipes.trials import Scorer, TrialOptions
from archir.search.objectives import objective
from archir.search.strategies.listed import Listed
from archir.spaces.space import Space
from archir.utils.settings import Count, Path
from archir_torch.search.aims import aimed, compared
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.trials import GIVES, Trials


class FinalistsOptions(TrialOptions):
    """How many, and by what."""

    scorer: Scorer = Scorer(kind="training")
    count: Count = 5
    objective: str = "accuracy:max"
    """By which the earlier phase's trials are ranked, and the finalists."""


@strategy("finalists", FinalistsOptions, gives=GIVES)
class Finalists(Trials):
    """One batch: the best of `start.trials` that keep `where`."""

    def __init__(self, job: Job, options: FinalistsOptions) -> None:
        options = aimed(options, compared(job))
        aim, phase = objective(options.objective), job.phase
        done = [one for one in job.earlier if one.status == "done" and one.scores.get(aim.name) is not None]
        if not done:
            raise ArchError(_nothing(phase, aim.name))
        ranked = sorted(done, key=lambda one: float(one.scores[aim.name] or 0.0), reverse=aim.most)

        def search(space: Space, seed: int) -> Listed:
            chosen = [self.restricted(job.space.architecture(one.architecture)) for one in ranked]
            within = [one for one in chosen if space.within(one)][: options.count]
            if not within:
                text = f"phase `{phase.name}`: none of {len(chosen)} trials keeps `{options.where}`"
                raise fail("A2213", text, None, "let the phase that tries them keep it, too, by its own `where`")
            return Listed(space, options.objective, within, seed)

        super().__init__(job, options, search)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: FinalistsOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """No trials."""
        if phase.start.trials is None:
            yield ("strategy",), _nothing(phase, objective(options.objective).name)


def _nothing(phase: Phase, score: str) -> Diagnostic:
    hint = 'start.trials = "..." names a phase that tried candidates'
    return Diagnostic("A2213", f"phase `{phase.name}` has no trials with `{score}` to choose from", None, hint)
