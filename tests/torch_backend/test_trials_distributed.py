"""Two processes train a supernet; the first one tries candidates, and both go on with what it found."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.multiprocessing.spawn import spawn

from archir import backends
from archir.errors import Interrupted
from archir.runs import Run
from archir_torch.search import run as searching
from archir_torch.search.job import Outcome
from archir_torch.search.task import Task
from tests.torch_backend.tried import PHASES, RECIPE, recipe, trials_of

PROCESSES = 2
TEXT = RECIPE.replace("[data]", "export = false\n\n[data]", 1)


def worker(rank: int, folder: Path, port: int) -> None:
    """The whole search; what each phase came to, as this process has it. At first, a signal stops it."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(PROCESSES), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    whole, measured = searching._phase, Task.measured
    looks = 0

    def kept(found: searching.Search, phase: Any, *arguments: Any) -> Outcome:
        _set_pg_timeout(timedelta(seconds=4 if phase.name == "evolve" else 600))
        outcome = whole(found, phase, *arguments)
        save_file(dict(outcome.weights), folder / f"{phase.name}-{rank}.safetensors")
        labels = dict(outcome.architecture) if outcome.architecture is not None else None
        (folder / f"{phase.name}-{rank}.json").write_text(json.dumps(labels))
        return outcome

    def stopping(task: Task, *arguments: Any) -> dict[str, float]:
        nonlocal looks
        looks += task.job.phase.name == "evolve"
        if looks == 11:
            os.kill(os.getpid(), signal.SIGTERM)
        return measured(task, *arguments)

    def slow(task: Task, *arguments: Any) -> dict[str, float]:
        """One candidate takes longer than a step of training may."""
        nonlocal looks
        looks += task.job.phase.name == "evolve"
        time.sleep(6 if looks == 15 else 0)
        return measured(task, *arguments)

    def search(**options: Any) -> Mapping[str, Any]:
        return backends.get("torch").search(folder / "recipe.toml", folder / "run", device="cpu", **options)

    Task.measured = stopping  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="evolve was stopped"):
        search()
    Task.measured = slow  # type: ignore[method-assign]
    searching._phase = kept
    search(resume=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left."""
    path = recipe(tmp_path_factory.mktemp("two"), TEXT).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spawn(worker, (path, port), nprocs=PROCESSES)
    return path


def test_both_processes_have_the_same(folder: Path) -> None:
    for phase in PHASES:
        weights = [load_file(folder / f"{phase}-{rank}.safetensors") for rank in range(PROCESSES)]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items()), phase
        labels = [json.loads((folder / f"{phase}-{rank}.json").read_text()) for rank in range(PROCESSES)]
        assert labels[0] == labels[1]
        assert (labels[0] is None) == (phase == "supernet")


def test_they_come_to_what_one_with_the_doubled_batch_does(folder: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, TEXT)
    overrides = {f"{phase}.training.batch": "64" for phase in ("supernet", "retrain")}
    backends.get("torch").search(path, tmp_path / "one", overrides=overrides, device="cpu")
    one, two = Run.open(tmp_path / "one"), Run.open(folder / "run")
    assert two.finished
    wanted, found = (load_file(run.folder / "phases/supernet/weights.safetensors") for run in (one, two))
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")
    for phase, count in (("evolve", 26), ("plane", 18), ("halve", 6), ("finals", 3)):
        alone, together = trials_of(one, phase), trials_of(two, phase)
        assert [trial.id for trial in together] == list(range(count))
        if phase == "halve":  # which takes nothing over
            assert together == alone
