"""Settings are checked; learning rates follow closed forms and torch's schedulers."""

from __future__ import annotations

from math import cos, pi
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR

from archir.diagnostics.errors import ArchError
from archir.recipes.augmentation import Augment
from archir.recipes.training import Optimizer, Training
from archir.utils.seeds import derive_seed
from archir.utils.settings import parse_settings
from archir_torch.training.optimizer import build_optimizer, lr_factor


def test_toml_values_are_converted_to_settings() -> None:
    found = parse_settings(Optimizer, {"kind": "adam", "lr": 1, "betas": [0.5, 0.999], "milestones": [150, 225.5]})
    assert (found.kind, found.lr, found.betas, found.milestones) == ("adam", 1.0, (0.5, 0.999), (150, 225.5))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Optimizer, {"lr": "0.1"}, "`lr` is '0.1': it should be a valid number"),
        (Training, {"compile": "yes"}, "`compile` is 'yes': it should be true or false or 'auto'"),
        (Training, {"sync_norms": "True"}, "`sync_norms` is 'True': it should be true or false"),
        (Optimizer, {"betas": 0.5}, "`betas` is 0.5: it should be a list `\\[ ... ]`"),
        (Optimizer, {"betas": [0.5, "x"]}, "`betas.1` is 'x': it should be a valid number"),
        (Optimizer, {"momentm": 0.9}, "there is no `momentm`\n  hint: did you mean `momentum`"),
        (Optimizer, {"kind": "rmsprop"}, "`kind` is 'rmsprop': it should be 'sgd', 'adam' or 'adamw'"),
        (
            Training,
            {"epochs": 0, "batch": 1.5},
            r"`epochs` is 0: .*or equal to 1\n.*`batch` is 1.5: .*valid integer",
        ),
        (Training, {"ema": 1.0}, "`ema` is 1.0: it should be less than 1"),
        (Optimizer, {"milestones": [150, 80]}, "`milestones`: it should be in ascending order"),
        (Optimizer, {"nesterov": True, "momentum": 0}, "`nesterov` needs `momentum`: set it above 0"),
        (Optimizer, {"lr_min": 0.1}, "`lr_min` is 0.1: it should be at most `lr`, which is 0.025"),
        (Augment, {"cutout": -1}, "`cutout` is -1: it should be greater than or equal to 0"),
    ],
)
def test_invalid_settings_are_explained(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchError, match=f"A1109.*{message}"):
        parse_settings(kind, given)


def rates(made: type[LRScheduler], epochs: int, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule: Any = made(optimizer, **options)  # type: ignore[call-arg]
    found = []
    for _ in range(epochs):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({"schedule": "cosine", "lr_min": 0.001}, (CosineAnnealingLR, {"T_max": 12, "eta_min": 0.001})),
        ({"schedule": "linear"}, (LinearLR, {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 12})),
        ({"schedule": "step", "milestones": (3, 9), "gamma": 0.2}, (MultiStepLR, {"milestones": [3, 9], "gamma": 0.2})),
        ({"schedule": "constant"}, (LinearLR, {"start_factor": 1.0, "end_factor": 1.0})),
    ],
)
def test_schedules_equal_torch_schedulers(settings: dict[str, Any], theirs: tuple[type[LRScheduler], Any]) -> None:
    chosen = Optimizer(lr=0.1, **settings)
    ours = [0.1 * lr_factor(chosen, epoch, 12) for epoch in range(12)]
    assert ours == pytest.approx(rates(theirs[0], 12, **theirs[1]), abs=1e-9)


def test_warm_up_is_linear_and_the_cosine_begins_after_it() -> None:
    settings = Optimizer(schedule="cosine", warmup_epochs=2)
    steps = 10
    found = [lr_factor(settings, i / steps, 5, 1 / steps) for i in range(50)]
    assert found[:20] == pytest.approx([(i + 1) / 21 for i in range(20)])
    assert found[20:] == pytest.approx([(1 + cos(pi * i / 30)) / 2 for i in range(30)])
    by_epoch = Optimizer(schedule="cosine", warmup_epochs=2, schedule_by="epoch")
    found = [lr_factor(by_epoch, i / steps, 5, 1 / steps) for i in range(50)]
    assert found[::10] == found[9::10] == pytest.approx([1 / 3, 2 / 3, 1.0, 0.75, 0.25])


def test_rates_never_leave_their_bounds() -> None:
    for schedule in ("cosine", "linear", "step", "constant"):
        settings = Optimizer(lr=0.1, lr_min=0.01, schedule=schedule, warmup_epochs=3, milestones=(3, 4), gamma=1e-3)
        found = [lr_factor(settings, i / 7, 5, 1 / 7) for i in range(60)]
        assert all(0 < value <= 1 for value in found)
        assert min(found[3 * 7 :]) >= 0.1 - 1e-12
        assert lr_factor(settings, 1, 2, 1 / 7) <= 1  # a warm-up longer than the training


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("decay_norms", [False, True])
def test_vectors_decay_only_if_asked(kind: Any, decay_norms: bool) -> None:
    matrix, vector = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    optimizer = build_optimizer(
        [matrix, vector], Optimizer(kind=kind, lr=0.1, weight_decay=0.5, decay_norms=decay_norms)
    )
    matrix.grad, vector.grad = torch.zeros(2, 2), torch.zeros(2)
    optimizer.step()
    assert float(matrix.detach()[0, 0]) < 1
    assert (float(vector.detach()[0]) < 1) == decay_norms


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_tensors_may_get_gradients_later_than_others(kind: Any) -> None:
    early, late = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimizer = build_optimizer([early, late], Optimizer(kind=kind, lr=0.1))
    early.grad = torch.ones(2, 2)
    optimizer.step()
    assert torch.equal(late, torch.ones(2, 2))
    late.grad = torch.ones(2, 2)
    optimizer.step()
    assert float(late.detach().max()) < 1


def test_derived_seeds_are_distinct_and_stable() -> None:
    assert derive_seed(0, "order", 3) == 8244215730568551301  # on every machine
    parts = [(seed, what, index) for seed in range(20) for what in ("order", "augment") for index in range(50)]
    assert len({derive_seed(*one) for one in parts}) == len(parts)
    assert derive_seed(1, 23) != derive_seed(12, 3)
