"""Every strategy, and whole searches, as on a GPU: the same figures as on the CPU, and no step waits for the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from archir.recipes.augmentation import Augment, ColorJitter, RandAugment, RandomErasing, ResizedCrop
from archir.recipes.recipe import DataSettings
from archir.recipes.training import Optimizer, Training
from archir.runs import Run
from archir.search import registry as asking
from archir_torch.lowering.replay import CALLS_BEFORE_RECORDING
from archir_torch.search.job import STRATEGIES, Job, Strategy, create_strategy
from archir_torch.search.run import execute
from tests.soak import with_soak
from tests.torch_backend.elsewhere.gpu import REAL, GpuEvents, gpu, here
from tests.torch_backend.search.test_rows import FIRST, RELAXED, TAUGHT, TRIED, written
from tests.torch_backend.searches import job, tiny

STEPPED: list[tuple[str, dict[str, Any]]] = [
    ("darts", {}),
    ("darts", {"order": 2}),
    ("gdas", {}),
    ("snas", {}),
    ("pc_darts", {"alpha_warmup_epochs": 0, "partial": 2}),
    ("spos", {}),
    ("fair", {}),
    ("sandwich", {"drawn": 1}),
    ("train", {}),
]
"""Those that train in steps of their own; what tries candidates trains each of them with `train`."""
SHORT = {"pc_darts", "snas", "fair", "train"}
"""Those that the suite steps in numbers of 16 bits, too: mixtures, draws, paths, a network."""
INHERENT = {"gdas": ["archir_torch.strategies.alphas"] * 2}
"""What has to be waited for: a draw of GDAS says which paths the host starts."""


CLOSE = 1e-2 if REAL[0] else 1e-3


def steps(one: Job, count: int = 3) -> tuple[Strategy, list[dict[str, float]]]:
    """Some steps of a phase, and what was measured in them."""
    trainee, rows = create_strategy(one), []
    for index in range(count):
        torch.manual_seed(index)
        rows.append(dict(trainee.step(index)))
    return trainee, rows  # type: ignore[return-value]


def job_of(name: str, options: Mapping[str, Any], **more: Any) -> Job:
    one = job(name, options, **more)
    return replace(one, architecture=dict(tiny().sample(0))) if name == "train" else one


def stepped(one: Job, count: int = 3) -> tuple[list[dict[str, float]], list[list[str]], GpuEvents]:
    """Figures of some steps on the GPU, what each step waited for, and all else that was seen."""
    with gpu() as seen:
        trainee, rows, waits = create_strategy(replace(one, device="cuda")), [], []
        for index in range(count):
            before = len(seen.waits)
            torch.manual_seed(index)
            rows.append(trainee.step(index))
            waits.append([line.split()[1].split(":")[0] for line in seen.waits[before:]])
        figures = [{name: float(value) for name, value in row.items()} for row in rows]
        figures.append(dict(trainee.evaluate(0)))
    return figures, waits, seen


def agree(one: Job) -> tuple[list[list[str]], GpuEvents]:
    trainee, rows = steps(one)
    figures, waits, seen = stepped(one)
    for ours, there in zip([*rows, trainee.evaluate(0)], figures, strict=True):
        assert there == pytest.approx({name: float(value) for name, value in ours.items()}, rel=CLOSE, abs=CLOSE)
    return waits, seen


@pytest.mark.parametrize(
    ("name", "options", "precision"),
    [
        pytest.param(name, options, precision, marks=[pytest.mark.soak] * (precision == "bf16" and name not in SHORT))
        for name, options in STEPPED
        for precision in ("float32", "bf16")
    ],
    ids=str,
)
def test_strategy_steps_on_gpu_equal_cpu_with_expected_waits(
    name: str, options: dict[str, Any], precision: str
) -> None:
    waits, seen = agree(job_of(name, options, precision=precision))
    assert waits == [INHERENT.get(name, [])] * 3
    assert seen.narrow == []
    assert seen.wide == []


@pytest.mark.parametrize(
    ("name", "options", "kinds", "precision"),
    [
        pytest.param(name, options, kinds, precision, marks=[pytest.mark.soak] * (name != few))
        for name, options, kinds in [
            ("darts", {}, 2),
            ("darts", {"order": 2}, 3),
            ("pc_darts", {"alpha_warmup_epochs": 0, "partial": 2}, 2),
            ("snas", {}, 2),
            ("train", {}, 1),
        ]
        for precision, few in (("float32", "snas"), ("bf16", "train"))
    ],
    ids=str,
)
def test_steps_replayed_by_cuda_graphs_equal_plain_steps(
    name: str, options: dict[str, Any], kinds: int, precision: str
) -> None:
    """Figures of many steps, most of them replayed, are those of steps that are not; weights and statistics, too."""
    one = replace(job_of(name, options, precision=precision, epochs=REPLAYED), device="cuda")
    plain = replace(one, phase=one.phase.model_copy(
        update={"training": one.phase.training.model_copy(update={"cuda_graphs": False})}
    ))  # fmt: skip
    with gpu() as seen:
        replayed, found = steps(one, REPLAYED)
        replays = seen.replays
        assert replays >= kinds * (REPLAYED // 2 - CALLS_BEFORE_RECORDING)  # the last batch of an epoch is smaller
        assert replayed.call.refused == ""
        told, wanted = steps(plain, REPLAYED)
        assert seen.replays == replays
        for ours, theirs in zip(found, wanted, strict=True):
            assert {k: float(v) for k, v in ours.items()} == pytest.approx(
                {k: float(v) for k, v in theirs.items()}, rel=1e-3, abs=1e-3
            )
        states = [dict(x.module.state_dict()) for x in (replayed, told)]
        for name in states[0]:
            torch.testing.assert_close(here(states[0][name]), here(states[1][name]), rtol=2e-2, atol=2e-2)


REPLAYED = 16


ENGINE: dict[str, dict[str, Any]] = {
    "parts, an average, clipping": {"training": Training(batch=8, accumulate=3, ema=0.9)},
    "mixed images": {"augment": Augment(shift=1, mixup=0.4, flip=True)},
    "squares of others": {"augment": Augment(cutmix=1.0)},
    "a square left out": {"augment": Augment(cutout=3)},
    "colours, crops, policies": {
        "augment": Augment(
            preset=None,
            crop=ResizedCrop(),
            jitter=ColorJitter(),
            auto_augment="cifar10",
            rand_augment=RandAugment(),
            erase=RandomErasing(),
            repeat=2,
        )
    },
    "adam": {"weights": Optimizer(kind="adam", lr=1e-3)},
    "adamw": {"weights": Optimizer(kind="adamw", lr=1e-3, weight_decay=0.01, warmup_epochs=1)},
    "16 bits with a scale": {"training": Training(batch=8, precision="fp16")},
    "norms as they are": {"training": Training(batch=8, norms="frozen")},
    "rates that grow, smooth labels": {"training": Training(batch=8, drop_path="linear", label_smoothing=0.1)},
    "kernels where they pay, norms apart": {"training": Training(batch=8, compile="auto", sync_norms=False)},
    "all others": {"weights": Optimizer(nesterov=True, decay_norms=True, schedule="step", milestones=(1,), gamma=0.5)},
}
ELSEWHERE = {
    "epochs", "seed", "checkpoint_minutes",  # nothing that a device is asked for
    "cuda_graphs",  # below, and in whole searches
    "sharding",  # several processes: test_engine_distributed.py, test_search_distributed.py
    "also",  # what somebody registered
    "betas", "lr_min", "schedule_by",  # numbers that go into the same operations
}  # fmt: skip
"""Settings of training that are not stepped with here, and why."""


def test_every_training_setting_is_covered() -> None:
    stepped: set[str] = set(ELSEWHERE)
    for setting in [*ENGINE.values(), {"weights": job().phase.weights}]:
        for one in setting.values():
            stepped |= one.model_fields_set
    settings = {name for kind in (Training, Augment, Optimizer) for name in kind.model_fields}
    assert settings - stepped == set()
    assert settings > ELSEWHERE


@pytest.mark.parametrize("setting", ENGINE)
def test_steps_with_training_settings_equal_cpu(setting: str) -> None:
    given = dict(ENGINE[setting])
    augment = given.pop("augment", None)
    one = job_of("train", {}, **given, data=DataSettings(augment=augment or Augment()))
    waits, seen = agree(one)
    torch_asks = ["archir_torch.training.learner"]  # whether a scaled step had infinities
    assert waits == [torch_asks if setting.startswith("16 bits") else []] * 3
    assert seen.narrow == []


OTHERS = """
[[phase]]
name = "start"
strategy = "spos"
training = {{ epochs = 1, batch = 8 }}

