"""TensorBoard files of a run, written with the package `tensorboard`.

They repeat numbers of the journal for TensorBoard, and are not among the verified files of a run. Each process that
works on a run writes files of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail
from archir.utils.files import report_write_errors

FOLDER = "tensorboard"
"""Name of the subfolder of a run with one folder for each phase."""


def require_package() -> None:
    """Raise ArchError (A2602) if the package `tensorboard` is not installed."""
    if find_spec("tensorboard") is None:
        raise fail("A2602", "TensorBoard is not installed", None, "pip install 'archir[tensorboard]'")


class EventFile:
    """A new file of scalars in a folder; its first step replaces this step and all later ones in older files."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with report_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            number = len(list(folder.glob("events.*")))
            self._path = folder / f"events.out.tfevents.{number:06}.archir"
            self._stream = self._path.open("xb", buffering=0)
        self._records, self._is_new = RecordWriter(self._stream), True
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step, by tag."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._is_new:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=step, session_log=start))
        self._is_new = False
        items = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=items)))

    def _write(self, event: Any) -> None:
        with report_write_errors(self._path):
            self._records.write(event.SerializeToString())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
