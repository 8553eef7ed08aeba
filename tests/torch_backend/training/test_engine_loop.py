"""The loop: rows, exact resumption at any step, stops."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Interrupted
from archir.recipes.augmentation import Augment
from archir.recipes.training import Optimizer
from archir_torch.data import Split
from archir_torch.training import metrics as measured
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Feed
from archir_torch.training.learner import Learner
from archir_torch.training.loop import Figures, NullCallback, Row, run

EPOCHS = 3


def data() -> Split:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (40,), generator=generator)
    return Split.labelled(torch.randn(40, 1, 4, 4, generator=generator) + labels[:, None, None, None], labels)


class Small:
    """A trainee with everything that could go wrong: dropout, augmentation, averages, and noise in its evaluation."""

    def __init__(self, seed: int = 0, act: Callable[[int], None] = lambda index: None) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.module = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))
        self.feed = Feed(data(), 8, seed=3, augment=Augment(shift=1, flip=True, cutmix=1.0))
        self.learner = Learner(
            self.module, Optimizer(kind="adamw", lr=0.02), epochs=EPOCHS, steps=self.feed.steps, ema=0.9
        )
        self.act = act
        self.reason: str | None = None

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        self.act(index)
        batch = self.feed.batch(index)
        found = self.learner.update(lambda part: F.cross_entropy(self.module(part.images), part.mixed), index, batch)
        return {"loss": found.loss, "norm": found.norm, "rate": self.learner.rate(index)}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        with self.learner.evaluating():
            right = self.module(data().images).argmax(1) == data().labels
        return {"accuracy": float(right.float().mean()), "noise": float(torch.rand(()))}

    def state(self) -> State:
        return State.merge(learner=self.learner.state())

    def restore(self, state: State) -> None:
        self.learner.restore(state.part("learner"))

    def finished(self) -> str | None:
        return self.reason


class Memory:
    """A keeper that keeps what a file would keep."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.rows: dict[int, Row] = {}

    def last(self) -> State | None:
        return self.states[-1] if self.states else None

    def save(self, state: State) -> None:
        facts = json.loads(json.dumps(state.facts, allow_nan=False))
        self.states.append(State({name: tensor.clone() for name, tensor in state.tensors.items()}, facts))

    def record(self, row: Figures) -> None:
        self.rows[int(row["epoch"])] = dict(row)


def figures(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def equal(one: Small, other: Small) -> bool:
    mine, theirs = one.state(), other.state()
    return mine.facts == theirs.facts and all(torch.equal(t, theirs.tensors[n]) for n, t in mine.tensors.items())


def train(trainee: Small, keeper: Memory | None = None, **options: Any) -> list[Row]:
    return run(trainee, epochs=EPOCHS, steps=trainee.feed.steps, checkpointer=keeper, seed=11, **options)


def test_loop_reports_steps_and_epoch_rows_to_callback() -> None:
    seen: list[Any] = []

    class Seeing(NullCallback):
        def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
            seen.append((phase, epochs, steps, done))

        def step(self, index: int, measured: Mapping[str, float]) -> None:
            seen.append((index, measured["loss"]))

        def epoch(self, row: Figures) -> None:
            seen.append(row)

    keeper = Memory()
    trainee = Small()
    rows = train(trainee, keeper, callback=Seeing(), phase="search")
    assert trainee.feed.steps == 5
    assert list(rows[0]) == ["epoch", "loss", "norm", "rate", "accuracy", "noise", "seconds"]
    assert seen[0] == ("search", 3, 5, 0)
    losses = [entry[1] for entry in seen[1:6]]
    assert [entry[0] for entry in seen[1:6]] == [0, 1, 2, 3, 4]
    assert rows[0]["loss"] == pytest.approx(sum(losses) / 5)
    assert seen[6] == rows[0]
    assert list(keeper.rows.values()) == rows
    assert float(rows[2]["loss"]) < float(rows[0]["loss"])


@pytest.mark.parametrize("seed", range(4))
def test_training_resumed_at_any_step_equals_uninterrupted_one(seed: int) -> None:
    whole = Small()
    wanted = train(whole)
    stops = sorted(random.Random(seed).sample(range(15), 3))

    class Killed(BaseException):
        pass

    def kill(index: int) -> None:
        if stops and index == stops[0]:
            stops.pop(0)
            raise Killed

    keeper = Memory()
    for attempt in range(4):
        trainee = Small(seed=attempt if keeper.states else 0, act=kill)
        torch.manual_seed(attempt)
        try:
            rows = train(trainee, keeper, checkpoint_minutes=0.0 if attempt % 2 == 0 else None)
            break
        except Killed:
            assert attempt < 3
    assert equal(whole, trainee)
    assert figures(rows) == figures(wanted) == figures(list(keeper.rows.values()))


def test_resuming_finished_training_runs_no_steps() -> None:
    keeper = Memory()
    first = Small()
    rows = train(first, keeper)

    def never(index: int) -> None:
        raise AssertionError(index)

    again = Small(seed=4, act=never)
    assert train(again, keeper) == rows
    assert equal(first, again)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [6, 9])
