"""Which images the phases of searches touch, and what for: what scores never trains, and what tests never chooses.

Searches are run with images that are known by their bytes, and everything that takes images in writes down which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError
from archir.recipes.checks import check_same_split
from archir.recipes.parsing import parse
from archir_torch import proxies
from archir_torch.data import Data, Split, load, origin
from archir_torch.objectives.attention_transfer import AttentionTransfer
from archir_torch.search import preparation, run, scoring
from archir_torch.search.job import uses_all_samples
from archir_torch.search.run import execute
from archir_torch.search.task import Task
from archir_torch.strategies import inherit, relaxed, supernet
from archir_torch.training.learner import Learner
from tests.soak import with_soak

Rows = set[tuple[str, int]]
"""Images by their part of the source and their row there."""
Image = bytes

SPACE = """
net small() {
    input x: f32[1, 6, 6]
    x = x |> conv(4, kernel=choose kernel(1, 3), bias=false) |> batch_norm |> relu
    x = x |> choose op {
        skip: identity
        conv: conv(4, kernel=3, bias=false) |> batch_norm
    }
    output logits = x |> global_avg_pool |> linear(3)
    output stage1 = x
}
net taught() {
    input x: f32[1, 6, 6]
    x = x |> conv(4, kernel=3, bias=false) |> batch_norm |> relu
    output logits = x |> global_avg_pool |> linear(3)
    output stage1 = x
}
"""

RELAXED = """
[[phase]]
name = "darts"
strategy = "darts"
training = {{ epochs = 2, batch = 8, seed = {one} }}
options = {{ order = 2, curvature = {{ iterations = 2 }} }}

[[phase]]
name = "gdas"
strategy = "gdas"
start = {{ alphas = "darts", weights = "darts" }}
training = {{ epochs = 1, batch = 8, accumulate = 2, seed = {two} }}

[[phase]]
name = "snas"
strategy = "snas"
training = {{ epochs = 1, batch = 8 }}

[[phase]]
name = "pc"
strategy = "pc_darts"
training = {{ epochs = 2, batch = 8, seed = {one} }}
options = {{ alpha_warmup_epochs = 1, partial = 2 }}

[[phase]]
name = "retrain"
strategy = "train"
start = {{ architecture = "pc" }}
training = {{ epochs = 1, batch = 8, seed = {two}, ema = 0.9 }}
"""
TRIED = """
[[phase]]
name = "start"
strategy = "train"
start = {{ architecture = "first" }}
training = {{ epochs = 1, batch = 8, seed = {one} }}

[[phase]]
name = "spos"
strategy = "spos"
start = {{ weights = "start" }}
training = {{ epochs = 2, batch = 8, seed = {two} }}
options = {{ recalibrate = 2 }}

[[phase]]
name = "sandwich"
strategy = "sandwich"
start = {{ weights = "spos" }}
training = {{ epochs = 1, batch = 8, seed = {one} }}

[[phase]]
name = "fair"
strategy = "fair"
start = {{ weights = "sandwich" }}
training = {{ epochs = 1, batch = 8 }}

[[phase]]
name = "evolution"
strategy = "evolution"
start = {{ weights = "fair" }}
training = {{ batch = 8, seed = {two} }}
options = {{ population = 2, trials = 3, scorer = {{ recalibrate = 2 }} }}

[[phase]]
name = "nsga2"
strategy = "nsga2"
start = {{ weights = "fair" }}
training = {{ batch = 8 }}
options = {{ objectives = ["loss:min", "macs:min"], population = 2, generations = 2, scorer = {{ images = 6 }} }}

[[phase]]
name = "exhaustive"
strategy = "exhaustive"
training = {{ epochs = 1, batch = 8, seed = {one} }}
options = {{ scorer = {{ kind = "training" }} }}

[[phase]]
name = "halving"
strategy = "successive_halving"
training = {{ epochs = 2, batch = 8 }}
options = {{ eta = 2, rungs = 2, population = 4, scorer = {{ kind = "training" }} }}

[[phase]]
name = "proxies"
strategy = "random"
training = {{ batch = 8, seed = {one} }}
options = {{ trials = 2, objectives = ["naswot:max"], scorer = {{ kind = "proxies" }} }}

[[phase]]
name = "finalists"
strategy = "finalists"
start = {{ trials = "evolution" }}
training = {{ epochs = 1, batch = 8, seed = {two} }}
options = {{ count = 2 }}

[[phase]]
name = "inherit"
strategy = "inherit"
start = {{ architecture = "finalists", weights = "fair" }}
training = {{ batch = 8, seed = {one} }}

