"""Data of any inputs and targets: named, matched to a net, divided, batched, trained on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import archir
from archir.data.inputs import inputs_of
from archir.diagnostics.errors import ArchError
from archir_torch.data import load
from archir_torch.training.feed import Feed

TWO = archir.loads("""
net two {
    input table: f32[4]
    input image: f32[6, 8, 8]
    x = image |> conv(4, kernel=3) |> relu |> global_avg_pool
    output y = concat([x, table]) |> linear(2)
}
""").graph
TABLE = archir.loads("net table { \n input x: f32[4] \n output y = x |> linear(8) |> relu |> linear(1) \n }").graph
RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (60, 4)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) + 1).astype(np.float32)


def test_inputs_are_matched_by_name_and_normalized(tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (30, 8, 8, 6), np.uint8)
    np.savez(tmp_path / "a.npz", x_image=images, x_table=X[:30], y_depth=Y[:30], y_width=X[:30, :2])
    data = load(tmp_path / "a.npz", inputs_of(TWO))
    assert list(data.train.inputs) == ["table", "image"]
    assert list(data.train.targets) == ["depth", "width"]
    assert (len(data.train), len(data.held_out), data.classes) == (24, 6, ())
    table, image = (one[torch.arange(24)] for one in data.train.inputs.values())
    assert image.shape == (24, 6, 8, 8)
    torch.testing.assert_close(image.mean((0, 2, 3)), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(table.std(0), torch.ones(4), atol=1e-4, rtol=0)
    rows = data.train.rows
    assert rows is not None
    torch.testing.assert_close(data.train.targets["depth"], torch.from_numpy(Y[:30])[rows])
    batch = Feed(data.train, 7, seed=1).batch(1)
    assert [tuple(one.shape) for one in batch.inputs.values()] == [(7, 4), (7, 6, 8, 8)]
    assert batch.targets["width"].shape == (7, 2)
    assert [len(part.targets["depth"]) for part in batch.parts(2)] == [4, 3]


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return 60

    def __getitem__(self, row: int) -> tuple[torch.Tensor, float]:
        return torch.from_numpy(X)[row], float(Y[row])


def forms() -> Iterator[Any]:
    tensors = torch.from_numpy(X), torch.from_numpy(Y)
    yield from (tensors, (X, Y), {"x": X, "y": Y}, Pairs(), TensorDataset(*tensors))
    yield DataLoader(TensorDataset(*tensors), batch_size=7, shuffle=True)
    yield list(zip(X, Y, strict=True))
    yield zip(X, Y, strict=True)


@pytest.mark.parametrize("number", range(8))
def test_python_data_forms_load_equally(number: int) -> None:
    wanted, found = load((X, Y), inputs_of(TABLE)), load(list(forms())[number], inputs_of(TABLE))
    for part in ("train", "held_out"):
        one, other = getattr(wanted, part), getattr(found, part)
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels.float())


def test_regression_on_torch_dataset_trains_and_resumes(tmp_path: Path) -> None:
    settings = {"epochs": 12, "batch": 8, "lr": 0.05, "objective": {"kind": "regression", "loss": "huber"}}
    module, result = archir.train(TABLE, data=Pairs(), settings=settings)
    assert result.measures["r2"] > 0.9
    assert (result.criterion, set(result.measures)) == ("mse", {"mse", "rmse", "mae", "r2", "held_out_loss"})

    class Stop:
        def start(self, epochs: int, steps: int) -> None: ...
        def step(self, loss: float) -> None: ...
        def epoch(self, done: Any) -> None:
            if done.epoch == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archir.train(TABLE, data=Pairs(), settings=settings, folder=tmp_path, progress=Stop())
    again, _ = archir.train(TABLE, data=Pairs(), settings=settings, folder=tmp_path, resume=True)
    pairs = zip(module.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_memory_mapped_arrays_equal_loaded_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, array in {"x_train": X[:40], "y_train": Y[:40], "x_test": X[40:], "y_test": Y[40:]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    kept = load(str(tmp_path), inputs_of(TABLE))
    monkeypatch.setattr("archir_torch.data.pixels.MAX_STORED_BYTES", 0)
    mapped = load(f"npy:{tmp_path}", inputs_of(TABLE))
    assert torch.equal(kept.train.images, mapped.train.images)
    assert (len(kept.train), len(mapped.held_out)) == (40, 20)


def test_data_function_is_called_only_when_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_of_fields.py").write_text(
        "import numpy as np\n\ndef data():\n    return np.ones((9, 4)), np.arange(9.0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ArchError, match=r"A1115.*a module that was not imported"):
        load("mine_of_fields:data", inputs_of(TABLE))
    _, result = archir.train(
        TABLE, data="mine_of_fields:data", settings={"epochs": 1, "objective": {"kind": "regression"}}
    )
    assert result.measures["mse"] > 0
    assert len(load("mine_of_fields:data", inputs_of(TABLE)).train) == 7
    with pytest.raises(ArchError, match=r"A1115.*`mine_of_fields:nothing` raised AttributeError"):
        load("mine_of_fields:nothing", inputs_of(TABLE))
