"""Phases that try candidates: what they leave behind, what scores are, and what becomes of candidates that fail."""

from __future__ import annotations

import json
import os
import random
import signal
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import archir
import archir_torch
from archir import backends
from archir.base.errors import ArchError, Interrupted
from archir.cli import main
from archir.costs.latencies.fill import spearman
from archir.search.recipes.spaces import load_space
from archir.search.recipes.training import Training
from archir.search.runs import Run, Trial
from archir.search.runs.folder import JOURNAL
from archir.search.seeds import mixed
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space
from archir_torch.search.inheritance import restored
from archir_torch.search.job import Job, made
from archir_torch.search.scoring import Request
from archir_torch.search.strategies.multi_trial.trials import Trials
from archir_torch.search.task import Task
from archir_torch.supernet.network import extract
from archir_torch.training.feed import Feed
from archir_torch.training.loop import Row
from archir_torch.training.loop import run as through
from archir_torch.training.recalibration import recalibrate
from tests.portions import portion
from tests.torch_backend import searches
from tests.torch_backend.tried import PHASES, RECIPE, SHORT, elastic, recipe, trials_of

DISTINCT = ("evolve", "plane", "finals")
COUNTS = {"evolve": 8 + 3 * 6, "plane": 18, "halve": 4 + 2, "finals": 3}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of all phases, and what the command said in the end."""
    folder = tmp_path_factory.mktemp("tried")
    arguments = ["search", str(recipe(folder)), "-o", str(folder / "run"), "--device", "cpu"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder / "run", done.stdout


@pytest.fixture(scope="module")
def run(said: tuple[Path, str]) -> Run:
    return Run.open(said[0])


def test_every_trial_is_in_the_journal_once(run: Run) -> None:
    for name, count in COUNTS.items():
        trials = run.phase(name).trials()
        assert [trial.id for trial in trials] == list(range(count))
        assert {trial.status for trial in trials} == {"done"}
        assert all(set(trial.scores) >= {"accuracy", "loss"} for trial in trials)
        assert all(trial.seconds and trial.worker for trial in trials)
        if name in DISTINCT:
            assert len({trial.hash for trial in trials}) == count
        space = elastic()
        for trial in trials:
            assert space.canonical(space.architecture(trial.architecture)) == trial.hash


def test_conditional_choices_are_there_where_they_mean_something(run: Run) -> None:
    found = [trial.architecture for trial in run.phase("evolve").trials()]
    assert {one["op"] for one in found} == {"skip", "pool", "conv"}
    for one in found:
        assert ("op.conv.inner" in one) == (one["op"] == "conv"), one


def test_generations_are_bred_of_the_best(run: Run) -> None:
    """Every candidate of a later generation that is no draw is near one of the parents, which were the best."""
    trials = run.phase("evolve").trials()
    rows = run.phase("evolve").rows()
    assert [row["trials"] for row in rows] == [8, 14, 20, 26]
    for row in rows:
        tried = [float(trial.scores["accuracy"] or 0) for trial in trials[: int(row["trials"])]]
        assert row["validation_accuracy"] == max(tried)
        assert row["failed"] == 0


def test_halving_gives_the_best_half_the_double_budget(run: Run) -> None:
    first, second = trials_of(run, "halve")[:4], trials_of(run, "halve")[4:]
    best = sorted(first, key=lambda trial: -float(trial.scores["accuracy"] or 0))[:2]
    assert [trial.hash for trial in second] == [trial.hash for trial in best]
    assert [trial.scores for trial in second] != [trial.scores for trial in best]


def test_finalists_are_the_best_of_before(run: Run) -> None:
    before = sorted(trials_of(run, "evolve"), key=lambda trial: -float(trial.scores["accuracy"] or 0))[:3]
    assert [trial.hash for trial in trials_of(run, "finals")] == [trial.hash for trial in before]


def test_outcomes_are_the_best_trials(run: Run) -> None:
    space = elastic()
    for name in ("evolve", "plane", "finals"):
        stored = space.architecture(json.loads(run.content(f"phases/{name}/architecture.json"))["choices"])
        trials = trials_of(run, name)
        best = max(float(trial.scores["accuracy"] or 0) for trial in trials)
        assert space.canonical(stored) in {trial.hash for trial in trials if trial.scores["accuracy"] == best}
    assert run.content("best.json") == run.content("phases/evolve/architecture.json")  # what `retrain` trained
    assert run.content("phases/retrain/architecture.json") == run.content("best.json")


def test_the_front_is_a_table_a_picture_and_files(run: Run, said: tuple[Path, str]) -> None:
    front = json.loads(run.content("phases/plane/front.json"))
    assert front["objectives"] == ["accuracy:max", "macs:min"]
    space = elastic()
    by_id = {trial.id: trial for trial in trials_of(run, "plane")}
    points = {number: (float(trial.scores["accuracy"] or 0), -macs_of(space, trial)) for number, trial in by_id.items()}
    dominated = {
        one for one, mine in points.items()
        if any(all(a >= b for a, b in zip(other, mine, strict=True)) and other != mine for other in points.values())
    }  # fmt: skip
    ids = [row["id"] for row in front["front"]]
    assert {points[i] for i in ids} == {points[i] for i in points.keys() - dominated}
    for row in front["front"]:
        content = json.loads(run.content(f"phases/plane/front/{row['id']}.json"))
        architecture = space.architecture(content["choices"])
        assert space.canonical(architecture) == by_id[row["id"]].hash == row["hash"]
        assert row["scores"]["macs"] == macs_of(space, by_id[row["id"]])
        assert row["hash"] in said[1]
        assert f"{row['scores']['macs']:,}" in said[1]
    names = [name for name in run.files.manifest.files if name.startswith("phases/plane/front/")]
    assert len(names) == len(ids)
    assert "front of `plane`" in said[1]
    picture = run.content("phases/plane/front.svg").decode()
    assert "<svg" in picture
    assert b64encode(picture.encode()) in run.content("report.html")
    assert not [name for name in run.files.manifest.files if name.startswith("phases/evolve/front")]


def macs_of(space: Space, trial: Trial) -> int:
    return archir.cost(space.specialize(space.architecture(trial.architecture))).macs


def test_bounds_of_a_phase_hold(run: Run) -> None:
    space = elastic()
    sizes = {
        name: [
            archir.cost(space.specialize(space.architecture(one.architecture))).params for one in trials_of(run, name)
        ]
        for name in ("evolve", "plane")
    }
    assert max(sizes["plane"]) <= 1500 < max(sizes["evolve"])


def test_the_summary(run: Run) -> None:
    summary = json.loads(run.content("summary.json"))
    assert list(summary["phases"]) == list(PHASES)
    for name, count in COUNTS.items():
        assert summary["phases"][name]["trials"] == count
    assert summary["fronts"]["plane"] == json.loads(run.content("phases/plane/front.json"))
    assert summary["network"]["phase"] == "retrain"
    assert summary["onnx"]["relative"] < 1e-4


def test_runs_lists_it(run: Run) -> None:
    done = CliRunner().invoke(main, ["runs", str(run.folder), "--json"], catch_exceptions=False)
    (row,) = json.loads(done.stdout)
    assert (row["state"], row["phase"]) == ("finished", "retrain")


def job(strategy: str, options: Mapping[str, Any] | None = None, **more: Any) -> Job:
    """A phase on noise of ten classes, by default in `elastic`."""
    given = {"space": elastic(), "epochs": 2, "batch": 16} | more
    return replace(searches.job(strategy, options, **given), data=searches.data(100, 8, 10))


def gone_through(one: Job) -> tuple[Trials, list[Row]]:
    """A phase that tries candidates, to its end."""
    phase = made(one)
    assert isinstance(phase, Trials)
    with phase:
        return phase, through(phase, epochs=phase.epochs, steps=phase.steps, seed=one.seed)


@pytest.fixture(scope="module")
def supernet() -> Job:
    """A phase that takes over a supernet's weights."""
    one = job("sandwich")
    strategy = made(one)
    through(strategy, epochs=1, steps=strategy.steps)
    outcome = strategy.outcome()
    return replace(one, weights=outcome.weights, supernet=outcome.supernet)


