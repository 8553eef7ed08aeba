"""Commands that are worth running after a search: what its verdicts suggest, a random network to compare, and use."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from archir.recipes.recipe import Recipe
from archir.runs import Run
from archir.runs.folder import SPACE
from archir.runs.summaries import overrides
from archir.runs.trial_report import TrialTable, column_heading
from archir.runs.verdicts import Verdict

Step = tuple[str, str]
"""Purpose and shell command, which names the run's folder without its parent."""


@dataclass(frozen=True)
class NextSteps:
    """Steps after a finished run.

    `trained` are the phases with a trained network, `is_searched` tells whether it is the result of a search, and
    `is_shrunk` whether the run shrank a network. `random_trials` has the ids of random trials by phase.
    """

    run: Run
    recipe: Recipe
    trained: Collection[str]
    is_searched: bool
    is_shrunk: bool
    is_exported: bool
    trials: Mapping[str, TrialTable]
    random_trials: Mapping[str, Collection[int]]

    @property
    def name(self) -> str:
        """Name of the run's folder, quoted for a shell."""
        return shlex.quote(self.run.folder.name)

    def steps(self, verdicts: Sequence[Verdict]) -> Iterator[Step]:
        """Yield the steps, the most useful first."""
        yield from self._changes([each for each in verdicts if each.state != "room left"])
        if self.trained:
            yield from self._random_networks()
        yield from self._changes([each for each in verdicts if each.state == "room left"])
        if not self.is_shrunk:
            seed = self.recipe.seed + 1
            settings = _set_options({**overrides(self.run), "seed": str(seed)})
            again = f"archir search RECIPE{settings} -o {self.name}-seed{seed}"
            yield "Search with another seed, from the recipe's file", again
            yield "Compare the seeds", f"archir compare {self.name} {self.name}-seed{seed}"
        if self.is_exported:
            yield "Measure the speed of the network", f"archir bench {self.name}/model.onnx"
            yield "Use the network", f"archir export {self.name} -o network.onnx"

    def _changes(self, verdicts: Sequence[Verdict]) -> Iterator[Step]:
        """Yield the commands that change the settings that verdicts name."""
        changed = overrides(self.run)
        for verdict in verdicts:
            changes = {f"{verdict.phase}.{key}": str(value) for key, value in verdict.change.items()}
            if changes and verdict.phase in self.trials:
                yield f"{verdict.claim}: search on", f"archir search --resume {self.name}{_set_options(changes)}"
            elif changes.keys() & changed.keys():
                purpose = f"{verdict.claim}: run the recipe without the changes by --set"
                yield purpose, f"archir search RECIPE -o {self.name}-unchanged"
            elif changes:
                settings = _set_options({**changed, **changes})
                yield f"{verdict.claim}: train longer", f"archir search RECIPE{settings} -o {self.name}-longer"

    def _random_networks(self) -> Iterator[Step]:
        """Yield the commands that train a random network, of about the same cost if trials have one, and compare it."""
        if not self.trials and self.is_searched:
            yield "Train a random network of the space, of any cost, to compare", self._train_random()
            yield "Compare it with this run", f"archir compare {self.name} random-1"
        for phase, table in self.trials.items():
            others = [row for row, _ in table.scored[1:] if row.id in self.random_trials[phase]]
            if not others:
                continue
            best = table.scored[0][0]
            row = min(others, key=lambda row: abs(table.at(row) - table.at(best))) if table.other else others[0]
            share = table.at(row) / table.at(best) - 1 if table.other and table.at(best) else 0
            how_near = f" of similar cost ({column_heading(table.other)} {share:+.0%})" if table.other else ""
            yield f"Train a random candidate of {phase}{how_near}, to compare", table.command(row.id)
            yield "Compare it with this run", f"archir compare {self.name} {phase}-{row.id}"

    def _train_random(self) -> str:
        """Return the command that trains a random architecture with the settings of the last trained network."""
        phase = next(each for each in reversed(self.recipe.phase) if each.name in self.trained)
        parameters = {**self.recipe.parameters, **phase.parameters}
        values = "".join(f" -p {shlex.quote(f'{name}={json.dumps(value)}')}" for name, value in parameters.items())
        space = shlex.quote(f"{self.run.folder.name}/{SPACE}/{phase.space or self.recipe.space}")
        data = shlex.quote(str(self.recipe.data_of(phase).source))
        return f"archir train {space}{values} --seed 1 --data {data} --epochs {phase.training.epochs} -o random-1"


def _set_options(settings: Mapping[str, str]) -> str:
    """Return settings as options of a shell command."""
    return "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
