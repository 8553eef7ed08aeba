"""Result files of a search: architecture, network with weights, ONNX model, and report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from archir.data.metadata import training_data_metadata
from archir.ir.serial import to_json
from archir.language.source import to_source
from archir.passes.cost import cost
from archir.pictures import picture
from archir.recipes.external_files import describe_training_data
from archir.recipes.job import Outcome, Tensor
from archir.recipes.parsing import recipe_of_run
from archir.recipes.recipe import Phase, Recipe
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.runs.folder import OBJECTIVE, WEIGHTS
from archir.runs.report import ChoiceProbabilities, PhaseRows, Report, report_page, trial_table
from archir.runs.trial_report import TrialTable, label_text
from archir.search.fronts import format_metric, select_measures
from archir.search.registry import STRATEGIES
from archir.spaces.space import Space

BEST, SOURCE = "best.json", "best.arch"
NETWORK, MODEL, CERTIFICATE = "network.json", "model.onnx", "model.onnx.json"
SPLITS = "splits.json"
NETWORKS = "networks"
"""Folder for all trained networks, used if `export = "each"`."""
COSTS = ("params", "macs")
"""Costs that are reported for networks and trials."""
MAX_PICTURES, MAX_PICTURE_CHARACTERS = 12, 1_500_000
"""Maximum number of candidates drawn in the report, and maximum total length of their SVG pictures in
characters."""
SUMMARY, REPORT = "summary.json", "report.html"
FRONT, PLANE = "front.json", "front.svg"
MEASURED = "measured"
"""Name of the JSON file of a phase with the measured latencies of its best candidates."""


class Deployment(Protocol[Tensor]):
    """Serialisation and ONNX export of trained networks, implemented by the backend that trained them."""

    def weights(self, outcome: Outcome[Tensor]) -> bytes:
        """Return the network's weights in safetensors format."""

    def model(self, outcome: Outcome[Tensor], opset: int | None, metadata: Mapping[str, str]) -> Exported:
        """Export the network to ONNX, verified against the trained network."""


class Exported(NamedTuple):
    """ONNX model, its certificate, and its largest absolute and relative output differences from the trained
    network."""

    model: bytes
    certificate: bytes
    absolute: float
    relative: float


def write(
    run: Run, recipe: Recipe, outcomes: Mapping[str, Outcome[Tensor]], deployment: Deployment[Tensor],
    spaces: dict[str, Space],
) -> dict[str, Any]:  # fmt: skip
    """Write the results of a search into its run; return a summary.

    `spaces` caches loaded spaces (see `space_of`).
    """
    derived = [(name, o.architecture) for name, o in outcomes.items() if o.architecture is not None]
    trained = [(name, o) for name, o in outcomes.items() if o.network is not None]
    files: dict[str, str | bytes] = {}
    summary: dict[str, Any] = {"folder": str(run.folder), "phases": {name: _last_epoch(run, name) for name in outcomes}}
    summary["measures"] = {name: measured for name in outcomes if (measured := _stored(run, name, OBJECTIVE))}
    if derived:
        name, architecture = derived[-1]
        files[BEST] = architecture.to_json()
        summary["architecture"] = {"phase": name, "choices": dict(architecture)}
    if measured := {name: table for name in outcomes if (table := _stored(run, name, f"{MEASURED}.json"))}:
        summary["latency"] = measured
    if fronts := {name: front for name in outcomes if (front := _stored(run, name, FRONT))}:
        summary["fronts"] = fronts
    for name, outcome in trained if recipe.export == "each" else trained[-1:]:
        network_files, differences = _network_files(run, recipe, name, outcome, deployment)
        assert outcome.network is not None
        total = cost(outcome.network)
        metrics = {"params": total.params, "macs": total.macs, **_last_epoch(run, name)}
        if recipe.export == "each":
            best: dict[str, str | bytes] = {BEST: outcome.architecture.to_json()} if outcome.architecture else {}
            files |= {f"{NETWORKS}/{name}/{file}": content for file, content in (network_files | best).items()}
            summary.setdefault("networks", {})[name] = metrics | ({"onnx": differences} if differences else {})
        if name == trained[-1][0]:
            files |= network_files
            summary["network"] = {"phase": name, **metrics}
            summary |= {"onnx": differences} if differences else {}
    files[SUMMARY] = json.dumps(summary, indent=1) + "\n"
    files[REPORT] = report_page(_report(run, recipe, outcomes, summary, spaces))
    run.write(files)
    return summary


def _network_files(
    run: Run, recipe: Recipe, name: str, outcome: Outcome[Tensor], deployment: Deployment[Tensor]
) -> tuple[dict[str, str | bytes], dict[str, float]]:
    """Return the files of a phase's trained network, and the differences of its ONNX model ({} if none is exported)."""
    assert outcome.network is not None
    files: dict[str, str | bytes] = {
        SOURCE: to_source(outcome.network),
        NETWORK: json.dumps(to_json(outcome.network)) + "\n",
        WEIGHTS: deployment.weights(outcome),
    }
    if not recipe.export:
        return files, {}
    images = _stored(run, name, SPLITS).get("images")  # none if candidates are looked up in a table
    metadata = {
        "architecture": outcome.architecture.to_json() if outcome.architecture is not None else "",
        "recipe": run.title,
        **training_data_metadata(images or {}),
    }
    exported = deployment.model(outcome, recipe.opset, metadata)
    model: dict[str, str | bytes] = {MODEL: exported.model, CERTIFICATE: exported.certificate}
    return files | model, {"difference": exported.absolute, "relative": exported.relative}


