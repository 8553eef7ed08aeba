"""The playground: its Python part with few packages, and the page in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import archir
from tests.chromium import PROGRAM, Chromium
from tests.conftest import EXAMPLES, ROOT
from tests.editor.test_studio_browser import Page
from tests.static_server import served_folder
from tools.playground import write_page

SPACE = EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"
NODE_MODULES = ROOT / "editors" / "studio" / "node_modules"
PYODIDE = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_MODULES / "pyodide").exists(),
    reason="Pyodide is not installed: `npm ci` in editors/studio",
)
ALONE = """
import json, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "onnx", "pydantic", "rich", "click", "starlette", "scipy"}:
            raise ModuleNotFoundError(f"{name} was imported", name=name)

sys.meta_path.insert(0, Missing())
from archir.tools.studio.session import Session
session, text = Session(), open(sys.argv[1]).read()
drawn = session.ask("sample", {"text": text, "seed": 1, "count": 2})["architectures"]
one, other = (each["choices"] for each in drawn)
print(json.dumps({
    "costs": [one["least"] for one in session.ask("costs", {"text": text})["costs"].values()],
    "within": session.ask("within", {"text": text, "bounds": {"params": ["0", "500000"], "macs": ["0", "90000000"]}}),
    "bounded": len(session.ask("sample", {"text": text, "seed": 1, "count": 2, "bounds": {"macs": ["0", "90000000"]}})),
    "heat": "mean macs" in session.ask("picture", {"text": text, "depth": 1, "heat": "macs"})["page"],
    "check": session.ask("check", {"text": text}),
    "wrong": session.ask("check", {"text": text.replace("batch_norm", "batch_nrm")})["problems"][0]["hint"],
    "format": session.ask("format", {"text": text})["text"] == text,
    "picture": "searched" in session.ask("picture", {"text": text, "depth": 1, "architecture": one})["page"],
    "diff": bool(session.ask("diff", {"text": text, "one": one, "other": other})["differences"]),
    "complete": bool(session.ask("complete", {"text": text, "at": 300})["items"]),
    "hover": "relu" in session.ask("hover", {"text": text, "at": text.index("|> relu") + 4})["text"],
}))
"""


def test_playground_code_runs_with_few_packages() -> None:
    # a process of its own: here all packages are imported long since
    command = [sys.executable, "-c", ALONE, str(SPACE)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    fine = archir.load(SPACE).where("params <= 500000 and macs <= 90000000").count()[0]
    assert json.loads(made.stdout) == {
        "costs": ["73306", "7783040"],
        "within": {"least": str(fine), "most": str(fine), "of": "15625"},
        "bounded": 1,
        "heat": True,
        "check": {"problems": [], "nets": [{"name": "nas_bench_201", "size": "15625", "choices": 6, "bounded": False}]},
        "wrong": "did you mean `batch_norm`?",
        "format": True,
        "picture": True,
        "diff": True,
        "complete": True,
        "hover": True,
    }


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("playground") / "built"
    command = [sys.executable, "tools/playground.py", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    if "cannot read https://" in made.stderr:
        pytest.skip(f"numpy's wheel for Pyodide cannot be downloaded here: {made.stderr.strip()}")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["bytes"] == sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    with served_folder(folder) as found:
        yield found


def test_worker_starts_a_session(tmp_path: Path) -> None:
    """The Python code of the worker runs with the modules that there are."""
    script = (ROOT / "editors" / "studio" / "playground" / "worker.js").read_text().partition("const START = `")[2]
    definition = script.partition("`;")[0].rpartition("\nask")[0]
    asking = 'print(ask("format", \'{"text": "net {"}\')[0], ask("format", "{}")[0])'
    command = [sys.executable, "-c", f"{definition}\n{asking}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert finished.stdout.split() == ["answer", "error"], finished.stderr


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH")
def test_playground_shows_the_first_example_while_python_loads(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write_page(tmp_path / "site", 1000)
    loading = "self.onmessage = null; self.postMessage({ share: 0.5 });"
    (tmp_path / "site" / "worker.js").write_text(loading)
    with served_folder(tmp_path / "site") as address:
        chromium = Chromium(tmp_path / "profile")
        try:
            page = Page(chromium, address)
            assert page.text("size") == "15,625"
            assert page.run("document.getElementById('progress').value") == 0.5
            page.edit("batch_norm", "batch_nrm")
            page.until("document.getElementById('status-text').textContent === 'Checking …'")
            assert not page.run("document.getElementById('share').hidden")
            (tmp_path / "site" / "worker.js").write_text("throw new Error('broken')")
            page = Page(chromium, address + "?2")
            page.until(
                "document.getElementById('status-text').textContent === 'Python cannot be started in this browser.'"
            )
            page.until("document.getElementById('loading').hidden")
        finally:
            chromium.close()


@PYODIDE
def test_another_wheel_of_numpy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "numpy.whl").write_bytes(b"other")
    command = [sys.executable, "tools/playground.py", str(tmp_path / "built"), "--numpy", str(tmp_path / "numpy.whl")]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert made.returncode == 1
    assert "numpy.whl is not the wheel that Pyodide" in made.stderr


@pytest.mark.soak
@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH")
@PYODIDE
def test_playground_checks_programs_in_browser(address: str, tmp_path: Path) -> None:
    chromium = Chromium(tmp_path / "profile")
    try:
        page = Page(chromium, address)
        assert page.text("size") == "15,625"
        page.edit("batch_norm", "batch_nrm")
        page.until("!document.getElementById('problems').hidden")
        assert "there is no batch_nrm" in page.text("problem-list")
        chromium.picture(tmp_path / "mistake.png", 1440, 900)
        page.run("document.querySelector('#problem-list .quiet').click()")
        page.until("document.getElementById('status').dataset.kind === 'valid'")
        page.run("document.getElementById('macs-high').focus()")
        page.press("Home", 36)
        page.press("ArrowRight", 39, 120)
        told = page.run("document.getElementById('macs-high').getAttribute('aria-valuetext')").replace(",", "")
        fine = sum(1 for _ in archir.load(SPACE).where(f"macs <= {told}").enumerate())
        assert 0 < fine < 15_625
        page.until(f"document.getElementById('count')?.textContent === {json.dumps(f'{fine:,}')}")
        page.run("document.getElementById('reset').click()")
        page.edit("skip_connect: identity", "skip_connect: identity\nother: gelu")
        page.until("document.getElementById('size').textContent === '46,656'")
        page.run("document.getElementById('sample').click()")
        page.until("document.querySelectorAll('#differences tbody tr').length > 0")
        page.run("document.getElementById('format').click()")
        for name, dark in (("light", False), ("dark", True)):
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            chromium.send("Emulation.setEmulatedMedia", features=scheme)
            chromium.picture(tmp_path / f"{name}.png", 1440, 900)
        assert page.chromium.said == []
    finally:
        chromium.close()
