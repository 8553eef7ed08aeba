"""Retrieval: the loss and Recall@k against slow computations, and searches on classes that are not trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run
from archir_torch.data import Data, load
from archir_torch.objectives import create
from archir_torch.objectives import retrieval as module
from archir_torch.objectives.retrieval import Recall, Retrieval
from archir_torch.objectives.task import prepare_graph
from archir_torch.training.feed import Batch

NET = """
net embedding(size = 8) {
    input image: f32[3, 8, 8]
    x = image |> choose op { wide: conv(16), narrow: conv(8) } |> relu
    output y = x |> global_avg_pool |> linear(size)
}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Images of eight classes, each with its own colours, in an .npz file."""
    rng = np.random.default_rng(0)
    labels = np.arange(160) % 8
    colours = rng.integers(0, 256, (8, 1, 1, 3))
    images = np.clip(colours[labels] + rng.normal(0, 20, (160, 8, 8, 3)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "colours.npz", images=images, labels=labels)
    return f"npz:{tmp_path / 'colours.npz'}"


def data_of(source: str, by_class: bool = True) -> Data:
    return load(source, (3, 8, 8), by_class=by_class)


def test_split_by_classes_trains_first_half_and_holds_out_the_other(source: str) -> None:
    data = data_of(source)
    assert data.train.labels.unique().tolist() == [0, 1, 2, 3]
    assert data.held_out.labels.unique().tolist() == [4, 5, 6, 7]
    assert len(data.train) == len(data.held_out) == 80


def test_loss_equals_proxy_nca_formula(source: str) -> None:
    objective, data = create("retrieval", {"scale": 2.0}), data_of(source)
    assert isinstance(objective, Retrieval)
    prepare_graph(objective, archir.loads(NET).specialize({"op": "wide"}), data, 0)
    rows = torch.arange(0, 80, 7)
    batch = Batch({"image": data.train.pixels[rows]}, {"label": data.train.labels[rows]})
    embeddings = torch.randn(len(rows), 8, generator=torch.Generator().manual_seed(1))
    x = 2 * embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    proxies = objective.proxies.detach().numpy()
    proxies = 2 * proxies / np.linalg.norm(proxies, axis=1, keepdims=True)
    wanted = []
    for vector, label in zip(x, data.train.labels[rows].tolist(), strict=True):
        distances = ((vector - proxies) ** 2).sum(1)
        others = np.exp(-np.delete(distances, label)).sum()
        wanted.append(-np.log(np.exp(-distances[label]) / others))
    assert float(objective.loss({"y": embeddings}, batch, 0).detach()) == pytest.approx(
        float(np.mean(wanted)), rel=1e-5
    )


@pytest.mark.parametrize("count", [1, 3, 100])
def test_recall_equals_brute_force(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 7)
    rng = np.random.default_rng(count)
    vectors, labels = rng.normal(size=(40, 5)), rng.integers(0, 9, 40)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    hits = 0
    for i in range(40):
        others = sorted((j for j in range(40) if j != i), key=lambda j, i=i: -float(unit[i] @ unit[j]))  # type: ignore[misc]
        hits += any(labels[j] == labels[i] for j in others[:count])
    measure = Recall(count)
    rows = measure.sums(torch.from_numpy(vectors), torch.from_numpy(labels))
    assert measure.figure(rows, 40) == hits / 40


def test_training_finds_unseen_classes_and_resumes_with_proxies(source: str, tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(NET)
    (tmp_path / "recipe.toml").write_text(f"""
        space = "net.arch"
        objective = {{ kind = "retrieval", recall = [1, 4] }}
        [data]
        source = "{source}"
        split = "classes"
        [[phase]]
        name = "search"
        strategy = "random"
        training = {{ epochs = 1, batch = 16 }}
        options = {{ trials = 2, scorer = {{ kind = "training" }}, objectives = ["recall_at_1:max"] }}
        [[phase]]
        name = "train"
        strategy = "train"
        start = {{ architecture = "search" }}
        training = {{ epochs = 6, batch = 16 }}
        weights = {{ kind = "adamw", lr = 1e-2 }}
    """)
    result = CliRunner().invoke(main, ["search", str(tmp_path / "recipe.toml"), "-o", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "recall_at_1" in json.dumps(scores)
    *_, last = Run.open(tmp_path / "run").phase("train").rows()
    recall = float(last["recall_at_1"])
    assert recall > 0.5  # by chance, a quarter


def test_classification_rejects_held_out_classes_that_are_not_trained(source: str) -> None:
    with pytest.raises(ArchError, match=r"A1116.*no class of the held-out samples occurs[\s\S]*retrieval"):
        prepare_graph(create("classification", {}), archir.loads(NET).specialize({"op": "wide"}), data_of(source), 0)


def test_split_by_classes_needs_four_classes() -> None:
    images = np.zeros((12, 8, 8, 3), np.uint8)
    with pytest.raises(ArchError, match=r"A1113.*at least four"):
        load((images, np.arange(12) % 3), (3, 8, 8), by_class=True)