def scored_by(one: Job, **scorer: Any) -> tuple[Callable[[Architecture, float], Mapping[str, float]], Job]:
    """The function of a scorer; and a job with the images that weights see, and those that scores are measured on."""
    phase = one.phase.model_copy(update={"strategy": "random", "options": {"scorer": scorer}})
    found = made(replace(one, phase=phase))
    assert isinstance(found, Trials)
    assert phase.data is not None
    weights, rest = one.data.halves()
    score = found._work.prepare()
    halved = replace(one, data=replace(one.data, train=weights, held_out=rest))
    return lambda architecture, budget: score(Request(architecture.codes, budget)), halved


def test_inherited_scores(supernet: Job) -> None:
    """What is extracted, recalibrated and measured by hand."""
    score, halved = scored_by(supernet, kind="inherited", recalibrate=2)
    assert supernet.supernet is not None
    model = restored(supernet.supernet, supernet.weights or {})
    feed = Feed(halved.data.train, 16, seed=mixed(supernet.seed, "recalibrate"))
    different = set()
    for architecture in supernet.space.enumerate():
        network = extract(model, architecture)
        recalibrate(network, [feed.batch(0).images, feed.batch(1).images])
        with torch.no_grad():
            logits = network(halved.data.held_out.images)
        labels = halved.data.held_out.labels
        found = score(architecture, 1.0)
        assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).double().mean()), abs=1e-9)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
        different.add(found["loss"])
    assert len(different) > 30


