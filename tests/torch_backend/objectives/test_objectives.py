"""Objectives against references written by hand."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, NodeId
from archir.passes.expose import expose
from archir.utils.settings import Settings
from archir_torch.data import Data, load
from archir_torch.lowering.generators import seeded_generator
from archir_torch.lowering.module import lower
from archir_torch.lowering.weights import save_weights
from archir_torch.objectives import CombinedObjective, Objective, create
from archir_torch.objectives.context_autoregression import MAX_BOXES, decoder, masks
from archir_torch.training.feed import Batch, Feed
from tests.conftest import EXAMPLES

NET = """
net student(classes = 10) {
    input image: f32[1, 8, 8]
    a = image |> conv(6) |> batch_norm |> relu
    b = a |> conv(8, stride=2) |> batch_norm |> relu
    output logits = b |> global_avg_pool |> linear(classes)
    output auxiliary = a |> global_avg_pool |> linear(classes)
    output stage1 = a
    output stage2 = b
}
"""


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("digits", (1, 8, 8), limit=100)


def prepared(objective: Objective, data: Data, **parameters: Any) -> Graph:
    graph = archir.loads(NET, **parameters).graph
    graph = expose(graph, objective.reads(graph))
    objective.check(graph, data)
    objective.prepare(graph, data, torch.Generator().manual_seed(0))
    return graph


def some(data: Data, count: int = 12) -> Batch:
    return Feed(data.train, count, seed=0).batch(0)


# classification


def entropy(logits: Tensor, probabilities: Tensor) -> float:
    logits = logits.detach().double()
    logs = logits - logits.exp().sum(1, keepdim=True).log()
    return float(-(probabilities * logs).sum(1).mean())


def test_smoothed_cross_entropy_with_auxiliary_output_equals_formula(digits: Data) -> None:
    objective = create("classification", {"label_smoothing": 0.1, "auxiliary": 0.4})
    graph = prepared(objective, digits)
    assert list(graph.outputs) == ["logits", "auxiliary"]
    batch = some(digits)
    outputs = lower(graph)(batch.images)
    smooth = F.one_hot(batch.labels, 10).double() * 0.9 + 0.01
    wanted = entropy(outputs["logits"], smooth) + 0.4 * entropy(outputs["auxiliary"], smooth)
    assert float(objective.loss(outputs, batch, 0).detach()) == pytest.approx(wanted, rel=1e-5)
    measured = objective.measure(outputs, batch, 0)
    right = sum(int(row.argmax()) == int(label) for row, label in zip(outputs["logits"], batch.labels, strict=True))
    assert int(measured["accuracy"]) == right
    hard = entropy(outputs["logits"], F.one_hot(batch.labels, 10).double())
    assert float(measured["loss"].detach()) / len(batch) == pytest.approx(hard, rel=1e-5)
    assert torch.equal(objective.inputs(batch, 3), batch.images)


def test_mixed_labels_are_padded_to_network_classes(digits: Data) -> None:
    objective = create("classification", {})
    graph = prepared(objective, digits, classes=12)
    batch = some(digits)
    mixed = Batch.labelled(batch.images, batch.labels, torch.rand(12, 10).softmax(1))
    logits = {"logits": lower(graph)(batch.images)}
    wide = torch.cat([mixed.mixed if mixed.mixed is not None else torch.empty(0), torch.zeros(12, 2)], 1)
    assert float(objective.loss(logits, mixed, 0).detach()) == pytest.approx(entropy(logits["logits"], wide), rel=1e-5)


def test_classification_rejects_unsuitable_outputs_and_options(digits: Data) -> None:
    with pytest.raises(ArchError, match=r"A1108.*10 classes, but the output `logits`.* has 4\n.*\n.*\n.*classes = 10"):
        prepared(create("classification", {}), digits, classes=4)
    parts = (digits.train, digits.held_out)
    train, held_out = (replace(part, targets={key: one + 1 for key, one in part.targets.items()}) for part in parts)
    from_one = replace(digits, train=train, held_out=held_out)
    with pytest.raises(ArchError, match=r"A1108.*11 classes, but.*has 10\n.*\n.*\n.*labels start at 0, and those"):
        prepared(create("classification", {}), from_one, classes=10)
    graph = archir.loads("net plain { \n input image: f32[1, 8, 8]\n output y = image \n }").graph
    with pytest.raises(ArchError, match=r"A1902.*`plain` has no output `auxiliary`"):
        create("classification", {"auxiliary": 0.4}).reads(graph)
    with pytest.raises(ArchError, match=r"A1903.*`y` of `plain` is f32\[1, 8, 8\], not a vector"):
        create("classification", {}).check(graph, digits)
    with pytest.raises(ArchError, match=r"A1109.*no `label_smooth`"):
        create("classification", {"label_smooth": 0.1})


# context auto-regression


def masked_by_hand(height: int, width: int, drawn: Tensor) -> Tensor:
    """A box after the other, until one would make too much; `drawn` are four uniform numbers a box."""
    mask = torch.zeros(height, width, dtype=torch.bool)
    for tall, top, broad, left in drawn.tolist():
        sides, places = [], []
        for size, part, place in ((height, tall, top), (width, broad, left)):
            low, high = max(1, round(size / 8)), max(1, round(size / 4))
            sides.append(low + int(part * (high - low + 1)))
            places.append(int(place * (size - sides[-1] + 1)))
        box = mask.clone()
        box[places[0] : places[0] + sides[0], places[1] : places[1] + sides[1]] = True
        if int(box.sum()) > height * width / 4:
            break
        mask = box
    return mask


@given(st.integers(1, 6), st.integers(4, 40), st.integers(4, 40), st.integers(0, 2**40))
def test_masks_are_boxes_that_never_cover_more_than_a_quarter(count: int, height: int, width: int, seed: int) -> None:
    found = masks(count, height, width, seed)
    assert found.shape == (count, 1, height, width)
    assert float(found.float().mean((1, 2, 3)).max()) <= 1 / 4
    assert bool(found.any((1, 2, 3)).all())
    drawn = torch.rand(4, count, MAX_BOXES, generator=seeded_generator(seed, "masks"))
    for i in range(count):
        assert torch.equal(found[i, 0], masked_by_hand(height, width, drawn[:, i].T))


def test_masks_cover_nearly_a_quarter_everywhere() -> None:
    found = masks(2000, 32, 32, 1).float()
    assert 0.18 < float(found.mean()) <= 0.25
    assert float(found.mean((0, 1)).min()) > 0.005
    assert torch.equal(masks(3, 32, 32, 5), masks(3, 32, 32, 5))
    assert not torch.equal(masks(3, 32, 32, 5), masks(3, 32, 32, 6))
    assert not bool(masks(1, 1, 1, 0).any())


@pytest.mark.parametrize("over", ["masked", "image"])
def test_context_autoregression_loss_equals_formula(over: str, digits: Data) -> None:
    objective = create("context_autoregression", {"over": over})
    graph = prepared(objective, digits)
    assert list(graph.outputs) == ["features"]
    batch = some(digits)
    mask = masks(12, 8, 8, 7)
    given = objective.inputs(batch, 7)
    assert torch.equal(given, torch.where(mask, torch.zeros(()), batch.images))
    network = lower(graph)
    outputs = {"features": network(given)}
    made = objective.get_submodule("decoder")(outputs["features"])
    assert made.shape == batch.images.shape
    difference = (made - batch.images).abs()
    wanted = difference[mask].mean() if over == "masked" else difference.mean()
    loss = objective.loss(outputs, batch, 7)
    torch.testing.assert_close(loss, wanted)
    each = torch.stack([d[m].mean() for d, m in zip(difference, mask, strict=True)])
    torch.testing.assert_close(objective.measure(outputs, batch, 7)["error"], each.sum())
    loss.backward()
    assert all(p.grad is not None for p in [*objective.parameters(), *network.parameters()])
    again = create("context_autoregression", {})
    prepared(again, digits)
    assert all(torch.equal(a, b) for a, b in zip(objective.parameters(), again.parameters(), strict=True))


def test_context_autoregression_reads_named_output(digits: Data) -> None:
    objective = create("context_autoregression", {"output": "stage1"})
    assert list(prepared(objective, digits).outputs) == ["stage1"]
    with pytest.raises(ArchError, match=r"A1902.*no output `stage9`\n.*did you mean `stage\d`"):
        prepared(create("context_autoregression", {"output": "stage9"}), digits)
    with pytest.raises(ArchError, match=r"A1903.*`logits` of `student` is f32\[10\], not a map"):
        prepared(create("context_autoregression", {"output": "logits"}), digits)


@pytest.mark.parametrize(
    ("encoded", "image", "widths"),
    [
        ((64, 8, 8), (3, 32, 32), [32, 16]),
        ((8, 4, 4), (1, 8, 8), [4]),
        ((8, 8, 8), (1, 8, 8), []),
        ((6, 5, 3), (3, 9, 12), [3, 1]),
        ((4, 1, 8), (1, 8, 8), [2, 1, 1]),
    ],
)
def test_decoder_upsamples_features_to_image_size(
    encoded: tuple[int, ...], image: tuple[int, ...], widths: list[int]
) -> None:
    made = decoder(encoded, image, torch.Generator().manual_seed(0))
    assert made(torch.randn(2, *encoded)).shape == (2, *image)
    assert [layer.num_features for layer in made if isinstance(layer, torch.nn.BatchNorm2d)] == widths


def test_decoders_only_enlarge(digits: Data) -> None:
    small = Data(load("digits", (1, 4, 4), limit=20).train, digits.held_out, digits.classes, (0.0,), (1.0,))
    with pytest.raises(ArchError, match=r"A1903.*is 8 x 8, the image 4 x 4"):
        prepared(create("context_autoregression", {"output": "stage1"}), small)


# attention transfer


TEACHER = {"depth": 11, "alpha": 6, "size": 8, "channels": 1}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "teacher.arch").write_text((EXAMPLES / "nos" / "teacher.arch").read_text())
    network = lower(archir.load(folder / "teacher.arch", **TEACHER).graph, generator=torch.Generator().manual_seed(5))
    save_weights(network, folder / "teacher.safetensors")
    return folder


def transfer(folder: Path, **settings: Any) -> Objective:
    whole: dict[str, Any] = {"teacher": "teacher.arch:pyramidnet", "weights": "teacher.safetensors"}
    stages = {"stages": ["stage1", "stage2"], "parameters": TEACHER}
    return create("attention_transfer", whole | stages | settings, folder=folder)


def by_hand(one: Tensor, other: Tensor, form: str) -> float:
    total = 0.0
    for a, b in zip(one.detach().double(), other.detach().double(), strict=True):
        x, y = ((map * map).sum(0).flatten() for map in (a, b))
        apart = x / (x * x).sum().sqrt() - y / (y * y).sum().sqrt()
        total += float((apart * apart).mean() if form == "squares" else (apart * apart).sum().sqrt())
    return total / len(one)


@pytest.mark.parametrize("form", ["squares", "eq6"])
def test_attention_transfer_loss_equals_formula(form: str, teacher: Path, digits: Data) -> None:
    objective = transfer(teacher, form=form, weight=1000.0)
    graph = prepared(objective, digits)
    assert list(graph.outputs) == ["stage1", "stage2"]
    student, batch = lower(graph), some(digits)
    outputs = student(batch.images)
    network = lower(archir.load(teacher / "teacher.arch", **TEACHER).graph, generator=torch.Generator().manual_seed(5))
    taught = network.eval()(batch.images)
    wanted = sum(by_hand(outputs[name], taught[name], form) for name in ("stage1", "stage2"))
    loss = objective.loss(outputs, batch, 0)
    assert float(loss.detach()) == pytest.approx(500 * wanted, rel=1e-4)
    measured = objective.measure(outputs, batch, 0)
    assert float(measured["transfer"].detach()) / len(batch) == pytest.approx(500 * wanted, rel=1e-4)


def test_training_leaves_teacher_unchanged(teacher: Path, digits: Data) -> None:
    objective = transfer(teacher)
    student, batch = lower(prepared(objective, digits)), some(digits)
    objective.train()
    (network,) = vars(vars(objective)["_teacher"])["_network"]
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    objective.loss(student(batch.images), batch, 0).backward()
    assert not network.training
    assert all(p.grad is None and not p.requires_grad for p in network.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not list(objective.parameters())
    assert not objective.state_dict()
    assert any(p.grad is not None and bool(p.grad.any()) for p in student.parameters())


def test_larger_teacher_maps_are_average_pooled(teacher: Path, digits: Data) -> None:
    objective = transfer(teacher, stages=["stage2"], teacher_stages=["stage1"])
    student, batch = lower(prepared(objective, digits)), some(digits)
    network = lower(archir.load(teacher / "teacher.arch", **TEACHER).graph, generator=torch.Generator().manual_seed(5))
    taught = F.avg_pool2d(network.eval()(batch.images)["stage1"], 2)
    outputs = {"stage2": student(batch.images)}
    wanted = 500 * by_hand(outputs["stage2"], taught, "squares")
    assert float(objective.loss(outputs, batch, 0).detach()) == pytest.approx(wanted, rel=1e-4)


def test_attention_transfer_rejects_mismatched_teachers(teacher: Path, digits: Data, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1109.*as many names as"):
        transfer(teacher, teacher_stages=["stage1"])
    with pytest.raises(ArchError, match=r"A1902.*`pyramidnet` has neither an output nor a scope `stage7`"):
        prepared(transfer(teacher, teacher_stages=["stage1", "stage7"]), digits)
    with pytest.raises(ArchError, match=r"A1903.*needs maps or tokens, but `stage2` of `the teacher` is f32\[10\]"):
        prepared(transfer(teacher, teacher_stages=["stage1", "logits"]), digits)
    with pytest.raises(ArchError, match=r"A1903.*takes \[1, 16, 16\], and the student \[1, 8, 8\]"):
        prepared(transfer(teacher, parameters={**TEACHER, "size": 16}), digits)
    with pytest.raises(ArchError, match="A0902"):
        prepared(transfer(teacher, parameters={**TEACHER, "alpha": 12}), digits)
    with pytest.raises(ArchError, match="A0905"):
        prepared(transfer(teacher, weights="teacher.arch"), digits)
    with pytest.raises(ArchError, match="A0801"):
        prepared(transfer(tmp_path), digits)


def test_published_teacher_has_expected_parameter_count() -> None:
    for classes, params in ((10, 2_528_712), (100, 2_564_802)):
        assert archir.cost(archir.load(EXAMPLES / "nos" / "teacher.arch", classes=classes).graph).params == params
    taps = archir.load(EXAMPLES / "nos" / "teacher.arch").graph
    assert list(taps.outputs) == ["logits", "stage1", "stage2", "stage3"]


# several, and those of users


def test_losses_are_added(teacher: Path, digits: Data) -> None:
    task, added = create("classification", {}), transfer(teacher)
    both = CombinedObjective(task, added)
    graph = prepared(both, digits)
    assert list(graph.outputs) == ["logits", "stage1", "stage2"]
    batch = some(digits)
    outputs = lower(graph)(batch.images)
    torch.testing.assert_close(
        both.loss(outputs, batch, 0), task.loss(outputs, batch, 0) + added.loss(outputs, batch, 0)
    )
    assert list(both.measure(outputs, batch, 0)) == ["accuracy", "loss", "transfer"]
    assert (both.criterion, both.larger) == ("accuracy", True)
    assert torch.equal(both.inputs(batch, 0), batch.images)
    context = CombinedObjective(create("context_autoregression", {}), added)
    prepared(context, digits)
    assert (context.criterion, context.larger) == ("error", False)
    assert {name.split(".")[1] for name in context.state_dict()} == {"decoder"}


class Mine(Objective):
    @dataclass
    class Nothing:
        pass

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        return dict(graph.outputs)

    def loss(self, outputs: Any, batch: Any, seed: int) -> Tensor:
        return outputs["logits"].square().mean()


class Undeclared(Mine):
    """Overrides `measure`, but not `directions`."""

    def measure(self, outputs: Any, batch: Any, seed: int) -> dict[str, Tensor]:
        return {"size": outputs["logits"].abs().mean(1).sum()}


def test_measures_that_no_objective_declares_are_averaged(digits: Data) -> None:
    both = CombinedObjective(create("classification", {}), Undeclared())
    graph = prepared(both, digits)
    batch = some(digits)
    with torch.no_grad():
        outputs = lower(graph)(batch.images)
    figures = both.figures(both.measure(outputs, batch, 0), len(batch))
    assert list(figures) == ["accuracy", "loss", "size"]
    assert figures["size"] == pytest.approx(float(outputs["logits"].abs().mean()))


class Unfinished(Objective):
    def reads(self, graph: Graph) -> dict[str, NodeId]:
        return {}


def test_user_objectives_are_loaded_and_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_objectives")
    vars(module).update(Mine=Mine, Unfinished=Unfinished, other=3)
    monkeypatch.setitem(sys.modules, "my_objectives", module)
    made = create("my_objectives:Mine", {})
    assert isinstance(made, Mine)
    outputs = {"logits": torch.tensor([[1.0, 3.0], [1.0, 1.0]])}
    sums = made.measure(outputs, Batch.labelled(torch.zeros(2, 1), torch.zeros(2)), 0)
    assert made.figures(sums, 2) == {"loss": 3.0}
    assert (made.criterion, made.larger) == ("loss", False)
    for name, message in (
        ("my_objectives:Unfinished", "A1901.*is not an objective"),
        ("my_objectives:other", "A1901.*is not an objective"),
        ("my_objectives:Theirs", "A1901.*`my_objectives` has no `Theirs`"),
        ("none_of_mine:Mine", "A1901.*`none_of_mine:Mine` is an objective of a module that was not imported"),
        (":", "A1901.*`:` is an objective of a module that was not imported"),
        ("clasification", r"A1901.*\n.*did you mean `classification`"),
    ):
        with pytest.raises(ArchError, match=message):
            create(name, {})
    assert Mine.model is Settings
