"""Converts scalars to records of TensorBoard's file format, with the package `tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from archir.diagnostics.errors import fail


def require_package() -> None:
    """Raise ArchError (A2602) if the package `tensorboard` is not installed."""
    if find_spec("tensorboard") is None:
        raise fail("A2602", "TensorBoard is not installed", None, "pip install 'archir[tensorboard]'")


def header(wall_time: float) -> bytes:
    """Return the first record of an event file, which states the file version."""
    from tensorboard.compat.proto.event_pb2 import Event

    return _record(Event(wall_time=wall_time, file_version="brain.Event:2"))


def scalars(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """Return a record with scalars, by tag, at a step."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    items = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
    return _record(Event(wall_time=wall_time, step=step, summary=Summary(value=items)))


def _record(event: Any) -> bytes:
    """Serialise an event to a record with checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()