def test_signals_stop_between_steps(number: signal.Signals, at: int) -> None:
    whole = Small()
    wanted = train(whole)
    keeper = Memory()
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=rf"retrain was stopped after epoch 2, step {at - 4}"):
        train(Small(act=lambda i: os.kill(os.getpid(), number) if i == at else None), keeper, phase="retrain")
    assert signal.getsignal(number) is before
    goes_on = Small(seed=1)
    assert figures(train(goes_on, keeper)) == figures(wanted)
    assert equal(whole, goes_on)


def test_a_second_signal_acts_at_once() -> None:
    def twice(index: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("never reached")

    with pytest.raises(KeyboardInterrupt) as caught:
        train(Small(act=twice))
    assert not isinstance(caught.value, Interrupted)


def test_training_works_outside_main_thread() -> None:
    rows: list[Row] = []
    thread = threading.Thread(target=lambda: rows.extend(train(Small())))
    thread.start()
    thread.join()
    assert len(rows) == EPOCHS


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "nan"), (float("inf"), "inf"), (1e9, r"1e\+09")])
def test_non_finite_or_huge_loss_stops_training(value: float, said: str) -> None:
    class Broken(Small):
        def step(self, index: int) -> Mapping[str, float | Tensor]:
            found = super().step(index)
            return {**found, "loss": torch.tensor(value)} if index == 7 else found

    keeper = Memory()
    text = (
        rf"A1107.*search: the loss became {said} in epoch 2, step 3\n.*the last good checkpoint is of epoch 1, step 5"
    )
    with pytest.raises(ArchError, match=text):
        train(Broken(), keeper, phase="search")
    assert len(keeper.states) == 1
    with pytest.raises(ArchError, match="there is no checkpoint"):
        train(Broken())


def test_a_trainee_may_stop_early() -> None:
    class Enough(Small):
        def finished(self) -> str | None:
            return "all is known" if self.learner.optimizer.state else None

    keeper = Memory()
    rows = train(Enough(), keeper)
    assert [row["finished"] for row in rows] == ["all is known"]
    assert train(Enough(), keeper) == rows


def test_global_generators_are_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    train(Small())
    assert torch.equal(before, torch.random.get_rng_state())


def test_gpu_metrics_are_read_a_window_later(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = train(Small())
    monkeypatch.setattr(measured, "_on_gpu", lambda values: True)
    monkeypatch.setattr(measured, "WINDOW", 2)
    seen: list[tuple[int, int]] = []
    done: list[int] = []

    class Seeing(NullCallback):
        def step(self, index: int, measured: Mapping[str, float]) -> None:
            seen.append((index, len(done)))

    assert figures(train(Small(act=done.append), callback=Seeing())) == figures(wanted)
    assert seen[:5] == [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]  # a window later, or when the epoch ends
    keeper = Memory()
    train(Small(), keeper, checkpoint_minutes=0.0)
    assert [state.facts["loop"]["totals"].get("loss", (0, 0))[1] for state in keeper.states[:6]] == [1, 2, 3, 4, 0, 1]


def test_states_merge_and_split_by_prefix() -> None:
    one, other = State({"a": torch.ones(1)}, {"n": 1}), State({"a": torch.zeros(1)}, {"n": 2})
    joined = State.merge(one=one, other=other)
    assert sorted(joined.tensors) == ["one/a", "other/a"]
    assert joined.part("other").facts == {"n": 2}
    assert joined.part("one").tensors["a"] is one.tensors["a"]
