"""Tasks with targets of all kinds: losses and measures by hand, in parts as in one, and trained."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.augmentation import Augment
from archir.recipes.parsing import parse
from archir_torch.data import Split
from archir_torch.objectives import MEASURES, create
from archir_torch.objectives.measures import measures_of
from archir_torch.search.preparation import load_images
from archir_torch.training.feed import Batch, Feed
from tests.conftest import ROOT

GENERATOR = torch.Generator().manual_seed(0)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def whole(*shape: int, most: int) -> Tensor:
    return torch.randint(0, most, shape, generator=GENERATOR)


def by_hand(kind: str, output: Tensor, target: Tensor) -> dict[str, float]:
    """Measures in numpy, another way than the tasks go."""
    x, y = output.double().numpy(), target.numpy()
    if kind == "regression":
        off = x.reshape(y.shape) - y
        spread = ((y - y.mean(0)) ** 2).sum(0)
        r2 = float(np.mean(1 - (off**2).sum(0) / spread))
        mse = float((off**2).mean())
        return {"mse": mse, "rmse": math.sqrt(mse), "mae": float(abs(off).mean()), "r2": r2}
    if kind == "multilabel":
        said, true = x > 0, y > 0
        f1 = 2 * (said & true).sum() / (said.sum() + true.sum())
        return {"f1": float(f1), "accuracy": float((said == true).mean()), "exact": float((said == true).all(1).mean())}
    places = x.transpose(0, 2, 3, 1) if kind == "segmentation" else x
    known = y >= 0
    said, true = places.argmax(-1)[known], y[known]
    logits = torch.from_numpy(places)[torch.from_numpy(known)]
    loss = float(F.cross_entropy(logits, torch.from_numpy(true)))
    right = float((said == true).mean())
    found = {"loss": loss}
    if kind == "segmentation":
        ious = [((said == c) & (true == c)).sum() / ((said == c) | (true == c)).sum() for c in np.union1d(said, true)]
        return found | {"miou": float(np.mean(ious)), "pixel_accuracy": right}
    if kind == "next_token":
        return found | {"perplexity": math.exp(loss), "bits": loss / math.log(2), "accuracy": right}
    return found | {"accuracy": right}


CASES: dict[str, tuple[Tensor, Tensor]] = {
    "regression": (noise(30, 3), noise(30, 3) * torch.tensor([1.0, 5.0, 0.1])),
    "multilabel": (noise(30, 4), whole(30, 4, most=2)),
    "segmentation": (noise(30, 3, 4, 5), whole(30, 4, 5, most=3).masked_fill(noise(30, 4, 5) > 1, -100)),
    "tagging": (noise(30, 6, 4), whole(30, 6, most=4)),
    "next_token": (noise(30, 6, 4), whole(30, 6, most=4)),
}


@pytest.mark.parametrize("kind", CASES)
def test_task_measures_equal_formulas_for_any_batch_size(kind: str) -> None:
    output, target = CASES[kind]
    objective = create(kind, {})
    wanted = by_hand(kind, output, target)
    for size in (30, 7, 1):
        sums: dict[str, Tensor] = {}
        for x, y in zip(output.split(size), target.split(size), strict=True):
            batch = Batch({"x": x}, {"y": y})
            for name, value in objective.measure({"output": x}, batch, 0).items():
                sums[name] = sums.get(name, 0) + value.double()
        found = objective.figures(sums, 30)
        assert set(found) == set(objective.directions)
        for name, value in wanted.items():
            assert found[name] == pytest.approx(value, rel=1e-5), (name, size)
    assert objective.criterion in wanted


def test_task_losses_equal_formulas() -> None:
    x, y = CASES["regression"]
    batch = Batch({"x": x}, {"y": y})
    for settings, wanted in (
        ({"loss": "mse"}, F.mse_loss(x, y)),
        ({"loss": "mae", "weight": 0.5}, 0.5 * F.l1_loss(x, y)),
        ({"loss": "huber", "delta": 2.0}, F.huber_loss(x, y, delta=2.0)),
    ):
        torch.testing.assert_close(create("regression", settings).loss({"o": x}, batch, 0), wanted)
    x, y = CASES["segmentation"]
    batch = Batch({"x": x}, {"y": y})
    entropy = F.cross_entropy(x, y)
    torch.testing.assert_close(create("segmentation", {}).loss({"o": x}, batch, 0), entropy)
    dice = create("segmentation", {"loss": "dice"}).loss({"o": x}, batch, 0)
    torch.testing.assert_close(create("segmentation", {"loss": "both"}).loss({"o": x}, batch, 0), entropy + dice)
    perfect = 50.0 * F.one_hot(y.clamp(min=0), 3).movedim(-1, 1)
    assert float(create("segmentation", {"loss": "dice"}).loss({"o": perfect}, batch, 0)) < 1e-3
    left_out = Batch({"x": x}, {"y": torch.full_like(y, 255)})
    assert float(create("segmentation", {"ignore": 255}).loss({"o": x}, left_out, 0)) == 0


def test_masks_move_with_their_images() -> None:
    images = torch.arange(1, 65.0).reshape(1, 1, 8, 8).expand(20, 1, 8, 8)
    split = Split({"image": images}, {"mask": images[:, 0].long()})
    batch = Feed(split, 20, seed=0, augment=Augment(shift=2, flip=True)).batch(0)
    inside = batch.labels >= 0
    assert torch.equal(batch.images[:, 0][inside].long(), batch.labels[inside])
    assert not batch.images[:, 0][~inside].any()
    assert not torch.equal(batch.images, images)


def test_batches_of_two_processes_join_to_single_process_batch() -> None:
    split = Split({"a": noise(23, 3), "b": whole(23, 2, most=9)}, {"y": noise(23, 2), "z": whole(23, most=2)})
    alone = Feed(split, 8, seed=4)
    several = [Feed(split, 4, seed=4, rank=rank, world=2) for rank in range(2)]
    for index in range(2 * alone.steps):
        one, parts = alone.batch(index), [feed.batch(index) for feed in several]
        for name in ("a", "b"):
            assert torch.equal(one.inputs[name], torch.cat([part.inputs[name] for part in parts]))
        for name in ("y", "z"):
            assert torch.equal(one.targets[name], torch.cat([part.targets[name] for part in parts]))


@pytest.mark.parametrize("name", ["f1", "exact", "mse", "rmse", "mae", "r2"])
def test_measures_reject_mismatched_output_and_target_shapes(name: str) -> None:
    """As many samples as classes are no reason to compare each with each."""
    (one,) = measures_of([name])
    with pytest.raises(ArchError, match=rf"A1904.*`{name}` compares .* \[3, 3\] .* \[3\]"):
        one.sums(noise(3, 3), whole(3, most=3))


def test_measures_of_numbers_take_one_number_a_sample() -> None:
    for one in measures_of(["mse", "rmse", "mae", "r2"]):
        x, y = noise(8), noise(8)
        assert one.figure(one.sums(x, y), 8) == pytest.approx(one.figure(one.sums(x[:, None], y[:, None]), 8))


def test_perplexity_without_valid_positions_is_unknown() -> None:
    (one,) = measures_of(["perplexity"])
    nothing = torch.full((2, 6), -100)
    assert math.isnan(one.figure(one.sums(noise(2, 4, 6), nothing), 2))


def test_measures_declare_their_target_kind() -> None:
    ours = [name for name in MEASURES if type(MEASURES[name]).__module__.startswith("archir")]  # plugins have others
    assert {MEASURES[name].compares for name in ours} >= {"classes", "labels", "numbers"}
    assert create("multilabel", {"measures": ["accuracy", "f1"]}).directions == create("multilabel", {}).directions
    for kind in ("classification", "multilabel", "regression", "tagging", "segmentation", "next_token"):
        own = create(kind, {})
        fitting = [name for name in ours if MEASURES[name].compares == own.compares]
        measured = create(kind, {"measures": fitting})
        x, y = CASES[kind] if kind in CASES else (noise(8, 5), whole(8, most=5))
        assert {*fitting} <= measured.measure({"output": x}, Batch({"x": x}, {"y": y}), 0).keys()


def test_regression_does_not_treat_integer_targets_as_classes(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("size,rooms\n" + "".join(f"{i},{i % 4}\n" for i in range(80)))
    net, source = "net n { \n input x: f32[1]\n output y = x |> linear(OUT) \n }", f"{tmp_path}/rooms.csv#rooms"
    for kind, outputs, names in (("regression", 1, []), ("classification", 4, ["0", "1", "2", "3"])):
        graph = archir.loads(net.replace("OUT", str(outputs))).graph
        _, result = archir.train(graph, data=source, settings={"epochs": 1, "objective": {"kind": kind}})
        assert result.images is not None
        assert result.images["classes"] == names


def test_phases_on_shared_samples_use_a_common_split(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("size,rooms\n" + "".join(f"{i},{i % 4}\n" for i in range(80)))
    space = archir.loads("net n { \n input x: f32[1]\n output y = x |> linear(4) \n }")

    def classes(*kinds: str) -> list[tuple[str, ...]]:
        phases = "".join(
            f'[[phase]]\nname = "p{number}"\nstrategy = "train"\nobjective = {{ kind = "{kind}" }}\n'
            for number, kind in enumerate(kinds)
        )
        recipe = parse(f'space = "n.arch"\n[data]\nsource = "csv:{tmp_path}/rooms.csv#rooms"\n{phases}').recipe
        return [
            data.classes
            for phase in recipe.phase
            for data in load_images({}, recipe, recipe.data_of(phase), space).values()
        ]

    assert classes("classification") == [("0", "1", "2", "3")]
    assert classes("classification", "regression") == [(), ()]


LANGUAGE = """
net language {
    input bytes: i64[32]
    x = bytes |> embedding(256, 24)
    y = x |> layer_norm
    x = x + (attention(y |> linear(24), y |> linear(24), y |> linear(24), heads=2, causal=true) |> linear(24))
    x = x + (x |> layer_norm |> linear(48) |> gelu |> linear(24))
    output next = x |> layer_norm |> linear(256)
}
"""


@pytest.mark.soak
def test_byte_model_beats_bigram_perplexity(tmp_path: Path) -> None:
    """Of the project's own pages: below a bigram model's perplexity."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))[:400_000]
    (tmp_path / "docs.txt").write_text(text)
    raw = (tmp_path / "docs.txt").read_bytes()
    middle = len(raw) - len(raw) // 5
    pairs, ones = Counter(pairwise(raw[:middle])), Counter(raw[:middle])
    held = list(pairwise(raw[middle:]))
    bigram = math.exp(-sum(math.log((pairs[one] + 0.1) / (ones[one[0]] + 25.6)) for one in held) / len(held))
    settings: dict[str, Any] = {"epochs": 6, "batch": 32, "lr": 4e-3, "objective": {"kind": "next_token"}}
    _, result = archir.train(archir.loads(LANGUAGE).graph, data=tmp_path / "docs.txt", settings=settings)
    assert result.measures["perplexity"] < bigram


def test_next_token_training_learns_two_word_language(tmp_path: Path) -> None:
    """Of two words, drawn at random: what comes next is certain but for the first letter of a word."""
    words = np.random.default_rng(0).choice(["mango ", "apple "], 300)
    (tmp_path / "words.txt").write_text("".join(words))
    net = archir.loads(LANGUAGE.replace("i64[32]", "i64[12]")).graph
    settings: dict[str, Any] = {"epochs": 10, "batch": 16, "lr": 1e-2, "objective": {"kind": "next_token"}}
    _, result = archir.train(net, data=tmp_path / "words.txt", settings=settings)
    assert result.measures["bits"] < 0.5
    assert result.measures["perplexity"] == pytest.approx(2 ** result.measures["bits"])
