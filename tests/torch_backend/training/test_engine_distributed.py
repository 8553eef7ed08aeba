"""Two processes do what one with the doubled batch does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Interrupted, fail
from archir.language.elaboration.elaborate import elaborate
from archir.recipes.augmentation import Augment
from archir.recipes.training import Optimizer
from archir_torch.data import Split
from archir_torch.lowering.module import lower
from archir_torch.training import checkpoint_folder, distributed, norms, shards
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.learner import Learner
from archir_torch.training.loop import Figures, NullCheckpointer, Row, run
from archir_torch.training.tensors import full_tensor, is_sharded
from tests.torch_backend.forked import together

NET = """
net both() {
    input x: f32[3, 6, 6]
    y = x |> conv(8, kernel=3, bias=false) |> batch_norm |> relu
    z = y |> conv(8, kernel=3, stride=2) |> batch_norm(affine=false)
    t = z |> to_tokens |> linear(12) |> batch_norm |> relu
    output logits = t |> global_avg_pool |> linear(16) |> batch_norm |> relu |> linear(4)
}
"""
DROPS = """
net drops() {
    input x: f32[2]
    output paths = x |> drop_path(0.5)
    output numbers = x |> dropout(0.5)
}
"""
EPOCHS = 2
PROCESSES = 2


class Both:
    """Weights and architecture parameters, trained alternately; `batch` images a process."""

    def __init__(self, batch: int, seed: int, sharded: bool = False) -> None:
        generator = torch.Generator().manual_seed(1)
        labels = torch.randint(0, 4, (45,), generator=generator)
        images = torch.randn(45, 3, 6, 6, generator=generator) + labels[:, None, None, None]
        rank, world = distributed.world()
        self.feed = Feed(
            Split.labelled(images, labels), batch, seed=0, augment=Augment(shift=1, mixup=0.3), rank=rank, world=world
        )
        self.module = lower(elaborate(NET, "both.arch"), generator=torch.Generator().manual_seed(seed)).train()
        self.images, self.labels = images, labels
        norms.synchronise(self.module)
        if sharded:
            shards.shard(self.module)
        self.alpha = nn.Parameter(torch.randn(3, generator=torch.Generator().manual_seed(seed)))
        steps = self.feed.steps
        self.weights = Learner(
            self.module, Optimizer(lr=0.05, clip=1.0, weight_decay=1e-3), epochs=EPOCHS, steps=steps, ema=0.9
        )
        self.architecture = Learner(
            {"alpha": self.alpha}, Optimizer(kind="adam", lr=0.01, weight_decay=1e-3), epochs=EPOCHS, steps=steps
        )

    def loss(self, batch: Batch) -> Tensor:
        found = self.module(batch.images) * self.alpha.softmax(0).square().sum()
        return F.cross_entropy(found, batch.mixed)

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        batch = self.feed.batch(index)
        self.architecture.update(self.loss, index, batch)
        found = self.weights.update(self.loss, index, batch)
        return {"loss": found.loss, "norm": found.norm}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        with self.weights.evaluating():
            return {"held_out": float(F.cross_entropy(self.module(self.images), self.labels))}

    def state(self) -> State:
        return State.merge(weights=self.weights.state(), architecture=self.architecture.state())

    def restore(self, state: State) -> None:
        self.weights.restore(state.part("weights"))
        self.architecture.restore(state.part("architecture"))

    def finished(self) -> str | None:
        return None


class Stopped(Both):
    """The second process is told to stop."""

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        if index == 1 and distributed.world().rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(index)


class Dropping(Both):
    """Drops paths and numbers of ones."""

    def __init__(self, batch: int, seed: int) -> None:
        super().__init__(batch, seed)
        self.drop = lower(elaborate(DROPS, "drops.arch")).train()
        self.seen: list[list[float]] = []

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        self.seen += [found.flatten().tolist() for found in self.drop(torch.ones(16, 2)).values()]
        return super().step(index)


class Keeper:
    """Keeps the last state in a folder that all processes read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def last(self) -> State | None:
        found = checkpoint_folder.read(self.folder)
        return None if found is None else State(found[0], found[1]["state"])

    def save(self, state: State) -> None:
        assert distributed.world().rank == 0
        assert not any(is_sharded(tensor) for tensor in state.tensors.values())
        self.folder.mkdir(exist_ok=True)
        checkpoint_folder.write(self.folder, state.facts["loop"]["index"], dict(state.tensors), {"state": state.facts})

    def record(self, row: Figures) -> None:
        assert distributed.world().rank == 0


