"""Sounds in WAV files, in a folder for each class, maybe below `train` and `test`."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, refused
from archir.data.readers.folder import classes_in, parts_of
from archir.data.readers.source import Part, Source, unreadable
from archir.diagnostics.errors import fail

_SCALES = {1: ("u1", 128.0, 128.0), 2: ("<i2", 0.0, 32768.0), 4: ("<i4", 0.0, 2147483648.0)}


def read(path: Path, inputs: Inputs) -> Source:
    """Sounds from -1 to 1 as long as a net's input [samples] or [samples, channels]: cut off, or with silence after.

    Raises ArchError (A1101, A1102, A1103, A1104).
    """
    one = inputs[0]
    if len(inputs) > 1 or one.type.rank not in (1, 2) or one.type.dtype != "f32":
        raise refused(one, f"`{path}` holds sounds", "a net of sounds has an input such as f32[16000, 1]")
    rates: dict[int, Any] = {}
    folders = parts_of(path)
    classes = classes_in(folders[0])
    parts = [_part(folder, classes, one, rates) for folder in folders]
    _require_one(rates)
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes)


def _part(folder: Path, classes: tuple[str, ...], one: Input, rates: dict[int, Any]) -> Part:
    sounds, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted((folder / name).glob("*.wav")):
            sounds.append(_sound(file, file, one, rates))
            labels.append(label)
    if not sounds:
        raise fail("A1102", f"there are no sounds in {folder}")
    return Part({one.name: np.stack(sounds)}, {"label": np.array(labels, np.int64)})


def heard(cell: Mapping[str, Any], one: Input, called: str, rates: dict[int, Any]) -> NDArray[np.float32]:
    """A sound as data sets have it: the `bytes` or the `path` of a WAV file, or an `array` with its `sampling_rate`.
    All are of one rate, the first of `rates`. Raises ArchError (A1101, A1102, A1103, A1104)."""
    array = cell.get("array")
    if array is not None:
        rates.setdefault(int(cell.get("sampling_rate") or 0), called)
        found = np.asarray(array, np.float32)
        sound = _fitted(found.reshape(-1, 1) if found.ndim == 1 else found, one, called)
    else:
        sound = _sound(cell["path"] if cell.get("bytes") is None else BytesIO(cell["bytes"]), called, one, rates)
    _require_one(rates)
    return sound


def _require_one(rates: Mapping[int, Any]) -> None:
    """Raise ArchError (A1102) if sounds are of different rates."""
    if len(rates) > 1:
        found = ", ".join(f"{rate} Hz in {file}" for rate, file in rates.items())
        raise fail("A1102", f"sounds are of different rates: {found}")


def _sound(file: Path | str | BinaryIO, called: Path | str, one: Input, rates: dict[int, Any]) -> NDArray[np.float32]:
    try:
        with wave.open(str(file) if isinstance(file, Path) else file, "rb") as sound:
            width, given, rate = sound.getsampwidth(), sound.getnchannels(), sound.getframerate()
            content = sound.readframes(one.type.shape[0])
    except (OSError, EOFError, wave.Error) as error:
        raise unreadable(called, error) from None
    if width not in _SCALES:
        raise fail("A1104", f"{called} has samples of {8 * width} bits", None, "8, 16 and 32 are read")
    rates.setdefault(rate, called)
    kind, middle, scale = _SCALES[width]
    whole = len(content) // (width * given)
    frames = (np.frombuffer(content[: whole * width * given], kind).astype(np.float32) - middle) / scale
    return _fitted(frames.reshape(-1, given), one, called)


def _fitted(frames: NDArray[np.float32], one: Input, called: Path | str) -> NDArray[np.float32]:
    """Frames [n, channels] as an input takes them: cut off, or with silence after. Raises ArchError (A1103)."""
    length, *rest = one.type.shape
    channels, given = rest[0] if rest else 1, frames.shape[1]
    if given not in (1, channels) and channels != 1:
        raise refused(one, f"{called} has {given} channels")
    frames = frames[:length]
    frames = frames.mean(1, keepdims=True) if channels == 1 else np.broadcast_to(frames, (len(frames), channels))
    padded = np.zeros((length, channels), np.float32)
    padded[: len(frames)] = frames
    return padded.reshape(one.type.shape)
