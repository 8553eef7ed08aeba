"""Training: it learns, repeats itself, goes on where it was stopped, and notices damage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError
from archir.utils.files import sha256, write_atomic
from archir_torch.data import Data, Split, load
from archir_torch.search.single import Epoch, NullProgress, Settings, fit


def small(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Dropout(0.1), nn.Linear(512, 10),
        )  # fmt: skip


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("digits", (1, 8, 8))


@pytest.fixture(scope="module")
def few(digits: Data) -> Data:
    part = Split.labelled(digits.train.images[:200], digits.train.labels[:200])
    return Data(part, part, digits.classes, digits.mean, digits.std)


def test_training_learns_digits(digits: Data) -> None:
    result = fit(small(), digits, Settings(epochs=6, augment=False))
    assert result.accuracy > 0.95
    assert [epoch.epoch for epoch in result.history] == list(range(6))
    assert result.history[-1].loss < result.history[0].loss


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_resumed_training_equals_uninterrupted_one(optimizer: str, few: Data, tmp_path: Path) -> None:
    settings = Settings.model_validate({"epochs": 4, "optimizer": optimizer, "lr": 1e-2, "flip": True, "seed": 3})
    whole = small()
    wanted = fit(whole, few, settings)

    class StoppedError(Exception):
        pass

    class Stop(NullProgress):
        def epoch(self, done: Epoch) -> None:
            if done.epoch == 1:
                raise StoppedError

    parted = small()
    with pytest.raises(StoppedError):
        fit(parted, few, settings, folder=tmp_path, progress=Stop())
    again = small(seed=9)
    result = fit(again, few, settings, folder=tmp_path, resume=True)
    assert [epoch.loss for epoch in result.history] == [epoch.loss for epoch in wanted.history]
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_resume_rejects_damage_and_changed_settings(few: Data, tmp_path: Path) -> None:
    fit(small(), few, Settings(epochs=1), folder=tmp_path)
    with pytest.raises(ArchError, match=r"A1106.*other settings: `epochs` was 1, and is 2; `lr` was"):
        fit(small(), few, Settings(epochs=2, lr=1e-4), folder=tmp_path, resume=True)
    path = next(tmp_path.glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchError, match=r"A1105.*its SHA-256 differs"):
        fit(small(), few, Settings(epochs=1), folder=tmp_path, resume=True)
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(ArchError, match="A1105"):
        fit(small(), few, Settings(epochs=1), folder=tmp_path, resume=True)


def test_checkpoints_are_no_pickles(few: Data, tmp_path: Path) -> None:
    fit(small(), few, Settings(epochs=1), folder=tmp_path)
    record = json.loads((tmp_path / "checkpoint.json").read_text())
    assert record["sha256"] == sha256(tmp_path / record["tensors"])
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_diverging_loss_stops_training(few: Data, tmp_path: Path) -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(float("nan")))

        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :10] * self.weight

    with pytest.raises(ArchError, match=r"A1107.*the loss became nan in epoch 1, step 1"):
        fit(Broken(), few, Settings(epochs=1), folder=tmp_path)


def test_global_random_state_is_left_alone(few: Data) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    fit(small(), few, Settings(epochs=1))
    assert torch.equal(before, torch.random.get_rng_state())


def test_accuracy_uses_logits_of_several_outputs(few: Data) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = small()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.inner(x), "features": x}

    module = Two()
    found = fit(module, few, Settings(epochs=1)).accuracy
    with torch.no_grad():
        right = module.eval()(few.held_out.images)["logits"].argmax(1) == few.held_out.labels
    assert found == float(right.double().mean())


def test_training_works_in_bf16(few: Data) -> None:
    assert fit(small(), few, Settings(epochs=1, precision="bf16")).history[0].loss < 3


def test_failed_atomic_write_keeps_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fails(*_: object) -> None:
        raise OSError("no space left")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fails)
            with pytest.raises(ArchError, match=r"A0809.*no space left"):
                write_atomic(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
