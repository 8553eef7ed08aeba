"""Result files of a search: architecture, network with weights, ONNX model, and report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from archir.data.metadata import training_data_metadata
from archir.ir.serial import to_json
from archir.passes.cost import cost
from archir.recipes.job import Outcome, Tensor
from archir.recipes.recipe import Recipe
from archir.recipes.run_report import report_of_run, stored_object
from archir.runs import Run
from archir.runs.folder import BEST, FRONT, NETWORK, OBJECTIVE, SPLITS, SUMMARY, WEIGHTS
from archir.runs.report import report_page
from archir.spaces.space import Space

SOURCE, MODEL, CERTIFICATE = "best.arch", "model.onnx", "model.onnx.json"
NETWORKS = "networks"
"""Folder for all trained networks, used if `export = "each"`."""
REPORT = "report.html"
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
    measures = {name: stored_object(run, f"phases/{name}/{OBJECTIVE}") for name in outcomes}
    summary["measures"] = {name: facts for name, facts in measures.items() if facts}
    if derived:
        name, architecture = derived[-1]
        files[BEST] = architecture.to_json()
        summary["architecture"] = {"phase": name, "choices": dict(architecture)}
    latencies = {name: stored_object(run, f"phases/{name}/{MEASURED}.json") for name in outcomes}
    if measured := {name: table for name, table in latencies.items() if table}:
        summary["latency"] = measured
    if fronts := {name: front for name in outcomes if (front := stored_object(run, f"phases/{name}/{FRONT}"))}:
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
    files[REPORT] = report_page(report_of_run(run, summary, spaces))
    run.write(files)
    return summary


def _network_files(
    run: Run, recipe: Recipe, name: str, outcome: Outcome[Tensor], deployment: Deployment[Tensor]
) -> tuple[dict[str, str | bytes], dict[str, float]]:
    """Return the files of a phase's trained network, and the differences of its ONNX model ({} if none is exported)."""
    from archir.language.decompiler.decompile import network_source  # needed only once a search has ended

    assert outcome.network is not None
    files: dict[str, str | bytes] = {
        SOURCE: network_source(outcome.network),
        NETWORK: json.dumps(to_json(outcome.network)) + "\n",
        WEIGHTS: deployment.weights(outcome),
    }
    if not recipe.export:
        return files, {}
    images = stored_object(run, f"phases/{name}/{SPLITS}").get("images")  # none if candidates are looked up in a table
    metadata = {
        "architecture": outcome.architecture.to_json() if outcome.architecture is not None else "",
        "recipe": run.title,
        **training_data_metadata(images or {}),
    }
    exported = deployment.model(outcome, recipe.opset, metadata)
    model: dict[str, str | bytes] = {MODEL: exported.model, CERTIFICATE: exported.certificate}
    return files | model, {"difference": exported.absolute, "relative": exported.relative}


def _last_epoch(run: Run, name: str) -> dict[str, Any]:
    """Return the metrics of a phase's last epoch, the number of epochs, and the total time in minutes."""
    rows = run.phase(name).rows()
    if not rows:
        return {}
    last = {key: value for key, value in rows[-1].items() if key != "seconds"}
    return {**last, "epochs": len(rows), "minutes": round(sum(float(row.get("seconds", 0)) for row in rows) / 60, 2)}


def rewrite_report(run: Run) -> None:
    """Write the report of a finished run again, for files that were added to the run after its search."""
    run.write({REPORT: report_page(report_of_run(run))})
