"""A search that ended goes on with more trials, and comes to what it would have come to with all of them at once."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import archir
from archir import backends
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run, Trial
from archir.runs.journal import Journal, Kind
from archir.runs.lock import is_locked
from archir.runs.run import Phase
from archir.search.registry import STRATEGIES
from tests.plugins import forgotten
from tests.soak import with_soak
from tests.torch_backend.forked import Command
from tests.torch_backend.search.test_search_kill import exact
from tests.torch_backend.tried import SHORT, recipe, trials_of

PROXIES = 'scorer = { kind = "proxies", proxies = ["naswot"] }'
TRYING = f"""
space = "elastic.arch"
threads = 1
export = false

[data]
source = "digits"
limit = 100

[[phase]]
name = "try"
strategy = "STRATEGY"
training = {{ batch = 16 }}

[phase.options]
OPTIONS
{PROXIES}

[[phase]]
name = "retrain"
strategy = "train"
start = {{ architecture = "try" }}
training = {{ epochs = 1, batch = 32 }}
"""
EXTENDED = {
    "random": ('objectives = ["naswot:max", "macs:min"]\nbatch = 3\ntrials = 4', {"trials": "8"}),
    "evolution": (
        'objective = "naswot:max"\npopulation = 4\nparents = 2\nmutations = 2\ncrossovers = 1\ngenerations = 2',
        {"generations": "4"},
    ),
    "nsga2": ('objectives = ["naswot:max", "macs:min"]\npopulation = 4\ntrials = 6', {"trials": "11"}),
    "successive_halving": ('objective = "naswot:max"\npopulation = 4\neta = 2\nrungs = 2', {"population": "8"}),
    "local_search": ('objective = "naswot:max"\ntrials = 5', {"trials": "9"}),
    "bayesian": ('objective = "naswot:max"\ninitial = 3\nbatch = 2\ntrials = 5', {"trials": "9"}),
    "bananas": ('objective = "naswot:max"\ninitial = 3\nbatch = 2\ntrials = 5', {"trials": "9"}),
    "hyperband": ('objective = "naswot:max"\neta = 2\nrungs = 2', {"rounds": "2"}),
    "bohb": ('objective = "naswot:max"\neta = 2\nrungs = 2\nleast = 2', {"rounds": "2"}),
    "exhaustive": ('objectives = ["naswot:max"]\nwhere = "macs <= 30K"', {"where": "macs <= 60K"}),
}
"""What strategies are told at first, and then."""


def text(strategy: str, options: str) -> str:
    return TRYING.replace("STRATEGY", strategy).replace("OPTIONS", options)


def search(path: Path | None, folder: Path, settings: Mapping[str, str] | None = None) -> None:
    backends.get("torch").search(path, folder, resume=path is None, overrides=dict(settings or {}), device="cpu")


def settings(phase: str, options: Mapping[str, str]) -> dict[str, str]:
    return {f"{phase}.options.{name}": json.dumps(v) if not v.isdigit() else v for name, v in options.items()}


def came_to(folder: Path) -> Mapping[str, Any]:
    """Everything that a search must hold, whether it was extended or not."""
    run = Run.open(folder)
    found = {name: value for name, value in exact(folder).items() if name not in ("names", "extensions.json")}
    names = [name for name in exact(folder)["names"] if name != "extensions.json" and "checkpoint" not in name]
    return {**found, "names": names, **{f"trials of {one.name}": trials_of(run, one.name) for one in run.phases()}}


PLUGIN = """
from archir.search.strategies.random import Random, RandomOptions
from archir.search.registry import strategy
from archir.search.variation import moved


@strategy("climb", RandomOptions)
class Climb(Random):
    def propose(self):
        best = self.best()
        if best is None:
            return super().propose()
        return self.proposals.varied(lambda: moved(self.space, best.architecture, self.rng), self.left(self.batch), 20)
