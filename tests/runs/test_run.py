"""Runs are created, written by one process, read by many, and resumed."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.runs import Run, Trial, environment, summaries
from archir.runs.lock import Lock, is_locked

INPUTS = {"recipe.toml": "epochs = 2\n", "space/net.arch": "net tiny {}\n"}


def begun(folder: Path) -> Run:
    return Run.create(folder, "digits", INPUTS, environment(device="cpu", threads=2))


def test_reopened_run_equals_what_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with begun(folder) as run:
        phase = run.phase("search")
        phase.begin({"epochs": 2})
        for epoch in range(4):
            phase.record({"epoch": epoch, "loss": 1 / (epoch + 1), "accuracy": 0.5 + epoch / 10})
            phase.save({"epoch": epoch, "best": float("inf")}, {"safetensors": bytes([epoch])})
        phase.put_trial(Trial(0, "abc", {"op": 1}, "failed", {"loss": float("nan")}, 1.5, "it broke", "w1"))
        phase.finish({"accuracy": 0.8})
        run.write({"best.json": "{}", "net/model.onnx": b"\0\1"})
        run.finish()
    run = Run.open(folder)
    phase = run.phase("search")
    assert (run.title, run.finished, [one.name for one in run.phases()]) == ("digits", True, ["search"])
    assert phase.done == {"accuracy": 0.8}
    assert [row["epoch"] for row in phase.rows()] == [0, 1, 2, 3]
    assert phase.trials() == [Trial(0, "abc", {"op": 1}, "failed", {"loss": None}, 1.5, "it broke", "w1")]
    assert phase.checkpoints().keys() == {3, 4}
    last = phase.last()
    assert last is not None
    assert (last.number, last.facts, last.read("safetensors")) == (4, {"epoch": 3, "best": float("inf")}, b"\3")
    assert run.content("net/model.onnx") == b"\0\1"
    assert run.content("space/net.arch") == b"net tiny {}\n"
    with pytest.raises(ArchError, match=r"A1804.*has no file `net/other\.onnx`"):
        run.content("net/other.onnx")


def test_sqlite_tables_hold_phases_rows_and_trials(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        phase = run.phase("search")
        phase.begin()
        phase.record({"epoch": 0, "loss": 2.0})
        phase.record({"epoch": 0, "loss": 1.0, "accuracy": 0.5})
        phase.put_trial(Trial(0, "abc", {"op": 1}, "running"))
        phase.put_trial(Trial(0, "abc", {"op": 1}, "done", {"loss": 1}, 3.0))
        reader = sqlite3.connect(f"file:{tmp_path / 'metrics.sqlite'}?mode=ro", uri=True)
        assert reader.execute("SELECT * FROM phases").fetchall() == [("search", "begun", "{}")]
        assert reader.execute("SELECT phase, epoch, loss, accuracy FROM epochs").fetchall() == [("search", 0, 1.0, 0.5)]
        assert reader.execute("SELECT id, hash, status, scores, seconds FROM trials").fetchall() == [
            (0, "abc", "done", '{"loss":1}', 3.0)
        ]
        reader.close()


def test_run_can_be_read_while_being_written(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        for epoch in range(5):
            run.phase("search").record({"epoch": epoch, "loss": 1.0})
            first, second = Run.open(tmp_path), Run.open(tmp_path)
            assert len(first.phase("search").rows()) == len(second.phase("search").rows()) == epoch + 1
            run.phase("search").save({"epoch": epoch}, {"bin": b"x"})
            assert summaries(tmp_path)[0].state == "running"
    assert summaries(tmp_path)[0].state == "interrupted"


def reads(folder: Path, until: Path, found: Path) -> None:
    count = 0
    while not until.exists():
        rows = Run.open(folder).phase("search").rows()
        assert [row["epoch"] for row in rows] == list(range(len(rows)))
        count += 1
    found.write_text(str(count))


def test_two_processes_read_while_one_writes(tmp_path: Path) -> None:
    folder, end = tmp_path / "run", tmp_path / "end"
    context = multiprocessing.get_context("spawn")
    with begun(folder) as run:
        names = [tmp_path / "one", tmp_path / "two"]
        readers = [context.Process(target=reads, args=(folder, end, name)) for name in names]
        for reader in readers:
            reader.start()
        epoch = 0
        while any(reader.is_alive() for reader in readers):
            run.phase("search").record({"epoch": epoch, "loss": 1.0})
            run.phase("search").save({"epoch": epoch}, {"bin": b"x" * 1000})
            run.write({"report.html": f"{epoch}"})
            epoch += 1
            if epoch == 60:
                end.touch()
    assert [reader.exitcode for reader in readers] == [0, 0]
    assert len(Run.open(folder).phase("search").rows()) == epoch


def test_second_writer_is_rejected(tmp_path: Path) -> None:
    with begun(tmp_path):
        with pytest.raises(ArchError, match=rf"A1807.*is being written by process {os.getpid()}\n.*wait until it ends"):
            Run.resume(tmp_path)
        program = f"from archir.runs import Run; Run.resume({str(tmp_path)!r})"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "A1807" in other.stderr
    Run.resume(tmp_path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    (ready, is_ready), (end, ends) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(ends)
        os.write(is_ready, b"x")
        os.read(end, 1)
        os._exit(0)
    os.read(ready, 1)
    assert is_locked(tmp_path)
    lock.release()
    assert not is_locked(tmp_path)
    os.close(ends)
    os.waitpid(child, 0)
    for handle in (ready, is_ready, end):
        os.close(handle)


def test_rejects_folder_that_holds_other_files(tmp_path: Path) -> None:
    begun(tmp_path / "run").close()
    with pytest.raises(ArchError, match=r"A1808.*holds a run already\n.*--resume"):
        begun(tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(ArchError, match=r"A1808.*is not empty: it holds `thesis\.tex`"):
        begun(tmp_path / "other")
    with pytest.raises(ArchError, match=r"A1808.*cannot be a run's folder"):
        begun(tmp_path / "other" / "thesis.tex")
    with pytest.raises(ArchError, match=r"A1801.*is not a run"):
        Run.open(tmp_path / "other")
    with pytest.raises(ArchError, match=r"A1801.*there is no folder"):
        Run.resume(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_rejects_run_of_other_format_version(tmp_path: Path) -> None:
    from archir.runs import manifest

    begun(tmp_path).close()
    data = manifest.read(tmp_path).model_dump() | {"format": 3, "more": True}
    (tmp_path / manifest.NAME).write_text(manifest.sealed(data))
    with pytest.raises(ArchError, match=r"A1809.*another version of archir \(format 3\)"):
        Run.open(tmp_path)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a b"])
def test_rejects_invalid_phase_name(name: str, tmp_path: Path) -> None:
    with begun(tmp_path) as run, pytest.raises(ArchError, match="A1810"):
        run.phase(name)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a//b", "a/../../x", "a\\b", "c:x", "", "./x", ".lock", "manifest.json"]
)
def test_rejects_file_name_outside_run_folder(name: str, tmp_path: Path) -> None:
    with begun(tmp_path / "run") as run, pytest.raises(ValueError, match="is not the name of a file in a run"):
        run.write({name: b""})
    Run.open(tmp_path / "run")


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    with begun(tmp_path / "run") as run:
        run.write({"best.json": "old"})
        with pytest.raises(FileNotFoundError):
            run.write({"best.json": "new", "model.onnx": tmp_path / "missing"})
        assert Run.open(tmp_path / "run").content("best.json") == b"old"
        run.write({"model.onnx": tmp_path / "run" / "best.json"})
    assert Run.open(tmp_path / "run").content("model.onnx") == b"old"


def test_summaries_list_phase_epoch_score_and_state(tmp_path: Path) -> None:
    with begun(tmp_path / "b") as run:
        run.phase("search").record({"epoch": 0, "loss": 2.0, "validation_accuracy": 0.9, "accuracy": 0.7})
        run.phase("retrain").begin()
        run.phase("retrain").record({"epoch": 0, "loss": 2.0, "accuracy": 0.6})
    begun(tmp_path / "a").close()
    (tmp_path / "c").mkdir()
    first, second = summaries(tmp_path)
    assert (first.name, first.phase, first.epoch, first.score, first.state) == ("a", None, None, None, "interrupted")
    assert (second.name, second.phase, second.epoch, second.score) == (
        "b",
        "retrain",
        1,
        0.6,
    )  # the last, not the best
    assert (first.validation, second.validation) == (None, 0.9)
    assert summaries(tmp_path / "none") == []