def _stored(run: Run, phase: str, name: str) -> dict[str, Any]:
    """Return the content of a JSON file of a phase; {} if there is no such file."""
    path = f"phases/{phase}/{name}"
    content: dict[str, Any] = json.loads(run.content(path)) if path in run.entries else {}
    return content


def _report(
    run: Run, recipe: Recipe, outcomes: Mapping[str, Outcome[Tensor]], summary: Mapping[str, Any],
    spaces: dict[str, Space],
) -> Report:  # fmt: skip
    """Build the report: results, learning curves, architecture parameters over time, trials, and the last network."""
    network = next((o.network for o in reversed(list(outcomes.values())) if o.network is not None), None)
    document = recipe_of_run(run).document
    facts: dict[str, Mapping[str, Any]] = {}
    if network is not None:
        facts["Network"] = {name: f"{number:,}" for name, number in vars(cost(network)).items()}
    if "onnx" in summary:
        facts["ONNX, compared with torch"] = {name: f"{number:.2g}" for name, number in summary["onnx"].items()}
    if "architecture" in summary:
        facts["Architecture"] = {path: label_text(label) for path, label in summary["architecture"]["choices"].items()}
    return Report(
        title=run.title,
        phases=[_phase_metrics(run, phase) for phase in recipe.phase if run.phase(phase.name).rows()],
        choice_probabilities=[
            probabilities
            for name, outcome in outcomes.items()
            for probabilities in _choice_probabilities(name, outcome)
        ],
        picture=picture(network, "svg") if network is not None else "",
        scatter_plots=[
            run.content(path).decode() for name in outcomes if (path := f"phases/{name}/{PLANE}") in run.entries
        ],
        facts=facts,
        recipe=document.source.text,
        overrides=list(document.edits()),
        environment=json.loads(run.content("environment.json")),
        result=_headline(run, recipe, summary),
        trials=[
            _trial_table(run, phase, space_of(recipe, phase, run.folder / "space", spaces))
            for phase in recipe.phase
            if run.phase(phase.name).trials()
        ],
    )


def _phase_metrics(run: Run, phase: Phase) -> PhaseRows:
    """Return the metrics of a phase per epoch; for phases that try candidates, per batch, such as a generation of
    evolution."""
    rows = run.phase(phase.name).rows()
    unit = "epoch"
    if any("trials" in row for row in rows):
        kind = STRATEGIES.get(phase.strategy)
        unit = getattr(kind and kind.make, "batch_name", "batch")
    return PhaseRows(phase.name, rows, unit)


def _headline(run: Run, recipe: Recipe, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headline results: quality and size of the network, and the numbers of samples used."""
    result: dict[str, Any] = {}
    network, name = summary.get("network"), recipe.phase[-1].name
    if network is not None:
        name = network["phase"]
        for measure, value in select_measures(network).items():
            if measure not in ("params", "macs", "epochs", "minutes"):
                result[f"{measure.replace('_', ' ')}, held out"] = format_metric(measure, value)
        result |= {"parameters": network["params"], "multiply-accumulates": network["macs"]}
    for phase in recipe.phase:
        for measure, value in select_measures(summary["phases"][phase.name], "validation_").items():
            heading = f"validation {measure.replace('_', ' ')} of {phase.name} (used for selection)"
            result[heading] = format_metric(measure, value)
        if (seen := describe_training_data(run, recipe, phase)) is not None:
            result[f"what the weights that {phase.name} starts from were trained on"] = seen
    if splits := _stored(run, name, SPLITS).get("splits"):
        result["samples, trained on or chosen by"] = splits["train"]["images"]
        result["samples, held out"] = splits["held_out"]["images"]
    return result


def _trial_table(run: Run, phase: Phase, space: Space) -> TrialTable:
    """Return the trials of a phase with their costs and, for the best ones, pictures."""
    architectures = {trial.id: space.architecture(trial.architecture) for trial in run.phase(phase.name).trials()}
    facts = _stored(run, phase.name, OBJECTIVE)
    costs = space.cost([*architectures.values()], COSTS)
    table = trial_table(run, phase.name, str(facts.get("criterion", "accuracy")), facts.get("measures", {}), costs)
    pictures: dict[int, str] = {}
    for trial, _ in table.scored[:MAX_PICTURES]:
        svg = picture(space.specialize(architectures[trial.id]), "svg")
        if sum(map(len, pictures.values())) + len(svg) <= MAX_PICTURE_CHARACTERS:
            pictures[trial.id] = svg
    return replace(table, pictures=pictures)


def _choice_probabilities(phase: str, outcome: Outcome[Tensor]) -> Iterator[ChoiceProbabilities]:
    """Yield the probabilities of each choice's alternatives over the epochs, for the report."""
    if outcome.architecture is None:
        return
    outcomes = outcome.architecture.outcomes
    choices = {choice.path: choice for choice in outcome.architecture.choices}
    for path, rows in outcome.history.items():
        if path in choices:
            chosen = choices[path].subsets[outcomes[path]] if path in outcomes else ()
            yield ChoiceProbabilities(path, [*map(str, choices[path].alternatives)], rows, chosen, phase)


def _last_epoch(run: Run, name: str) -> dict[str, Any]:
    """Return the metrics of a phase's last epoch, the number of epochs, and the total time in minutes."""
    rows = run.phase(name).rows()
    if not rows:
        return {}
    last = {key: value for key, value in rows[-1].items() if key != "seconds"}
    return {**last, "epochs": len(rows), "minutes": round(sum(float(row.get("seconds", 0)) for row in rows) / 60, 2)}
