"""Compare searched networks with random ones of the same cost and with hand-made attention, all trained alike on
CIFAR-10.

    python benchmarks/trainings.py --data parquet:CIFAR10 --folder FOLDER [--example nos] [--seeds 3]

For each example and seed, the example's recipe for two cores (`digits.toml`, with CIFAR-10 for the digits) searches and
trains the result; random architectures of the same space and about the same cost are trained; and so is the backbone
with attention made by hand: none, squeeze-and-excitation, and CBAM. All have the images, augmentation, epochs,
optimizer and schedule of the recipe's last phase, and the recipe's seed. Accuracies are of held-out images after the
last epoch; nothing is selected by them.

Results are kept in the folder, a file for each network; the same command continues an interrupted run, also within a
training. Commands for different examples or seeds may share a folder at the same time. By default, everything takes
about eleven hours of one core (estimated from smaller runs), half of them for full attention. Tables contain all
results in the folder; `--table` prints them without training.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir.diagnostics.errors import Interrupted  # noqa: E402
from archir.runs import manifest  # noqa: E402
from archir.search.near_bounds import restrict  # noqa: E402
from archir.spaces.space import Space  # noqa: E402
from archir.utils import toml  # noqa: E402
from archir.utils.files import write_atomic  # noqa: E402
from benchmarks.measure import Table, machine  # noqa: E402

SEARCHED, RANDOM = "searched", "random"
HAND_MADE: dict[str, dict[str, str]] = {"plain": {}, "SE": {"attention": "se"}, "CBAM": {"attention": "cbam"}}
"""Kinds of networks made by hand, with their parameters."""
RANDOM_COUNT = 2
"""Number of random networks of each seed."""
MIN_COST_SHARE = 0.95
"""Minimum MACs of random networks, as a share of the searched network's, if there are enough such networks."""
KINDS = (SEARCHED, RANDOM, *HAND_MADE)
LAST = "retrain"
"""The phase of the recipes that trains the result."""
SETTINGS = "settings.json"


@dataclass(frozen=True)
class Example:
    """An example: the space and the net made by hand, with the parameters of both; the phases before the last; and the
    side of its images in pixels."""

    space: str
    hand_made: str
    parameters: Mapping[str, Any]
    hand_made_parameters: Mapping[str, Any]
    search_phases: Sequence[str]
    size: int


