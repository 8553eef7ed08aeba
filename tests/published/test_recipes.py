"""Recipes of the examples: published ones can be built, small ones run to the end."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.torch import save_file

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.passes.expose import expose
from archir.recipes.job import SupernetRecord
from archir.recipes.open_choices import fix_choices
from archir.recipes.parsing import read
from archir.recipes.recipe import Recipe
from archir.recipes.spaces import space_of
from archir.runs import Run, Trial
from archir.spaces.architecture import Architecture
from archir_torch.data import load
from archir_torch.lowering.module import lower
from archir_torch.search.job import Job, create_strategy
from archir_torch.search.preparation import begin_search
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.supernet.network import SuperNetwork
from tests.conftest import EXAMPLES
from tests.soak import with_soak

PAPERS = sorted([*EXAMPLES.glob("*/paper.toml"), *EXAMPLES.glob("*/small.toml")])
DIGITS = sorted(EXAMPLES.glob("*/digits.toml"))
FEW_PAPERS = [EXAMPLES / "darts" / "paper.toml", EXAMPLES / "full_attention" / "paper.toml"]
FEW_DIGITS = [EXAMPLES / "darts" / "digits.toml"]
SYSTEMS = ["autoformer", "autola", "darts", "full_attention", "glit", "mobilenet_v3_ofa", "nos", "trionet"]


def system(path: Path) -> str:
    return path.parent.name if path.stem != "small" else f"{path.parent.name}-small"


def test_every_system_has_both_recipes() -> None:
    assert set(SYSTEMS) <= set(map(system, PAPERS))
    assert set(SYSTEMS) <= set(map(system, DIGITS))


def parts() -> list[Any]:
    """All phases of all recipes; the suite takes one of each strategy, the soak the others."""
    found, strategies = [], set[str]()
    for path in sorted(PAPERS, key=lambda path: system(path) in SLOW):
        for phase in tomllib.loads(path.read_text("utf-8"))["phase"]:
            marks = [pytest.mark.soak] if phase["strategy"] in strategies else []
            found.append(pytest.param(path, phase["name"], marks=marks))
            strategies.add(phase["strategy"])
    return found


SLOW = ("glit", "nos")
"""Systems whose spaces take longest to elaborate."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise of ten classes or more: three quarters to train on, and the rest held out."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for classes in (10, 100, 196):
        labels = np.repeat(np.arange(classes), max(4, 400 // classes))
        pixels = rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
        np.savez(folder / f"{classes}.npz", images=pixels, labels=labels)
    return folder


@pytest.mark.parametrize("path", with_soak(PAPERS, FEW_PAPERS), ids=system)
def test_a_published_recipe_can_begin(path: Path, images: Path, tmp_path: Path) -> None:
    recipe = read(path).recipe
    sources = {f"{phase.name}.data.source": phase.data for phase in recipe.phase if phase.data is not None}
    overrides = {key: repr(str(images / f"{data.classes or 10}.npz")) for key, data in sources.items()}
    found = begin_search(path, tmp_path / "run", {"data.source": repr(str(images / "10.npz")), **overrides}, "cpu")
    found.run.close()
    assert found.recipe.phase[-1].strategy in ("train", "inherit")


@pytest.mark.parametrize(
    ("path", "name"), parts(), ids=lambda value: value if isinstance(value, str) else system(value)
)
def test_a_phase_of_a_published_recipe_can_be_built(path: Path, name: str, images: Path, tmp_path: Path) -> None:
    recipe = read(path).recipe
    phase = next(phase for phase in recipe.phase if phase.name == name)
    space = space_of(recipe, phase, path.parent)
    data = recipe.data_of(phase)
    shape = (3, 32, 32)
    also = tuple(taught(recipe, settings, path.parent, tmp_path) for settings in phase.also)
    options = {key: value for key, value in phase.options.items() if key != "tune"}
    architecture = dict(space.sample(0)) if phase.start.architecture else None
    settled = fix_choices(space, phase.open, phase.fixed, architecture)
    drawn = [settled.completed(settled.space.sample(seed)) for seed in range(8)]
    shared = SuperNetwork(space.graph) if phase.strategy == "inherit" else None
    record = (
        SupernetRecord.of(fix_choices(space, ["*"], {}, None), shared.graph, "heads") if shared is not None else None
    )
    job = Job(
        weights=shared.state_dict() if shared is not None else None,
        supernet=record,
        phase=phase.model_copy(update={"data": data, "also": also, "options": options}),
        space=space,
        data=load(str(images / f"{data.classes or 10}.npz"), shape, classes=data.classes, weights=data.weights),
        seed=0,
        folder=path.parent,
        architecture=architecture,
        earlier=tried(drawn) if phase.start.trials else (),
    )
    strategy = create_strategy(job)
    epochs = 1 if shared is not None else phase.training.epochs
    assert strategy.epochs == (strategy.search.batches if isinstance(strategy, TrialStrategy) else epochs)
    assert strategy.steps >= 1


def tried(drawn: list[Architecture]) -> list[Trial]:
    """Trials of an earlier phase: of what is held in this one, too, if it is."""
    return [Trial(i, f"{i}", dict(one), "done", {"accuracy": i / 8}) for i, one in enumerate(drawn)]


IMAGENET, CARS = 1_281_167, 8_144
"""Training images."""


def test_recipe_image_and_iteration_counts_match_papers() -> None:
    recipes = {name: read(EXAMPLES / f"{name}.toml").recipe for name in NUMBERS}
    for name, (images, kept) in NUMBERS.items():
        assert images - round(recipes[name].data.weights * images) == kept
    phases = {name: {phase.name: phase for phase in recipe.phase} for name, recipe in recipes.items()}
    ofa, trionet, small = phases["mobilenet_v3_ofa/paper"], phases["trionet/paper"], phases["trionet/small"]
    assert ofa["samples"].options["trials"] == 16_000
    assert ofa["samples"].options["scorer"]["recalibrate"] * ofa["samples"].training.batch == 2_048
    assert trionet["evolution"].options["scorer"]["recalibrate"] * trionet["evolution"].training.batch == 10_240
    supernet, finetune = small["supernet"].training, small["finetune"].training
    assert supernet.epochs * ceil((CARS - 500) / supernet.batch) == 60_000
    assert abs(finetune.epochs * ceil(CARS / finetune.batch) - 1_000) <= 64 / 2
    text = (EXAMPLES / "trionet" / "small.toml").read_text("utf-8").replace("\n#", "")
    for name, (images, epochs, weights, classes) in SMALL_SETS.items():
        assert (
            f"{name}, of {images:,}{' images' * (name == 'FGVC Aircraft')}, {epochs}, {weights} and {classes}" in text
        )
        assert images - round(weights * images) == 500
        assert abs(epochs * ceil((images - 500) / supernet.batch) - 60_000) < 30


SMALL_SETS = {
    "FGVC Aircraft": (6_667, 2400, 0.925004, 100),
    "CUB": (5_994, 2727, 0.916583, 200),
    "Caltech-101": (3_030, 6000, 0.834983, 101),
    "Flowers-102": (2_040, 8571, 0.754902, 102),
}
"""Training images of small data sets, epochs of the supernet, fraction of images to train it on, and classes."""

NUMBERS = {
    "autoformer/paper": (IMAGENET, 10_000),
    "glit/paper": (IMAGENET, 50_000),
    "mobilenet_v3_ofa/paper": (IMAGENET, 10_000),
    "trionet/paper": (IMAGENET, 10_000),
    "trionet/small": (CARS, 500),
}
"""Training images, and how many of them are kept for the search."""


def taught(recipe: Recipe, settings: Mapping[str, Any], folder: Path, into: Path) -> dict[str, Any]:
    """An objective with a teacher that was not trained."""
    given = dict(settings)
    teacher = next(phase for phase in recipe.phase if phase.name == given.pop("phase"))
    parameters = {**recipe.parameters, **teacher.parameters}
    save_file(lower(space_of(recipe, teacher, folder).graph).state_dict(), into / "teacher.safetensors")
    return given | {
        "teacher": teacher.space, "parameters": parameters, "weights": str(into / "teacher.safetensors"),
    }  # fmt: skip


def assert_quantises(model: Path, max_loss: float) -> float:
    """`archir quantize` makes at most 0.3 of a network's size, and says of each layer why it is in float, if it is.

    How much of the size it makes.
    """
    output = model.with_name("int8.onnx")
    arguments = ["quantize", str(model), "-o", str(output), "--max-loss", str(max_loss), "--json", "--seconds", "0"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["loss"] <= max_loss
    assert output.stat().st_size <= 0.3 * model.stat().st_size
    weights = {why: sum(row["weights"] for row in facts["layers"] if row["why"] == why)
               for why in {row["why"] for row in facts["layers"]}}  # fmt: skip
    assert weights[None] >= 0.9 * sum(weights.values())
    assert CliRunner().invoke(main, ["verify", str(output)]).exit_code == 0
    return float(facts["ratio"])


def assert_complete(folder: Path, recipe: Path, summary: Mapping[str, Any]) -> None:
    """A run has everything that a search leaves, and its network is one of the space's."""
    run = Run.open(folder)  # verified
    phases = read(recipe).recipe.phase
    assert list(summary["phases"]) == [phase.name for phase in phases]
    assert json.loads(run.content("summary.json")) == summary
    space = space_of(read(recipe).recipe, phases[-1], recipe.parent)
    architecture = space.architecture(json.loads(run.content("best.json"))["choices"])
    assert dict(architecture) == summary["architecture"]["choices"]
    graph = space.specialize(architecture)
    name, number = next(iter(graph.outputs.items()))
    assert (
        archir.cost(expose(graph, {name: number})).params == summary["network"]["params"]
    )  # without the auxiliary head
    assert summary["onnx"]["relative"] <= 1e-4
    assert len(run.content("model.onnx")) > 4 * summary["network"]["params"]
    assert b"</html>" in run.content("report.html")


@pytest.mark.parametrize("path", with_soak(DIGITS, FEW_DIGITS), ids=system)
def test_a_small_recipe_runs(path: Path, tmp_path: Path) -> None:
    """All phases, of an epoch each, or of a few candidates, on a part of the digits."""
    phases = read(path).recipe.phase
    overrides = {f"{phase.name}.training.epochs": "1" for phase in phases} | {"data.limit": "120"}
    for phase in phases:
        overrides |= {f"{phase.name}.options.{key}": value for key, value in FEW.get(phase.strategy, {}).items()}
    summary = archir.run(path, tmp_path / "run", overrides=overrides, device="cpu")
    assert_complete(tmp_path / "run", path, summary)
    run = Run.open(tmp_path / "run")
    for phase in phases:
        row, trials = summary["phases"][phase.name], run.phase(phase.name).trials()
        assert row["epochs"] == BATCHES.get(phase.strategy, 1)
        assert len(trials) == TRIALS.get(phase.strategy, 0)
        assert all(trial.status == "done" for trial in trials)
    if path.parent.name == "autoformer":  # the soak test has all of them
        assert_quantises(tmp_path / "run" / "model.onnx", max_loss=100)  # it has hardly learnt anything yet


FEW = {
    "evolution": {"population": "4", "parents": "2", "mutations": "1", "crossovers": "2", "generations": "2"},
    "nsga2": {"population": "4", "generations": "2"},
    "finalists": {"count": "2"},
}
BATCHES = {"evolution": 2, "nsga2": 2}
TRIALS = {"evolution": 4 + 3, "nsga2": 4 + 4, "finalists": 2}


INT8 = {
    "autoformer": 0.289, "autola": 0.239, "darts": 0.289, "full_attention": 0.270, "glit": 0.291,
    "mobilenet_v3_ofa": 0.291, "nos": 0.248, "trionet": 0.263,
}  # fmt: skip
"""What int8 leaves of the sizes of recipes' networks, as docs/deployment.md has it."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", DIGITS, ids=system)
def test_a_small_recipe_finds_a_good_network(path: Path, tmp_path: Path) -> None:
    summary = archir.run(path, tmp_path / "run", device="cpu")
    assert_complete(tmp_path / "run", path, summary)
    assert summary["network"]["accuracy"] >= 0.95
    assert abs(assert_quantises(tmp_path / "run" / "model.onnx", max_loss=1) - INT8[path.parent.name]) <= 0.02


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["autola", "darts"])
def test_few_steps_of_published_recipe_complete(name: str, tmp_path: Path) -> None:
    """A few steps of every phase at published sizes: on CIFAR-10 where $ARCHIR_CIFAR10 says it is, else on digits."""
    path = EXAMPLES / name / "paper.toml"
    source = os.environ.get("ARCHIR_CIFAR10", "digits")
    overrides = {"data.source": repr(source), "data.limit": "64", "search.options.tune": "false"}
    overrides |= {
        f"{phase.name}.training.{key}": value for phase in read(path).recipe.phase for key, value in SLICE.items()
    }
    summary = archir.run(path, tmp_path / "run", overrides=overrides, device="cpu")
    assert_complete(tmp_path / "run", path, summary)


SLICE = {"epochs": "1", "batch": "16"}


def test_unsatisfiable_budget_is_rejected_before_training(tmp_path: Path) -> None:
    recipe = EXAMPLES / "trionet" / "digits.toml"
    with pytest.raises(ArchError, match="A1603"):
        begin_search(recipe, tmp_path / "run", {"evolution.options.where": repr("macs <= 1K")}, "cpu")
    assert not (tmp_path / "run").exists()
