"""The mean average precision, which is not a function of sums: exact over batches, and over processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from archir_torch.data import Split
from archir_torch.objectives import task
from archir_torch.objectives.measures import MEASURES
from archir_torch.objectives.multilabel import Multilabel
from archir_torch.objectives.objective import CombinedObjective
from archir_torch.objectives.task import Task
from archir_torch.training import distributed
from tests.torch_backend.forked import run_processes

NAME = "mean_average_precision"


def by_definition(logits: Tensor, true: Tensor) -> float:
    """Over thresholds, one after the other: the recall that is gained, times the precision."""
    found = []
    for scores, labels in zip(logits.T.tolist(), true.T.tolist(), strict=True):
        if not any(labels):
            continue
        total, recall = 0.0, 0.0
        for threshold in sorted({*scores}, reverse=True):
            said = [label for score, label in zip(scores, labels, strict=True) if score >= threshold]
            total += (sum(said) / sum(labels) - recall) * sum(said) / len(said)
            recall = sum(said) / sum(labels)
        found.append(total)
    return float(np.mean(found))


def drawn(seed: int, samples: int, labels: int = 5) -> tuple[Tensor, Tensor]:
    """Logits with ties, and labels of which the last is nowhere."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 12, (samples, labels), generator=rng) / 4
    true = (torch.rand(samples, labels, generator=rng) < 0.3).float()
    true[:, -1] = 0
    return logits, true


def measured(logits: Tensor, true: Tensor) -> dict[str, float]:
    objective = CombinedObjective(Multilabel(Multilabel.model(measures=(NAME,), criterion=NAME)))
    split = Split({"x": logits}, {"labels": true})
    return Task(objective, ["y"], seed=0, device="cpu").measure(lambda x: x, split)


@pytest.mark.parametrize(("seed", "samples"), [(0, 3), (1, 40), (2, 600)])
def test_average_precision_equals_definition(seed: int, samples: int) -> None:
    logits, true = drawn(seed, samples)
    found = measured(logits, true)
    assert found[NAME] == pytest.approx(by_definition(logits, true), abs=1e-12)
    assert next(iter(found)) == NAME


def test_average_precision_equals_scikit_learn() -> None:
    metrics: Any = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    logits, true = drawn(3, 500)
    wanted = metrics.average_precision_score(true[:, :-1].numpy(), logits[:, :-1].numpy(), average="macro")
    assert measured(logits, true)[NAME] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_simulated_processes_sum_to_single_process_result(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit: each puts its rows where they belong, and what is added to them is 0."""
    logits, true = drawn(4, 1000)
    wanted, sums = measured(logits, true), list[dict[str, Tensor]]()

    def parts() -> Iterator[dict[str, float]]:
        for rank in range(size):
            monkeypatch.setattr(task.distributed, "world", lambda rank=rank: (rank, size))
            yield measured(logits, true)

    monkeypatch.setattr(task.distributed, "add", lambda totals: sums.append(dict(totals)))
    alone = [one[NAME] for one in parts()]
    assert wanted[NAME] not in alone
    together = torch.stack([one[NAME] for one in sums]).sum(0)
    assert MEASURES[NAME].figure(together, len(logits)) == wanted[NAME]


def one_of_several(rank: int, folder: Path) -> None:
    """What one of several processes comes to, as a file."""
    distributed.start("cpu")
    found = measured(*drawn(4, 1001))
    (folder / str(rank)).write_text(repr(found[NAME]))
    distributed.stop()


@pytest.mark.soak
def test_two_real_processes_equal_single_process_result(tmp_path: Path) -> None:
    run_processes(2, one_of_several, tmp_path)
    wanted = repr(measured(*drawn(4, 1001))[NAME])
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == [wanted] * 2


def test_average_precision_without_positive_labels_is_nan() -> None:
    logits, true = drawn(5, 10)
    assert np.isnan(measured(logits, torch.zeros_like(true))[NAME])
