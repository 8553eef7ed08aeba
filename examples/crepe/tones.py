"""Synthetic tones with known pitches, and a pitch accuracy: data and a measure for networks like CREPE.

A tone lasts 64 ms, 1024 samples at 16 kHz. It has up to a dozen harmonics with a random decay, one of which may be
missing, vibrato, a change of volume, and noise 0 to 30 dB below the tone. Targets are those of CREPE: 360 bins, 20
cents apart, with a Gaussian of 25 cents around the pitch.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archir_torch.objectives import Measure, measure

RATE, SAMPLES, BINS = 16_000, 1024, 360
CENTS = 1997.3794084376191 + 20 * np.arange(BINS)
"""Pitches of the bins, in cents above 10 Hz."""
LOWEST, HIGHEST = 50.0, 1500.0
HELD_OUT = 300

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]


def small() -> dict[str, Arrays]:
    """Return 3000 tones for training, and held-out tones."""
    return {"train": sample(3000, 1), "test": sample(HELD_OUT, 2)}


def large() -> dict[str, Arrays]:
    """Return 10,000 tones for training, and held-out tones."""
    return {"train": sample(10_000, 1), "test": sample(HELD_OUT, 2)}


def sample(count: int, seed: int) -> Arrays:
    """Return random tones, with pitches uniform over the octaves: frames [n, 1, 1024, 1] and bins [n, 360]."""
    rng = np.random.default_rng(seed)
    pitches = np.exp(rng.uniform(np.log(LOWEST), np.log(HIGHEST), count))
    frames = np.stack([tone(pitch, rng) for pitch in pitches])[:, None, :, None]
    cents = 1200 * np.log2(pitches / 10)
    bins = np.exp(-((CENTS - cents[:, None]) ** 2) / (2 * 25**2))
    return frames.astype(np.float32), bins.astype(np.float32)


def tone(pitch: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a frame with the pitch `pitch` in its middle, of mean 0 and standard deviation 1."""
    time = (np.arange(SAMPLES) - SAMPLES / 2) / RATE
    rate, depth, phase = rng.uniform(3, 8), rng.uniform(0, 40), rng.uniform(0, 2 * np.pi)
    bend = depth / 1200 * np.log(2) * (np.sin(2 * np.pi * rate * time + phase) - np.sin(phase))
    angle = 2 * np.pi * np.cumsum(pitch * np.exp(bend)) / RATE
    harmonics = np.arange(1, rng.integers(1, 13) + 1)
    harmonics = harmonics[harmonics * pitch < RATE / 2]
    strengths = harmonics ** -rng.uniform(0.3, 2.0) * rng.uniform(0.3, 1.0, len(harmonics))
    if len(harmonics) > 2 and rng.random() < 0.3:
        strengths[rng.integers(len(harmonics))] = 0
    waves = np.sin(harmonics[:, None] * angle + rng.uniform(0, 2 * np.pi, (len(harmonics), 1)))
    sound = (strengths[:, None] * waves).sum(0) * (1 + rng.uniform(-0.6, 0.6) * time / time[-1])
    noise = rng.normal(size=SAMPLES)
    sound = sound / sound.std() + noise / noise.std() * 10 ** (-rng.uniform(0, 30) / 20)
    return (sound - sound.mean()) / sound.std()


def cents_of(weights: Tensor) -> Tensor:
    """Return pitches in cents above 10 Hz, from weights of bins [n, 360]: the mean over nine bins around the
    largest."""
    bins = torch.from_numpy(CENTS).to(weights)
    near = (torch.arange(BINS, device=weights.device) - weights.argmax(1, keepdim=True)).abs() <= 4
    return (weights * near * bins).sum(1) / (weights * near).sum(1)


@measure
class RawPitchAccuracy(Measure):
    """Fraction of tones whose pitch is off by less than half a semitone."""

    name, larger = "raw_pitch_accuracy", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the number of correct pitches, from logits and target bins [n, 360]."""
        return ((cents_of(output.double().sigmoid()) - cents_of(target.double())).abs() < 50).sum()
