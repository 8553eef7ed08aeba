"""Four classes of synthetic sounds: rising, falling, beating, and of two tones."""

import sys
import wave
from pathlib import Path

import numpy as np

NAMES = ("beats", "falls", "rises", "two")


def sound(name, rng, count=512):
    """Return a sound of `count` samples, with a random pitch and noise."""
    time = np.arange(count) / count
    pitch = rng.uniform(30, 50)
    bend = {"rises": 25, "falls": -25}.get(name, 0)
    phase = 2 * np.pi * (pitch * time + bend * time**2 / 2)
    tone = np.sin(phase + rng.uniform(0, 6))
    if name == "beats":
        tone = tone * (np.sin(2 * np.pi * 6 * time) > 0)
    if name == "two":
        tone = (tone + np.sin(1.5 * phase)) / 2
    return 0.7 * tone + rng.normal(0, 0.4, count)


def write(folder, each=60, seed=0):
    """Write a folder of WAV files for each class."""
    rng = np.random.default_rng(seed)
    for name in NAMES:
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            with wave.open(str(Path(folder) / name / f"{number}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(4000)
                file.writeframes((sound(name, rng).clip(-1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    write(sys.argv[1])
