"""Event files for TensorBoard, read by TensorBoard."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from archir.diagnostics.errors import ArchError
from archir.runs import Run, tensorboard
from tests.runs.scenario import HAS_TENSORBOARD

needs_tensorboard = pytest.mark.skipif(not HAS_TENSORBOARD, reason="the extra `tensorboard` is not installed")


def events(file: Path) -> list[Any]:
    """All events of a file; the loader verifies checksums."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    return [*LegacyEventFileLoader(str(file)).Load()]


def shown(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Step and scalars that TensorBoard shows of a search."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = EventAccumulator(str(folder / "tensorboard" / "search"))
    files.Reload()
    values: dict[int, dict[str, float]] = {}
    for tag in files.Tags()["scalars"]:
        for event in files.Scalars(tag):
            assert tag not in values.setdefault(event.step, {}), "a value is shown once"
            values[event.step][tag] = event.value
    return sorted(values.items())


def steps(folder: Path) -> list[int]:
    return [step for step, _ in shown(folder)]


@needs_tensorboard
def test_event_file_scalars_are_read_by_tensorboard(tmp_path: Path) -> None:
    values = {"loss": 0.1, "accuracy": -2.5e10, "learning rate/größte": 3.0}
    file = tensorboard.EventFile(tmp_path)
    file.scalars(2**40 + 3, values)
    file.close()
    head, start, first = events(next(tmp_path.iterdir()))
    assert head.file_version == "brain.Event:2"
    assert start.step == first.step == 2**40 + 3
    assert {one.tag: one.simple_value for one in first.summary.value} == {
        name: struct.unpack("<f", struct.pack("<f", value))[0] for name, value in values.items()
    }


@needs_tensorboard
def test_a_run_writes_its_epochs_once(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        run.tensorboard = True
        for epoch in range(3):
            run.phase("search").record({"epoch": epoch, "loss": 1.0, "finished": "early"})
    assert steps(tmp_path) == [0, 1, 2]
    with Run.resume(tmp_path) as run:
        run.tensorboard = True
        run.phase("search").record({"epoch": 3, "loss": 1.0})
    assert steps(tmp_path) == [0, 1, 2, 3]


@needs_tensorboard
def test_extra_scalars_go_to_tensorboard_only(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        run.tensorboard = True
        run.phase("search").record({"epoch": 2, "loss": 0.5}, {"edge[0].op/skip": 0.25})
        assert run.phase("search").rows() == [{"epoch": 2, "loss": 0.5}]
    assert shown(tmp_path) == [(2, {"loss": 0.5, "edge[0].op/skip": 0.25})]


@needs_tensorboard
def test_steps_after_the_last_checkpoint_are_replaced(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    with Run.create(tmp_path / "run", "digits", {}, {}) as run:
        run.tensorboard = True
        for epoch in range(3):
            run.phase("search").record({"epoch": epoch, "loss": 1.0})
        shutil.copytree(run.folder, killed)
    assert steps(killed) == [0, 1, 2]
    with Run.resume(killed) as run:
        run.tensorboard = True
        run.phase("search").record({"epoch": 1, "loss": 2.0})
    assert shown(killed) == [(0, {"loss": 1.0}), (1, {"loss": 2.0})]


def test_no_event_files_without_tensorboard_option(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        run.phase("search").record({"epoch": 0, "loss": 1.0}, {"edge[0].op/skip": 0.25})
    assert not (tmp_path / "tensorboard").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    with pytest.raises(ArchError, match=r"A2602.*TensorBoard is not installed\n.*pip install 'archir\[tensorboard\]'"):
        tensorboard.require_package()
