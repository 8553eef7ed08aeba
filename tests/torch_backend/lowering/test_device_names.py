"""Names of devices, and whether there are such."""

from __future__ import annotations

import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.devices import resolve_device, torch_threads


def gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("name", "count", "found"),
    [(None, 0, "cpu"), (None, 1, "cuda"), ("cpu", 2, "cpu"), ("cuda", 1, "cuda"), ("cuda:1", 2, "cuda:1")],
)
def test_device_names_resolve(name: str | None, count: int, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(count, monkeypatch)
    assert resolve_device(name) == found


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("gpu", 1, "there is no device 'gpu'\n  hint: did you mean `cuda`. Devices are cpu"),
        ("cuda:01", 2, "there is no device 'cuda:01'"),
        ("cpu:0", 2, "there is no device"),
        ("cuda", 0, "torch finds no CUDA device here"),
        ("cuda:1", 1, "there is no cuda:1: torch finds 1 GPU$"),
        ("cuda:2", 2, "there is no cuda:2: torch finds 2 GPUs$"),
    ],
)
def test_rejects_unknown_or_missing_devices(
    name: str, count: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(count, monkeypatch)
    with pytest.raises(ArchError, match=f"(?m)A1505.*{message}"):
        resolve_device(name)


def test_measurement_rejects_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(1, monkeypatch)
    graph = archir.loads("net n() { input x: f32[2]\n output y = relu(x) }").graph
    with pytest.raises(ArchError, match=r"A1505.*there is no cuda:1"), TORCH.bench("cuda:1", 1):
        pass
    with pytest.raises(ArchError, match=r"A1505.*there is no cuda:1"):
        TORCH.runs(graph, device="cuda:1")


def test_torch_threads_restores_thread_count() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with torch_threads(None):
        assert torch.get_num_threads() == before
