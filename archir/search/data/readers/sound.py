"""Sounds in WAV files, in a folder for each class, maybe below `train` and `test`."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archir.base.errors import fail
from archir.search.data.inputs import Input, Inputs, refused
from archir.search.data.readers.folder import classes_in, parts_of
from archir.search.data.readers.source import Part, Source, unreadable

_SCALES = {1: ("u1", 128.0, 128.0), 2: ("<i2", 0.0, 32768.0), 4: ("<i4", 0.0, 2147483648.0)}


def read(path: Path, inputs: Inputs) -> Source:
    """Sounds from -1 to 1 as long as a net's input [samples] or [samples, channels]: cut off, or with silence after.

    Raises ArchError (A1101, A1102, A1103, A1104).
    """
    one = inputs[0]
    if len(inputs) > 1 or one.type.rank not in (1, 2) or one.type.dtype != "f32":
        raise refused(one, f"`{path}` holds sounds", "a net of sounds has an input such as f32[16000, 1]")
    rates: dict[int, Path] = {}
    folders = parts_of(path)
    classes = classes_in(folders[0])
    parts = [_part(folder, classes, one, rates) for folder in folders]
    if len(rates) > 1:
        found = ", ".join(f"{rate} Hz in {file}" for rate, file in rates.items())
        raise fail("A1102", f"sounds are of different rates: {found}")
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes)


def _part(folder: Path, classes: tuple[str, ...], one: Input, rates: dict[int, Path]) -> Part:
    sounds, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted((folder / name).glob("*.wav")):
            sounds.append(_sound(file, one, rates))
            labels.append(label)
    if not sounds:
        raise fail("A1102", f"there are no sounds in {folder}")
    return Part({one.name: np.stack(sounds)}, {"label": np.array(labels, np.int64)})


def _sound(file: Path, one: Input, rates: dict[int, Path]) -> NDArray[np.float32]:
    length, *rest = one.type.shape
    channels = rest[0] if rest else 1
    try:
        with wave.open(str(file), "rb") as sound:
            width, given, rate = sound.getsampwidth(), sound.getnchannels(), sound.getframerate()
            content = sound.readframes(length)
    except (OSError, EOFError, wave.Error) as error:
        raise unreadable(file, error) from None
    if width not in _SCALES:
        raise fail("A1104", f"{file} has samples of {8 * width} bits", None, "8, 16 and 32 are read")
    if given not in (1, channels) and channels != 1:
        raise refused(one, f"{file} has {given} channels")
    rates.setdefault(rate, file)
    kind, middle, scale = _SCALES[width]
    whole = len(content) // (width * given)
    frames = (np.frombuffer(content[: whole * width * given], kind).astype(np.float32) - middle) / scale
    frames = frames.reshape(-1, given)
    frames = frames.mean(1, keepdims=True) if channels == 1 else np.broadcast_to(frames, (len(frames), channels))
    padded = np.zeros((length, channels), np.float32)
    padded[: len(frames)] = frames
    return padded.reshape(one.type.shape)
