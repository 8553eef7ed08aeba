"""Two processes train a supernet, share the candidates, and both go on with what they found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.distributed_c10d import _set_pg_timeout

from archir import backends
from archir.diagnostics.errors import Interrupted
from archir.runs import Run
from archir_torch.search import run as searching
from archir_torch.search.job import Outcome
from archir_torch.search.preparation import PreparedSearch
from archir_torch.search.task import Task
from tests.torch_backend.forked import run_processes
from tests.torch_backend.tried import PHASES, RECIPE, recipe, trials_of

pytestmark = pytest.mark.soak

PROCESSES = 2
TEXT = RECIPE.replace("[data]", "export = false\n\n[data]", 1)
SUPERNET = TEXT[: TEXT.index('[[phase]]\nname = "evolve"')]
TRIED = (("evolve", 26), ("plane", 18), ("halve", 6), ("finals", 3))


def worker(rank: int, folder: Path) -> None:
    """The whole search; what each phase came to, as this process has it. At first, a signal stops it: then there is a
    copy of the run."""
    whole, measured = searching._run_phase, Task.measure
    looks = 0

    def kept(found: PreparedSearch, phase: Any, *arguments: Any) -> Outcome:
        _set_pg_timeout(timedelta(seconds=4 if phase.name == "evolve" else 600))
        outcome = whole(found, phase, *arguments)
        save_file(dict(outcome.weights), folder / f"{phase.name}-{rank}.safetensors")
        labels = dict(outcome.architecture) if outcome.architecture is not None else None
        (folder / f"{phase.name}-{rank}.json").write_text(json.dumps(labels))
        return outcome

    def stopping(task: Task, *arguments: Any) -> dict[str, float]:
        nonlocal looks
        looks += task.job.phase.name == "evolve"
        if rank == 1 and looks == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return measured(task, *arguments)

    def slow(task: Task, *arguments: Any) -> dict[str, float]:
        """One candidate takes longer than a step of training may."""
        nonlocal looks
        looks += task.job.phase.name == "evolve"
        time.sleep(6 if rank == 0 and looks == 8 else 0)
        return measured(task, *arguments)

    def search(**options: Any) -> Mapping[str, Any]:
        return backends.get("torch").search(folder / "recipe.toml", folder / "run", device="cpu", **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "measure", stopping)
        with pytest.raises(Interrupted, match="evolve was stopped"):
            search()
        if rank == 0:
            shutil.copytree(folder / "run", folder / "stopped")
        patch.setattr(Task, "measure", slow)
        patch.setattr(searching, "_run_phase", kept)
        search(resume=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left."""
    path = recipe(tmp_path_factory.mktemp("two"), TEXT).parent
    run_processes(PROCESSES, worker, path)
    return path


def test_both_processes_have_equal_weights_and_architectures(folder: Path) -> None:
    for phase in PHASES:
        weights = [load_file(folder / f"{phase}-{rank}.safetensors") for rank in range(PROCESSES)]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items()), phase
        labels = [json.loads((folder / f"{phase}-{rank}.json").read_text()) for rank in range(PROCESSES)]
        assert labels[0] == labels[1]
        assert (labels[0] is None) == (phase == "supernet")


def test_supernet_of_two_processes_equals_one_with_doubled_batch(folder: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, SUPERNET)
    backends.get("torch").search(path, tmp_path / "one", overrides={"supernet.training.batch": "64"}, device="cpu")
    one, two = (run / "phases/supernet/weights.safetensors" for run in (tmp_path / "one", folder / "run"))
    wanted, found = load_file(one), load_file(two)
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")


def test_trials_of_two_processes_equal_single_process_trials(folder: Path) -> None:
    """What two processes began, one ends: from the same supernet it comes to the same trials, with the same scores."""
    half = len(trials_of(Run.open(folder / "stopped"), "evolve"))
    assert 8 <= half < 26
    backends.get("torch").search(None, folder / "stopped", resume=True, device="cpu")
    one, two = Run.open(folder / "stopped"), Run.open(folder / "run")
    for phase, count in TRIED:
        alone, together = trials_of(one, phase), trials_of(two, phase)
        assert [trial.id for trial in together] == list(range(count))
        assert together == alone


def test_both_processes_score_candidates(folder: Path) -> None:
    """Candidates go round, from one process to the next."""
    for phase, count in TRIED:
        workers = [trial.worker for trial in Run.open(folder / "run").phase(phase).trials()]
        assert len(set(workers[-2:])) == PROCESSES
        assert all(workers.count(worker) >= count // 4 for worker in set(workers[count // 2 :]))