def test_scores_do_not_depend_on_what_was_scored_before(supernet: Job) -> None:
    architectures = list(supernet.space.enumerate())[::7]
    for kind in ("inherited", "training", "proxies"):
        one, other = (scored_by(supernet, kind=kind)[0] for _ in range(2))
        before = [one(architecture, 1.0) for architecture in architectures]
        after = [other(architecture, 1.0) for architecture in reversed(architectures)]
        assert before == after[::-1], kind


def test_fewer_images_are_of_all_classes(supernet: Job) -> None:
    held_out = supernet.data.halves()[1]
    order = held_out.labels.argsort(stable=True)
    assert held_out.labels[order][:10].unique().numel() < 10
    ordered = replace(supernet, data=replace(supernet.data, train=supernet.data.train.chosen(
        supernet.data.train.labels.argsort(stable=True))))  # fmt: skip
    phase = supernet.phase.model_copy(update={"strategy": "random", "options": {"scorer": {"images": 10}}})
    found = made(replace(ordered, phase=phase))
    assert isinstance(found, Trials)
    assert found._work.job(supernet.space).data.held_out.labels.tolist() == list(range(10))


def test_training_is_the_strategy_train(supernet: Job) -> None:
    fresh = replace(supernet, weights=None, supernet=None)
    fresh = replace(fresh, phase=fresh.phase.model_copy(update={"training": Training(epochs=4, batch=16)}))
    score, halved = scored_by(fresh, kind="training")
    found = {}
    for index in (0, 17, 40):
        architecture = list(fresh.space.enumerate())[index]
        for budget, epochs in ((1.0, 4), (0.5, 2), (0.1, 1)):
            training = Training(epochs=epochs, batch=16)
            phase = fresh.phase.model_copy(update={"strategy": "train", "training": training})
            strategy = made(replace(halved, phase=phase, architecture=dict(architecture)))
            last = through(strategy, epochs=epochs, steps=strategy.steps, seed=fresh.seed)[-1]
            scores = score(architecture, budget)
            assert scores == {"accuracy": last["accuracy"], "loss": last["held_out_loss"]}
            found[index, budget] = scores["loss"]
    assert len(set(found.values())) == 9


