"""axe-core finds no violations on any kind of page: of the documentation, of runs and studies, and of pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fcntl", reason="the browser is driven over POSIX pipes")

from archir.api import loading
from archir.cli.runs_server import _index_page
from archir.pictures.html import to_html
from archir.pictures.outline import outline
from archir.pictures.style import Heat
from archir.recipes.comparison import comparison_page
from archir.runs.report import Comparison, PhaseProgress, report_page
from archir.runs.summaries import located_summaries
from archir.runs.verdicts import Verdict
from archir.spaces.space import Space
from tests.axe import needs_axe, violations
from tests.chromium import Chromium
from tests.conftest import EXAMPLES
from tests.runs.test_command import left
from tests.runs.test_report import many, report, trials
from tests.search import test_studies, test_training_studies

SITE = [
    "docs/index.html", "docs/tutorial.html", "docs/notebook.html", "docs/my_images.html", "docs/zoo.html",
    "docs/commands.html", "docs/operations.html", "docs/diagnostics.html", "docs/api/search.html", "docs/gallery.html",
    "docs/glossary.html", "docs/decisions/packages.html", "archir/diagnostics/codes/A0401.html",
    "examples/autoformer/README.html", "CHANGELOG.html", "genindex.html", "search.html?q=latency", "404.html",
]  # fmt: skip
"""Pages of the documentation, of every kind."""


def run_report(folder: Path) -> str:
    """The report of a run that has everything, and is not finished."""
    parts = replace(
        report(), result={"accuracy, held out": "97.00%"}, architecture={"op": "conv"}, trials=[many(30), trials()],
        comparisons=[Comparison("Random networks", ["", "accuracy"], [["best", "97.00%"]], "Of 10 networks.")],
        certainty=["There is one seed."], next_steps=[("Search on", "archir search --resume x")],
        verdicts=[Verdict(state, "search", state, "x") for state in ("worked", "at chance", "not judged")],
        progress=[PhaseProgress("search", "darts", 3, 10, "running", seconds=90.0)], overrides=[(0, 3, "new")],
    )  # fmt: skip
    return report_page(parts)


def runs(folder: Path) -> Path:
    for number, name in enumerate(("one", "two")):
        left(folder / name, 0.5, 2000, {"seed": str(number)})
    return folder


def list_of_runs(folder: Path) -> str:
    return _index_page(located_summaries(runs(folder))).replace(" data-reload=", " data-reloads=")


def compared_runs(folder: Path) -> str:
    return comparison_page(located_summaries(runs(folder)))


def study(folder: Path) -> str:
    text = test_studies.STUDY.replace("local_search", "nsga2") + test_studies.FRONT + test_studies.strategies_of_many(2)
    test_studies.done(test_studies.unpacked(folder), text)
    return (folder / "out" / "report.html").read_text("utf-8")


def training_study(folder: Path) -> str:
    test_training_studies.study(test_training_studies.unpacked(folder))
    return (folder / "out" / "report.html").read_text("utf-8")


def picture(folder: Path) -> str:
    return to_html(outline(loading.graph(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch")))


def costs_picture(folder: Path) -> str:
    graph = loading.graph(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch")
    return to_html(outline(graph, heat=Heat.of(Space(graph), "macs")))


MADE: list[Callable[[Path], str]] = [
    run_report, list_of_runs, compared_runs, study, training_study, picture, costs_picture
]  # fmt: skip
"""Functions that return pages that archir writes."""
UNFOLD = """(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    document.querySelector(".sortable thead button")?.click();
    document.getElementById("more")?.click();
    document.querySelector(".handle")?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
})()"""
"""Expression that opens everything that a page shows on request."""


@pytest.mark.soak
@needs_axe
@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("page", [*SITE, *MADE], ids=lambda page: page if isinstance(page, str) else page.__name__)
def test_axe_finds_no_violations(
    page: str | Callable[[Path], str], browser: Chromium, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if isinstance(page, str):
        opened = request.getfixturevalue("address") + f"archir/{page}"
    else:
        (tmp_path / "page.html").write_text(page(tmp_path), "utf-8")
        opened = (tmp_path / "page.html").as_uri()
    found = {}
    for dark in (False, True):
        for width in (390, 1440):
            browser.send(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
            )
            browser.open("about:blank")
            browser.open(opened, dark)
            browser.until("!location.search || document.querySelector('#search-results li') !== null")
            browser.run(UNFOLD)
            found["dark" if dark else "light", width] = violations(browser)
    browser.send("Emulation.clearDeviceMetricsOverride")
    assert {setting: rules for setting, rules in found.items() if rules} == {}
