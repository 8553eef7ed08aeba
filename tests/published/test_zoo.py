"""The spaces of the zoo have the sizes that are published; their networks train, export, and cost what is counted."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from tests.architectures import assert_works
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated
from tests.portions import portion
from tests.published.test_zoo_of_text import TEXT

CELLS_OF_FIVE = prod(range(2, 7)) ** 2 * 8**10
"""Two of the results before and two of eight operations, for each of five blocks: about 5.6 * 10^14."""
ZOO = {
    "auto_deeplab": 28_657 * CELLS_OF_FIVE,  # 2.9 * 10^4 ways through the levels
    "enas_macro": 6**12 * 2**66,  # 1.6 * 10^29
    "fbnet": 9**22,  # 10^21
    "nas_bench_asr": 6**3 * 2**6,
    "nas_bench_macro": 3**8,
    "nats_size": 8**5,
    "pnas": CELLS_OF_FIVE,
    "spos": 4**20,
    "transnas_macro": 3_256,
    "transnas_micro": 4**6,
}
"""How many architectures the papers say there are."""
QUICK = {"nats_size", "nas_bench_asr", "transnas_macro"}
"""Spaces of which the suite tries a network: maps of chosen widths, series, chosen depths."""


def path_of(name: str) -> str:
    return f"zoo/{name}.arch:{name}"


def test_all_files_are_here() -> None:
    assert {path.stem for path in (EXAMPLES / "zoo").glob("*.arch")} == ZOO.keys() | TEXT.keys()


@pytest.mark.parametrize("name", ZOO)
def test_the_size_is_the_published_one(name: str) -> None:
    head = (EXAMPLES / "zoo" / f"{name}.arch").read_text("utf-8").partition("\n\n")[0]
    assert "Published size: " in head.replace("\n# ", " ")
    assert elaborated(path_of(name)).satisfying == ZOO[name]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
@pytest.mark.parametrize("name", portion(ZOO, QUICK))
def test_networks_work(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = path_of(name)
    space = elaborated(net, **NETS[net])
    assert_works(space.specialize(space.sample(seed)), tmp_path, monkeypatch)
