"""The notebook of the documentation: what its cells come to, and what they look like in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.chromium import PROGRAM, Chromium
from tests.conftest import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
PATIENCE = 120
"""Seconds for a cell, on a machine that does other things beside."""


def executed(notebook: Any, folder: Path) -> Any:
    """A notebook whose cells were run in a kernel of their own, in a folder."""
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=PATIENCE, resources=resources, record_timing=False).execute()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook of the documentation, run anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        notebook = nbformat.read(NOTEBOOK, 4)
        return executed(notebook, tmp_path_factory.mktemp("notebook"))


def came_to(notebook: Any) -> list[tuple[str, list[Any]]]:
    """The outputs of each cell; of times, and of figures of cells that say so, no digits."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            varies = "varies" in cell.metadata.get("tags", [])
            found.append((cell.source, [_fixed(output, varies) for output in cell.outputs]))
    return found


def _fixed(output: Any, varies: bool) -> Any:
    if isinstance(output, dict):
        return {name: _fixed(value, varies) for name, value in output.items()}
    if isinstance(output, list):
        return [_fixed(value, varies) for value in output]
    if isinstance(output, str):
        output = re.sub(r"\d+ s\b", "N s", output)
        return re.sub(r"[\d.e+-]*\d\s*", "N ", re.sub(r"\s+", " ", output)) if varies else output
    return output


def test_its_cells_come_to_what_it_shows(run: Any, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        nbformat.write(run, NOTEBOOK)
    kept = came_to(nbformat.read(NOTEBOOK, 4))
    for (source, now), (_, then) in zip(came_to(run), kept, strict=True):
        assert now == then, source


def test_errors_are_where_they_are_meant(run: Any) -> None:
    for cell in run.cells:
        wrong = [output for output in cell.get("outputs", []) if output.output_type == "error"]
        assert bool(wrong) == ("raises-exception" in cell.metadata.get("tags", [])), cell.source
        assert not [output for output in cell.get("outputs", []) if output.get("name") == "stderr"], cell.source


def test_no_output_is_a_flood(run: Any) -> None:
    assert max(len(cell.get("outputs", [])) for cell in run.cells) <= 3
    assert len(nbformat.writes(run)) < 200_000


@pytest.fixture(scope="module")
def page(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the documentation that the notebook is, as it was run."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "docs").mkdir()
    nbformat.write(run, folder / "docs" / NOTEBOOK.name)
    (folder / "docs" / "index.md").write_text("# Index\n\n```{toctree}\nnotebook\n```\n")
    command = [sys.executable, "-m", "sphinx", "-Q", "-b", "html", "-c", str(ROOT / "docs"), str(folder)]
    subprocess.run([*command, str(folder / "html")], check=True, capture_output=True)
    return folder / "html" / "docs" / "notebook.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    made = Chromium(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


PICTURES = """[...document.querySelectorAll("article img")].map(image => {
    image.scrollIntoView();
    const box = image.getBoundingClientRect();
    return [image.complete && image.naturalWidth, box.width, box.height, image.alt];
})"""
CONTRASTS = """(() => {
    const light = colour => {
        const [r, g, b, a] = [...colour.match(/[\\d.]+/g).map(Number), 1];
        const part = x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
        return [0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b), a];
    };
    const ground = element => {
        for (let one = element; one; one = one.parentElement) {
            const [found, solid] = light(getComputedStyle(one).backgroundColor);
            if (solid) return found;
        }
        return 1;
    };
    return [...document.querySelectorAll(".cell_output .archir :is(td, th, span, pre, summary, strong, code)")]
        .filter(one => one.textContent.trim())
        .map(one => {
            const [a, b] = [light(getComputedStyle(one).color)[0], ground(one)];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.textContent.slice(0, 40)];
        });
})()"""
GROUND = "getComputedStyle(document.body).backgroundColor"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_read_in_a_browser_by_day_and_by_night(page: Path, browser: Chromium, dark: bool, tmp_path: Path) -> None:
    browser.open(page, dark)
    browser.until("[...document.images].every(image => image.complete)")
    pictures = browser.run(PICTURES)
    assert len(pictures) >= 4
    assert all(own > 100 and wide > 100 and high > 100 for own, wide, high, _ in pictures), pictures
    contrasts = browser.run(CONTRASTS)
    assert len(contrasts) > 50
    assert [one for one in contrasts if one[0] < 4.5] == []
    assert (sum(map(int, re.findall(r"\d+", browser.run(GROUND))[:3])) < 384) == dark
    assert browser.run(WIDER) <= 0
    assert browser.run("document.querySelectorAll('.cell_output .traceback').length") == 2
    assert browser.run("document.querySelector('.highlight-arch .kd').textContent") == "net"
    assert browser.said == []
    height = browser.run("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": 1300, "height": height, "scale": 1}
    shot = browser.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
    (tmp_path / "notebook.png").write_bytes(b64decode(shot))
    assert len(shot) > 100_000
