"""The examples of tasks: each goes from its data to a verified ONNX model, and what it finds is better than chance."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest

import archir
from archir.search.recipes.reading import read
from tests.conftest import EXAMPLES, ROOT

FOLDER = EXAMPLES / "tasks"
TASKS = {
    "table": ("mse", False), "labels": ("f1", True), "shapes": ("miou", True), "series": ("mae", False),
    "own": ("degrees", False), "language": ("perplexity", False), "sounds": ("accuracy", True),
}  # fmt: skip
"""Each with its criterion, and whether more of it is better."""
SMALL = {
    "table": {"search.options.trials": "2", "search.options.population": "2"},
    "labels": {"search.options.trials": "4", "search.options.population": "4", "search.options.parents": "4"},
    "shapes": {"search.options.trials": "4", "search.options.population": "4"},
    "own": {"search.options.trials": "2"},
    "series": {"search.options.trials": "2", "search.options.population": "2"},
    "sounds": {"search.options.trials": "2", "search.options.population": "2"},
    "language": {"search.options.trials": "2", "search.options.population": "2", "search.options.parents": "2"},
}


def module(name: str) -> ModuleType:
    """The Python file of an example."""
    (path,) = (FOLDER / name).glob("*.py")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def written(name: str, folder: Path) -> str | None:
    """The source of an example whose data are files, which are written into a folder."""
    if name == "series":
        module("series").write(folder / "series.csv", steps=600)
        return f"series:{folder}/series.csv#load@8"
    if name == "sounds":
        module("sounds").write(folder / "sounds", each=30)
        return f"wav:{folder}/sounds"
    return f"text:{ROOT}/docs/search.md" if name == "language" else None


def searched(name: str, folder: Path, **overrides: str) -> Any:
    source = written(name, folder)
    settings = overrides | ({"data.source": json.dumps(source)} if source is not None else {})
    return archir.run(FOLDER / name / "recipe.toml", folder / "run", overrides=settings, device="cpu")


@pytest.mark.parametrize("name", TASKS)
def test_from_data_to_a_model(name: str, tmp_path: Path) -> None:
    phases = [phase.name for phase in read(FOLDER / name / "recipe.toml").recipe.phase]
    once = {f"{phase}.training.epochs": "1" for phase in phases}
    limits = {} if name == "series" else {"data.limit": "100"}
    summary = searched(name, tmp_path, **once, **limits, **SMALL.get(name, {}))
    criterion, larger = TASKS[name]
    assert summary["measures"]["retrain"]["criterion"] == criterion
    assert summary["measures"]["retrain"]["measures"][criterion] == larger
    assert isinstance(summary["network"][criterion], float)
    assert summary["onnx"]["relative"] < 1e-5
    chosen = summary["phases"]["search"]
    assert f"validation_{criterion}" in chosen
    assert criterion in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TASKS)
def test_what_is_found_is_better_than_the_median_of_random_ones(name: str, seed: int, tmp_path: Path) -> None:
    """Of at most its cost, all trained alike."""
    criterion, larger = TASKS[name]
    summary = searched(name, tmp_path, seed=str(seed))
    (file,) = (FOLDER / name).glob("*.arch")
    space = archir.load(file)
    recipe = read(FOLDER / name / "recipe.toml").recipe
    data = written(name, tmp_path) or recipe.data.source
    training = recipe.phase[-1].training
    settings = {"epochs": training.epochs, "batch": training.batch, "lr": 0.01, "seed": seed, "augment": False}

    def trained(architecture: Any) -> float:
        graph = space.specialize(architecture)
        _, result = archir.train(graph, data=data, settings={**settings, "objective": recipe.objective}, device="cpu")
        return result.measures[criterion]

    winner = space.architecture(summary["architecture"]["choices"])
    most = space.cost([winner], ["macs"])["macs"][0]
    rng, others = random.Random(seed), []
    while len(others) < 20:
        one = space.sample(rng)
        if space.cost([one], ["macs"])["macs"][0] <= most:
            others.append(trained(one))
    found = trained(winner)
    assert found >= median(others) if larger else found <= median(others), (found, sorted(others))