def train(trainee: Both, keeper: Any = None, epochs: int = EPOCHS) -> list[Row]:
    return run(trainee, epochs=epochs, steps=trainee.feed.steps, checkpointer=keeper)


def left(folder: Path, name: str, state: State, rows: list[Row]) -> None:
    rank = distributed.world().rank
    tensors = {key: full_tensor(tensor).contiguous().clone() for key, tensor in state.tensors.items()}
    save_file(tensors, folder / f"{name}-{rank}.safetensors")
    (folder / f"{name}-{rank}.json").write_text(json.dumps(rows))


def worker(rank: int, folder: Path) -> None:
    assert distributed.start("cpu") == "cpu"
    assert distributed.world() == (rank, PROCESSES)

    trainee = Both(8, seed=rank)
    rows = train(trainee)
    left(folder, "averaged", trainee.state(), rows)

    with torch.no_grad():
        trainee.alpha += rank
    said = []
    try:
        distributed.check_same({"alpha": trainee.alpha, "other": torch.ones(3)})
    except ArchError as error:
        said.append(str(error))
    try:
        train(Stopped(8, seed=0))
    except Interrupted as stop:
        said.append(str(stop))
    assert distributed.broadcast_text(f"größe {rank}") == "größe 0"
    assert distributed.gather_texts("größe " * rank) == ["größe " * one for one in range(PROCESSES)]
    try:
        with distributed.barrier_with_error("the work") as leads:
            if not leads:
                raise fail("A1808", "the folder is not empty")
    except ArchError as error:
        said.append(str(error))
    (folder / f"said-{rank}.json").write_text(json.dumps(said))

    (folder / f"statistics-{rank}.json").write_text(json.dumps(statistics(rank)))

    dropping = Dropping(8, seed=0)
    train(dropping, epochs=1)
    (folder / f"dropped-{rank}.json").write_text(json.dumps(dropping.seen))

    shards.MIN_SHARDED_LAYER = 64
    sharded = Both(8, seed=rank, sharded=True)
    assert any(is_sharded(tensor) for tensor in sharded.state().tensors.values())
    assert bool(sharded.state().unsharded().tensors) == (rank == 0)
    keeper = Keeper(folder / "shards")
    train(sharded, keeper, epochs=1)
    again = Both(8, seed=5, sharded=True)
    rows = train(again, keeper)
    left(folder, "sharded", again.state(), rows)
    distributed.stop()


