"""What a search leaves behind: the architecture, the network with its weights, an ONNX model, a report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from archir.ir.serial import to_json
from archir.language.source import to_source
from archir.passes.cost import cost
from archir.pictures import picture
from archir.recipes import borrowing
from archir.recipes.job import Outcome, Tensor
from archir.recipes.recipe import Phase, Recipe
from archir.recipes.spaces import space_of
from archir.runs import PhaseRows, Report, Run, Weighing
from archir.runs.phase import WEIGHTS
from archir.runs.report.page import page
from archir.runs.report.trials import Trials, Tried
from archir.runs.summaries import OBJECTIVE
from archir.search.fronts.figures import measures, shown
from archir.search.registry import strategies
from archir.spaces.space import Space

BEST, SOURCE = "best.json", "best.arch"
NETWORK, MODEL, CERTIFICATE = "network.json", "model.onnx", "model.onnx.json"
SPLITS = "splits.json"
NETWORKS = "networks"
"""The folder of all networks, where each is wanted."""
COSTS = ("params", "macs")
MOST_PICTURES, MOST_DRAWN = 12, 1_500_000
"""Of how many candidates the report has pictures, and how many characters these have together."""
SUMMARY, REPORT = "summary.json", "report.html"
FRONT, PLANE = "front.json", "front.svg"


class Deployment(Protocol[Tensor]):
    """How a backend deploys a network that it trained."""

    def weights(self, outcome: Outcome[Tensor]) -> bytes:
        """The network's weights, as safetensors."""

    def model(self, outcome: Outcome[Tensor], opset: int | None, metadata: Mapping[str, str]) -> Exported:
        """The network as ONNX, compared with what was trained."""


class Exported(NamedTuple):
    """A model's bytes, its certificate's, and how far it is from the network at most."""

    model: bytes
    certificate: bytes
    absolute: float
    relative: float


def write(
    run: Run, recipe: Recipe, outcomes: Mapping[str, Outcome[Tensor]], deployment: Deployment[Tensor],
    spaces: dict[str, Space],
) -> dict[str, Any]:  # fmt: skip
    """Write the results of a search; a summary of them. `spaces` are those that are known (see `space_of`)."""
    derived = [(name, o.architecture) for name, o in outcomes.items() if o.architecture is not None]
    trained = [(name, o) for name, o in outcomes.items() if o.network is not None]
    files: dict[str, str | bytes] = {}
    summary: dict[str, Any] = {"folder": str(run.folder), "phases": _phases(run, outcomes)}
    summary["measures"] = {name: known for name in outcomes if (known := _measures(run, name))}
    if derived:
        name, architecture = derived[-1]
        files[BEST] = architecture.to_json()
        summary["architecture"] = {"phase": name, "choices": dict(architecture)}
    fronts = {name: run.content(f"phases/{name}/front.json") for name in outcomes if _has(run, name, FRONT)}
    if fronts:
        summary["fronts"] = {name: json.loads(content) for name, content in fronts.items()}
    for name, outcome in trained if recipe.export == "each" else trained[-1:]:
        made, differences = _network(run, recipe, name, outcome, deployment)
        known = {**_costs(outcome), **_last(run, name)}
        if recipe.export == "each":
            best: dict[str, str | bytes] = {BEST: outcome.architecture.to_json()} if outcome.architecture else {}
            files |= {f"{NETWORKS}/{name}/{file}": content for file, content in (made | best).items()}
            summary.setdefault("networks", {})[name] = known | ({"onnx": differences} if differences else {})
        if name == trained[-1][0]:
            files |= made
            summary["network"] = {"phase": name, **known}
            summary |= {"onnx": differences} if differences else {}
    files[SUMMARY] = json.dumps(summary, indent=1) + "\n"
    files[REPORT] = page(_report(run, recipe, outcomes, summary, spaces))
    run.write(files)
    return summary