"""
FIRST = f"""
[[phase]]
name = "first"
strategy = "random"
training = {{ batch = 16 }}
options = {{ objectives = ["naswot:max"], trials = 6, {PROXIES} }}
"""
"""The trials that finalists are chosen from."""
OTHERS = {
    "climb": ('objectives = ["naswot:max"]\nbatch = 2\ntrials = 4', {"trials": "8"}),
    "finalists": ('objective = "naswot:max"\ncount = 4', {"count": "6"}),
}
"""A plugin's strategy, and one of the trials of another phase."""
ALL = sorted([*STRATEGIES, *OTHERS])
Write = Callable[[str], tuple[Path, dict[str, str]]]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Write]:
    """The recipe of a strategy, and what extends it."""

    def write(name: str) -> tuple[Path, dict[str, str]]:
        options, more = (EXTENDED | OTHERS)[name]
        whole = text(name, options)
        if name == "climb":
            (tmp_path / "climbing.py").write_text(PLUGIN)
            archir.plugin("climbing", folder=tmp_path)
            whole = whole.replace("threads = 1", 'threads = 1\nplugins = ["climbing"]')
        if name == "finalists":
            head, trying = whole.split("[[phase]]", 1)
            start = 'strategy = "finalists"\nstart = { trials = "first" }'
            trying = trying.replace('strategy = "finalists"', start)
            whole = f"{head}{FIRST}\n[[phase]]{trying}"
        return recipe(tmp_path, whole), settings("try", more)

    with forgotten(tmp_path):
        yield write


@pytest.mark.parametrize("name", with_soak(ALL, ["climb", "nsga2", "successive_halving"]))
def test_extended_search_equals_search_with_all_trials(name: str, tmp_path: Path, written: Write) -> None:
    path, more = written(name)
    search(path, tmp_path / "whole" / "run", more)
    search(path, tmp_path / "run")
    before = Run.open(tmp_path / "run").phase("try").trials()
    search(None, tmp_path / "run", more)
    assert came_to(tmp_path / "run") == came_to(tmp_path / "whole" / "run")
    after = Run.open(tmp_path / "run").phase("try").trials()
    assert len(after) > len(before)
    kept = {(json.dumps(one.architecture), one.budget): one.seconds for one in before}
    again = {key: one.seconds for one in after if (key := (json.dumps(one.architecture), one.budget)) in kept}
    assert len(again) >= 4, "what was tried is not tried again"
    assert again.items() <= kept.items()
    (told,) = json.loads(Run.open(tmp_path / "run").content("extensions.json"))
    assert told == {"settings": more, "phases": ["try", "retrain"]}


