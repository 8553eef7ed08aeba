"""Compare the networks that the searches of `examples/tasks` find with random networks of their spaces."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType

import archir
from archir.recipes.parsing import read

ROOT = Path(__file__).resolve().parent.parent
TASKS = {
    "table": ("mse", False), "labels": ("f1", True), "shapes": ("miou", True), "language": ("perplexity", False),
    "sounds": ("accuracy", True), "series": ("mae", False), "own": ("degrees", False),
}  # fmt: skip
"""The criterion of each task, and whether more of it is better."""
RANDOM_COUNT = 20
"""Number of random networks."""


@dataclass(frozen=True)
class Comparison:
    """The figure and the MACs of the network found by a search, and those of random networks with at most its MACs."""

    figure: float
    macs: int
    others: list[float]
    costs: list[int]
    larger: bool

    @property
    def median(self) -> float:
        """Median of the figures of random networks."""
        return median(self.others)

    @property
    def sorted_others(self) -> list[float]:
        """Figures of random networks, the best first."""
        return sorted(self.others, reverse=self.larger)

    @property
    def is_better(self) -> bool:
        """True if the network found by the search is better than the median of random networks."""
        return self.figure > self.median if self.larger else self.figure < self.median


def compare_with_random(name: str, seed: int, folder: Path) -> Comparison:
    """Run a search, and train `RANDOM_COUNT` random networks with at most as many MACs.

    Random networks are trained by the recipe's last phase, on the same samples, from the same seed.
    """
    example, (criterion, larger) = copy_example(name, folder), TASKS[name]
    overrides = {"seed": str(seed)}
    network = archir.run(example / "recipe.toml", folder / "found", overrides=overrides, device="cpu")["network"]
    space = archir.load(example / read(example / "recipe.toml").recipe.space)
    head, *_, last = (example / "recipe.toml").read_text().split("[[phase]]\n")
    rng, costs, phases = random.Random(seed), list[int](), list[str]()
    while len(costs) < RANDOM_COUNT:
        sampled = space.sample(rng)
        macs = int(space.cost([sampled], ["macs"])["macs"][0])
        if macs <= network["macs"]:
            fixed = ", ".join(f"{json.dumps(path)} = {json.dumps(label)}" for path, label in sampled.items())
            pick = f'name = "pick{len(costs)}"\nstrategy = "random"\nopen = []\nfixed = {{ {fixed} }}\n\n'
            train = last.replace('name = "retrain"', f'name = "drawn{len(costs)}"')
            phases += [pick, re.sub(r'architecture = "\w+"', f'architecture = "pick{len(costs)}"', train)]
            costs.append(macs)
    (example / "drawn.toml").write_text("[[phase]]\n".join([head, *phases]))
    trained = archir.run(example / "drawn.toml", folder / "drawn", overrides=overrides, device="cpu")["phases"]
    others = [trained[f"drawn{number}"][criterion] for number in range(RANDOM_COUNT)]
    return Comparison(network[criterion], network["macs"], others, costs, larger)


def copy_example(name: str, folder: Path) -> Path:
    """Return a copy of an example in a folder, with its data files written and its recipe reading them."""
    place = shutil.copytree(ROOT / "examples" / "tasks" / name, folder / name)
    if (source := write_data(name, place)) is not None:
        recipe = place / "recipe.toml"
        old_line = f'source = "{read(recipe).recipe.data.source}"'
        recipe.write_text(recipe.read_text().replace(old_line, f"source = {json.dumps(source)}"))
    return place


def write_data(name: str, folder: Path, **sizes: int) -> str | None:
    """Write the data files of an example into a folder, in other sizes if given, and return their source; None if the
    data are not files."""
    if name == "series":
        module("series").write(folder / "series.csv", **sizes)
        return f"series:{folder}/series.csv#load@8"
    if name == "sounds":
        module("sounds").write(folder / "sounds", **sizes)
        return f"wav:{folder}/sounds"
    return f"text:{ROOT}/docs" if name == "language" else None


def module(name: str) -> ModuleType:
    """Return the imported Python file of an example."""
    (path,) = (ROOT / "examples" / "tasks" / name).glob("*.py")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
