"""States kept in a run: the same tensors come back, of all types and forms."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from archir.diagnostics.errors import ArchError
from archir.runs import Run
from archir_torch.training import checkpoint_folder
from archir_torch.training.checkpoint_phase import PhaseCheckpointer
from archir_torch.training.checkpoint_state import State


def tensors() -> dict[str, torch.Tensor]:
    weight = torch.arange(12.0).reshape(3, 4).requires_grad_()
    return {
        "weight": weight,
        "the same": weight,
        "a view": weight[1:],
        "turned": weight.T,
        "half": torch.tensor([1.5, float("nan"), float("-inf")], dtype=torch.bfloat16),
        "steps": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 3),
        "nothing more": torch.zeros(0),
        "größe/0.weight": torch.ones(1, dtype=torch.float64),
    }


def test_saved_states_are_restored_exactly(tmp_path: Path) -> None:
    wanted, facts = tensors(), {"step": 3, "best": float("inf"), "rows": [{"loss": 0.1}]}
    with Run.create(tmp_path, "digits", {}, {}) as run:
        keeper = PhaseCheckpointer(run.phase("search"))
        assert keeper.last() is None
        keeper.save(State({}, {"step": 0}))
        keeper.save(State(wanted, facts))
        keeper.record({"epoch": 0, "loss": 0.1})
    keeper = PhaseCheckpointer(Run.open(tmp_path).phase("search"))
    found = keeper.last()
    assert found is not None
    assert found.facts == facts
    assert found.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found.tensors[name].dtype == tensor.dtype
        torch.testing.assert_close(found.tensors[name], tensor.detach(), rtol=0, atol=0, equal_nan=True)
    assert keeper.phase.rows() == [{"epoch": 0, "loss": 0.1}]


def test_states_in_a_folder_are_restored_exactly(tmp_path: Path) -> None:
    wanted = tensors()
    checkpoint_folder.write(tmp_path, 0, wanted, {"step": 3})
    found = checkpoint_folder.read(tmp_path)
    assert found is not None
    assert found[1]["step"] == 3
    assert found[0].keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[0][name], tensor.detach(), rtol=0, atol=0, equal_nan=True)


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        PhaseCheckpointer(run.phase("search")).save(State(tensors(), {}))
        path = tmp_path / "phases" / "search" / "checkpoint-1.safetensors"
        data = bytearray(path.read_bytes())
        data[-2] ^= 1
        path.write_bytes(data)
        with pytest.raises(ArchError, match=r"A1803.*its SHA-256 differs"):
            PhaseCheckpointer(run.phase("search")).last()


def test_rejects_checkpoint_that_is_not_safetensors(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        run.phase("search").save({}, {"safetensors": b"hello"})
        with pytest.raises(ArchError, match=r"A0905.*checkpoint 1 of phase `search`"):
            PhaseCheckpointer(run.phase("search")).last()
