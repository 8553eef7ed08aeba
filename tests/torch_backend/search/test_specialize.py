"""Networks within budgets, out of one supernet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import archir
from archir import backends
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.ir.serial import from_json
from archir.recipes.job import read_supernet
from archir.runs import Run
from archir.spaces.completion import largest
from archir_torch.lowering.weights import read_weights
from archir_torch.search.inheritance import restore_supernet
from tests.torch_backend.search.test_borrowing import HEAD, SUPERNET, TRAIN, search
from tests.torch_backend.tried import elastic, trials_of

BUDGETS = ("macs <= 0.5x", "params <= 600 and macs > 1000")


@pytest.fixture(scope="module")
def supernet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that trained a supernet."""
    folder = tmp_path_factory.mktemp("supernet")
    return search(folder, SUPERNET).folder


@pytest.fixture(scope="module")
def specialized(supernet: Path) -> Path:
    """What it was specialized to."""
    done = CliRunner().invoke(main, ["specialize", str(supernet), *_told(), "-o", str(supernet.parent / "all")])
    assert done.exit_code == 0, done.output
    assert [line.split()[:3] for line in done.stdout.splitlines() if "budget-" in line] == [
        text.split()[:3] for text in BUDGETS
    ]
    return supernet.parent / "all"


def _told() -> list[str]:
    return [word for text in BUDGETS for word in ("--where", text)] + ["--trials", "8"]


def test_specialized_networks_keep_budgets_and_supernet_weights(supernet: Path, specialized: Path) -> None:
    """The costs are those of the files, the weights those that the architecture has in the supernet, but for statistics
    of norms, which are measured anew."""
    summary = json.loads((specialized / "summary.json").read_text())
    most = archir.cost(elastic().specialize(largest(elastic()))).macs
    for number, keeps in enumerate((lambda one: one.macs <= most / 2, lambda one: one.params <= 600), 1):
        folder = specialized / "networks" / f"budget-{number}"
        network = from_json(json.loads((folder / "network.json").read_text()))
        assert keeps(archir.cost(network)), folder
        assert summary["networks"][folder.name]["macs"] == archir.cost(network).macs
        given, _ = read_weights(supernet / "phases" / "supernet" / "weights.safetensors")
        record = read_supernet(Run.open(supernet), "phases/supernet/supernet.json")
        assert record is not None
        model = restore_supernet(record, given)
        choices = json.loads((folder / "best.json").read_text())["choices"]
        cut = model.weights(record.to_supernet(model.graph, elastic().architecture(choices)))
        found, _ = read_weights(folder / "weights.safetensors")
        assert all(torch.equal(found[name], cut[name]) for name in found if "running" not in name)
        assert any(not torch.equal(found[name], cut[name]) for name in found if "running" in name)
        lowered = backends.get("torch").lower(network)
        backends.get("torch").load(lowered, folder / "weights.safetensors")
        assert summary["networks"][folder.name]["onnx"]["relative"] < 1e-4


def test_selection_uses_validation_not_held_out_scores(supernet: Path, specialized: Path) -> None:
    """Samples are divided as in the run, and a network's score is that of its trial."""
    run = Run.open(specialized)
    split = json.loads(run.content("phases/search-1/splits.json"))
    assert split == json.loads(Run.open(supernet).content("phases/supernet/splits.json"))
    best = max(trials_of(run, "search-1"), key=lambda one: one.scores["accuracy"] or 0.0)
    summary = json.loads(run.content("summary.json"))
    assert summary["phases"]["search-1"]["validation_accuracy"] == best.scores["accuracy"]
    assert {"accuracy", "held_out_loss"} <= summary["networks"]["budget-1"].keys()


class _Dies:
    """A watch that ends the process, as it were, after so many epochs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None: ...

    def step(self, index: int, measured: Mapping[str, float]) -> None: ...

    def epoch(self, row: Mapping[str, float]) -> None:
        self.left -= 1
        if not self.left:
            raise RuntimeError("the light went out")


def test_interrupted_specialize_resumes_to_networks_of_uninterrupted_one(
    supernet: Path, specialized: Path, tmp_path: Path
) -> None:
    for after in (1, 3):
        with pytest.raises(RuntimeError, match="light"):
            archir.specialize(supernet, BUDGETS, tmp_path / "run", trials=8, progress=_Dies(after))
    known = archir.specialize(supernet, BUDGETS, tmp_path / "run", trials=8)
    again = archir.specialize(supernet, BUDGETS, tmp_path / "run", trials=8)
    assert known == again
    runs = [Run.open(folder) for folder in (tmp_path / "run", specialized)]
    for name in ("search-1", "search-2"):
        assert trials_of(runs[0], name) == trials_of(runs[1], name)
    for name in ("networks/budget-1/weights.safetensors", "networks/budget-2/model.onnx"):
        assert runs[0].content(name) == runs[1].content(name)
    with pytest.raises(ArchError, match="A1808"):
        archir.specialize(supernet, BUDGETS[:1], tmp_path / "run", trials=8)


def test_specialize_rejects_impossible_budgets_and_runs(supernet: Path, tmp_path: Path) -> None:
    for run, bounds, said in (
        (supernet, "macs <= 0.001x", r"A1603.*nearest"),
        (supernet, "weight <= 0.5x", "A0201.*there is no `weight`"),
        (f"{supernet}:other", "macs <= 0.5x", r"A2207.*of a phase `other`.*`supernet`"),
        (tmp_path, "macs <= 0.5x", "A1801"),
    ):
        with pytest.raises(ArchError, match=rf"(?s){said}"):
            archir.specialize(run, [bounds], tmp_path / "run")
        assert not (tmp_path / "run").exists()
    trained = search(tmp_path / "train", HEAD + TRAIN.replace('start = { weights = "WEIGHTS" }\n', ""))
    with pytest.raises(ArchError, match=r"(?s)A2207.*has no supernet.*sandwich"):
        archir.specialize(trained.folder, ["macs <= 0.5x"], tmp_path / "run")


def test_scores_command_replaces_one_alternative_at_a_time(supernet: Path, tmp_path: Path) -> None:
    """The reference is the largest network; each score is what one alternative alone changes."""
    space, path = elastic(), tmp_path / "scores.json"
    told = ["scores", str(next((supernet / "space").glob("*.arch"))), "--supernet", str(supernet), "-o", str(path)]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0, done.output
    scores = archir.read_scores(path, space)
    assert scores.made["by"] == "replace-one"
    assert {term.choices[0] for term in scores.terms} == {choice.path for choice in space.choices}
    assert scores(largest(space)) == scores.constant > 0
    assert any(value for term in scores.terms for value in term.values.values())