def statistics(rank: int) -> dict[str, list[float]]:
    """Return the running statistics with which a process evaluates, after steps on images of its own."""
    module = lower(elaborate(NET, "both.arch"), generator=torch.Generator().manual_seed(0)).train()
    learner = Learner(module, Optimizer(lr=0.05), epochs=1, steps=2, ema=0.5)
    images = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(rank))
    for index in range(2):
        learner.update(lambda: module(images).square().mean(), index)
    with learner.evaluating():
        return {name: buffer.flatten().tolist() for name, buffer in module.named_buffers()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left."""
    path = tmp_path_factory.mktemp("distributed")
    together(PROCESSES, worker, path)
    return path


@pytest.fixture(scope="module")
def alone() -> tuple[Both, list[Row]]:
    """One process with the doubled batch."""
    trainee = Both(16, seed=0)
    return trainee, train(trainee)


@pytest.mark.parametrize("way", ["averaged", "sharded"])
def test_training_by_two_processes_equals_one_with_doubled_batch(
    way: str, folder: Path, alone: tuple[Both, list[Row]]
) -> None:
    trainee, rows = alone
    first, second = (load_file(folder / f"{way}-{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    wanted = trainee.state().tensors
    assert first.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            first[name], tensor, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    for rank in range(2):
        found = json.loads((folder / f"{way}-{rank}.json").read_text())
        assert [row.keys() for row in found] == [row.keys() for row in rows]
        for one, other in zip(found, rows, strict=True):
            assert [one[k] for k in ("loss", "held_out")] == pytest.approx([other["loss"], other["held_out"]], abs=1e-5)


def test_unsynchronized_half_batch_gives_different_loss(alone: tuple[Both, list[Row]]) -> None:
    trainee = Both(8, seed=0)
    rows = train(trainee)
    assert abs(float(rows[0]["loss"]) - float(alone[1][0]["loss"])) > 1e-3


def test_processes_that_differ_are_noticed_and_stop_together(folder: Path) -> None:
    first, second = (json.loads((folder / f"said-{rank}.json").read_text()) for rank in range(2))
    assert first[:2] == second[:2]
    assert "A1703" in first[0]
    assert "1 of 2 tensors differ between processes: `alpha`" in first[0]
    assert first[1] == "training was stopped after epoch 1, step 3"
    assert "A1705" in first[2]
    assert "the work: another process failed" in first[2]
    assert "A1808" in second[2]


def test_averages_of_running_statistics_are_the_same_in_all_processes(folder: Path) -> None:
    first, second = (json.loads((folder / f"statistics-{rank}.json").read_text()) for rank in range(2))
    assert first
    assert first == second
    assert first != statistics(0)


def test_processes_draw_independent_dropout(folder: Path) -> None:
    first, second = (json.loads((folder / f"dropped-{rank}.json").read_text()) for rank in range(2))
    assert all(one != other for one, other in zip(first, second, strict=True))
    again = Dropping(8, seed=0)
    train(again, epochs=1)
    assert again.seen[: len(first)] == first  # the first process draws what a single one draws


def test_single_process_resumes_sharded_training(folder: Path, alone: tuple[Both, list[Row]]) -> None:
    state = Keeper(folder / "shards").last()
    assert state is not None
    assert [row["epoch"] for row in state.facts["loop"]["rows"]] == [0, 1]
    trainee = Both(16, seed=3)
    trainee.restore(State(state.tensors, state.facts["trainee"]))
    for name, tensor in alone[0].state().tensors.items():
        torch.testing.assert_close(trainee.state().tensors[name], tensor, rtol=0, atol=1e-5)


def test_buckets_are_filled_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sized:
        device, reads = "cpu", 0

        def __init__(self, dtype: str, size: int) -> None:
            self.dtype, self.size = dtype, size

        @property
        def nbytes(self) -> int:
            self.reads += 1
            return self.size

    monkeypatch.setattr(distributed, "MAX_BUCKET_BYTES", 100)
    tensors = [Sized("float", size) for size in (60, 40, 1, 200, 30, 70, 10)]
    tensors.insert(1, Sized("int", 90))
    buckets = distributed._buckets(tensors)  # type: ignore[arg-type]
    assert [[tensor.nbytes for tensor in bucket] for bucket in buckets] == [[60, 40], [1], [200], [30, 70], [90], [10]]
    assert {tensor.reads for tensor in tensors} == {2}  # the second time just now


def test_rejects_more_processes_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ArchError, match=r"A1702.*process 1 has no GPU: there are 1"):
        distributed.start("cuda")


def test_single_process_needs_no_group() -> None:
    assert distributed.start("cpu") == "cpu"
    assert distributed.world() == (0, 1)
    assert distributed.any_reduce(True, False) == (True, False)
    assert NullCheckpointer().last() is None