[[phase]]
name = "supernet"
strategy = "share"
start = {{ weights = "start" }}
training = {{ epochs = 1, batch = 8 }}

[[phase]]
name = "alternatives"
strategy = "replace_one"
start = {{ weights = "supernet" }}
training = {{ batch = 8 }}

[[phase]]
name = "best"
strategy = "exact"
start = {{ trials = "alternatives", weights = "supernet" }}
training = {{ batch = 8 }}
options = {{ best = 2 }}
"""
_ATTENTION = TAUGHT[TAUGHT.index("also = ") : TAUGHT.index("\n", TAUGHT.index("also = "))]
_TOLD = """also = [{{ kind = "distillation", phase = "teacher" }},
        {{ kind = "feature_transfer", phase = "teacher", stages = ["stage1"] }}]"""
RESTORED = """
[[phase]]
name = "restored"
strategy = "darts"
objective = {{ kind = "context_autoregression", output = "stage1" }}
training = {{ epochs = 1, batch = 8 }}
"""
SEARCHES = {
    "told": TAUGHT.replace(_ATTENTION, _TOLD), "restored": RESTORED,
    "relaxed": RELAXED, "tried": FIRST + TRIED, "taught": TAUGHT, "others": OTHERS,
}  # fmt: skip


def test_every_strategy_is_covered() -> None:
    """Those that only ask for candidates all go through one phase of this backend; a few of them stand for all."""
    everything = "".join(SEARCHES.values())
    seen = {name for name in STRATEGIES if f'strategy = "{name}"' in everything}
    assert seen >= set(STRATEGIES) - set(asking.STRATEGIES)
    assert len(seen & set(asking.STRATEGIES)) > 3
    assert set(INHERENT) < {name for name, _ in STEPPED} < set(STRATEGIES)


@pytest.mark.parametrize("name", with_soak(SEARCHES, ["told", "restored", "others"]))
def test_complete_searches_on_gpu_equal_cpu(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, "", SEARCHES[name].format(one=1, two=2))
    asked: dict[str, Any] = {"resume": False, "fall_back": False, "overrides": {}, "callback": None}
    execute(path, tmp_path / "cpu", device="cpu", **asked)
    with gpu() as seen:
        execute(path, tmp_path / "gpu", device="cuda", **asked)
    assert seen.narrow == []
    for phase in Run.open(tmp_path / "cpu").phases():
        other = Run.open(tmp_path / "gpu").phase(phase.name)
        for ours, there in zip(phase.rows(), other.rows(), strict=True):
            assert numbers(there) == pytest.approx(numbers(ours), rel=CLOSE, abs=CLOSE)
        for one, two in zip(phase.trials(), other.trials(), strict=True):
            assert two.architecture == one.architecture
            assert numbers(two.scores) == pytest.approx(numbers(one.scores), rel=CLOSE, abs=CLOSE)


def numbers(row: Mapping[str, Any] | None) -> dict[str, float]:
    """What was measured, but for the time it took; shares of right answers jump, where a GPU adds up otherwise."""
    left_out = {"seconds"} | ({name for name in row or {} if "accuracy" in name} if REAL[0] else set())
    return {name: one for name, one in (row or {}).items() if name not in left_out and isinstance(one, int | float)}
