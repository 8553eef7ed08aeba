"""No change of any file of a search goes unnoticed, whether it is finished or goes on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from archir import backends
from archir.diagnostics.errors import ArchError, Interrupted
from archir.diagnostics.explain import page
from archir.runs import Run
from archir.runs.run import Phase
from tests.runs.test_damage import corrupted, files
from tests.torch_backend.searches import recipe

LEFT = ["weights.safetensors", "splits.json", "alphas.json", "architecture.json"]
"""What a phase came to, tensors and text, of which the suite damages one each."""


class Stopping:
    """Who looks on, and has enough after some steps of the second phase."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        self.phase = phase

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        if self.phase == "again" and index == 4:
            raise Interrupted("that is enough")

    def epoch(self, row: Mapping[str, object]) -> None:
        pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = recipe(tmp_path_factory.mktemp("finished"))
    backends.get("torch").search(path, path.parent / "run", device="cpu")
    return path.parent / "run"


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = recipe(tmp_path_factory.mktemp("interrupted"))
    with pytest.raises(Interrupted):
        backends.get("torch").search(path, path.parent / "run", device="cpu", progress=Stopping())
    run = Run.open(path.parent / "run")
    assert not run.finished
    assert [phase.name for phase in run.phases()] == ["search", "again"]
    return path.parent / "run"


def corruptions(whole: Path, folder: Path, count: int, seed: int) -> None:
    """Change a file so often; each time, whoever reads the run or goes on with it is told, before anything is used."""
    draw = random.Random(seed)
    shutil.copytree(whole, folder)
    names = [path.relative_to(whole) for path in files(whole)]
    torch = backends.get("torch")
    for _ in range(count):
        name = draw.choice(names)
        before = (whole / name).read_bytes()
        what = corrupted(folder / name, draw)
        if (folder / name).exists() and (folder / name).read_bytes() == before:
            continue
        for attempt in (lambda: Run.open(folder), lambda: torch.search(None, folder, resume=True, device="cpu")):
            with pytest.raises(ArchError) as caught:
                attempt()
            said = caught.value.diagnostics
            assert any(name.name in one.message for one in said), (what, name)
            assert all(page(one.code) for one in said)
        assert files(folder) == [folder / one for one in names if (folder / one).exists()]
        (folder / name).write_bytes(before)
    Run.open(folder)


@pytest.mark.parametrize("state", ["finished", "interrupted"])
def test_corrupted_run_file_is_always_reported(state: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    corruptions(request.getfixturevalue(state), tmp_path / "run", 25, seed=0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("state", ["finished", "interrupted"])
def test_thousands_of_file_corruptions_are_all_reported(
    state: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    corruptions(request.getfixturevalue(state), tmp_path / "run", 5000, seed=1)


def test_fall_back_resumes_from_checkpoint_before_damaged_one(
    interrupted: Path, finished: Path, tmp_path: Path
) -> None:
    """And the search ends as the one that nobody damaged."""
    folder = shutil.copytree(interrupted, tmp_path / "run")
    numbers = Run.open(folder).phase("again").checkpoints()
    path = folder / f"phases/again/checkpoint-{max(numbers)}.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    torch = backends.get("torch")
    hint = r"\n  hint: go on with `archir search --resume RUN --fall-back`"
    with pytest.raises(ArchError, match=rf"A1803[^\n]*safetensors was cut[^\n]*{hint}"):
        torch.search(None, folder, resume=True, device="cpu")
    torch.search(None, folder, resume=True, fall_back=True, device="cpu")
    one, other = Run.open(folder), Run.open(finished)
    for name in ("best.json", "weights.safetensors", "phases/again/alphas.json", "phases/again/weights.safetensors"):
        assert one.content(name) == other.content(name)


@pytest.mark.parametrize("name", ["recipe.toml", "overrides.json", "environment.json"])
def test_fall_back_never_discards_recipe_or_overrides(name: str, interrupted: Path, tmp_path: Path) -> None:
    """It cannot be written anew, so falling back keeps the file, and a copy that is put back mends the run."""
    folder = shutil.copytree(interrupted, tmp_path / "run")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    with pytest.raises(ArchError, match="put back a copy of the file"):
        backends.get("torch").search(None, folder, resume=True, fall_back=True, device="cpu")
    assert (folder / name).read_bytes() == whole[:-1]
    (folder / name).write_bytes(whole)
    Run.open(folder)


@pytest.mark.parametrize(
    ("name", "killed"),
    [
        pytest.param(
            name, killed, marks=[] if (name, killed) in zip(LEFT, (False, True), strict=False) else pytest.mark.soak
        )
        for name in LEFT
        for killed in (False, True)
    ],
)
def test_fall_back_rebuilds_damaged_results_of_finished_phase(
    name: str, killed: bool, interrupted: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phase that is done goes on from its last checkpoint, and comes to the same; also if a kill came when the
    damaged files had been removed, and the journal did not know of it."""
    folder = shutil.copytree(interrupted, tmp_path / "run")
    path = folder / "phases" / "search" / name
    path.write_bytes(path.read_bytes()[:-1])
    torch = backends.get("torch")
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(Phase, "reopen", interrupt)
            with pytest.raises(KeyboardInterrupt):
                torch.search(None, folder, resume=True, fall_back=True, device="cpu")
    torch.search(None, folder, resume=True, fall_back=not killed, device="cpu")
    one, other = Run.open(folder), Run.open(finished)
    for found in (f"phases/search/{name}", "best.json", "weights.safetensors"):
        assert one.content(found) == other.content(found)


def interrupt(phase: Phase) -> None:
    raise KeyboardInterrupt
