"""No change of any file of a run goes unnoticed, and none is more than a diagnostic."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.diagnostics.explain import page
from archir.runs import Run, summaries
from archir.runs.journal import RESUME_HINT
from tests.runs.scenario import HAS_TENSORBOARD, work


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    work(folder)
    return folder


def files(folder: Path) -> list[Path]:
    """All files of a run but those for TensorBoard, which are not verified."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return sorted(path for path in paths if "tensorboard" not in path.relative_to(folder).parts)


def corrupted(path: Path, draw: random.Random) -> str:
    """Change a file in some way; what was done to it."""
    data = bytearray(path.read_bytes())
    what = draw.choice(["bit", "bit", "bit", "cut", "byte", "swap", "longer", "gone", "zeros"])
    place = draw.randrange(len(data))
    match what:
        case "bit":
            data[place] ^= 1 << draw.randrange(8)
        case "cut":
            del data[place:]
        case "byte":
            data[place] = (data[place] + draw.randrange(1, 256)) % 256
        case "swap":
            data[place:] = data[place:][::-1]
        case "longer":
            data += draw.randbytes(draw.randrange(1, 100))
        case "zeros":
            data[place : place + 64] = bytes(len(data[place : place + 64]))
        case "gone":
            path.unlink()
            return what
    path.write_bytes(data)
    return what


def corruptions(whole: Path, folder: Path, count: int, seed: int) -> int:
    """Change a file of a run, so often; each change is told by a diagnostic that names the file. How often."""
    draw = random.Random(seed)
    shutil.copytree(whole, folder)
    names = [path.relative_to(whole) for path in files(whole)]
    done = 0
    while done < count:
        name = draw.choice(names)
        before = (whole / name).read_bytes()
        what = corrupted(folder / name, draw)
        if (folder / name).exists() and (folder / name).read_bytes() == before:
            continue
        done += 1
        for attempt in (Run.open, Run.resume):
            with pytest.raises(ArchError) as caught:
                attempt(folder)
            said = caught.value.diagnostics
            assert any(name.name in one.message for one in said), (what, name)
            assert all(page(one.code) and (one.hint or one.code == "A1801") for one in said)
        assert files(folder) == [folder / one for one in names if (folder / one).exists()]
        (folder / name).write_bytes(before)
    Run.open(folder)
    return done


def test_random_corruptions_are_all_detected(whole: Path, tmp_path: Path) -> None:
    assert corruptions(whole, tmp_path / "run", 60, seed=0) == 60


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_random_corruptions_are_all_detected(whole: Path, tmp_path: Path) -> None:
    assert corruptions(whole, tmp_path / "run", 10_000, seed=1) == 10_000