def _network(
    run: Run, recipe: Recipe, name: str, outcome: Outcome[Tensor], deployment: Deployment[Tensor]
) -> tuple[dict[str, str | bytes], dict[str, float]]:
    """A network that a phase trained, as files; how far its model is from it, if there is one."""
    assert outcome.network is not None
    files: dict[str, str | bytes] = {
        SOURCE: to_source(outcome.network),
        NETWORK: json.dumps(to_json(outcome.network)) + "\n",
        WEIGHTS: deployment.weights(outcome),
    }
    if not recipe.export:
        return files, {}
    made = deployment.model(outcome, recipe.opset, _metadata(run, name, outcome))
    model: dict[str, str | bytes] = {MODEL: made.model, CERTIFICATE: made.certificate}
    return files | model, {"difference": made.absolute, "relative": made.relative}


def _costs(outcome: Outcome[Tensor]) -> dict[str, int]:
    assert outcome.network is not None
    total = cost(outcome.network)
    return {"params": total.params, "macs": total.macs}


def _has(run: Run, phase: str, name: str) -> bool:
    return f"phases/{phase}/{name}" in run.files.manifest.files


def _report(
    run: Run, recipe: Recipe, outcomes: Mapping[str, Outcome[Tensor]], summary: Mapping[str, Any],
    spaces: dict[str, Space],
) -> Report:  # fmt: skip
    """What the page shows: what it came to, curves, architecture parameters over time, trials, the last network."""
    network = next((o.network for o in reversed(list(outcomes.values())) if o.network is not None), None)
    used = borrowing.written(run).document
    facts: dict[str, Mapping[str, Any]] = {}
    if network is not None:
        facts["Network"] = {name: f"{number:,}" for name, number in vars(cost(network)).items()}
    if "onnx" in summary:
        facts["ONNX, compared with torch"] = {name: f"{number:.2g}" for name, number in summary["onnx"].items()}
    if "architecture" in summary:
        facts["Architecture"] = {path: _text(label) for path, label in summary["architecture"]["choices"].items()}
    return Report(
        title=run.title,
        phases=[_rows(run, phase) for phase in recipe.phase if run.phase(phase.name).rows()],
        weighings=[one for name, outcome in outcomes.items() for one in _weighings(name, outcome)],
        picture=picture(network, "svg") if network is not None else "",
        planes=[run.content(f"phases/{name}/{PLANE}").decode() for name in outcomes if _has(run, name, PLANE)],
        facts=facts,
        recipe=used.source.text,
        overrides=list(used.edits()),
        environment=json.loads(run.content("environment.json")),
        verdict=_verdict(run, recipe, summary),
        trials=[
            _tried(run, phase, space_of(recipe, phase, run.folder / "space", spaces))
            for phase in recipe.phase
            if run.phase(phase.name).trials()
        ],
    )


def _rows(run: Run, phase: Phase) -> PhaseRows:
    """A phase's figures. Its epochs are batches if it tries candidates, and generations if it is an evolution."""
    rows, known = run.phase(phase.name).rows(), strategies()
    unit = "batch" if any("trials" in row for row in rows) else "epoch"
    if phase.strategy in known:
        unit = str(getattr(known[phase.strategy].make, "batch_name", unit))
    return PhaseRows(phase.name, rows, unit)