EXAMPLES = {
    "autola": Example(
        "autola.arch", "baselines.arch:cifar", {"reductions": [8, 8]}, {"option": "B", "reduction": 4}, ["search"], 32
    ),
    "nos": Example(
        "nos.arch:nos", "handmade.arch", {"channels": 16, "cells": 3}, {"channels": 16, "cells": 3},
        ["teacher", "search"], 16,
    ),
    "full_attention": Example(
        "full_attention.arch", "handmade.arch", {"channels": 16}, {"channels": 16}, ["pretrain", "finetune"], 16
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings that all trainings of an example in a folder share."""

    data: str
    images: int
    size: int
    epochs: int
    batch: int
    search_size: int
    search_epochs: int

    def __str__(self) -> str:
        images = f"{self.images:,}" if self.images else "all"
        return (
            f"{images} images of {self.size} x {self.size} pixels, {self.epochs} epochs of batches of {self.batch}; "
            f"before, {self.search_epochs} of each phase at {self.search_size} x {self.search_size}"
        )


@dataclass(frozen=True)
class Trained:
    """A trained network: accuracy from 0 to 1, costs, and processor seconds of its run.

    The seconds of a searched network include the search. They are None if the run was interrupted.
    """

    seed: int
    kind: str
    accuracy: float
    params: int
    macs: int
    seconds: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--folder", type=Path, required=True, help="folder of all results")
    parser.add_argument("--example", choices=EXAMPLES, help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--images", type=int, default=10_000, help="training images, and at most as many held-out ones; 0: all"
    )
    parser.add_argument("--size", type=int, help="pixels of a side, to which images are resized (default: 32 or 16)")
    parser.add_argument("--epochs", type=int, default=8, help="epochs of each compared network")
    parser.add_argument("--batch", type=int, default=64, help="batch size of these")
    parser.add_argument("--search-size", type=int, help="pixels of a side in the earlier phases (default: half)")
    parser.add_argument("--search-epochs", type=int, default=8, help="epochs of each earlier phase")
    parser.add_argument("--table", action="store_true", help="print the tables, and train nothing")
    arguments = parser.parse_args()
    if not arguments.data and not arguments.table:
        parser.error("--data is required for training")
    torch.set_num_threads(1)
    names = [arguments.example] if arguments.example else list(EXAMPLES)
    try:
        for seed in range(arguments.first, arguments.first + (0 if arguments.table else arguments.seeds)):
            for name in names:
                Comparison(name, seed, arguments.folder, settings_of(name, arguments)).run()
    except Interrupted as stopped:
        sys.exit(f"{stopped}; the same command goes on")
    print(machine("cpu"))
    for name in names:
        if (arguments.folder / name / SETTINGS).exists():
            print(f"\n{table(name, arguments.folder)}")


def settings_of(name: str, arguments: argparse.Namespace) -> Settings:
    """Return the settings of an example from the command line."""
    size = arguments.size or EXAMPLES[name].size
    searched = arguments.search_size or size // 2
    return Settings(
        arguments.data, arguments.images, size, arguments.epochs, arguments.batch, searched, arguments.search_epochs
    )


class Comparison:
    """The networks of an example and a seed, in a folder. Exits if the folder has trainings with other settings."""

    def __init__(self, name: str, seed: int, folder: Path, settings: Settings) -> None:
        self.name, self.seed, self.settings = name, seed, settings
        self.folder = folder / name / f"seed{seed}"
        self.example = EXAMPLES[name]
        self.recipe = ROOT / "examples" / name / "digits.toml"
        if not (file := folder / name / SETTINGS).exists():
            write_atomic(file, json.dumps(asdict(settings)).encode())
        if (stored := Settings(**json.loads(file.read_text("utf-8")))) != settings:
            sys.exit(f"{file.parent} has trainings with other settings: {asdict(stored)}")

    def run(self) -> None:
        """Search and train whatever is not done yet."""
        example = self.example
        searched = self.load_or_run("searched", SEARCHED, self.recipe, self.overrides(example.parameters))
        for number, architecture in enumerate(self.random_architectures(searched.macs)):
            self.train(f"random{number}", RANDOM, example.space, example.parameters, architecture)
        for kind, attention in HAND_MADE.items():
            self.train(kind.lower(), kind, example.hand_made, {**example.hand_made_parameters, **attention}, {})

    def overrides(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the replaced settings of the recipe by key; `parameters` are those of the trained network."""
        settings = self.settings
        augment = {"shift": settings.size // 8, "flip": True}
        overrides = {
            "seed": self.seed,
            "export": False,
            "data.source": settings.data,
            **({"data.limit": settings.images} if settings.images else {}),
            **{f"{part}.augment.{name}": value for part in ("data", LAST) for name, value in augment.items()},
            "parameters.size": settings.size,
            f"{LAST}.training.epochs": settings.epochs,
            f"{LAST}.training.batch": settings.batch,
            f"{LAST}.options.evaluate_every": settings.epochs,
            **{f"{LAST}.parameters.{name}": value for name, value in parameters.items()},
        }
        for phase in self.example.search_phases:
            overrides |= {
                f"{phase}.parameters.size": settings.search_size,
                f"{phase}.training.epochs": settings.search_epochs,
            }
        return overrides

    def space(self) -> Space:
        """Return the space of the trained networks."""
        parameters = tomllib.loads(self.recipe.read_text("utf-8"))["parameters"]
        path = self.recipe.with_name(self.example.space)
        return archir.load(path, **parameters | {"size": self.settings.size, **self.example.parameters})

    def random_architectures(self, macs: int) -> list[dict[str, Any]]:
        """Return random architectures with at most `macs` MACs, and nearly as many."""
        within, rng = restrict(self.space(), f"macs <= {macs}", MIN_COST_SHARE), random.Random(self.seed)
        return [dict(within.sample(rng)) for _ in range(RANDOM_COUNT)]

    def train(
        self, file: str, kind: str, space: str, parameters: Mapping[str, Any], choices: Mapping[str, Any]
    ) -> None:
        """Train a network as the recipe's last phase does: an architecture of a space, which may have no choices."""
        folder = self.folder / f"{file}.recipe"
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.recipe.parent.glob("*.arch"):
            shutil.copy(path, folder)
        recipe = tomllib.loads(self.recipe.read_text("utf-8"))
        last = {key: value for key, value in recipe["phase"][-1].items() if key not in ("start", "parameters")}
        recipe |= {"space": space, "phase": [last | {"fixed": dict(choices)}]}
        write_atomic(folder / "recipe.toml", toml.dump_toml(recipe).encode())
        others = tuple(f"{phase}." for phase in self.example.search_phases)
        overrides = {key: value for key, value in self.overrides(parameters).items() if not key.startswith(others)}
        self.load_or_run(file, kind, folder / "recipe.toml", overrides)

    def load_or_run(self, file: str, kind: str, recipe: Path, overrides: Mapping[str, Any]) -> Trained:
        """Return the result of a recipe's run: the one in its file, or else of running or resuming it."""
        result_file, run = self.folder / f"{file}.json", self.folder / file
        if not result_file.exists():
            is_interrupted, begin = (run / manifest.NAME).exists(), time.process_time()
            if is_interrupted:
                summary = archir.resume(run, device="cpu")
            else:
                shutil.rmtree(run, ignore_errors=True)
                settings = {key: json.dumps(value) for key, value in overrides.items()}
                summary = archir.run(recipe, run, overrides=settings, device="cpu")
            network, seconds = summary["network"], None if is_interrupted else time.process_time() - begin
            trained = Trained(self.seed, kind, network["accuracy"], network["params"], network["macs"], seconds)
            write_atomic(result_file, json.dumps(asdict(trained)).encode())
            print(time.strftime("%H:%M"), self.name, trained, flush=True)
        return Trained(**json.loads(result_file.read_text("utf-8")))


def table(name: str, folder: Path) -> Table:
    """Return means and standard errors over seeds of an example's networks, a row for each kind."""
    settings = Settings(**json.loads((folder / name / SETTINGS).read_text("utf-8")))
    files = sorted((folder / name).glob("seed*/*.json"))
    trained = [Trained(**json.loads(path.read_text("utf-8"))) for path in files]
    columns = ["network", "seeds", "accuracy", "s.e.", "searched - it", "s.e.", "parameters", "MACs", "CPU s"]
    shares = [
        share for run in sorted((folder / name).glob("seed*/searched")) for share in best_alternative_shares(name, run)
    ]
    title = f"{name}: {settings}"
    if shares:
        title += f";\nat the end of the search, the strongest alternatives had {mean(shares):.2f} times an equal share"
    summary = Table(title, columns)
    for kind in KINDS:
        if any(network.kind == kind for network in trained):
            summary.add(kind, *row(kind, trained))
    return summary


def best_alternative_shares(name: str, run: Path) -> list[float]:
    """Return, for each choice at the end of a search, the probability of its best alternative in multiples of an equal
    share: 1 if nothing was learnt."""
    path = run / "phases" / EXAMPLES[name].search_phases[-1] / "alphas.json"
    history = json.loads(path.read_text("utf-8"))["history"] if path.exists() else {}
    return [len(rows[-1]) * max(rows[-1]) for rows in history.values()]


def row(kind: str, trained: Sequence[Trained]) -> list[str]:
    """Return the cells of a kind of network.

    They are the accuracy over seeds, where a seed's accuracy is the mean of its networks; the advantage of the searched
    network over it, of the same seeds; and mean costs.
    """
    networks = [network for network in trained if network.kind == kind]
    accuracies, searched = by_seed(networks), by_seed([network for network in trained if network.kind == SEARCHED])
    differences = [searched[seed] - accuracies[seed] for seed in accuracies if seed in searched and kind != SEARCHED]
    seconds = [network.seconds for network in networks if network.seconds is not None]
    return [
        str(len(accuracies)),
        *estimate(list(accuracies.values()), "{:.2f}%"),
        *estimate(differences, "{:+.2f}"),
        f"{mean(network.params for network in networks):,.0f}",
        f"{mean(network.macs for network in networks):,.0f}",
        f"{mean(seconds):.0f}" if seconds else "",
    ]


def by_seed(networks: Sequence[Trained]) -> dict[int, float]:
    """Return the mean accuracy of networks in percent, by seed."""
    seeds = sorted({network.seed for network in networks})
    return {seed: 100 * mean(each.accuracy for each in networks if each.seed == seed) for seed in seeds}


def estimate(values: Sequence[float], form: str) -> tuple[str, str]:
    """Return a mean, and its standard error if there are several values."""
    error = f"{stdev(values) / sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return form.format(mean(values)) if values else "", error


if __name__ == "__main__":
    main()
