"""Whether what is trained runs with kernels: as asked for, or where it pays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from archir import backends
from archir.diagnostics.errors import ArchError, Interrupted, fail
from archir.recipes.training import Training
from archir.runs import Run
from archir_torch.lowering.kernels import library
from archir_torch.lowering.kernels.library import unavailable_reason
from archir_torch.lowering.module import Network
from archir_torch.search.job import Job, create_strategy
from archir_torch.training import kernels
from archir_torch.training.kernels import StepWorkload, with_kernels
from tests.torch_backend.searches import job, recipe, tiny

needs_compiler = pytest.mark.skipif(bool(unavailable_reason()), reason="there is no C++ compiler")


def network() -> Network:
    return Network(tiny().specialize(tiny().sample(0)), torch.Generator().manual_seed(0)).train()


def steps(count: int) -> Callable[[], StepWorkload[Network]]:
    x = torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    return lambda: StepWorkload(count, [lambda network: network(x)])


def unasked(*_: object) -> Any:
    raise AssertionError("nothing is to be measured, or decided")


def answer(training: Training, count: int, one: Network | None = None) -> Mapping[str, Any]:
    """What is decided, and that the network does as it was."""
    one, found = one or network(), {}

    def decided(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        found[name] = decide()
        return found[name]

    with_kernels(one, training, "cpu", steps(count), decided)
    assert one._uses_kernels == found["kernels"]["kernels"]
    return found["kernels"]


AUTO = Training(compile="auto")


def test_missing_compiler_is_an_error_only_if_kernels_required(monkeypatch: pytest.MonkeyPatch) -> None:
    one = network()
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    with_kernels(one, Training(), "cpu", unasked, unasked)
    with pytest.raises(ArchError, match="no C\\+\\+ compiler") as raised:
        with_kernels(one, Training(compile=True), "cpu", unasked, unasked)
    assert raised.value.diagnostics[0].hint == "training.compile = false"
    with pytest.raises(ArchError, match="cuda_graphs"):
        with_kernels(one, Training(compile=True), "cuda:0", unasked, unasked)
    with_kernels(one, AUTO, "cpu", unasked, unasked)
    with_kernels(one, AUTO, "cuda:0", unasked, unasked)
    assert not one._uses_kernels


@needs_compiler
@pytest.mark.parametrize(
    "training", [Training(compile="auto", precision="bf16"), Training(compile="auto", sharding="full")]
)
def test_auto_skips_measuring_for_bf16_and_sharding(training: Training) -> None:
    one = network()
    with_kernels(one, training, "cpu", unasked, unasked)
    assert not one._uses_kernels


@needs_compiler
def test_a_training_of_few_steps_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "time_in_turns", unasked)
    found = answer(AUTO, kernels.MIN_STEPS - 1)
    assert not found["kernels"]
    assert found["why"] == f"{kernels.MIN_STEPS - 1} steps are too few to measure"


@needs_compiler
def test_kernels_are_compiled_only_if_time_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled for a training that is over sooner; where it takes long, it is."""
    monkeypatch.setattr(kernels, "is_built", lambda: False)
    asked: list[str] = []
    monkeypatch.setattr(kernels, "load_library", lambda: asked.append("library"))
    monkeypatch.setattr(kernels, "time_in_turns", lambda ways, device, rounds: [0.01, 0.002][: len(ways)])
    found = answer(AUTO, 5_000)
    assert found == {"kernels": False, "why": "compiling takes 30 s, which would save 25"}
    assert not asked
    assert answer(AUTO, 7_000)["kernels"]
    assert asked
    assert answer(Training(compile="auto", accumulate=2), 4_000)["kernels"], "each part of a batch is a step here"


@needs_compiler
@pytest.mark.parametrize(("after", "taken"), [(0.009, True), (0.0096, False), (0.02, False)])
def test_measured_step_time_decides_on_kernels(after: float, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "time_in_turns", lambda ways, device, rounds: [0.01, after])
    monkeypatch.setattr(kernels, "is_built", lambda: True)
    found = answer(AUTO, 10_000)
    assert found["kernels"] == taken
    assert found["why"] == f"a step takes 10 ms, and {1000 * after:.4g} with kernels"


