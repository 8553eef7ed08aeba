"""Report of a run, from its files and recorded numbers alone; no code of the run is executed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ir.serial import from_json
from archir.language.elaboration.cost_names import is_cost
from archir.passes.cost import cost
from archir.pictures import picture
from archir.recipes.external_files import describe_training_data
from archir.recipes.next_steps import NextSteps, Step
from archir.recipes.parsing import RecipeFile, recipe_of_run
from archir.recipes.recipe import Phase
from archir.recipes.spaces import space_of
from archir.recipes.trials import MEASURING, Scorer
from archir.runs import Run, Trial
from archir.runs.folder import ALPHAS, ARCHITECTURE, ENVIRONMENT, FRONT, NETWORK, SPACE, SPLITS, SUMMARY
from archir.runs.lock import is_locked
from archir.runs.report import ChoiceProbabilities, Comparison, PhaseProgress, PhaseRows, Report
from archir.runs.summaries import objectives_of, overrides
from archir.runs.trial_report import TrialRow, TrialTable, column_heading, cost_text, label_text
from archir.runs.verdicts import (
    BoundUse,
    Verdict,
    accuracy_interval,
    bound_verdict,
    chance_verdict,
    probability_verdict,
    sampling_error,
    trials_verdict,
)
from archir.search.registry import STRATEGIES
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.metrics import format_metric, is_fraction, select_measures

COSTS = ("params", "macs")
"""Costs that are reported for networks and trials, in addition to those with bounds."""
BEFORE_AND_AFTER = "before_and_after.json"
"""Name of the file in a run that compares a network before and after shrinking."""
RELOAD_SECONDS = 5
"""Seconds between two reloads of the page of a run that is not finished."""
MAX_PICTURES, MAX_PICTURE_CHARACTERS = 12, 1_500_000
"""Maximum number of candidates drawn in the report, and maximum total length of their SVG pictures in
characters."""
MAX_WIDTH, MAX_HEIGHT, MAX_DEPTH = 1200, 2400, 4
"""Maximum size in pixels of the picture of a network or cell, and maximum number of levels that are opened in it."""
SAME_COST = 0.1
"""Maximum difference between costs that count as the same, as a fraction."""
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
_NOT_MEASURES = ("params", "macs", "epochs", "minutes")
_HIDDEN = {"onnx", "epoch", "epochs", "minutes", "loss", "distillation", "held_out_loss"}
"""Keys of a comparison before and after shrinking that describe the training rather than the network."""


def report_of_run(
    run: Run, summary: Mapping[str, Any] | None = None, spaces: dict[str, Space] | None = None, pictures: bool = True
) -> Report:
    """Return the report of a run, which may still be running.

    `summary` is the content of `summary.json`, by default that of the run; `spaces` caches loaded spaces (see
    `space_of`). Without `pictures`, candidates are not drawn. Raises ArchError if the recipe or the space cannot be
    read.
    """
    summary = stored_object(run, SUMMARY) if summary is None else summary
    reader = _Reader(run, recipe_of_run(run), summary, {} if spaces is None else spaces)
    return reader.report(pictures)


def stored_object(run: Run, path: str) -> dict[str, Any]:
    """Return the content of a JSON file of a run; {} if there is no such file."""
    content: dict[str, Any] = json.loads(run.content(path)) if path in run.entries else {}
    return content


@dataclass(frozen=True)
class _Reader:
    """Reads what a report needs from a run."""

    run: Run
    recipe_file: RecipeFile
    summary: Mapping[str, Any]
    spaces: dict[str, Space] = field(repr=False)

    def report(self, pictures: bool) -> Report:
        """Return the report; with `pictures`, the best candidates are drawn."""
        run, recipe, document = self.run, self.recipe_file.recipe, self.recipe_file.document
        trials = {phase.name: self._trials(phase, pictures) for phase in recipe.phase if run.phase(phase.name).trials()}
        probabilities = [each for phase in recipe.phase for each in self._probabilities(phase)]
        verdicts = list(self._verdicts(trials, probabilities))
        live = not self.summary
        return Report(
            title=run.title,
            phases=[self._metrics(phase) for phase in recipe.phase if run.phase(phase.name).rows()],
            choice_probabilities=probabilities,
            pictures=self._pictures(),
            facts=self._facts(),
            recipe=document.source.text,
            overrides=list(document.edits()),
            environment=stored_object(run, ENVIRONMENT),
            result=self._headline(),
            architecture=self._architecture_texts(),
            comparisons=[
                *self._before_and_after(),
                *map(self._random_comparison, trials.values()),
                *self._trained(),
                *self._measured_latencies(),
            ],
            certainty=list(self._certainty(trials)),
            verdicts=verdicts,
            next_steps=[*{step[1]: step for step in self._next_steps(trials, verdicts)}.values()],  # commands once
            trials=list(trials.values()),
            progress=self._progress() if live else (),
            reload=RELOAD_SECONDS if live else 0,
        )

    # what a run stores

    def _of_phase(self, phase: Phase, name: str) -> dict[str, Any]:
        return stored_object(self.run, f"phases/{phase.name}/{name}")

    def _space(self, phase: Phase, where: str = "") -> Space:
        """Return the space of a phase, restricted to the bounds `where`."""
        space = space_of(self.recipe_file.recipe, phase, self.run.folder / SPACE, self.spaces)
        if not where:
            return space
        settings = {**self.recipe_file.recipe.parameters, **phase.parameters}
        key = json.dumps([phase.space or self.recipe_file.recipe.space, settings, where], sort_keys=True, default=str)
        if key not in self.spaces:
            self.spaces[key] = space.where(where)
        return self.spaces[key]

    def _where(self, phase: Phase) -> str:
        """Return the bounds of the phase that selected a phase's architecture."""
        names = {each.name: each for each in self.recipe_file.recipe.phase}
        own = str(phase.options.get("where", ""))
        source = names.get(phase.start.architecture or "")
        return own or (self._where(source) if source is not None else "")

    def _bounded(self, phase: Phase) -> Space:
        """Return the space of a phase with its bounds; without them if a table that they name is missing now."""
        try:
            return self._space(phase, self._where(phase))
        except ArchError:
            return self._space(phase)

    def _costs(self, phase: Phase, architectures: Sequence[Architecture]) -> dict[str, list[float]]:
        """Return the costs of architectures by name: parameters, multiply-accumulates, and those with bounds."""
        space = self._bounded(phase)
        names = dict.fromkeys([*COSTS, *(bound.cost for bound in space.graph.constraints if bound.cost is not None)])
        values = space.cost(architectures, list(names)) if architectures else {}
        return {name: [float(value) for value in numbers] for name, numbers in values.items()}

    def _limits(self, phase: Phase) -> dict[str, tuple[str, float]]:
        """Return the smallest upper bound of each cost of a phase, with its text, by cost."""
        limits: dict[str, tuple[str, float]] = {}
        for bound in self._bounded(phase).graph.constraints:
            if bound.cost is not None and bound.relation in ("<", "<=") and isinstance(bound.limit, int | float):
                text, limit = bound.text or f"{bound.cost} {bound.relation} {bound.limit:,}", float(bound.limit)
                if bound.cost not in limits or limit < limits[bound.cost][1]:
                    limits[bound.cost] = text, limit
        return limits

    def _architecture(self, phase: Phase) -> Architecture | None:
        """Return the architecture that a phase selected or trained; None if there is none."""
        stored = self._of_phase(phase, ARCHITECTURE)
        return self._space(phase).architecture(stored["choices"]) if stored else None

    @cached_property
    def _networks(self) -> dict[str, Graph]:
        """The trained networks, by phase."""
        return {
            phase.name: from_json(content)
            for phase in self.recipe_file.recipe.phase
            if (content := self._of_phase(phase, NETWORK))
        }

    def _classes(self, phase: Phase) -> int:
        """Return the number of classes that a phase tells apart; 0 if its task is another one."""
        images = self._of_phase(phase, SPLITS).get("images") or {}
        return len(images.get("classes", ())) if phase.objective.get("kind") == "classification" else 0

    def _samples(self, phase: Phase) -> tuple[int, int]:
        """Return the numbers of samples on which a phase measured networks: of validation samples, 0 if candidates were
        scored in another way, and of held-out samples. Both are 0 if there are no data."""
        splits = self._of_phase(phase, SPLITS).get("splits")
        if not splits:
            return 0, 0
        share = self.recipe_file.recipe.data_of(phase).weights
        validation = splits["train"]["images"] - round(share * splits["train"]["images"])
        scorer = phase.options.get("scorer") or {}
        if scorer.get("kind", Scorer().kind) not in MEASURING:
            validation = 0
        return min(validation, scorer.get("images") or validation), splits["held_out"]["images"]

    # what won

    def _headline(self) -> dict[str, Any]:
        """Return the headline results: quality and size of the network, and the numbers of samples used."""
        result: dict[str, Any] = {}
        phases, network = self.recipe_file.recipe.phase, self.summary.get("network")
        last = phases[-1]
        if network is not None:
            last = next(phase for phase in phases if phase.name == network["phase"])
            for name, measures in reversed(self._measures().items()):
                for measure, value in measures.items():
                    result[f"{measure.replace('_', ' ')} of {name}, held out"] = format_metric(measure, value)
            result |= {"parameters": network["params"], "multiply-accumulates": network["macs"]}
            result |= self._bounded_costs(last) or {"bounds on costs": "none"}
            if "onnx" in self.summary:
                result["file"] = f"{self.run.folder.name}/model.onnx, with the weights of {last.name}, the last phase"
        for phase in phases:
            rows = self.run.phase(phase.name).rows()
            for measure, value in select_measures(rows[-1] if rows else {}, "validation_").items():
                heading = f"{measure.replace('_', ' ')} in {phase.name}, validation"
                result[heading] = format_metric(measure, value)
            if (seen := describe_training_data(self.run, self.recipe_file.recipe, phase)) is not None:
                result[f"data of the weights that {phase.name} starts from"] = seen
        if splits := self._of_phase(last, SPLITS).get("splits"):
            result["samples for training and validation"] = splits["train"]["images"]
            result["samples held out"] = splits["held_out"]["images"]
        changes = ", ".join(f"{key} = {value}" for key, value in overrides(self.run).items())
        seeds = f"1 (seed {self.recipe_file.recipe.seed})"
        return result and result | {"settings changed from the recipe": changes or "none", "seeds": seeds}

    def _measures(self) -> dict[str, dict[str, float]]:
        """Return the held-out measures of all trained networks, by phase."""
        measures = {}
        for phase in self.recipe_file.recipe.phase:
            rows = self.run.phase(phase.name).rows()
            if phase.name in self._networks and rows:
                measures[phase.name] = {n: v for n, v in select_measures(rows[-1]).items() if n not in _NOT_MEASURES}
        return measures

    def _bounded_costs(self, phase: Phase) -> dict[str, Any]:
        """Return the costs with bounds of a phase's architecture, as text with the bound."""
        architecture = self._architecture(phase)
        if architecture is None or not (limits := self._limits(phase)):
            return {}
        costs = self._costs(phase, [architecture])
        return {
            f"bound {text}": f"{cost_text(costs[name][0])}, {costs[name][0] / limit:.0%} of it" if limit else ""
            for name, (text, limit) in limits.items()
        }

    def _pictures(self) -> dict[str, str]:
        """Return pictures of the last trained network: of its cells that have choices or, without cells, of all of
        it."""
        if not self._networks:
            return {}
        name, network = next(reversed(self._networks.items()))
        scopes, blocks = network.blocks.keys(), set(network.blocks.values())
        cells = dict.fromkeys(path.partition(".")[0] for path in self._choices())
        drawn = {f"Cell {cell}": _drawn(network, cell) for cell in cells if cell in blocks and cell not in scopes}
        return drawn or {f"Network of {name}": _drawn(network)}

    def _choices(self) -> Mapping[str, Any]:
        """Return the outcomes of the last architecture, by choice."""
        stored = [self._of_phase(phase, ARCHITECTURE) for phase in self.recipe_file.recipe.phase]
        choices: Mapping[str, Any] = next((each["choices"] for each in reversed(stored) if each), {})
        return choices

    def _architecture_texts(self) -> dict[str, str]:
        return {path: label_text(label) for path, label in self._choices().items()}

    def _facts(self) -> dict[str, Mapping[str, Any]]:
        """Return tables of costs of the network, and of the verification of its export."""
        facts: dict[str, Mapping[str, Any]] = {}
        if self._networks:
            network = next(reversed(self._networks.values()))
            facts["Network"] = {name: f"{number:,}" for name, number in vars(cost(network)).items()}
        if "onnx" in self.summary:
            differences = self.summary["onnx"]
            facts["ONNX, compared with torch"] = {name: f"{number:.2g}" for name, number in differences.items()}
        return facts

    # by how much

    def _random_comparison(self, trials: TrialTable) -> Comparison:
        """Return the comparison of a phase's best candidate with random ones, which were proposed before any score was
        known."""
        learns, initial = self._initial(trials.phase)
        scored = trials.scored
        if not scored:
            return Comparison(trials.phase, (), (), "No trial of this phase has a score.")
        best, value = scored[0]
        others = [(row, score) for row, score in scored if row.id in initial and row is not best]
        same = [(row, score) for row, score in others if trials.other and _is_near(trials.at(row), trials.at(best))]
        names = [name for name in best.costs if name != trials.score]

        def cells(title: str, pairs: Sequence[tuple[TrialRow, float]]) -> list[str]:
            score = median(score for _, score in pairs)
            costs = (_range_text([row.costs[name] for row, _ in pairs]) for name in names)
            gain = "" if pairs[0][0] is best else _difference(trials.score, value - score)
            return [title, format_metric(trials.score, score), gain, *costs]

        rows = [cells(f"best, trial {best.id} of {len(trials.rows):,}", [(best, value)])]
        kind = "random" if learns else "all others"
        if same:
            rows.append(cells(f"{kind}, same cost: median of {len(same)}", same))
        if others:
            other = "other " if best.id in initial else ""
            rows.append(cells(f"{kind}, best of the {other}{len(others)}", others[:1]))
            rows.append(cells(f"{kind}: median of {len(others)}", others))
        cost_name = column_heading(trials.other) if trials.other else "cost"
        note = f"Random: the first {len(initial)} trials, which were proposed before any score was known, within the "
        if not learns:
            note = "This strategy proposes architectures without scores. "
        elif initial:
            note += "same bounds. "
        else:
            note = "No random architecture was tried with the full training budget. "
        note += "The best is one of them. " if learns and best.id in initial else ""
        note += (
            f"Same cost: {cost_name} differs by at most {SAME_COST:.0%}."
            if same
            else f"No {kind} candidate is within {SAME_COST:.0%} of its {cost_name}."
        )
        head = ["candidate", f"{column_heading(trials.score)} in the search", "best is ahead by"]
        head += map(column_heading, names)
        return Comparison(f"Candidates of {trials.phase}", head, rows, note)

    def _initial(self, name: str) -> tuple[bool, set[int]]:
        """Return whether a phase's strategy uses scores, and the ids of the trials proposed before any was known."""
        phase = next(phase for phase in self.recipe_file.recipe.phase if phase.name == name)
        kind = STRATEGIES.get(phase.strategy)
        trials = self.run.phase(name).trials()
        learns = bool(getattr(kind and kind.make, "learns", True))
        rows = self.run.phase(name).rows()
        first = int(rows[0].get("trials", 0)) if rows and learns else len(trials)
        budget = max((trial.budget for trial in trials if trial.status == "done"), default=1.0)
        return learns, {trial.id for trial in trials if trial.id < first and trial.budget == budget}

    def _trained(self) -> Iterator[Comparison]:
        """Yield the comparison of all trained networks by their held-out measures and costs."""
        rows, names = [], dict.fromkeys([*COSTS])
        records, by_phase = {}, self._measures()
        for phase in self.recipe_file.recipe.phase:
            if phase.name in by_phase:
                total, measures = cost(self._networks[phase.name]), by_phase[phase.name]
                costs: dict[str, float] = {"params": total.params, "macs": total.macs}
                if self._limits(phase) and (architecture := self._architecture(phase)) is not None:
                    costs = {name: each[0] for name, each in self._costs(phase, [architecture]).items()} | costs
                records[phase.name] = measures, costs
                names |= dict.fromkeys(costs)
        measured = list(dict.fromkeys(name for measures, _ in records.values() for name in measures))
        for name, (measures, costs) in records.items():
            values = (format_metric(each, measures[each]) if each in measures else "" for each in measured)
            rows.append([name, *values, *(cost_text(costs.get(each)) for each in names)])
        head = ["phase", *(f"{column_heading(name)}, held out" for name in measured), *map(column_heading, names)]
        if len(rows) < 2 or BEFORE_AND_AFTER in self.run.entries:
            head, rows = [], []
        if records and self._choices():
            note = (
                "This run trained no random network, so how much the search gained after training is not known. “What "
                "to do next” has the command that trains one."
            )
            yield Comparison("Trained networks", head, rows, note)
        elif rows:
            yield Comparison("Trained networks", head, rows)

    def _measured_latencies(self) -> Iterator[Comparison]:
        """Yield, for each bound on a latency, the predicted and measured latencies of a phase's best candidates."""
        for name, table in self.summary.get("latency", {}).items():
            for bound in table["bounds"]:
                title = f"Latency of the best candidates of {name}, {bound['bound']}"
                if "not_measured" in bound:
                    yield Comparison(title, (), (), f"They were not measured: {bound['not_measured']}.")
                    continue
                rows = [
                    (
                        f"{number + 1}, chosen" if number == table["chosen"] else str(number + 1),
                        f"{predicted / 1000:,.1f}",
                        f"{nanoseconds / 1000:,.1f} ± {uncertainty / 1000:,.1f}",
                        f"{nanoseconds / predicted - 1:+.0%}" if predicted else "",
                    )
                    for number, (predicted, nanoseconds, uncertainty) in enumerate(
                        zip(bound["predicted"], bound["measured"], bound["uncertainty"], strict=True)
                    )
                ]
                note = "The best candidate that was measured within the bounds, with its uncertainty, is chosen."
                if table["chosen"] is None:
                    note = "The bound was not reached: no measured candidate is within it, and the best one is kept."
                if any(speed != 1 for speed in bound["speed"]):
                    speed = f"{fmean(bound['speed']):.2f}"
                    ran = f"The machine ran at {speed} times its speed during the fit"
                    note += f" {ran}, to which measured latencies are converted."
                yield Comparison(title, ["candidate", "predicted, us", "measured, us", "error"], rows, note)

    def _before_and_after(self) -> Iterator[Comparison]:
        """Yield the comparison of a network before and after shrinking."""
        stored = stored_object(self.run, BEFORE_AND_AFTER)
        if not stored:
            return
        before, cut, after = (stored[when] for when in ("before", "cut", "after"))
        rows = []
        for name in dict.fromkeys(name for when in (before, cut, after) for name in when if name not in _HIDDEN):
            values = [when.get(name) for when in (before, cut, after)]
            texts = (_value_text(name, value) for value in values)
            rows.append([name.replace("_", " "), *texts, _change(name, *values[::2])])
        head = ["", "before", "cut out", "after", "change"]
        note = (
            "Cut out: the smaller network with weights of the larger one; after: the same network after more training, "
            "which the larger network did not have."
        )
        yield Comparison("Before and after", head, rows, note)

    # how sure

    def _certainty(self, trials: Mapping[str, TrialTable]) -> Iterator[str]:
        """Yield sentences about the errors of the results: sampling errors, ties, and seeds."""
        for phase in self.recipe_file.recipe.phase:
            rows, (_, held_out) = self.run.phase(phase.name).rows(), self._samples(phase)
            accuracy = rows[-1].get("accuracy") if rows and phase.name in self._networks else None
            if isinstance(accuracy, float) and held_out and self._classes(phase):
                low, high = accuracy_interval(accuracy, held_out)
                yield (
                    f"{phase.name}: accuracy {accuracy:.2%} on {held_out:,} held-out samples. The 95% confidence "
                    f"interval is {low:.1%} to {high:.1%}: what to expect of this network on other samples (Wilson)."
                )
        for name, table in trials.items():
            phase = next(phase for phase in self.recipe_file.recipe.phase if phase.name == name)
            samples, scored = self._samples(phase)[0], table.scored
            error = sampling_error(scored[0][1], samples) if scored and is_fraction(table.score) else None
            if error is not None:
                close = sum(abs(scored[0][1] - value) <= error for _, value in scored[1:])
                others = "1 other trial is" if close == 1 else f"{close:,} other trials are"
                yield (
                    f"{name}: {others} within one standard error of the best ({100 * error:.1f} points on {samples:,} "
                    "validation samples), so about as good. The best score is higher than on other samples, because "
                    "it was selected."
                )
        yield (
            f"Seeds: 1 (seed {self.recipe_file.recipe.seed}). Differences between seeds are not in these intervals; "
            "only several runs show them."
        )

    # whether the search worked

    def _verdicts(
        self, trials: Mapping[str, TrialTable], probabilities: Sequence[ChoiceProbabilities]
    ) -> Iterator[Verdict]:
        """Yield the verdicts on all phases."""
        judged = False
        for phase in self.recipe_file.recipe.phase:
            rows, epochs = self.run.phase(phase.name).rows(), phase.training.epochs
            last, (validation, held_out), classes = rows[-1] if rows else {}, self._samples(phase), self._classes(phase)
            table = trials.get(phase.name)
            subjects = [("validation_accuracy", "the best candidate" if table else "the supernet", validation)]
            subjects += [("accuracy", "the trained network", held_out)] if phase.name in self._networks else []
            for name, subject, samples in subjects:
                if classes and samples and isinstance(last.get(name), float):
                    verdict = chance_verdict(
                        phase.name, subject, last[name], samples, classes, None if table else epochs
                    )
                    yield from [verdict] if verdict else []
            shares = {each.choice: each.probabilities[-1] for each in probabilities if each.phase == phase.name}
            drawn = [probability_verdict(phase.name, shares, epochs), self._bound_verdict(phase)]
            if table is not None:
                drawn.append(self._trials_verdict(phase, table, validation))
            for verdict in drawn:
                judged |= verdict is not None
                yield from [verdict] if verdict else []
        if not judged and self.summary:
            text = "no phase of this run records how it searched" if self._choices() else "this run searched nothing"
            yield Verdict("not judged", "", "not judged", text)

    def _bound_verdict(self, phase: Phase) -> Verdict | None:
        """Return the verdict on the costs of the architecture that a phase selected within its own bounds."""
        architecture = self._architecture(phase) if phase.options.get("where") else None
        if architecture is None:
            return None
        costs = self._costs(phase, [architecture])
        uses = [BoundUse(text, limit, costs[name][0]) for name, (text, limit) in self._limits(phase).items()]
        return bound_verdict(phase.name, uses, bool(phase.options.get("min_budget_fraction")))

    def _trials_verdict(self, phase: Phase, table: TrialTable, samples: int) -> Verdict | None:
        learns, initial = self._initial(phase.name)
        in_order = [score for _, score in table.comparable]
        scored_first = sum(row.id in initial for row, _ in table.comparable)
        limit, count = ("generations" if "generations" in phase.options else "trials"), len(table.rows)
        wanted = phase.options.get("trials")
        more = 2 * int(phase.options.get(limit, count))
        return trials_verdict(
            phase.name, table.score, table.larger, in_order, scored_first, learns, samples,
            self.run.phase(phase.name).done is not None and isinstance(wanted, int) and count < wanted,
            {f"options.{limit}": more},
        )  # fmt: skip

    # what to do next

    def _next_steps(self, trials: Mapping[str, TrialTable], verdicts: Sequence[Verdict]) -> Iterator[Step]:
        """Yield what to do next: for a run that is not finished, only that it can be continued."""
        if self.summary:
            random_trials = {name: self._initial(name)[1] for name in trials}
            is_shrunk, is_exported = BEFORE_AND_AFTER in self.run.entries, "onnx" in self.summary
            yield from NextSteps(
                self.run, self.recipe_file.recipe, self._networks.keys(), bool(self._choices()), is_shrunk, is_exported,
                trials, random_trials,
            ).steps(verdicts)  # fmt: skip
        elif not is_locked(self.run.folder):
            yield "Continue the run", f"archir search --resume {shlex.quote(self.run.folder.name)}"

    # figures

    def _metrics(self, phase: Phase) -> PhaseRows:
        """Return the metrics of a phase per epoch; for phases that try candidates, per batch, such as a generation of
        evolution."""
        rows = self.run.phase(phase.name).rows()
        return PhaseRows(phase.name, rows, self._unit(phase, rows))

    def _unit(self, phase: Phase, rows: Sequence[Mapping[str, Any]]) -> str:
        if not any("trials" in row for row in rows):
            return "epoch"
        kind = STRATEGIES.get(phase.strategy)
        return str(getattr(kind and kind.make, "batch_name", "batch"))

    def _progress(self) -> list[PhaseProgress]:
        """Return the progress of all phases of the recipe."""
        phases = []
        begun = {phase.name for phase in self.run.phases()}
        for phase in self.recipe_file.recipe.phase:
            stored = self.run.phase(phase.name)
            rows = stored.rows()
            state = "waiting" if phase.name not in begun else "running" if stored.done is None else "done"
            if state == "running" and not is_locked(self.run.folder):
                state = "interrupted"
            total = len(rows) if state == "done" else stored.begun.get("epochs")
            seconds = sum(float(row.get("seconds", 0)) for row in rows)
            unit = self._unit(phase, rows)
            phases.append(PhaseProgress(phase.name, phase.strategy, len(rows), total, state, unit, seconds))
        return phases

    def _probabilities(self, phase: Phase) -> Iterator[ChoiceProbabilities]:
        """Yield the probabilities of each choice's alternatives over the epochs; while the phase runs, from its
        recorded numbers."""
        architecture = self._architecture(phase)
        if architecture is None:
            histories: dict[str, dict[str, list[float]]] = {}
            for numbers in self.run.phase(phase.name).extras():
                for name, value in numbers.items():
                    path, _, label = name.partition("/")
                    histories.setdefault(path, {}).setdefault(label, []).append(value)
            for path, by_label in histories.items():
                yield ChoiceProbabilities(
                    path, list(by_label), list(zip(*by_label.values(), strict=True)), (), phase.name
                )
            return
        outcomes, choices = architecture.outcomes, {choice.path: choice for choice in architecture.choices}
        for path, rows in self._of_phase(phase, ALPHAS).get("history", {}).items():
            if path in choices:
                chosen = choices[path].subsets[outcomes[path]] if path in outcomes else ()
                yield ChoiceProbabilities(path, [*map(str, choices[path].alternatives)], rows, chosen, phase.name)

    def _trials(self, phase: Phase, pictures: bool) -> TrialTable:
        """Return the trials of a phase with their costs, the front and, if wanted, pictures of the best ones."""
        trials, space = self.run.phase(phase.name).trials(), self._space(phase)
        architectures = {trial.id: space.architecture(trial.architecture) for trial in trials}
        objectives = objectives_of(self.run, phase.name) or {"accuracy": True}
        costs = self._costs(phase, [*architectures.values()])
        for name in [name for name in objectives if name not in costs]:
            if name in space.account.names or is_cost(name):
                with suppress(ArchError):  # a table that the cost names is missing now
                    costs[name] = [float(value) for value in space.cost([*architectures.values()], [name])[name]]
        limits = self._limits(phase)
        score, *others = objectives
        other = next(name for name in (*others, *limits, "macs", "params") if name != score)
        front = [int(row["id"]) for row in self._of_phase(phase, FRONT).get("front", ())]
        table = replace(
            trial_table(self.run, trials, phase.name, score, objectives[score], costs),
            other=other,
            other_larger=objectives.get(other, False),
            limit=limits[other][1] if other in limits else None,
            front=front,
        )
        drawn: dict[int, str] = {}
        for trial, _ in table.scored[: MAX_PICTURES if pictures else 0]:
            svg = picture(space.specialize(architectures[trial.id]), "svg")
            if sum(map(len, drawn.values())) + len(svg) <= MAX_PICTURE_CHARACTERS:
                drawn[trial.id] = svg
        return replace(table, pictures=drawn)


