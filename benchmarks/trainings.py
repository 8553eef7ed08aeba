"""Searched networks, beside random ones of the same cost and hand-made attention, all trained alike on CIFAR-10.

    python benchmarks/trainings.py --data parquet:CIFAR10 --folder FOLDER [--example nos] [--seeds 3]

For each example and seed: the example's recipe for two cores (`digits.toml`, with CIFAR-10 for the digits) searches,
and trains what it found; architectures of the same space that cost as much are drawn and trained; and so is the same
backbone made by hand: plain, with squeeze-and-excitation, and with CBAM. All have the images, augmentation, epochs,
optimizer and schedule of the recipe's last phase, and the recipe's seed. Accuracies are those of held-out images after
the last epoch; nothing is chosen by them.

What was done is kept in the folder, a file for each network; the same command goes on where it was stopped or killed,
inside of a training, too. Commands for different examples or seeds may share a folder at the same time. By default, all
of it takes about eleven hours of one core (estimated from smaller runs), half of them for full attention. Tables are of
all that is there; `--table` prints them, and trains nothing.
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

FOUND, DRAWN = "searched", "random"
MADE: dict[str, dict[str, str]] = {"plain": {}, "SE": {"attention": "se"}, "CBAM": {"attention": "cbam"}}
"""What is made by hand, and its parameters."""
DRAWS = 2
"""Architectures that are drawn for each seed."""
USED = 0.95
"""The part of the found network's MACs that these cost at least, where there are enough of them."""
KINDS = (FOUND, DRAWN, *MADE)
LAST = "retrain"
"""The phase of the recipes that trains."""
SETTINGS = "settings.json"


