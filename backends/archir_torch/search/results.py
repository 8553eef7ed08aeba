"""What a search leaves behind: the architecture, the network with its weights, an ONNX model, a report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save as save_tensors
from torch import nn

from archir import backends
from archir.ir.graph import Graph
from archir.ir.text.serial import to_json
from archir.language.source import to_source
from archir.passes.cost import cost
from archir.pictures import picture
from archir.search.runs import PhaseRows, Report, Weighing
from archir.search.runs.report.page import page
from archir_torch.search.job import Outcome

if TYPE_CHECKING:
    from archir_torch.search.run import Search

BEST, SOURCE, WEIGHTS = "best.json", "best.arch", "weights.safetensors"
NETWORK, MODEL, CERTIFICATE = "network.json", "model.onnx", "model.onnx.json"
SPLITS = "splits.json"
SUMMARY, REPORT = "summary.json", "report.html"
FRONT, PLANE = "front.json", "front.svg"


def write(found: Search, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Write the results of a search; a summary of them."""
    derived = [(name, o.architecture) for name, o in outcomes.items() if o.architecture is not None]
    trained = [(name, o) for name, o in outcomes.items() if o.network is not None]
    files: dict[str, str | bytes] = {}
    summary: dict[str, Any] = {"folder": str(found.run.folder), "phases": _phases(found, outcomes)}
    if derived:
        name, architecture = derived[-1]
        files[BEST] = architecture.to_json()
        summary["architecture"] = {"phase": name, "choices": dict(architecture)}
    fronts = {name: found.run.content(f"phases/{name}/front.json") for name in outcomes if _has(found, name, FRONT)}
    if fronts:
        summary["fronts"] = {name: json.loads(content) for name, content in fronts.items()}
    if trained:
        name, outcome = trained[-1]
        assert outcome.network is not None
        total = cost(outcome.network)
        summary["network"] = {"phase": name, "params": total.params, "macs": total.macs, **_last(found, name)}
        files[SOURCE] = to_source(outcome.network)
        files[NETWORK] = json.dumps(to_json(outcome.network)) + "\n"
        files[WEIGHTS] = save_tensors(module_of(outcome)[1].state_dict())
        if found.recipe.export:
            files[MODEL], files[CERTIFICATE], summary["onnx"] = _exported(found, name, outcome)
    files[SUMMARY] = json.dumps(summary, indent=1) + "\n"
    files[REPORT] = page(_report(found, outcomes, summary))
    found.run.write(files)
    return summary


def _has(found: Search, phase: str, name: str) -> bool:
    return f"phases/{phase}/{name}" in found.run.files.manifest.files


def _report(found: Search, outcomes: Mapping[str, Outcome], summary: Mapping[str, Any]) -> Report:
    """What the page shows: curves, architecture parameters over time, the last network."""
    network = next((o.network for o in reversed(list(outcomes.values())) if o.network is not None), None)
    facts: dict[str, Mapping[str, Any]] = {}
    if network is not None:
        facts["Network"] = {name: f"{number:,}" for name, number in vars(cost(network)).items()}
    if "onnx" in summary:
        facts["ONNX, compared with torch"] = {name: f"{number:.2g}" for name, number in summary["onnx"].items()}
    if "architecture" in summary:
        facts["Architecture"] = {path: _text(label) for path, label in summary["architecture"]["choices"].items()}
    return Report(
        title=found.run.title,
        phases=[PhaseRows(name, found.run.phase(name).rows()) for name in outcomes if found.run.phase(name).rows()],
        weighings=[one for name, outcome in outcomes.items() for one in _weighings(name, outcome)],
        picture=picture(network, "svg") if network is not None else "",
        planes=[found.run.content(f"phases/{name}/{PLANE}").decode() for name in outcomes if _has(found, name, PLANE)],
        facts=facts,
        recipe=found.run.content("recipe.toml").decode(),
        environment=json.loads(found.run.content("environment.json")),
    )


def _weighings(phase: str, outcome: Outcome) -> list[Weighing]:
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


def module_of(outcome: Outcome) -> tuple[Graph, nn.Module]:
    """The network that was trained, with its weights."""
    assert outcome.network is not None
    torch = backends.get("torch")
    module: nn.Module = torch.lower(outcome.network)
    module.load_state_dict({name: outcome.weights[name] for name in module.state_dict()})
    return outcome.network, module.eval()


def _exported(found: Search, phase: str, outcome: Outcome) -> tuple[bytes, bytes, dict[str, Any]]:
    """The model, its certificate, and how far it is from torch."""
    graph, module = module_of(outcome)
    torch, onnx = backends.get("torch"), backends.get("onnx")
    options = {} if found.recipe.opset is None else {"opset": found.recipe.opset}
    architecture = outcome.architecture.to_json() if outcome.architecture is not None else ""
    metadata = {"architecture": architecture, "recipe": found.run.title, **_labels(found, phase)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODEL
        runner = torch.runner(module)
        report = onnx.write(
            graph, path, torch.arrays(module), reference=runner, metadata=metadata, certified=True, **options
        )
        certificate = Path(folder) / CERTIFICATE
        return path.read_bytes(), certificate.read_bytes(), {"difference": report.absolute, "relative": report.relative}


def _labels(found: Search, phase: str) -> dict[str, str]:
    """The names of classes, where the phase's images are known."""
    if not _has(found, phase, SPLITS):
        return {}
    images = json.loads(found.run.content(f"phases/{phase}/{SPLITS}")).get("images")
    return {"labels": json.dumps(images["classes"])} if images else {}


def _phases(found: Search, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    return {name: _last(found, name) for name in outcomes}


def _last(found: Search, name: str) -> dict[str, Any]:
    """The figures of a phase's last epoch; how long it took in all."""
    rows = found.run.phase(name).rows()
    if not rows:
        return {}
    last = {key: value for key, value in rows[-1].items() if key != "seconds"}
    return {**last, "epochs": len(rows), "minutes": round(sum(float(row.get("seconds", 0)) for row in rows) / 60, 2)}
