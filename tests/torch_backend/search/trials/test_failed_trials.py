"""What becomes of candidates that fail, and of searches that cannot score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir_torch.search.job import Job, create_strategy
from archir_torch.strategies.trials import TrialStrategy
from tests.torch_backend.search.trials.test_scoring import ADDITIVE, tried
from tests.torch_backend.tried import elastic, gone_through, job

OPEN: Mapping[str, Any] = {"open": ["op", "op.conv.inner"], "fixed": {"width": 6, "kernel": 3, "last": "skip"}}


def moody(mood: str, everywhere: bool = False, **options: Any) -> Job:
    """Five candidates, one of which pools, and one has a kernel of 5."""
    objective = {"kind": "tests.torch_backend.tried:Moody", "mood": mood, "everywhere": everywhere}
    given = {"scorer": {"kind": "training"}, **options}
    return job("exhaustive", given, objective=objective, epochs=1, **OPEN)


@pytest.mark.parametrize(
    ("mood", "executor", "errors"),
    [
        ("raise", "local", {"pool": "exception: ValueError: pools are closed"}),
        ("memory", "local", {"pool": "memory: MemoryError: pools are full"}),
        ("nan", "local", {"pool": "nan: `accuracy` is nan, `loss` is nan"}),
        pytest.param(
            "hang", "processes:1",
            {"pool": "time: took more than 20 s", 5: "died: its worker died: killed by SIGKILL"},
            marks=pytest.mark.soak,  # in the suite, tests/search has workers that hang and die
        ),
    ],
)  # fmt: skip
def test_a_candidate_that_fails_is_a_failed_trial(mood: str, executor: str, errors: Mapping[Any, str]) -> None:
    options = {"executor": executor, "retries": 0} | ({"limit": 20.0} if executor != "local" else {})
    phase, rows = gone_through(moody(mood, **options))
    names = {trial.id: trial.architecture.get("op.conv.inner", trial.architecture["op"])
             for trial in phase.job.trials.by_id.values()}  # fmt: skip
    assert {names[i]: (one.status, one.error) for i, one in phase.job.trials.by_id.items()} == {
        name: ("failed" if name in errors else "done", errors.get(name)) for name in ("skip", "pool", 1, 3, 5)
    }
    assert [(row["trials"], row["failed"]) for row in rows] == [(5, len(errors))]
    best = phase.outcome().architecture
    assert best is not None
    assert best["op"] != "pool"


def test_search_with_only_failed_candidates_is_an_error() -> None:
    with pytest.raises(ArchError, match=r"A2212.*all 5 candidates failed") as caught:
        gone_through(moody("raise", everywhere=True))[0].outcome()
    assert caught.value.diagnostics[0].hint == "the first one: exception: ValueError: pools are closed"


def test_unusable_scorer_is_rejected_before_first_trial(supernet: Job) -> None:
    for code, options, more in [
        ("A2210", {"scorer": {"kind": "inherited"}}, {"supernet": None}),
        ("A2211", {"scorer": {"kind": "predictor"}}, {"earlier": tried(archir.loads(ADDITIVE), 7)}),
        ("A1110", {"scorer": {"kind": "proxies", "proxies": ["nawsot"]}}, {}),
    ]:
        phase = supernet.phase.model_copy(update={"strategy": "evolution", "options": options})
        strategy = create_strategy(replace(supernet, phase=phase, **more))
        assert isinstance(strategy, TrialStrategy)
        with pytest.raises(ArchError, match=code):
            strategy.__enter__()
    with pytest.raises(ArchError, match=r"A2213.*has no trials with `accuracy`"):
        create_strategy(
            replace(supernet, phase=supernet.phase.model_copy(update={"strategy": "finalists", "options": {}}))
        )


def test_finalists_are_the_best_that_keep_bounds() -> None:
    space = elastic()
    earlier = tried(space, 12)
    costs = [int(space.cost([space.architecture(one.architecture)], ["params"])["params"][0]) for one in earlier]
    limit = sorted(costs)[5]
    options = {"count": 3, "where": f"params <= {limit}"}
    search = create_strategy(replace(job("finalists", options), earlier=earlier))
    assert isinstance(search, TrialStrategy)
    pairs = [(one, cost) for one, cost in zip(earlier, costs, strict=True) if cost <= limit]
    best = sorted(pairs, key=lambda pair: -float(pair[0].scores["accuracy"] or 0))[:3]
    assert [dict(one.architecture) for one in search.search.ask()] == [dict(one.architecture) for one, _ in best]
    with pytest.raises(ArchError, match=r"A2213.*none of 12 trials satisfies `params <= 1`"):
        create_strategy(replace(job("finalists", {"where": "params <= 1"}), earlier=earlier))


def test_rejects_candidates_outside_supernet_fixed_choices() -> None:
    """A candidate that makes a choice otherwise than it was held fixed has no weights; nor is it trained on."""
    one = job("sandwich", open=["op", "last"], fixed={"width": 6, "kernel": 3, "*inner": 3})
    strategy = create_strategy(one)
    outcome = strategy.outcome()
    one = replace(one, weights=outcome.weights, supernet=outcome.supernet)
    wide = replace(one, phase=one.phase.model_copy(update={"open": ("width",), "fixed": {
        "kernel": 3, "op": "skip", "last": "skip"}, "strategy": "exhaustive", "options": {}}))  # fmt: skip
    phase, _ = gone_through(wide)
    errors = {trial.architecture["width"]: trial.error for trial in phase.job.trials.by_id.values()}
    assert errors[6] is None
    assert all("A2209" in str(errors[width]) for width in (4, 8))
    chosen = {"width": 8, "kernel": 3, "op": "skip", "last": "skip"}
    train = replace(one, phase=one.phase.model_copy(update={"strategy": "train", "fixed": {}}), architecture=chosen)
    with pytest.raises(ArchError, match=r"A2209.*trained with `width` = 6, not 8"):
        create_strategy(train)
