"""Objectives that compare a network with a teacher, against references written by hand."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.passes.expose import expose
from archir_torch.data import Data, load
from archir_torch.lowering.module import lower
from archir_torch.lowering.weights import save_weights
from archir_torch.objectives import Objective, create
from archir_torch.objectives.distillation import Distillation
from archir_torch.objectives.teacher import cache_of
from archir_torch.training.feed import Batch, Feed

NETS = """
block layer(x, width) {
    return x |> conv(width, stride=2) |> batch_norm |> relu
}

net teacher(classes = 10, size = 8) {
    input image: f32[1, size, size]
    x = image |> conv(12) |> relu
    for i in 0..2 {
        x = x |> layer(12)
    }
    output logits = x |> global_avg_pool |> linear(classes)
}

net student(classes = 10, width = 6) {
    input image: f32[1, 8, 8]
    x = image |> conv(width) |> relu
    for i in 0..2 {
        x = x |> layer(width)
    }
    output logits = x |> global_avg_pool |> linear(classes)
}

net elastic(widths = [4, 6]) {
    input image: f32[1, 8, 8]
    x = image |> conv(choose width(widths)) |> relu
    for i in 0..2 {
        x = x |> layer(x.features)
    }
    output logits = x |> global_avg_pool |> linear(10)
}
"""


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache_of.cache_clear()


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("digits", (1, 8, 8), limit=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "nets.arch").write_text(NETS)
    save_weights(teacher(folder), folder / "teacher.safetensors")
    return folder


def teacher(folder: Path) -> Any:
    return lower(archir.load(f"{folder}/nets.arch:teacher").graph, generator=torch.Generator().manual_seed(5)).eval()


def made(folder: Path, kind: str, net: str = "student", classes: int = 10, **settings: Any) -> tuple[Objective, Any]:
    given = {"teacher": "nets.arch:teacher", "weights": "teacher.safetensors"} | settings
    objective = create(kind, given, folder=folder)
    own = {} if net == "elastic" else {"classes": classes}
    graph = archir.load(f"{folder}/nets.arch:{net}", **own).graph
    graph = expose(graph, objective.reads(graph))
    data = load("digits", (1, 8, 8), limit=100)
    objective.check(graph, data)
    objective.prepare(graph, data, torch.Generator().manual_seed(0))
    return objective, graph


def some(data: Data) -> Batch:
    return Feed(data.train, 12, seed=0).batch(0)


def by_hand(mine: Tensor, its: Tensor, temperature: float) -> float:
    total = 0.0
    for one, other in zip((mine / temperature).tolist(), (its / temperature).tolist(), strict=True):
        p = [exp(value) / sum(map(exp, other)) for value in other]
        q = [exp(value) / sum(map(exp, one)) for value in one]
        total += sum(a * (log(a) - log(b)) for a, b in zip(p, q, strict=True))
    return total / len(mine) * temperature**2


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_class_distillation_equals_formula(temperature: float, folder: Path, digits: Data) -> None:
    objective, graph = made(folder, "distillation", temperature=temperature, weight=0.5)
    batch = some(digits)
    mine, its = lower(graph)(batch.images), teacher(folder)(batch.images)
    wanted = by_hand(mine.detach(), its.detach(), temperature) / 2
    assert float(objective.loss({"logits": mine}, batch, 0).detach()) == pytest.approx(wanted, rel=1e-4)
    measured = objective.measure({"logits": mine}, batch, 0)["distillation"]
    assert float(measured.detach()) / len(batch) == pytest.approx(wanted, rel=1e-4)
    assert float(objective.loss({"logits": its.detach()}, batch, 0)) == pytest.approx(0, abs=1e-6)


def test_label_and_number_distillation_equal_formulas(folder: Path, digits: Data) -> None:
    batch = some(digits)
    mine, its = torch.randn(12, 10, generator=torch.Generator().manual_seed(1)), teacher(folder)(batch.images).detach()
    objective, _ = made(folder, "distillation", form="numbers")
    assert float(objective.loss({"logits": mine}, batch, 0)) == pytest.approx(float((mine - its).square().mean() / 2))
    objective, _ = made(folder, "distillation", form="labels")
    p, q = its.sigmoid(), mine.sigmoid()
    wanted = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).mean()
    assert float(objective.loss({"logits": mine}, batch, 0)) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.parametrize("remember", [False, True])
def test_teacher_outputs_are_reused_for_seen_samples(remember: bool, folder: Path, digits: Data) -> None:
    objective, _ = made(folder, "distillation", remember=remember)
    assert isinstance(objective, Distillation)
    network, asked = objective._teacher._network[0], []
    network.register_forward_pre_hook(lambda module, inputs: asked.append(len(inputs[0])))
    images, zeros = digits.train.images, torch.zeros(12, 10)
    batch = Batch.labelled(images[:12], zeros)
    once, again = (float(objective.loss({"logits": zeros}, batch, 0)) for _ in range(2))
    assert once == again == pytest.approx(by_hand(zeros, teacher(folder)(images[:12]).detach(), 1.0), rel=1e-4)
    order = torch.tensor([3, 40, 1, 2, 3, 41, 6, 7, 8, 9, 10, 11])
    others = Batch.labelled(images[order], zeros)
    wanted = by_hand(zeros, teacher(folder)(images[order]).detach(), 1.0)
    assert float(objective.loss({"logits": zeros}, others, 0)) == pytest.approx(wanted, rel=1e-4)
    assert asked == [12, 2 if remember else 12]
    objective, _ = made(folder, "distillation", remember=remember)  # as a phase that comes next has it
    assert isinstance(objective, Distillation)
    objective._teacher._network[0].register_forward_pre_hook(lambda module, inputs: asked.append(len(inputs[0])))
    objective.loss({"logits": zeros}, others, 0)
    assert asked[2:] == ([] if remember else [12])


@pytest.mark.parametrize("stages", [["layer"], ["layer[0]", "layer[1]"], ["logits"]])
def test_feature_transfer_fits_linear_map_to_teacher(stages: list[str], folder: Path, digits: Data) -> None:
    objective, graph = made(folder, "feature_transfer", stages=stages)
    network, batch = lower(graph), some(digits)
    outputs = network(batch.images)
    outputs = outputs if isinstance(outputs, dict) else {stages[0]: outputs}
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.02)
    losses = []
    for _ in range(200):
        loss = objective.loss({name: value.detach() for name, value in outputs.items()}, batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert losses[-1] < 1, "less than the teacher's own values"


def test_feature_transfer_from_identical_teacher_has_zero_loss(folder: Path, digits: Data) -> None:
    objective, graph = made(folder, "feature_transfer", net="teacher", stages=["layer[1]"])
    batch = some(digits)
    network = lower(graph)
    network.load_state_dict({n: t for n, t in teacher(folder).state_dict().items() if n in network.state_dict()})
    (weight,) = objective.parameters()
    with torch.no_grad():
        weight.copy_(torch.eye(12))
    assert float(objective.loss({"layer[1]": network.eval()(batch.images)}, batch, 0).detach()) < 1e-10


def test_narrow_student_uses_leading_columns_of_linear_map(folder: Path, digits: Data) -> None:
    objective, _ = made(folder, "feature_transfer", net="elastic", stages=["layer[1]"])
    (weight,) = objective.parameters()
    assert tuple(weight.shape) == (12, 6)
    batch = some(digits)
    for channels in (4, 6):
        objective.zero_grad()
        objective.loss({"layer[1]": torch.ones(12, channels, 2, 2)}, batch, 0).backward()
        assert weight.grad is not None
        assert bool(weight.grad[:, :channels].any())
        assert not bool(weight.grad[:, channels:].any())


def test_attention_transfer_reads_scopes_of_elastic_student(folder: Path, digits: Data) -> None:
    objective, graph = made(folder, "attention_transfer", net="elastic", stages=["layer[0]", "layer[1]"])
    assert list(graph.outputs) == ["layer[0]", "layer[1]"]
    values = {"layer[0]": torch.ones(12, 4, 4, 4), "layer[1]": torch.ones(12, 6, 2, 2)}
    assert float(objective.loss(values, some(digits), 0)) > 0


def test_rejects_mismatched_teachers_and_options(folder: Path) -> None:
    with pytest.raises(ArchError, match=r"A1903.*`logits` of `student` is f32\[7\], but the teacher's is f32\[10\]"):
        made(folder, "distillation", classes=7)
    with pytest.raises(ArchError, match=r"A1903.*`teacher` takes \[1, 16, 16\], and the student \[1, 8, 8\]"):
        made(folder, "distillation", parameters={"size": 16})
    with pytest.raises(ArchError, match=r"A1902.*`student` has neither an output nor a scope `layers\[0\]`"):
        made(folder, "feature_transfer", stages=["layers[0]"])
    with pytest.raises(ArchError, match=r"A1903.*may differ in channels alone"):
        made(folder, "feature_transfer", stages=["layer[0]"], teacher_stages=["layer[1]"])
    with pytest.raises(ArchError, match=r"A1109.*temperature"):
        made(folder, "distillation", temperature=0)


RECIPE = """
space = "nets.arch:student"
export = false
[data]
limit = 60
[[phase]]
name = "teach"
space = "nets.arch:teacher"
strategy = "train"
training = { epochs = 1, batch = 32 }
[[phase]]
name = "learn"
strategy = "train"
training = { epochs = 1, batch = 32 }
objective = { kind = "classification", weight = 0.0 }
also = [{ kind = "distillation", phase = "teach", temperature = 2.0 },
        { kind = "feature_transfer", phase = "teach", stages = ["layer[1]"] }]