@pytest.fixture(scope="module")
def killed(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as a kill leaves it: rows and scalars that the manifest does not know, in files that were not ended."""
    base = tmp_path_factory.mktemp("killed")
    with Run.resume(shutil.copytree(whole, base / "run")) as run:
        run.tensorboard = HAS_TENSORBOARD
        run.phase("search").save({"epoch": 6}, {"bin": b"55"})
        for epoch in (5, 6):
            run.phase("search").record({"epoch": epoch, "loss": 0.01, "accuracy": 0.55})
        return shutil.copytree(run.folder, base / "killed")


def killed_corruptions(killed: Path, folder: Path, count: int, seed: int) -> int:
    """How many changes of a killed run are told; the others change nothing that counts."""
    draw = random.Random(seed)
    names = [path.relative_to(killed) for path in files(killed)]
    known = Run.open(killed).phase("search").rows()
    told = 0
    for _ in range(count):
        name = draw.choice(names)
        shutil.copytree(killed, folder)
        corrupted(folder / name, draw)
        try:
            run = Run.open(folder)
        except ArchError:
            told += 1
        else:
            changed = (folder / name).read_bytes() != (killed / name).read_bytes() if (folder / name).exists() else True
            assert name.name.startswith("metrics.sqlite") or not changed
            rows = run.phase("search").rows()
            assert rows == known[: len(rows)]
            assert len(rows) >= 5, "the manifest knows these"
            last = run.phase("search").last()
            assert last is not None
            assert (last.number, last.read("bin")) == (6, b"55")
        shutil.rmtree(folder)
    return told


def test_corruptions_of_killed_run_are_detected(killed: Path, tmp_path: Path) -> None:
    assert len(Run.open(killed).phase("search").rows()) == 7
    assert killed_corruptions(killed, tmp_path / "run", 60, seed=2) > 30


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_corruptions_of_killed_run_are_detected(killed: Path, tmp_path: Path) -> None:
    assert killed_corruptions(killed, tmp_path / "run", 10_000, seed=3) > 5000


def test_flipped_manifest_bits_are_detected(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    path = folder / "manifest.json"
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 29):
        path.write_bytes(data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :])
        with pytest.raises(ArchError, match="A1802"):
            Run.open(folder)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{}", b"{" * 10_000, b"[" * 100_000, b'{"~sha256": 1}', b"\xff"]
)
def test_rejects_malformed_manifest(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(ArchError, match="A1802"):
        Run.open(tmp_path)


@pytest.mark.parametrize("place", ["note.txt", "phases/search/note.txt", "tensorboard/x/note"])
def test_foreign_files_are_left_alone(place: str, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_text("hello")
    Run.open(folder)
    Run.resume(folder, fall_back=True).close()
    assert (folder / place).read_text() == "hello"


def test_write_ahead_log_beside_closed_journal_is_damage(whole: Path, tmp_path: Path) -> None:
    """SQLite would add them to the journal."""
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "metrics.sqlite-wal").write_text("hello")
    for attempt in (Run.open, Run.resume):
        with pytest.raises(ArchError, match=r"A1803.*metrics\.sqlite-wal was written after the run was closed"):
            attempt(folder)
    rows = Run.open(whole).phase("search").rows()
    with Run.resume(folder, fall_back=True) as run:
        assert run.phase("search").rows() == rows


def test_links_and_folders_in_place_of_files_are_damage(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "best.json").rename(tmp_path / "elsewhere")
    (folder / "best.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchError, match=r"A1803.*best\.json is no longer a regular file"):
        Run.open(folder)
    (folder / "best.json").unlink()
    (folder / "best.json").mkdir()
    with pytest.raises(ArchError, match=r"A1803.*best\.json is no longer a regular file"):
        Run.open(folder)


def test_damage_after_opening_is_noticed_too(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    last = Run.open(folder).phase("search").last()
    assert last is not None
    assert last.read("bin") == b"30"
    (folder / "phases/search/checkpoint-5.bin").write_bytes(b"31")
    with pytest.raises(ArchError, match=r"A1803.*checkpoint-5\.bin"):
        last.read("bin")


def test_all_damaged_files_are_reported_together(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "best.json").unlink()
    (folder / "recipe.toml").write_text("epochs = 6\n")
    (folder / "report.html").write_text("retr")
    with pytest.raises(ArchError) as caught:
        Run.open(folder)
    assert [one.code for one in caught.value.diagnostics] == ["A1804", "A1803", "A1803"]
    assert [(one.message.rpartition("/")[2], one.hint) for one in caught.value.diagnostics] == [
        (
            "best.json is missing",
            f"{RESUME_HINT}: the file is removed and written again",
        ),
        (
            "recipe.toml was changed after it was written: its SHA-256 differs",
            "put back a copy of the file, or begin another run",
        ),
        (
            "report.html was cut: 4 of 10 bytes are left",
            f"{RESUME_HINT}: the file is removed and written again",
        ),
    ]


def test_the_list_shows_damage(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "best.json").write_text("")
    [summary] = summaries(tmp_path)
    assert (summary.name, summary.recipe, summary.state) == ("run", "scenario", "damaged")
    assert summary.problem is not None
    assert "best.json was cut" in summary.problem
    (folder / "manifest.json").write_text("")
    [summary] = summaries(tmp_path)
    assert (summary.recipe, summary.state) == ("", "damaged")


# falling back


def test_fall_back_resumes_from_previous_checkpoint(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    path = folder / "phases/retrain/checkpoint-5.bin"
    path.write_bytes(b"99")
    with pytest.raises(
        ArchError,
        match=rf"checkpoint-5\.bin.*\n  hint: {RESUME_HINT}, from checkpoint 4",
    ):
        Run.resume(folder)
    with Run.resume(folder, fall_back=True) as run:
        last = run.phase("retrain").last()
        assert last is not None
        assert (last.number, last.facts, last.read("bin")) == (4, {"epoch": 4}, b"14")
        assert not run.finished
        assert not path.exists()
        assert len(run.phase("retrain").rows()) == 5
    Run.open(folder)


def test_missing_older_checkpoint_does_not_stop_resume(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "phases/search/checkpoint-4.json").unlink()
    with pytest.raises(ArchError, match=r"checkpoint-4\.json is missing\n.*a later checkpoint is intact"):
        Run.open(folder)
    with Run.resume(folder, fall_back=True) as run:
        last = run.phase("search").last()
        assert last is not None
        assert last.number == 5


def test_phase_restarts_when_all_checkpoints_are_damaged(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    for number in (4, 5):
        (folder / f"phases/search/checkpoint-{number}.bin").write_bytes(b"")
    with pytest.raises(ArchError, match="phase `search` starts again"):
        Run.open(folder)
    with Run.resume(folder, fall_back=True) as run:
        assert run.phase("search").last() is None


def test_fall_back_removes_damaged_report(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "report.html").write_bytes(b"")
    with Run.resume(folder, fall_back=True) as run:
        assert not (folder / "report.html").exists()
        run.write({"report.html": "new"})
        run.phase("search").record({"epoch": 5, "loss": 0.1})
    assert len(Run.open(folder).phase("search").rows()) == 6


def test_fall_back_restarts_damaged_journal(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    data = bytearray((folder / "metrics.sqlite").read_bytes())
    data[5000] ^= 4
    (folder / "metrics.sqlite").write_bytes(data)
    with pytest.raises(
        ArchError,
        match=rf"A1803.*metrics\.sqlite.*\n  hint: put back a copy, or {RESUME_HINT}",
    ):
        Run.resume(folder)
    with Run.resume(folder, fall_back=True) as run:
        assert run.phase("search").rows() == []
        assert run.phase("search").checkpoints().keys() == {4, 5}
        run.phase("search").record({"epoch": 0, "loss": 1.0})
    assert Run.open(folder).phase("search").rows() == [{"epoch": 0, "loss": 1.0}]


def test_damaged_inputs_or_manifest_prevent_fall_back(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "space/net.arch").write_text("net tiny {}")
    with pytest.raises(ArchError, match=r"A1803.*net\.arch was cut"):
        Run.resume(folder, fall_back=True)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(ArchError, match="A1802"):
        Run.resume(folder, fall_back=True)
