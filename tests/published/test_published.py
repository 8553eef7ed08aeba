"""Published figures equal computed ones, and the tables in the examples' READMEs are current."""

from __future__ import annotations

import pytest

from examples.published import Figure, folders, rows, updated
from tests.examples import elaborate_once

FOLDERS = {folder.name: folder for folder in folders()}
SLOW = {"autola", "nas_bench_101"}


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.api.loading.elaborate", elaborate_once)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.soak] * (name in SLOW)) for name in FOLDERS])
def test_published_figures_are_reproduced_or_explained(name: str) -> None:
    """What is not reproduced is explained, and the table in the README is up to date."""
    folder = FOLDERS[name]
    wrong = [
        f"{row.model}: {kind} published {figure.printed}, computed {figure.computed:,}"
        for row in rows(folder)
        for kind, figure in row.figures.items()
        if figure.ok != figure.expected
    ]
    assert not wrong, "\n".join(wrong)
    for row in rows(folder):
        assert all(figure.ok for figure in row.figures.values()) or row.note, f"{row.model} has no note"
    assert (folder / "README.md").read_text("utf-8") == updated(folder), "run python examples/published.py"


def test_figure_matches_printed_precision_or_tolerance() -> None:
    assert Figure("0.27 M", 269_722, None, True).ok
    assert not Figure("0.27 M", 275_001, None, True).ok
    assert Figure("5,717,416", 5_717_416, None, True).ok
    assert not Figure("5,717,416", 5_717_417, None, True).ok
    assert Figure("4 G", 4_300_000_000, 0.1, True).ok
    assert not Figure("4 G", 4_500_000_000, 0.1, True).ok
    assert str(Figure("4 G", 5_000_000_000, 0.1, True)) == "5,000,000,000 (+25.0%)"
