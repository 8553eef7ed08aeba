"""The gallery of the documentation shows what its commands draw."""

from __future__ import annotations

import pytest

from benchmarks.imports import importable
from docs import gallery
from tests.soak import with_soak

PICTURES = {name: picture for pictures in gallery.PICTURES.values() for name, picture in pictures.items()}


def test_the_page_lists_all_pictures() -> None:
    assert gallery.PAGE.read_text("utf-8") == gallery.page()
    assert {path.stem for path in gallery.FOLDER.iterdir()} == PICTURES.keys()


@pytest.mark.parametrize("name", with_soak(PICTURES, {"nas_bench_201", "trionet", "llama"}))
def test_a_picture_is_what_its_command_draws(name: str) -> None:
    if PICTURES[name].model:
        importable()
    assert (gallery.FOLDER / f"{name}.svg").read_text("utf-8") == gallery.drawn(PICTURES[name])
