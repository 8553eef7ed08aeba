"""Spaces of chosen wirings and grammars: their numbers, and networks of them that work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archir
from tests.architectures import assert_works
from tests.examples import elaborated
from tests.soak import with_soak


def pairs() -> int:
    """Ways in which seven cells pick two of five maps and the cells before them."""
    return 10 * 15 * 21 * 28 * 36 * 45 * 55


def modules(depth: int) -> int:
    """Modules of the grammar: an operation; two in a row, side by side, or on half of the channels; or one inside."""
    return 5 + 3 * modules(depth - 1) ** 2 + modules(depth - 1) if depth else 5


NUMBERS: dict[str, tuple[dict[str, Any], int, int]] = {
    "nas_bench_101": ({"channels": 9, "stacks": 2, "modules": 1, "size": 8}, 512_290_394, 1_293_208),
    "nas_bert": ({"tokens": 4, "vocabulary": 50, "width": 128}, 26**24, 26**24),
    "nas_fpn": ({"channels": 4, "size": 128}, pairs() * 2**7 * 5**7, pairs() * 2**7 * 5**2 * 120),
    "grammar": ({"channels": 8, "size": 8}, modules(2) ** 3, modules(2) ** 3),
}


def space_of(name: str) -> archir.Space:
    return elaborated(f"{name}/{name}.arch", **NUMBERS[name][0])


@pytest.mark.parametrize("name", NUMBERS)
def test_size_and_satisfying_count_match_expected(name: str) -> None:
    _, size, satisfying = NUMBERS[name]
    assert (space_of(name).size, space_of(name).satisfying) == (size, satisfying)


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", with_soak(NUMBERS, ["nas_bench_101", "nas_bert", "grammar"]))
def test_sampled_networks_run_and_export(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(name)
    for seed in range(count):
        network = space.specialize(space.sample(seed))
        if name == "nas_bert":
            archir.export(network, tmp_path / "net.onnx", archir.compile(network).eval())
        else:
            assert_works(network, tmp_path, monkeypatch)
