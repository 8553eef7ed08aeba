"""What the searches of `examples/tasks` find, beside architectures of their spaces that are drawn at random."""

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
"""Each with its criterion, and whether more of it is better."""
DRAWN = 20


@dataclass(frozen=True)
class Comparison:
    """The figure and the MACs of what was found, and those of others that cost no more."""

    figure: float
    macs: int
    others: list[float]
    costs: list[int]
    larger: bool

    @property
    def median(self) -> float:
        """Of the others' figures."""
        return median(self.others)

    @property
    def ranked(self) -> list[float]:
        """The others' figures, the best first."""
        return sorted(self.others, reverse=self.larger)

    @property
    def won(self) -> bool:
        """Whether what was found is better than the median."""
        return self.figure > self.median if self.larger else self.figure < self.median


def compared(name: str, seed: int, folder: Path) -> Comparison:
    """Search, and train as many as `DRAWN` of the space that have no more MACs: in the recipe's last phase, on the same
    samples, from the same seed."""
    place, (criterion, larger) = copied(name, folder), TASKS[name]
    overrides = {"seed": str(seed)}
    found = archir.run(place / "recipe.toml", folder / "found", overrides=overrides, device="cpu")["network"]
    space = archir.load(place / read(place / "recipe.toml").recipe.space)
    head, *_, last = (place / "recipe.toml").read_text().split("[[phase]]\n")
    rng, costs, phases = random.Random(seed), list[int](), list[str]()
    while len(costs) < DRAWN:
        one = space.sample(rng)
        macs = int(space.cost([one], ["macs"])["macs"][0])
        if macs <= found["macs"]:
            fixed = ", ".join(f"{json.dumps(path)} = {json.dumps(label)}" for path, label in one.items())
            pick = f'name = "pick{len(costs)}"\nstrategy = "random"\nopen = []\nfixed = {{ {fixed} }}\n\n'
            train = last.replace('name = "retrain"', f'name = "drawn{len(costs)}"')
            phases += [pick, re.sub(r'architecture = "\w+"', f'architecture = "pick{len(costs)}"', train)]
            costs.append(macs)
    (place / "drawn.toml").write_text("[[phase]]\n".join([head, *phases]))
    trained = archir.run(place / "drawn.toml", folder / "drawn", overrides=overrides, device="cpu")["phases"]
    others = [trained[f"drawn{number}"][criterion] for number in range(DRAWN)]
    return Comparison(found[criterion], found["macs"], others, costs, larger)


def copied(name: str, folder: Path) -> Path:
    """A copy of an example in a folder, with its data written where they are files, and its recipe reading them."""
    place = shutil.copytree(ROOT / "examples" / "tasks" / name, folder / name)
    if (made := written(name, place)) is not None:
        recipe = place / "recipe.toml"
        source = f'source = "{read(recipe).recipe.data.source}"'
        recipe.write_text(recipe.read_text().replace(source, f"source = {json.dumps(made)}"))
    return place


def written(name: str, folder: Path, **sizes: int) -> str | None:
    """The source of an example whose data are files, which are written into a folder, maybe of other sizes."""
    if name == "series":
        module("series").write(folder / "series.csv", **sizes)
        return f"series:{folder}/series.csv#load@8"
    if name == "sounds":
        module("sounds").write(folder / "sounds", **sizes)
        return f"wav:{folder}/sounds"
    return f"text:{ROOT}/docs" if name == "language" else None


def module(name: str) -> ModuleType:
    """The Python file of an example."""
    (path,) = (ROOT / "examples" / "tasks" / name).glob("*.py")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