@dataclass(frozen=True)
class Example:
    """The space and the net that is made by hand, with the parameters of both; the phases before the last one; and the
    side of its images in pixels."""

    space: str
    made: str
    parameters: Mapping[str, Any]
    made_parameters: Mapping[str, Any]
    searching: Sequence[str]
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
    """What all trainings of an example in a folder have in common."""

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
    """A network that was trained: its accuracy from 0 to 1, its costs; processor seconds of its run (of what was found:
    with the search), unless that was stopped on the way."""

    seed: int
    kind: str
    accuracy: float
    params: int
    macs: int
    seconds: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--folder", type=Path, required=True, help="where all is kept")
    parser.add_argument("--example", choices=EXAMPLES, help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--images", type=int, default=10_000, help="for training, and at most as many held out; 0: all")
    parser.add_argument("--size", type=int, help="pixels of a side, to which images are resized (default: 32 or 16)")
    parser.add_argument("--epochs", type=int, default=8, help="of each network that is compared")
    parser.add_argument("--batch", type=int, default=64, help="of these")
    parser.add_argument("--search-size", type=int, help="pixels of a side in the phases before (default: half)")
    parser.add_argument("--search-epochs", type=int, default=8, help="of each phase before")
    parser.add_argument("--table", action="store_true", help="print what is there, and train nothing")
    given = parser.parse_args()
    if not given.data and not given.table:
        parser.error("--data says what is trained on")
    torch.set_num_threads(1)
    names = [given.example] if given.example else list(EXAMPLES)
    try:
        for seed in range(given.first, given.first + (0 if given.table else given.seeds)):
            for name in names:
                Comparison(name, seed, given.folder, settings_of(name, given)).run()
    except Interrupted as stopped:
        sys.exit(f"{stopped}; the same command goes on")
    print(machine("cpu"))
    for name in names:
        if (given.folder / name / SETTINGS).exists():
            print(f"\n{table(name, given.folder)}")


def settings_of(name: str, given: argparse.Namespace) -> Settings:
    """What is asked for of an example."""
    size = given.size or EXAMPLES[name].size
    searched = given.search_size or size // 2
    return Settings(given.data, given.images, size, given.epochs, given.batch, searched, given.search_epochs)


class Comparison:
    """The networks of an example and a seed, in a folder. Ends the process where that has trainings with other
    settings."""

    def __init__(self, name: str, seed: int, folder: Path, given: Settings) -> None:
        self.name, self.seed, self.given = name, seed, given
        self.folder = folder / name / f"seed{seed}"
        self.example = EXAMPLES[name]
        self.recipe = ROOT / "examples" / name / "digits.toml"
        if not (kept := folder / name / SETTINGS).exists():
            write_atomic(kept, json.dumps(asdict(given)).encode())
        if (known := Settings(**json.loads(kept.read_text("utf-8")))) != given:
            sys.exit(f"{kept.parent} has trainings with other settings: {asdict(known)}")

    def run(self) -> None:
        """Search and train, as far as that was not done."""
        example = self.example
        found = self.once("searched", FOUND, self.recipe, self.overrides(example.parameters))
        for number, architecture in enumerate(self.drawn(found.macs)):
            self.train(f"random{number}", DRAWN, example.space, example.parameters, architecture)
        for kind, attention in MADE.items():
            self.train(kind.lower(), kind, example.made, {**example.made_parameters, **attention}, {})

    def overrides(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What replaces the recipe's settings, by their keys; the parameters are those of the network that is
        trained."""
        given = self.given
        augment = {"shift": given.size // 8, "flip": True}
        found = {
            "seed": self.seed,
            "export": False,
            "data.source": given.data,
            **({"data.limit": given.images} if given.images else {}),
            **{f"{part}.augment.{name}": value for part in ("data", LAST) for name, value in augment.items()},
            "parameters.size": given.size,
            f"{LAST}.training.epochs": given.epochs,
            f"{LAST}.training.batch": given.batch,
            f"{LAST}.options.evaluate_every": given.epochs,
            **{f"{LAST}.parameters.{name}": value for name, value in parameters.items()},
        }
        for phase in self.example.searching:
            found |= {f"{phase}.parameters.size": given.search_size, f"{phase}.training.epochs": given.search_epochs}
        return found

    def space(self) -> Space:
        """The space of the networks that are trained."""
        parameters = tomllib.loads(self.recipe.read_text("utf-8"))["parameters"]
        path = self.recipe.with_name(self.example.space)
        return archir.load(path, **parameters | {"size": self.given.size, **self.example.parameters})

    def drawn(self, macs: int) -> list[dict[str, Any]]:
        """Architectures that cost at most so many MACs, and nearly as many."""
        within, rng = restrict(self.space(), f"macs <= {macs}", USED), random.Random(self.seed)
        return [dict(within.sample(rng)) for _ in range(DRAWS)]

    def train(
        self, file: str, kind: str, space: str, parameters: Mapping[str, Any], choices: Mapping[str, Any]
    ) -> None:
        """Train a network as the recipe's last phase does: an architecture of a space, which may have no choices."""
        folder = self.folder / f"{file}.recipe"
        folder.mkdir(parents=True, exist_ok=True)
        for one in self.recipe.parent.glob("*.arch"):
            shutil.copy(one, folder)
        recipe = tomllib.loads(self.recipe.read_text("utf-8"))
        last = {key: value for key, value in recipe["phase"][-1].items() if key not in ("start", "parameters")}
        recipe |= {"space": space, "phase": [last | {"fixed": dict(choices)}]}
        write_atomic(folder / "recipe.toml", toml.dump_toml(recipe).encode())
        others = tuple(f"{phase}." for phase in self.example.searching)
        overrides = {key: value for key, value in self.overrides(parameters).items() if not key.startswith(others)}
        self.once(file, kind, folder / "recipe.toml", overrides)

    def once(self, file: str, kind: str, recipe: Path, overrides: Mapping[str, Any]) -> Trained:
        """What the run of a recipe came to, or comes to now."""
        kept, run = self.folder / f"{file}.json", self.folder / file
        if not kept.exists():
            begun, begin = (run / manifest.NAME).exists(), time.process_time()
            if begun:
                summary = archir.resume(run, device="cpu")
            else:
                shutil.rmtree(run, ignore_errors=True)
                settings = {key: json.dumps(value) for key, value in overrides.items()}
                summary = archir.run(recipe, run, overrides=settings, device="cpu")
            network, seconds = summary["network"], None if begun else time.process_time() - begin
            trained = Trained(self.seed, kind, network["accuracy"], network["params"], network["macs"], seconds)
            write_atomic(kept, json.dumps(asdict(trained)).encode())
            print(time.strftime("%H:%M"), self.name, trained, flush=True)
        return Trained(**json.loads(kept.read_text("utf-8")))


def table(name: str, folder: Path) -> Table:
    """What was trained of an example: means and standard errors over seeds, a row for each kind of network."""
    settings = Settings(**json.loads((folder / name / SETTINGS).read_text("utf-8")))
    files = sorted((folder / name).glob("seed*/*.json"))
    trained = [Trained(**json.loads(path.read_text("utf-8"))) for path in files]
    columns = ["network", "seeds", "accuracy", "s.e.", "searched - it", "s.e.", "parameters", "MACs", "CPU s"]
    shares = [one for run in sorted((folder / name).glob("seed*/searched")) for one in strongest(name, run)]
    title = f"{name}: {settings}"
    if shares:
        title += f";\nat the end of the search, the strongest alternatives had {mean(shares):.2f} times an equal share"
    made = Table(title, columns)
    for kind in KINDS:
        if any(one.kind == kind for one in trained):
            made.add(kind, *row(kind, trained))
    return made


def strongest(name: str, run: Path) -> list[float]:
    """Of each choice, how many times an equal share the strongest alternative had at the end of a search: 1 where
    nothing was learnt."""
    path = run / "phases" / EXAMPLES[name].searching[-1] / "alphas.json"
    history = json.loads(path.read_text("utf-8"))["history"] if path.exists() else {}
    return [len(rows[-1]) * max(rows[-1]) for rows in history.values()]


def row(kind: str, trained: Sequence[Trained]) -> list[str]:
    """Accuracy of a kind of network over seeds, each of these the mean of its networks; by how much what was found is
    better, of the same seeds; and the means of what networks cost."""
    networks = [one for one in trained if one.kind == kind]
    own, found = by_seed(networks), by_seed([one for one in trained if one.kind == FOUND])
    differences = [found[seed] - own[seed] for seed in own if seed in found and kind != FOUND]
    seconds = [one.seconds for one in networks if one.seconds is not None]
    return [
        str(len(own)),
        *estimate(list(own.values()), "{:.2f}%"),
        *estimate(differences, "{:+.2f}"),
        f"{mean(one.params for one in networks):,.0f}",
        f"{mean(one.macs for one in networks):,.0f}",
        f"{mean(seconds):.0f}" if seconds else "",
    ]


def by_seed(networks: Sequence[Trained]) -> dict[int, float]:
    """The mean accuracy of networks in percent, by seed."""
    seeds = sorted({one.seed for one in networks})
    return {seed: 100 * mean(one.accuracy for one in networks if one.seed == seed) for seed in seeds}


def estimate(values: Sequence[float], form: str) -> tuple[str, str]:
    """A mean, and its standard error where there are several values."""
    error = f"{stdev(values) / sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return form.format(mean(values)) if values else "", error


if __name__ == "__main__":
    main()