def _verdict(run: Run, recipe: Recipe, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the search came to, in a few lines: how good, how large, and which samples say so."""
    found: dict[str, Any] = {}
    network, name = summary.get("network"), recipe.phase[-1].name
    if network is not None:
        name = network["phase"]
        for measure, value in measures(network).items():
            if measure not in ("params", "macs", "epochs", "minutes"):
                found[f"{measure.replace('_', ' ')}, held out"] = shown(measure, value)
        found |= {"parameters": network["params"], "multiply-accumulates": network["macs"]}
    for phase in recipe.phase:
        for measure, value in measures(summary["phases"][phase.name], "validation_").items():
            found[f"validation {measure.replace('_', ' ')} of {phase.name} (used for selection)"] = shown(
                measure, value
            )
        if (seen := borrowing.seen(run, recipe, phase)) is not None:
            found[f"what the weights that {phase.name} starts from were trained on"] = seen
    if _has(run, name, SPLITS):
        parts = json.loads(run.content(f"phases/{name}/{SPLITS}"))["splits"]
        found["samples, trained on or chosen by"] = parts["train"]["images"]
        found["samples, held out"] = parts["held_out"]["images"]
    return found


def _tried(run: Run, phase: Phase, space: Space) -> Trials:
    """What a phase tried, with what it costs."""
    trials = run.phase(phase.name).trials()
    architectures = [space.architecture(one.architecture) for one in trials]
    costs = space.cost(architectures, COSTS)
    rows = [
        Tried(one.id, one.scores, {name: float(costs[name][i]) for name in COSTS}, one.architecture, one.error)
        for i, one in enumerate(trials)
    ]

    def command(number: int) -> str:
        return f"archir train --trial {run.folder.name} {phase.name}:{number} -o {phase.name}-{number}"

    facts = _measures(run, phase.name)
    names = list(dict.fromkeys(name for one in trials for name in one.scores))
    score = str(facts.get("criterion", "accuracy"))
    if score not in names:
        score = names[0] if names else ""
    found = Trials(phase.name, rows, command, score, bool(facts.get("measures", {}).get(score, True)))
    best = {one.id: one for one in trials}
    pictures: dict[int, str] = {}
    for one, _ in found.scored[:MOST_PICTURES]:
        drawn = picture(space.specialize(space.architecture(best[one.id].architecture)), "svg")
        if sum(map(len, pictures.values())) + len(drawn) <= MOST_DRAWN:
            pictures[one.id] = drawn
    return replace(found, pictures=pictures)


def _weighings(phase: str, outcome: Outcome[Tensor]) -> list[Weighing]:
    choices = {choice.path: choice for choice in outcome.architecture.choices} if outcome.architecture else {}
    found = []
    for path, rows in outcome.history.items():
        if path in choices:
            assert outcome.architecture is not None
            outcomes = outcome.architecture.outcomes
            chosen = choices[path].subsets[outcomes[path]] if path in outcomes else ()
            found.append(Weighing(path, [str(label) for label in choices[path].alternatives], rows, chosen, phase))
    return found


def _text(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, list) else str(label)


def _metadata(run: Run, phase: str, outcome: Outcome[Tensor]) -> dict[str, str]:
    architecture = outcome.architecture.to_json() if outcome.architecture is not None else ""
    return {"architecture": architecture, "recipe": run.title, **_labels(run, phase)}


def _labels(run: Run, phase: str) -> dict[str, str]:
    """The names of classes, where the phase's samples have labels."""
    if not _has(run, phase, SPLITS):
        return {}
    images = json.loads(run.content(f"phases/{phase}/{SPLITS}")).get("images")
    return {"labels": json.dumps(images["classes"])} if images and images["classes"] else {}


def _phases(run: Run, outcomes: Mapping[str, Outcome[Tensor]]) -> dict[str, Any]:
    return {name: _last(run, name) for name in outcomes}


def _measures(run: Run, name: str) -> dict[str, Any]:
    """What a phase measures: the `criterion` that networks are compared by, and whether more is better, by names."""
    if not _has(run, name, OBJECTIVE):
        return {}
    found: dict[str, Any] = json.loads(run.content(f"phases/{name}/{OBJECTIVE}"))
    return found


def _last(run: Run, name: str) -> dict[str, Any]:
    """The figures of a phase's last epoch; how long it took in all."""
    rows = run.phase(name).rows()
    if not rows:
        return {}
    last = {key: value for key, value in rows[-1].items() if key != "seconds"}
    return {**last, "epochs": len(rows), "minutes": round(sum(float(row.get("seconds", 0)) for row in rows) / 60, 2)}