def test_proxies_are_those_of_the_scorer(supernet: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("naswot", "synflow")
    phase = supernet.phase.model_copy(update={"training": Training(batch=50)})
    score, halved = scored_by(replace(supernet, phase=phase), kind="proxies", proxies=list(names))
    assert len(halved.data.train) == 50
    monkeypatch.setattr(archir_torch, "minibatch", lambda *arguments, **options: halved.data.train)
    wanted = archir.scorer(names, seed=supernet.seed)
    for architecture in list(supernet.space.enumerate())[::9]:
        assert score(architecture, 1.0) == wanted(supernet.space.specialize(architecture))


CHOICES = 8
ADDITIVE = (
    "net additive() {\n    input x: f32[3]\n"
    + "".join(f"    x = x |> choose c{i}(relu, gelu, sigmoid)\n" for i in range(CHOICES))
    + "    output y = x\n}\n"
)


def planted(space: Space) -> Callable[[Architecture], float]:
    """A score that is a sum over the choices."""
    draw = torch.Generator().manual_seed(3)
    worth = {choice.path: torch.rand(3, generator=draw).tolist() for choice in space.choices}
    return lambda architecture: sum(worth[path][outcome] for path, outcome in architecture.outcomes.items()) / CHOICES


def tried(space: Space, count: int) -> list[Trial]:
    """Trials of architectures that were drawn, with the score that was planted."""
    score = planted(space)
    rng = random.Random(0)
    drawn = dict.fromkeys(space.sample(rng) for _ in range(3 * count))
    rows = [Trial(i, space.canonical(one), dict(one), "done", {"accuracy": score(one)}) for i, one in enumerate(drawn)]
    return rows[:count]


def test_a_predictor_ranks_what_it_has_not_seen() -> None:
    space = archir.loads(ADDITIVE)
    known = tried(space, 60)
    options = {"scorer": {"kind": "predictor"}, "trials": 120, "batch": 60}
    phase, rows = gone_through(replace(job("random", options, space=space), earlier=known))
    seen, score = {trial.hash for trial in known}, planted(space)
    unseen = [one for one in phase.job.trials.known.values() if one.hash not in seen]
    assert len(unseen) > 80
    rank = spearman(
        [score(space.architecture(one.architecture)) for one in unseen],
        [float(one.scores["accuracy"] or 0) for one in unseen],
    )
    assert rank is not None
    assert rank > 0.9
    assert 0.8 < float(rows[0]["predictor_rank"]) <= 1
    best = phase.outcome().architecture
    assert best is not None
    assert score(best) > max(float(one.scores["accuracy"] or 0) for one in known[:20])


OPEN = {"open": ["op", "op.conv.inner"], "fixed": {"width": 6, "kernel": 3, "last": "skip"}}


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
            {"pool": "time: took more than 3 s", 5: "died: its worker died: killed by SIGKILL"},
            marks=pytest.mark.soak,  # in the suite, tests/search has workers that hang and die
        ),
    ],
)  # fmt: skip
def test_a_candidate_that_fails_is_a_failed_trial(mood: str, executor: str, errors: Mapping[Any, str]) -> None:
    options = {"executor": executor, "retries": 0} | ({"limit": 3.0} if executor != "local" else {})
    phase, rows = gone_through(moody(mood, **options))
    names = {trial.id: trial.architecture.get("op.conv.inner", trial.architecture["op"])
             for trial in phase.job.trials.known.values()}  # fmt: skip
    assert {names[i]: (one.status, one.error) for i, one in phase.job.trials.known.items()} == {
        name: ("failed" if name in errors else "done", errors.get(name)) for name in ("skip", "pool", 1, 3, 5)
    }
    assert [(row["trials"], row["failed"]) for row in rows] == [(5, len(errors))]
    best = phase.outcome().architecture
    assert best is not None
    assert best["op"] != "pool"


def test_all_candidates_may_fail() -> None:
    with pytest.raises(ArchError, match=r"A2212.*all 5 candidates failed") as caught:
        gone_through(moody("raise", everywhere=True))[0].outcome()
    assert caught.value.diagnostics[0].hint == "the first one: exception: ValueError: pools are closed"


def test_what_cannot_score_at_all_is_said_before_anything_is_tried(supernet: Job) -> None:
    for code, options, more in [
        ("A2210", {"scorer": {"kind": "inherited"}}, {"supernet": None}),
        ("A2211", {"scorer": {"kind": "predictor"}}, {"earlier": tried(archir.loads(ADDITIVE), 7)}),
        ("A1110", {"scorer": {"kind": "proxies", "proxies": ["nawsot"]}}, {}),
    ]:
        phase = supernet.phase.model_copy(update={"strategy": "evolution", "options": options})
        strategy = made(replace(supernet, phase=phase, **more))
        assert isinstance(strategy, Trials)
        with pytest.raises(ArchError, match=code):
            strategy.__enter__()
    with pytest.raises(ArchError, match=r"A2213.*has no trials with `accuracy`"):
        made(replace(supernet, phase=supernet.phase.model_copy(update={"strategy": "finalists", "options": {}})))


def test_what_the_supernet_was_not_trained_for() -> None:
    """A candidate that makes a choice otherwise than it was held fixed has no weights; nor is it trained on."""
    one = job("sandwich", open=["op", "last"], fixed={"width": 6, "kernel": 3, "*inner": 3})
    strategy = made(one)
    outcome = strategy.outcome()
    one = replace(one, weights=outcome.weights, supernet=outcome.supernet)
    wide = replace(one, phase=one.phase.model_copy(update={"open": ("width",), "fixed": {
        "kernel": 3, "op": "skip", "last": "skip"}, "strategy": "exhaustive", "options": {}}))  # fmt: skip
    phase, _ = gone_through(wide)
    errors = {trial.architecture["width"]: trial.error for trial in phase.job.trials.known.values()}
    assert errors[6] is None
    assert all("A2209" in str(errors[width]) for width in (4, 8))
    chosen = {"width": 8, "kernel": 3, "op": "skip", "last": "skip"}
    train = replace(one, phase=one.phase.model_copy(update={"strategy": "train"}), architecture=chosen)
    with pytest.raises(ArchError, match=r"A2209.*trained with `width` = 6, not 8"):
        made(train)


