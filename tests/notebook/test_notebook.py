"""The documentation's notebook: its cells reproduce their stored outputs, and its page renders in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from shutil import copyfile
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


def test_notebook_cells_reproduce_stored_outputs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are run anew, once; errors are where they are meant, and nothing else is said beside."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "work").mkdir()
    found = executed(nbformat.read(NOTEBOOK, 4), tmp_path / "work")
    for cell in found.cells:
        outputs = cell.get("outputs", [])
        meant = "raises-exception" in cell.metadata.get("tags", [])
        assert any(one.output_type == "error" for one in outputs) == meant, cell.source
        assert not [one for one in outputs if one.get("name") == "stderr"], cell.source
        assert len(outputs) <= 3, cell.source
    assert len(nbformat.writes(found)) < 200_000
    if request.config.getoption("--update-golden"):
        nbformat.write(found, NOTEBOOK)
    kept = came_to(nbformat.read(NOTEBOOK, 4))
    for (source, now), (_, then) in zip(came_to(found), kept, strict=True):
        assert now == then, source


def built(folder: Path) -> Path:
    """The page of the documentation that the notebook is."""
    (folder / "docs").mkdir()
    copyfile(NOTEBOOK, folder / "docs" / NOTEBOOK.name)
    (folder / "docs" / "index.md").write_text("# Index\n\n```{toctree}\nnotebook\n```\n")
    command = [sys.executable, "-m", "sphinx", "-Q", "-b", "html", "-c", str(ROOT / "docs"), str(folder)]
    subprocess.run([*command, str(folder / "html")], check=True, capture_output=True)
    return folder / "html" / "docs" / "notebook.html"


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


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium")
def test_notebook_page_is_readable_in_light_and_dark_mode(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    page = built(tmp_path / "site")
    browser = Chromium(tmp_path / "profile")
    try:
        for dark in (False, True):
            browser.open(page, dark)
            looked_at(browser, dark)
            (tmp_path / f"{'night' if dark else 'day'}.png").write_bytes(picture_of(browser))
    finally:
        browser.close()


def looked_at(browser: Chromium, dark: bool) -> None:
    """Pictures are there, texts stand out, nothing is wider than the page, errors are those that are meant."""
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


def picture_of(browser: Chromium) -> bytes:
    """The whole page as a PNG."""
    height = browser.run("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": 1300, "height": height, "scale": 1}
    shot = browser.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
    assert len(shot) > 100_000
    return b64decode(shot)