def test_failed_compilation_disables_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise fail("A1109", "kernels cannot be compiled: no room", None, "training.compile = false")

    monkeypatch.setattr(kernels, "unavailable_reason", lambda: "")
    monkeypatch.setattr(kernels, "is_built", lambda: True)
    monkeypatch.setattr(kernels, "load_library", broken)
    assert answer(AUTO, 10_000) == {"kernels": False, "why": "kernels cannot be compiled: no room"}


@needs_compiler
def test_measuring_leaves_weights_and_rng_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILE_SECONDS", 0.0)
    one, generators = network(), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in one.state_dict().items()}
    found = answer(AUTO, 10_000, one)
    assert found["why"].startswith("a step takes ")
    assert torch.equal(generators, torch.get_rng_state())
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.state_dict().items())
    assert all(parameter.grad is None for parameter in one.parameters())


@needs_compiler
@pytest.mark.parametrize("name", ["darts", "gdas", "pc_darts", "snas", "train", "spos", "fair", "sandwich"])
def test_every_strategy_measures_its_own_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is kept with the run; what is trained then is the same but for rounding."""
    monkeypatch.setattr(kernels, "MIN_STEPS", 1)
    monkeypatch.setattr(kernels, "COMPILE_SECONDS", 0.0)
    asked: list[tuple[str, str]] = []

    def decided(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        asked.append((name, decide()["why"]))
        return {"kernels": True}

    options = {"pc_darts": {"partial": 2, "alpha_warmup_epochs": 0}}.get(name, {})
    plain = one = job(name, options)
    if name == "train":
        plain = one = replace(one, architecture=dict(tiny().sample(0)))
    measured = create_strategy(replace(with_compile(one, "auto"), decide_once=decided))
    ((what, why),) = asked
    assert what == "kernels"
    assert why.startswith("a step takes ")
    losses = [
        [float(trainee.step(index)["loss"]) for index in range(3)] for trainee in (create_strategy(plain), measured)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@needs_compiler
def test_a_step_of_a_supernet_runs_all_its_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[StepWorkload[Any]] = []

    def decide(network: object, steps: StepWorkload[Any], training: Training) -> Mapping[str, Any]:
        seen.append(steps)
        return {"kernels": False}

    monkeypatch.setattr(kernels, "_decide", decide)
    for name, options in (("sandwich", {"drawn": 3}), ("spos", {"drawn": 2}), ("darts", {})):
        create_strategy(with_compile(job(name, options), "auto"))
    assert [len(steps.calls) for steps in seen] == [5, 2, 1]
    assert [len(steps.extra_tensors) for steps in seen] == [0, 0, 1], "architecture parameters have gradients, too"


@needs_compiler
def test_resumed_search_keeps_measured_kernel_decision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was measured is in the run, and nothing is measured again."""
    monkeypatch.setattr(kernels, "MIN_STEPS", 1)
    monkeypatch.setattr(kernels, "is_built", lambda: True)
    monkeypatch.setattr(kernels, "time_in_turns", lambda ways, device, rounds: [0.01, 0.001])
    path = recipe(tmp_path)
    path.write_text(path.read_text().replace("training = { epochs = 3,", 'training = { compile = "auto", epochs = 3,'))
    torch_backend = backends.get("torch")
    with pytest.raises(Interrupted):
        torch_backend.search(path, tmp_path / "run", device="cpu", progress=Stopping())
    kept = Run.open(tmp_path / "run").content("phases/search/kernels.json")
    assert json.loads(kept) == {"kernels": True, "why": "a step takes 10 ms, and 1 with kernels"}
    monkeypatch.setattr(kernels, "time_in_turns", unasked)
    with pytest.raises(AssertionError, match="nothing is to be measured"):  # in the last phase, which is new
        torch_backend.search(None, tmp_path / "run", resume=True, device="cpu")
    run = Run.open(tmp_path / "run")
    assert [phase.name for phase in run.phases()] == ["search", "again", "any"]
    assert run.content("phases/search/kernels.json") == kept


class Stopping:
    """Who looks on, and has enough in the middle of the first phase."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        pass

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        if index == 2:
            raise Interrupted("that is enough")

    def epoch(self, row: Mapping[str, object]) -> None:
        pass


def with_compile(one: Job, compile: Literal["auto"] | bool) -> Job:
    training = one.phase.training.model_copy(update={"compile": compile})
    return replace(one, phase=one.phase.model_copy(update={"training": training}))