"""


def test_recipe_trains_with_distillation_objectives(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "nets.arch").write_text(NETS)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    summary = archir.run(tmp_path / "recipe.toml", tmp_path / "run", device="cpu")
    measured = summary["measures"]["learn"]["measures"]
    assert measured["accuracy"]
    assert not measured["distillation"]
    assert not measured["features"]
    assert isinstance(json.loads((tmp_path / "run" / "summary.json").read_text())["network"]["distillation"], float)


def test_teachers_of_files_are_copied_into_the_run(folder: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "student.arch").write_text(NETS)
    (given / "teacher.arch").write_text(NETS)
    save_weights(teacher(folder), given / "t.safetensors")
    also = '[{ kind = "distillation", teacher = "teacher.arch:teacher", weights = "t.safetensors" }]'
    recipe = f"""
space = "student.arch:student"
export = false
data.limit = 60
[[phase]]
name = "learn"
strategy = "train"
training = {{ epochs = 1, batch = 32 }}
also = {also}
"""
    (given / "recipe.toml").write_text(recipe)
    archir.run(given / "recipe.toml", tmp_path / "run", device="cpu")
    files = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert "teacher.arch" in files
    assert any(name.startswith("teacher-") for name in files)
    for text, code in (
        (recipe.replace("t.safetensors", "gone.safetensors"), "A2207"),
        (recipe.replace("teacher.arch:teacher", "gone.arch"), "A0801"),
        (recipe.replace("teacher.arch:teacher", "teacher.arch:student"), "A0902"),
    ):
        (given / "recipe.toml").write_text(text)
        with pytest.raises(ArchError, match=code):
            archir.run(given / "recipe.toml", tmp_path / "wrong", device="cpu")
        assert not (tmp_path / "wrong").exists()
