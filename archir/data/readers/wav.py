"""Sounds in WAV files, with one subfolder per class, optionally below `train` and `test`."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, input_error
from archir.data.readers.images import class_names, part_folders
from archir.data.readers.source import Part, Source, existing_path, read_error, source
from archir.diagnostics.errors import fail

_SCALES = {1: ("u1", 128.0, 128.0), 2: ("<i2", 0.0, 32768.0), 4: ("<i4", 0.0, 2147483648.0)}
"""For each sample width in bytes: numpy type, value of silence, and value of full amplitude."""


@source("wav")
def read(name: str, inputs: Inputs) -> Source:
    """Read a folder of sounds as float32 in [-1, 1], with the length of the net's input.

    The input is [samples] or [samples, channels]; longer sounds are truncated, shorter ones padded with silence.
    Raises ArchError (A1101, A1102, A1103, A1104).
    """
    path, net_input = existing_path(name), inputs[0]
    if len(inputs) > 1 or net_input.type.rank not in (1, 2) or net_input.type.dtype != "f32":
        raise input_error(net_input, f"`{path}` holds sounds", "a net of sounds has an input such as f32[16000, 1]")
    rates: dict[int, Any] = {}
    folders = part_folders(path)
    classes = class_names(folders[0])
    parts = [_sound_part(folder, classes, net_input, rates) for folder in folders]
    _require_one_rate(rates)
    return Source.of(parts, classes)


def _sound_part(folder: Path, classes: tuple[str, ...], net_input: Input, rates: dict[int, Any]) -> Part:
    """Return the sounds of one folder as a part; their sampling rates are added to `rates`."""
    sounds, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted((folder / name).glob("*.wav")):
            sounds.append(_read_wav(file, file, net_input, rates))
            labels.append(label)
    if not sounds:
        raise fail("A1102", f"there are no sounds in {folder}")
    return Part({net_input.name: np.stack(sounds)}, {"label": np.array(labels, np.int64)})


def decode_sound(cell: Mapping[str, Any], net_input: Input, name: str, rates: dict[int, Any]) -> NDArray[np.float32]:
    """Decode a sound from a data set cell: `bytes` or `path` of a WAV file, or an `array` with its `sampling_rate`.

    `rates` collects the first sound of each sampling rate (Hz); all sounds must have the same rate. Raises
    ArchError (A1101, A1102, A1103, A1104).
    """
    array = cell.get("array")
    if array is not None:
        rates.setdefault(int(cell.get("sampling_rate") or 0), name)
        frames = np.asarray(array, np.float32)
        sound = _fit_frames(frames.reshape(-1, 1) if frames.ndim == 1 else frames, net_input, name)
    else:
        sound = _read_wav(cell["path"] if cell.get("bytes") is None else BytesIO(cell["bytes"]), name, net_input, rates)
    _require_one_rate(rates)
    return sound


def _require_one_rate(rates: Mapping[int, Any]) -> None:
    if len(rates) > 1:
        rate_list = ", ".join(f"{rate} Hz in {file}" for rate, file in rates.items())
        raise fail("A1102", f"sounds have different rates: {rate_list}")


def _read_wav(
    file: Path | str | BinaryIO, name: Path | str, net_input: Input, rates: dict[int, Any]
) -> NDArray[np.float32]:
    try:
        with wave.open(str(file) if isinstance(file, Path) else file, "rb") as sound:
            width, channels, rate = sound.getsampwidth(), sound.getnchannels(), sound.getframerate()
            content = sound.readframes(net_input.type.shape[0])
    except (OSError, EOFError, wave.Error) as error:
        raise read_error(name, error) from None
    if width not in _SCALES:
        raise fail("A1104", f"{name} has samples of {8 * width} bits", None, "8, 16 and 32 are read")
    rates.setdefault(rate, name)
    kind, offset, scale = _SCALES[width]
    frame_count = len(content) // (width * channels)
    frames = (np.frombuffer(content[: frame_count * width * channels], kind).astype(np.float32) - offset) / scale
    return _fit_frames(frames.reshape(-1, channels), net_input, name)


def _fit_frames(frames: NDArray[np.float32], net_input: Input, name: Path | str) -> NDArray[np.float32]:
    """Convert frames [n, channels] to the shape of an input.

    The frames are truncated or padded with silence. Several channels are averaged to mono, or mono is repeated for each
    channel. Raises ArchError (A1103) if the channel counts do not fit.
    """
    length, *channel_axis = net_input.type.shape
    channels, frame_channels = channel_axis[0] if channel_axis else 1, frames.shape[1]
    if frame_channels not in (1, channels) and channels != 1:
        raise input_error(net_input, f"{name} has {frame_channels} channels")
    frames = frames[:length]
    frames = frames.mean(1, keepdims=True) if channels == 1 else np.broadcast_to(frames, (len(frames), channels))
    padded = np.zeros((length, channels), np.float32)
    padded[: len(frames)] = frames
    return padded.reshape(net_input.type.shape)