def test_the_executor_of_the_command_comes_first(tmp_path: Path) -> None:
    """Whom a recipe names need not be there; and what is not there is said before anything is trained."""
    text = SHORT.replace("[phase.options]", '[phase.options]\nexecutor = "nowhere"')
    arguments = ["search", str(recipe(tmp_path, text)), "-o", str(tmp_path / "run"), "--device", "cpu"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code != 0
    assert "A2601" in done.output
    assert "there is no executor `nowhere`" in done.output
    assert not (tmp_path / "run").exists()
    done = CliRunner().invoke(main, [*arguments, "--executor", "local"])
    assert done.exit_code == 0, done.output
    assert len(Run.open(tmp_path / "run").phase("evolve").trials()) == COUNTS["evolve"]
    arguments[1] = str(recipe(tmp_path / "other", SHORT))
    arguments[3] = str(tmp_path / "third")
    done = CliRunner().invoke(main, [*arguments, "--executor", "nowhere"])
    assert "A2601" in done.output


def test_workers_leave_signals_as_they_are(supernet: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches workers, too; what is under way there is the driver's to give up."""
    score, _ = scored_by(replace(supernet, weights=None, supernet=None), kind="training")
    seen = []
    measured = Task.measured

    def looked(*arguments: Any) -> dict[str, float]:
        seen.append(signal.getsignal(signal.SIGINT))
        return measured(*arguments)

    monkeypatch.setattr(Task, "measured", looked)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        score(supernet.space.sample(0), 1.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_IGN]


def test_a_candidate_in_training_is_given_up_when_somebody_stops_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    one = job("random", {"scorer": {"kind": "training"}, "trials": 6})
    phase = made(one)
    assert isinstance(phase, Trials)
    losses = 0
    loss = Task.loss

    def signalled(*arguments: Any) -> torch.Tensor:
        nonlocal losses
        losses += 1
        if losses == 18:  # each is trained for 8 steps
            os.kill(os.getpid(), signal.SIGINT)
        return loss(*arguments)

    monkeypatch.setattr(Task, "loss", signalled)
    with phase, pytest.raises(Interrupted, match="search was stopped after 2 trials"):
        through(phase, epochs=phase.epochs, steps=phase.steps, phase="search")
    assert losses < 24
    assert [trial.status for trial in one.trials.known.values()] == ["done"] * 2


class Stopping:
    """Who looks on, and has enough after a generation of `plane`."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        self.phase = phase

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        pass

    def epoch(self, row: Mapping[str, object]) -> None:
        if (self.phase, row["epoch"]) == ("plane", 1):
            raise Interrupted("that is enough")


@pytest.mark.parametrize("name", portion([JOURNAL, "phases/plane/checkpoint-2.safetensors"], [JOURNAL]))
def test_what_is_lost_is_tried_again(name: str, run: Run, tmp_path: Path) -> None:
    """Of a checkpoint that is older than the journal, nothing: its trials are there."""
    path, torch = recipe(tmp_path), backends.get("torch")
    with pytest.raises(Interrupted):
        torch.search(path, tmp_path / "run", device="cpu", watch=Stopping())
    before = {phase: Run.open(tmp_path / "run").phase(phase).trials() for phase in ("evolve", "plane")}
    assert {phase: len(trials) for phase, trials in before.items()} == {"evolve": 26, "plane": 12}
    file = tmp_path / "run" / name
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ArchError, match="A180"):
        torch.search(None, tmp_path / "run", resume=True, device="cpu")
    torch.search(None, tmp_path / "run", resume=True, fall_back=True, device="cpu")
    found = Run.open(tmp_path / "run")
    for phase in COUNTS:
        assert trials_of(found, phase) == trials_of(run, phase)
        last, wanted = (dict(one.phase(phase).done or {}, seconds=None) for one in (found, run))
        assert last == wanted
    kept = [found.phase(phase).trials()[: len(trials)] == trials for phase, trials in before.items()]
    assert kept == [name != JOURNAL] * 2
    for file_name in ("best.json", "weights.safetensors", "phases/plane/front.json"):
        assert found.content(file_name) == run.content(file_name)


def test_a_space_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = []

    def counted(path: str, folder: Path, parameters: Mapping[str, Any]) -> Space:
        made_of.append((path, dict(parameters)))
        return load_space(path, folder, parameters)

    monkeypatch.setattr("archir.search.recipes.spaces.load_space", counted)
    text = RECIPE.replace("[data]", "export = false\n\n[data]", 1)
    backends.get("torch").search(recipe(tmp_path, text), tmp_path / "run", device="cpu")
    assert made_of == [("elastic.arch", {})]