def trial_table(
    run: Run, trials: Sequence[Trial], phase: str, score: str, larger: bool, costs: Mapping[str, Sequence[float]],
) -> TrialTable:  # fmt: skip
    """Return the table of a phase's trials, ranked by `score`, which may be a cost.

    `larger` tells whether larger values of it are better; `costs` has the costs of all trials by name.
    """
    rows = []
    for i, trial in enumerate(trials):
        own_costs = {name: float(each[i]) for name, each in costs.items()}
        ranked = {score: own_costs[score]} if score in own_costs and trial.status == "done" else {}
        rows.append(
            TrialRow(trial.id, {**trial.scores, **ranked}, own_costs, trial.architecture, trial.error, trial.budget)
        )

    def command(number: int) -> str:
        return f"archir train --trial {shlex.quote(run.folder.name)} {phase}:{number} -o {phase}-{number}"

    return TrialTable(phase, rows, command, score, larger)


def _drawn(network: Graph, block: str | None = None) -> str:
    """Return a picture of a network or a block, with as many levels opened as fit."""
    svg = picture(network, "svg", 1, block)
    for depth in range(2, MAX_DEPTH + 1):
        deeper = picture(network, "svg", depth, block)
        size = _SIZE.search(deeper)
        if size is None or float(size[1]) > MAX_WIDTH or float(size[2]) > MAX_HEIGHT:
            break
        svg = deeper
    return svg


def _range_text(values: Sequence[float]) -> str:
    """Format the smallest and the largest of some costs; one number if they are equal."""
    return " to ".join(dict.fromkeys([cost_text(min(values)), cost_text(max(values))]))


def _is_near(value: float, reference: float) -> bool:
    return abs(value - reference) <= SAME_COST * abs(reference)


def _difference(name: str, value: float) -> str:
    """Format a difference of scores: of fractions in percentage points."""
    return f"{100 * value:+.2f} points" if is_fraction(name) else f"{value:+.3g}"


def _value_text(name: str, value: Any) -> str:
    """Format a value of a comparison before and after shrinking."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return format_metric(name.removeprefix("int8_"), value) if isinstance(value, float) else str(value)


def _change(name: str, before: Any, after: Any) -> str:
    """Format the change of a value: of fractions in points, of other numbers as a factor."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return ""
    if is_fraction(name):
        return _difference(name, after - before)
    return f"{after / before:.2f} times" if before else ""
