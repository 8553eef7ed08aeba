"""The published spaces: sizes, and up to a hundred random architectures of each train and export."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import archir
from tests.architectures import assert_works
from tests.examples import elaborated
from tests.soak import with_soak

FEW = ("nas_bench_201", "mobilenet_v3_ofa")
"""Spaces of which the suite tries a network of full size; the soak tries one of each."""


WAYS = ("full_attention", "autola", "darts", "nas_bench_201", "mobilenet_v3_ofa", "autoformer")
"""Spaces of which the suite tries a small network: layers, gates, cells of both kinds, elastic ones."""


@dataclass(frozen=True)
class Example:
    """A space, its size, and parameters that make its networks small."""

    path: str
    size: int
    small: dict[str, Any] = field(default_factory=dict)


SMALL_GLIT = {"width": 24, "size": 32, "patch": 8, "classes": 4}
SPACES = {
    "full_attention": Example("full_attention/full_attention.arch", 7**15, {"channels": 16, "size": 8}),
    "trionet": Example("trionet/trionet.arch", 71_810_804_455_625_701_830_000_000, {"channels": 64, "size": 32}),
    "autola": Example("autola/autola.arch", 8**10, {"depth": 8, "size": 8}),
    "nos": Example("nos/nos.arch:nos", 320_332_086_112_500**2, {"channels": 16, "cells": 3, "size": 16}),
    "glit": Example("glit/glit.arch", 324**12, SMALL_GLIT),
    "glit, high level": Example("glit/search.arch:high", 4**12, SMALL_GLIT),
    "glit, low level": Example("glit/search.arch:low", 9**12, SMALL_GLIT),
    "darts": Example("darts/darts.arch:darts", (180 * 7**8) ** 2, {"channels": 8, "cells": 3, "size": 16}),
    "nas_bench_201": Example("nas_bench_201/nas_bench_201.arch", 15_625, {"channels": 4, "cells": 1, "size": 16}),
    "mobilenet_v3_ofa": Example(
        "mobilenet_v3_ofa/mobilenet_v3_ofa.arch", 7371**5, {"width": 0.25, "resolution": 32, "classes": 4}
    ),
    "autoformer": Example(
        "autoformer/autoformer.arch",
        3 * (4**12 + 4**13 + 4**14),
        {"head": 16, "size": 16, "patch": 8, "classes": 4},
    ),
}


def space_of(name: str, **parameters: Any) -> archir.Space:
    return elaborated(SPACES[name].path, **parameters)


@pytest.mark.parametrize("name", SPACES)
def test_space_size_matches_published_one(name: str) -> None:
    assert space_of(name).size == SPACES[name].size


@pytest.mark.parametrize("name", with_soak(SPACES, FEW))
def test_full_size_architecture_trains_and_exports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(name)
    assert_works(space.specialize(space.sample(0)), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "seeds", [range(1), *(pytest.param(range(part, 100, 25), marks=pytest.mark.soak) for part in range(1, 26))], ids=str
)
@pytest.mark.parametrize("name", with_soak(SPACES, WAYS))
def test_random_architectures_train_and_export(
    name: str, seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(name, **SPACES[name].small)
    assert space.size == SPACES[name].size
    for seed in seeds:
        assert_works(space.specialize(space.sample(seed)), tmp_path, monkeypatch)
