"""The studio's page in a real browser: editing, fixing, bounds, saving, accessibility."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archir.tools.studio.server import Studio
from tests.axe import needs_axe, violations
from tests.chromium import PROGRAM, Chromium
from tests.conftest import EXAMPLES
from tests.editor.test_studio import SMALL
from tests.studio import served

SIZES = {"wide": (1440, 900), "middle": (1024, 800), "narrow": (400, 1600)}

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH"),
    pytest.mark.xdist_group("chromium"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("studio") / "cells.arch"
    found.write_text((EXAMPLES / "nas_bench_201" / "nas_bench_201.arch").read_text())
    return found


@pytest.fixture(scope="module")
def studio(file: Path) -> Iterator[Studio]:
    with served(file) as found:
        yield found


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    found = Chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


class Page:
    """What a person does and sees."""

    def __init__(self, chromium: Chromium, address: str, dark: bool = False) -> None:
        self.chromium = chromium
        chromium.open(address, dark)
        self.until("!!document.querySelector('#frames iframe.shown')")
        self.until("!!document.querySelector('.spread rect')")

    def run(self, script: str) -> Any:
        return self.chromium.run(script)

    def until(self, condition: str) -> None:
        self.chromium.until(condition)

    def text(self, name: str) -> str:
        found: str = self.run(f"document.getElementById({json.dumps(name)}).textContent")
        return found

    def press(self, key: str, code: int, times: int = 1, modifiers: int = 0) -> None:
        for _ in range(times):
            self.chromium.press(key, code, "\r" if key == "Enter" else "", modifiers)

    def focused(self) -> str:
        found: str = self.run("document.activeElement.id || document.activeElement.tagName")
        return found

    def edit(self, old: str, new: str) -> None:
        """Write something in the place of a stretch of the program."""
        self.run("document.getElementById('editor').shadowRoot.querySelector('.cm-content').focus()")
        self.press("f", 70, modifiers=2)
        panel = "document.getElementById('editor').shadowRoot.querySelector('.cm-search input[name=search]')"
        self.until(f"{panel} !== null")
        self.run(f"{panel}.focus()")
        self.run(f"{panel}.select()")
        self.chromium.write(old)
        self.press("Shift", 16)  # what is searched for is read after a key
        self.press("Enter", 13)
        self.press("Escape", 27)
        self.chromium.write(new)


@pytest.fixture
def opened(chromium: Chromium, studio: Studio) -> Page:
    return Page(chromium, studio.address)


def test_typed_mistake_is_shown_and_fixed_and_slider_changes_count(opened: Page, file: Path, tmp_path: Path) -> None:
    assert opened.text("size") == "15,625"
    opened.edit("batch_norm", "batch_nrm")
    opened.until("!document.getElementById('problems').hidden")
    assert "there is no batch_nrm" in opened.text("problem-list")
    assert opened.text("status-text") == "1 problem"
    marks = "document.getElementById('editor').shadowRoot.querySelectorAll('.cm-lintRange-error').length"
    assert opened.run(marks) >= 1
    assert opened.run("document.body.classList.contains('outdated')")
    opened.chromium.picture(tmp_path / "mistake.png", *SIZES["wide"])
    opened.run("document.querySelector('#problem-list .quiet').click()")  # Write batch_norm
    opened.until("document.getElementById('status').dataset.kind === 'valid'")
    assert opened.run("document.getElementById('problems').hidden")

    opened.run("document.getElementById('macs-high').focus()")
    opened.press("Home", 36)
    opened.press("ArrowRight", 39, 120)
    opened.until("!!document.getElementById('count') && !document.querySelector('#within.busy')")
    told = opened.run("document.getElementById('macs-high').getAttribute('aria-valuetext')").replace(",", "")
    import archir

    space = archir.load(file)
    fine = sum(1 for _ in space.where(f"macs <= {told}").enumerate())
    assert 0 < fine < 15_625
    opened.until(f"document.getElementById('count').textContent === {json.dumps(f'{fine:,}')}")

    opened.run("document.getElementById('sample').click()")
    opened.until("document.querySelectorAll('#differences tbody tr').length > 0")
    assert opened.run("document.querySelectorAll('#samples li').length") == 2
    opened.run("document.querySelector('#samples button').click()")
    opened.until("document.getElementById('pictured').textContent === 'Architecture A'")
    for name, size in SIZES.items():
        opened.chromium.picture(tmp_path / f"{name}.png", *size)
    assert all((tmp_path / f"{name}.png").stat().st_size > 20_000 for name in SIZES)
    assert opened.chromium.said == []


def test_changes_are_saved_to_given_file(opened: Page, file: Path) -> None:
    before = file.read_text()
    assert opened.run("document.getElementById('save').disabled")
    opened.edit("5,625 architectures.", "5,625 of them.")
    assert file.read_text() == before
    opened.press("s", 83, modifiers=2)
    opened.until("document.getElementById('status-text').textContent === 'Saved'")
    assert file.read_text() == before.replace("5,625 architectures.", "5,625 of them.")
    file.write_text(before)


def test_every_control_is_reachable_by_keyboard(opened: Page) -> None:
    opened.until("document.getElementById('status').dataset.kind === 'valid'")
    found = []
    opened.run("document.activeElement.blur()")
    for _ in range(30):
        opened.press("Tab", 9)
        found.append(opened.focused())
        if found[-1] == "editor":
            opened.press("Tab", 9)  # indents
            assert opened.focused() == "editor"
            opened.press("z", 90, modifiers=2)
            opened.press("Escape", 27)  # and then Tab leaves
        if found[-1] == "skip":
            opened.press("Enter", 13)
        if found[-1] == "sample":
            break
    wanted = [
        "new",
        "open",
        "examples",
        "format",
        "download",
        "editor",
        "skip",
        "params-low",
        "params-high",
        "macs-low",
        "macs-high",
        "sample",
    ]
    assert [one for one in found if one in wanted] == wanted, found


def test_figures_of_an_invalid_program_are_marked(opened: Page) -> None:
    note = "getComputedStyle(document.querySelector('#frames .old-figures')).visibility"
    assert opened.run(note) == "hidden"
    opened.edit("batch_norm", "batch_nrm")
    opened.until(f"{note} === 'visible'")
    assert "grayscale" in opened.run("getComputedStyle(document.getElementById('figures')).filter")
    opened.press("z", 90, modifiers=2)
    opened.until(f"{note} === 'hidden'")
    assert opened.run("getComputedStyle(document.getElementById('figures')).filter") == "none"


def test_completion_after_pipe_offers_calls_with_placeholders(opened: Page) -> None:
    opened.edit("|> batch_norm", "|> con")
    labels = "[...document.getElementById('editor').shadowRoot.querySelectorAll('.cm-completionLabel')]"
    opened.until(f"{labels}.length > 0")
    offered = opened.run(f"{labels}.map((label) => label.textContent)")
    assert offered[0] == "conv"
    assert not {"const", "for", "require", "output"} & set(offered)
    time.sleep(0.1)  # the editor ignores Enter right after the list appeared
    opened.press("Enter", 13)
    line = "document.getElementById('editor').shadowRoot.querySelector('.cm-activeLine').textContent"
    opened.until(f"{line}.includes('|> conv(channels)')")
    opened.chromium.write("32")  # replaces the placeholder
    opened.until(f"{line}.includes('|> conv(32)')")


def test_programs_are_begun_shared_and_opened(opened: Page, studio: Studio, file: Path, tmp_path: Path) -> None:
    before = file.read_text()
    opened.edit("batch_norm", "layer_norm")
    opened.run("document.getElementById('share').click()")
    opened.until("location.hash.includes('program=')")
    link = opened.run("location.href")
    opened.run("document.getElementById('new').click()")  # asks whether to discard the changes
    opened.until("document.getElementById('size').textContent === '2'")
    assert opened.run("document.getElementById('save').hidden")
    assert file.read_text() == before

    shared = Page(opened.chromium, link)
    shared.until("document.getElementById('size').textContent === '15,625'")
    assert "layer_norm" in shared.run("document.getElementById('editor').shadowRoot.textContent")
    assert shared.text("file") == "cells.arch"
    opened.chromium.open(f"{studio.address}#name=x&program=AAAA")
    opened.until("document.getElementById('status-text').textContent === 'The program in this link is damaged.'")

    (tmp_path / "mine.arch").write_text(SMALL)
    opened.chromium.choose("document.getElementById('chooser')", tmp_path / "mine.arch")
    opened.until("document.getElementById('size').textContent === '6'")
    assert opened.text("file") == "mine.arch"
    assert opened.run("document.getElementById('save').hidden")


def test_picture_has_half_of_a_phone(chromium: Chromium, studio: Studio) -> None:
    chromium.resize(390, 844)
    try:
        page = Page(chromium, studio.address)
        top, bottom = page.run(
            "(({ top, bottom }) => [top, bottom])(document.querySelector('.picture').getBoundingClientRect())"
        )
        assert bottom - top >= 844 / 2
        assert bottom <= 844 * 1.02
        assert page.run("document.documentElement.scrollWidth") == 390
    finally:
        chromium.send("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("size", [*SIZES.values(), (390, 844), (1920, 1080)], ids=str)
@pytest.mark.parametrize("loads", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_picture_fits_its_frame(chromium: Chromium, studio: Studio, size: tuple[int, int], loads: int) -> None:
    """All of the picture is in the frame, or its full width from the top if all of it would be unreadable."""
    chromium.resize(*size)
    try:
        for _ in range(loads):
            Page(chromium, studio.address)
            time.sleep(0.2)  # the frame has its size before it is painted for the first time
            sheet, frame = (
                json.loads(
                    chromium.run_in_frame(f"JSON.stringify(document.getElementById('{name}').getBoundingClientRect())")
                )
                for name in ("sheet", "view")
            )
            assert frame["left"] <= sheet["left"] < sheet["right"] <= frame["right"]
            assert sheet["left"] - frame["left"] == pytest.approx(frame["right"] - sheet["right"], abs=8)
            assert frame["top"] <= sheet["top"] <= frame["top"] + max(40, (frame["height"] - sheet["height"]) / 2 + 8)
            scale = chromium.run_in_frame(
                "Number(document.getElementById('sheet').getAttribute('transform').match(/scale\\((.*)\\)/)[1])"
            )
            assert sheet["bottom"] <= frame["bottom"] or 0.5 * sheet["height"] / scale > frame["height"] - 60
    finally:
        chromium.send("Emulation.clearDeviceMetricsOverride")


def test_names_are_shown_as_text(opened: Page) -> None:
    opened.run("window.bad = 0")
    nasty = "<img src=x onerror=parent.bad=1><script>parent.bad=1</script>"
    opened.edit("(image) |>", "(image) |>")
    opened.edit("kernel=3", f'kernel="{nasty}"')
    opened.until("!document.getElementById('problems').hidden")
    assert opened.run("document.querySelectorAll('#problem-list img, #problem-list script').length") == 0
    assert opened.run("window.bad") == 0


@pytest.mark.parametrize("dark", [False, True])
@needs_axe
def test_axe_finds_no_accessibility_problems(chromium: Chromium, studio: Studio, dark: bool, tmp_path: Path) -> None:
    page = Page(chromium, studio.address, dark)
    page.edit("batch_norm", "batch_nrm")
    page.until("!document.getElementById('problems').hidden")
    for mended in (False, True):
        if mended:
            page.run("document.querySelector('#problem-list .quiet').click()")
            page.until("document.getElementById('status').dataset.kind === 'valid'")
            page.run("document.getElementById('sample').click()")
            page.until("document.querySelectorAll('#differences tbody tr').length > 0")
        assert violations(chromium) == []
    picture = tmp_path / "picture.html"
    picture.write_text(page.run("document.querySelector('#frames iframe').srcdoc"))
    chromium.open(picture, dark)
    assert violations(chromium) == []