[[phase]]
name = "finetune"
strategy = "train"
start = {{ architecture = "finalists", weights = "fair" }}
training = {{ epochs = 1, batch = 8, seed = {two} }}
"""
FIRST = """
[[phase]]
name = "first"
strategy = "random"
"""
TAUGHT = """
[[phase]]
name = "teacher"
strategy = "train"
space = "small.arch:taught"
training = {{ epochs = 1, batch = 8, seed = {one} }}

[[phase]]
name = "darts"
strategy = "darts"
also = [{{ kind = "attention_transfer", phase = "teacher", weight = 1.0, stages = ["stage1"] }}]
training = {{ epochs = 1, batch = 8, seed = {two} }}

[[phase]]
name = "retrain"
strategy = "train"
start = {{ architecture = "darts" }}
training = {{ epochs = 1, batch = 8 }}
"""
RECIPES = {"relaxed": RELAXED, "tried": FIRST + TRIED, "taught": TAUGHT}
WHOLE = {"retrain", "inherit", "finetune"}
"""Phases that are trained, or measure statistics, on everything that is not held out."""
SETTINGS = ["", "[data]\nlimit = 40", "seed = 3\n[data]\nweights = 0.25\nclasses = 2"]


@dataclass
class Touched:
    """By phase and purpose, the images that were touched."""

    known: dict[Image, tuple[str, int]]
    phase: str = ""
    rows: dict[str, dict[str, Rows]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def note(self, what: str, images: Tensor) -> None:
        """Images that something was done with; each must be one of the source as it is."""
        self.rows[self.phase][what] |= {self.known[bytes(image.detach().numpy())] for image in images}


def written(folder: Path, head: str, phases: str) -> Path:
    """A recipe, its space and its images."""
    rng = np.random.default_rng(0)
    labels = {"y_train": np.arange(64) % 3, "y_test": np.arange(20) % 3}
    images = {"x_train": rng.random((64, 1, 6, 6), np.float32), "x_test": rng.random((20, 1, 6, 6), np.float32)}
    np.savez(folder / "images.npz", **labels, **images)  # type: ignore[arg-type]
    (folder / "small.arch").write_text(SPACE)
    top, _, data = head.partition("[data]")
    path = folder / "recipe.toml"
    source = f'[data]\nsource = "{folder / "images.npz"}"\n'
    path.write_text(f'space = "small.arch:small"\nthreads = 1\nexport = false\n{top}\n{source}{data}\n{phases}')
    return path


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Touched:
    """Everything that takes images in, writing down which."""
    touched = Touched({})
    purpose: list[str] = []

    def during(what: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def called(*given: Any) -> Tensor:
            purpose.append(what)
            try:
                return function(*given)
            finally:
                purpose.pop()

        return called

    def loaded(*arguments: Any, **more: Any) -> Data:
        data = load(*arguments, **more)
        for part, split in (("train", data.train), ("test", data.held_out)):
            assert split.rows is not None
            for row, image in zip(split.rows.tolist(), split.images, strict=True):
                touched.known[bytes(image.numpy())] = (part, row)
        return data

    def begun(*arguments: Any) -> Any:
        touched.phase = arguments[1].name
        return phase(*arguments)

    def updated(self: Learner, loss: Any, step: int, batch: Any = None) -> Any:
        touched.note("alphas" if list(self.parameters) == ["logits"] else "weights", batch.images)
        return update(self, loss, step, batch)

    def lost(self: Task, call: Any, batch: Any, index: int) -> Tensor:
        if purpose:
            touched.note(purpose[-1], batch.images)
        return task_loss(self, call, batch, index)

    def unrolled(train: Any, validate: Any, *arguments: Any, **more: Any) -> Any:
        return second_order(during("weights", train), during("alphas", validate), *arguments, **more)

    def curved(loss: Any, *arguments: Any) -> float:
        return eigenvalue(during("stopping", loss), *arguments)

    def measured(self: Task, call: Any, split: Split) -> dict[str, float]:
        touched.note("measured", split.images)
        return measure(self, call, split)

    def recalibrated(network: nn.Module, batches: Iterable[tuple[Tensor, ...]]) -> None:
        images = [inputs[0] for inputs in batches]
        touched.note("norms", torch.cat(images))
        return calibrate(network, images)

    def taught(self: AttentionTransfer, outputs: Any, batch: Any) -> Tensor:
        touched.note("taught", batch.images)
        return apart(self, outputs, batch)

    def tried(graph: Any, images: Split, seed: int, criterion: Any = None) -> Any:
        touched.note("proxies", images.images)
        return untrained(graph, images, seed)

    phase, update, measure, task_loss = run._run_phase, Learner.update, Task.measure, Task.loss
    second_order, eigenvalue = relaxed.unrolled_gradient, relaxed.dominant_eigenvalue
    calibrate, apart, untrained = scoring.recalibrate, AttentionTransfer._distances, proxies.make_trial
    monkeypatch.setattr(preparation, "load", loaded)
    monkeypatch.setattr(run, "_run_phase", begun)
    monkeypatch.setattr(Learner, "update", updated)
    monkeypatch.setattr(Task, "measure", measured)
    monkeypatch.setattr(Task, "loss", lost)
    monkeypatch.setattr(relaxed, "unrolled_gradient", unrolled)
    monkeypatch.setattr(relaxed, "dominant_eigenvalue", curved)
    monkeypatch.setattr(AttentionTransfer, "_distances", taught)
    monkeypatch.setattr(proxies, "make_trial", tried)
    for module in (scoring, inherit, supernet):
        monkeypatch.setattr(module, "recalibrate", recalibrated)
    return touched


def searched(path: Path, folder: Path) -> None:
    execute(path, folder, resume=False, fall_back=False, overrides={}, device="cpu", callback=None)


TRAINS = ("weights", "norms", "proxies")
CHOOSES = ("alphas", "stopping")


@pytest.mark.parametrize("head", with_soak(SETTINGS, SETTINGS[2:]))
@pytest.mark.parametrize("name", RECIPES)
def test_training_validation_and_test_samples_stay_disjoint(
    name: str, head: str, watched: Touched, tmp_path: Path
) -> None:
    path = written(tmp_path, head, RECIPES[name].format(one=1, two=2))
    searched(path, tmp_path / "run")
    recipe = parse(path.read_text()).recipe
    data = load(
        recipe.data.source, (1, 6, 6), seed=recipe.seed, limit=recipe.data.limit, classes=recipe.data.classes,
        weights=recipe.data.weights,
    )  # fmt: skip
    weights, validation = (rows("train", half) for half in data.halves())
    whole, test = rows("train", data.train), rows("test", data.held_out)
    assert (weights | validation, weights & validation) == (whole, set())
    assert abs(len(weights) - recipe.data.weights * len(whole)) <= 1
    found = {phase: dict(purposes) for phase, purposes in watched.rows.items()}
    for phase in recipe.phase:
        touched = found.pop(phase.name, {})
        trained = set().union(*(touched.pop(what, set()) for what in TRAINS))
        measured = touched.pop("measured", set())
        if phase.name in WHOLE:
            assert trained <= whole
            assert len(trained) > len(weights) - 8
            assert trained & validation  # more than a search trains on
            assert measured == test
        elif phase.name in ("start", "teacher"):  # searches go on from these
            assert (trained, measured) == (weights, test)
        else:
            assert trained <= weights
            sizes = {"nsga2": [6], "proxies": [0], "first": [0]}.get(phase.name, [len(validation)])
            assert measured <= validation
            assert len(measured) in sizes
        for what in CHOOSES:
            assert touched.pop(what, set()) <= validation
        assert touched.pop("taught", set()) <= whole
        assert not touched
    assert not found


def rows(part: str, split: Split) -> Rows:
    assert split.rows is not None
    return {(part, row) for row in split.rows.tolist()}


def test_watcher_records_every_use_of_samples(watched: Touched, tmp_path: Path) -> None:
    """What the test above says of nothing would be true of anything."""
    seen: dict[str, set[str]] = {}
    for name, phases in RECIPES.items():
        (tmp_path / name).mkdir()
        searched(written(tmp_path / name, "", phases.format(one=0, two=0)), tmp_path / name / "run")
        seen[name] = {f"{phase} {what}" for phase, found in watched.rows.items() for what in found}
        watched.rows.clear()
    assert seen["relaxed"] == {
        "darts weights", "darts alphas", "darts stopping", "darts measured", "gdas weights", "gdas alphas",
        "gdas measured", "snas weights", "snas alphas", "snas measured", "pc weights", "pc alphas", "pc measured",
        "retrain weights", "retrain measured",
    }  # fmt: skip
    assert seen["tried"] == {
        *(f"{one} {what}" for one in ("spos", "sandwich", "fair") for what in ("weights", "norms", "measured")),
        *(f"{one} {what}" for one in ("evolution", "nsga2", "inherit") for what in ("norms", "measured")),
        *(f"{one} {what}" for one in ("exhaustive", "halving", "finalists") for what in ("weights", "measured")),
        "start weights", "start measured", "proxies proxies", "finetune weights", "finetune measured",
    }  # fmt: skip
    assert seen["taught"] == {
        "teacher weights", "teacher measured", "darts weights", "darts alphas", "darts taught", "darts measured",
        "retrain weights", "retrain measured",
    }  # fmt: skip


# what a phase may say

TWO = """
[[phase]]
name = "search"
strategy = "spos"
training = { epochs = 1, batch = 8 }