@pytest.mark.parametrize("name", with_soak(ALL, ["climb"]))
def test_extension_stopped_at_any_trial_equals_uninterrupted_one(
    name: str, tmp_path: Path, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every strategy, plugins' too: what is in the journal is not tried again, and all comes to the same."""
    path, more = written(name)
    search(path, tmp_path / "whole" / "run", more)
    search(path, tmp_path / "run")
    put, left, stopped = Phase.put_trial, 0, 0

    def dies(self: Phase, trial: Trial) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        put(self, trial)

    for allowed in (1, 2):
        left = allowed
        with monkeypatch.context() as patch:
            patch.setattr(Phase, "put_trial", dies)
            try:
                search(None, tmp_path / "run", None if stopped else more)
            except KeyboardInterrupt:
                stopped += 1
    assert stopped
    search(None, tmp_path / "run")
    assert came_to(tmp_path / "run") == came_to(tmp_path / "whole" / "run")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="processes are killed, and looked for in /proc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ALL)
def test_killed_extension_of_every_strategy_equals_uninterrupted_one(
    name: str, tmp_path: Path, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, more = written(name)
    search(path, tmp_path / "whole" / "run", more)
    search(path, tmp_path / "run")
    folder, draw = tmp_path / "run", random.Random(name)
    plugins = ["--plugin", "climbing"] if name == "climb" else []
    arguments = ["search", "--resume", folder, *(f"--set={key}={value}" for key, value in more.items()), *plugins]
    monkeypatch.chdir(tmp_path)
    for _ in range(4):
        driver = Command(*arguments)
        while not is_locked(folder) and driver.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.4)
        driver.send_signal(signal.SIGKILL)
        driver.end()
        Run.open(folder)  # verified
    code, said = Command(*arguments).end()
    assert code == 0, said
    assert came_to(folder) == came_to(tmp_path / "whole" / "run")


def test_extension_cases_cover_every_strategy() -> None:
    assert EXTENDED.keys() == set(STRATEGIES)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("seed", "3", "cannot change after the start"),
        ("data.limit", "50", "cannot change after the start"),
        ("retrain.training.epochs", "2", "`retrain` .* does not try candidates"),
        ("try.training.batch", "8", "only `options` may change"),
        ("try.strategy", "evolution", "only `options` may change"),
        ("try.options.scorer.proxies", '["gradnorm"]', "scorer of phase `try` cannot change"),
    ],
)
def test_extension_rejects_changes_other_than_trial_options(ended: Path, key: str, value: str, why: str) -> None:
    def whole() -> list[tuple[str, bytes]]:
        run = Run.open(ended)
        assert run.finished
        return [(name, run.content(name)) for name in run.entries]

    before = whole()
    with pytest.raises(ArchError, match=rf"(?s)A2216.*{why}.*`try.options` may change.*--set try.options.trials=8"):
        search(None, ended, {key: value})
    assert whole() == before


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short search that came to its end."""
    folder = tmp_path_factory.mktemp("ended")
    search(recipe(folder, text("random", EXTENDED["random"][0])), folder / "run")
    return folder / "run"


def test_resume_with_set_extends_finished_search(ended: Path, tmp_path: Path) -> None:
    """A wrong value leaves the run as it is; an extension of an extension goes on, too; the same again does nothing."""
    folder = shutil.copytree(ended, tmp_path / "run")

    def command(*settings: str) -> tuple[int, str]:
        given = [part for one in settings for part in ("--set", one)]
        done = CliRunner().invoke(main, ["search", "--resume", str(folder), *given, "--device", "cpu"])
        return done.exit_code, done.output

    code, said = command("try.options.trials=none")
    assert (code, "A1109" in said) == (1, True), said
    assert Run.open(folder).finished
    for trials in (6, 7):
        code, said = command(f"try.options.trials={trials}")
        assert code == 0, said
        assert len(Run.open(folder).phase("try").trials()) == trials
    done = Run.open(folder).content("metrics.sqlite")
    assert command("try.options.trials=7")[0] == 0
    assert Run.open(folder).content("metrics.sqlite") == done


def test_interrupted_search_resumes_with_new_settings(tmp_path: Path) -> None:
    """Phases that have not begun begin with the other settings."""
    path = recipe(tmp_path, SHORT)
    driver = Command("search", path, "-o", tmp_path / "run")
    while not (tmp_path / "run" / "phases" / "evolve").exists() and driver.poll() is None:
        time.sleep(0.01)
    driver.send_signal(signal.SIGINT)
    assert driver.end()[0] == 130
    search(None, tmp_path / "run", {"evolve.options.generations": "1"})
    assert len(Run.open(tmp_path / "run").phase("evolve").trials()) == 8


MORE = settings("try", {"trials": "8"})


@pytest.fixture(scope="module")
def whole(ended: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What a search comes to that nobody disturbs."""
    folder = shutil.copytree(ended, tmp_path_factory.mktemp("whole") / "run")
    search(None, folder, MORE)
    return came_to(folder)


@pytest.mark.parametrize("count", [0, 1])
def test_extension_killed_before_journal_update_recovers(
    count: int, ended: Path, whole: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are changed, and the journal was told of so many phases: whoever resumes the run tells it the rest."""
    folder, told = shutil.copytree(ended, tmp_path / "run"), []

    def killed(self: Journal, phase: str, kind: Kind, key: str, content: Mapping[str, Any]) -> None:
        if kind == "anew":
            if len(told) == count:
                raise KeyboardInterrupt
            told.append(phase)
        put(self, phase, kind, key, content)

    put = Journal.put
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            search(None, folder, MORE)
    assert not Run.open(folder).finished
    search(None, folder)
    assert came_to(folder) == whole


@pytest.mark.skipif(sys.platform != "linux", reason="processes are killed, and looked for in /proc")
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.timeout(600)
def test_killed_extension_equals_uninterrupted_one(
    count: int, ended: Path, whole: Mapping[str, Any], tmp_path: Path
) -> None:
    draw = random.Random(count)
    folder = shutil.copytree(ended, tmp_path / "run")
    arguments = ["search", "--resume", folder, *(f"--set={key}={value}" for key, value in MORE.items())]
    killed = 0
    while killed < count:
        driver = Command(*arguments)
        while not is_locked(folder) and driver.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.5)
        driver.send_signal(signal.SIGKILL)
        killed += driver.end()[0] != 0
        Run.open(folder)  # verified
    code, said = Command(*arguments).end()
    assert code == 0, said
    assert came_to(folder) == whole