[[phase]]
name = "evolve"
strategy = "random"
start = { weights = "search" }
training = { batch = 8 }
options = { trials = 2 }
"""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "weights = 0.25",
            r"phase `evolve` splits `.*images.npz` differently from `search`: `weights = 0.25`, not 0.5",
        ),
        ("limit = 30", "`limit = 30`, not None"),
        ("classes = 2", "`classes = 2`, not None"),
        ('split = "classes"', "`split = classes`, not samples"),
        ('source = "npz:{folder}/images.npz"', "`source = npz:"),
    ],
)
def test_rejects_phase_with_different_data_split(settings: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, "", f"{TWO}\n[phase.data]\n{settings.format(folder=tmp_path)}\n")
    with pytest.raises(ArchError, match=f"A2214.*{said}"):
        searched(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_phase_data_inherits_unset_recipe_settings(watched: Touched, tmp_path: Path) -> None:
    path = written(tmp_path, "[data]\nlimit = 40", f"{TWO}\n[phase.data]\naugment = {{ flip = true }}\n")
    recipe = parse(path.read_text()).recipe
    own = recipe.data_of(recipe.phase[1])
    assert own == recipe.data.model_copy(update={"augment": own.augment})
    assert own.augment.flip
    searched(path, tmp_path / "run")
    assert len(watched.rows["evolve"]["measured"]) == 20


def test_phase_with_other_data_may_split_differently(tmp_path: Path) -> None:
    other = TWO.replace('start = { weights = "search" }', "")
    path = written(tmp_path, "", f'{other}\n[phase.data]\nsource = "digits"\nweights = 0.25\n')
    check_same_split(parse(path.read_text()), uses_all_samples)


def test_full_training_may_use_more_samples_than_search(tmp_path: Path) -> None:
    """A search on a part of the images, and a training on all of them: the part is in the training part as well."""
    last = '[[phase]]\nname = "last"\nstrategy = "train"\nstart = { architecture = "evolve" }\n'
    path = written(tmp_path, "[data]\nlimit = 30", f"{TWO}\n{last}[phase.data]\nlimit = 60\n")
    check_same_split(parse(path.read_text()), uses_all_samples)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("digits", "digits", True),
        ("npz:a.npz", "a.npz", True),
        ("a.npz", "./b/../a.npz", True),
        ("parquet:a#fine", "parquet:a#coarse", True),
        ("hf:cifar", "hf:cifar#fine", True),
        ("series:s.csv@24", "series:s.csv@12", True),
        ("series:s.csv#a@24", "series:s.csv#b", True),
        ("series:s.csv#a", "csv:s.csv#a", True),
        ("images:a", "images:b", False),
        ("hf:cifar", "cifar", False),
        ("hf:cifar@fine", "hf:cifar@coarse", False),
    ],
)
def test_data_sources_compare_by_origin(one: str, other: str, same: bool) -> None:
    assert (origin(one) == origin(other)) == same


@pytest.mark.parametrize("seed", [1, 2**40])
def test_held_out_samples_do_not_depend_on_seed(seed: int) -> None:
    one, other = (load("digits", (1, 8, 8), seed=each) for each in (0, seed))
    assert torch.equal(*(data.held_out.rows for data in (one, other)))  # type: ignore[arg-type]
    assert not torch.equal(*(data.halves()[1].rows for data in (one, other)))  # type: ignore[arg-type]
    small = load("digits", (1, 8, 8), seed=seed, limit=60, classes=4)
    assert set(listed(small.held_out)) <= set(listed(one.held_out))


def listed(split: Split) -> Sequence[int]:
    assert split.rows is not None
    found: list[int] = split.rows.tolist()
    return found


def test_data_halves_are_deterministic(tmp_path: Path) -> None:
    path = written(tmp_path, "", TWO)
    data = load(parse(path.read_text()).recipe.data.source, (1, 6, 6), seed=4)
    assert [listed(half) for half in data.halves()] == [listed(half) for half in data.halves()]
