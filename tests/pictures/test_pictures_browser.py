"""A picture's HTML page in headless Chromium: content, mouse and keyboard control."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

pytest.importorskip("fcntl", reason="the browser is driven over POSIX pipes")

from archir.api import loading
from archir.ir.graph import Graph
from archir.pictures.html import to_html
from archir.pictures.layout import place
from archir.pictures.outline import Outline, outline
from tests.chromium import PROGRAM, Chromium
from tests.conftest import EXAMPLES
from tests.pictures.test_pictures import HOSTILE, hostile_graph
from tests.soak import with_soak

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH"),
    pytest.mark.xdist_group("chromium"),
]

SPACE = EXAMPLES / "full_attention" / "full_attention.arch"
TITLES = "[...document.querySelectorAll('.handle > .title')].map(one => one.firstChild.data)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def space() -> Graph:
    return loading.graph(SPACE)


@pytest.fixture
def page(browser: Chromium, space: Graph, tmp_path: Path) -> Iterator[Chromium]:
    """The full-attention space, freshly opened; nothing it does may raise an exception or a complaint."""
    show(browser, outline(space), tmp_path)
    yield browser
    assert not browser.said


def show(browser: Chromium, of: Outline, folder: Path, depth: int = 1, dark: bool = False) -> None:
    file = folder / "picture.html"
    file.write_text(to_html(of, depth), encoding="utf-8")
    browser.open(file, dark)


def handle(title: str) -> str:
    """The script that finds a box by its title."""
    return (
        "[...document.querySelectorAll('.handle')].find("
        f"one => one.querySelector('.title').firstChild.data === {json.dumps(title)})"
    )


def middle(browser: Chromium, title: str) -> tuple[float, float]:
    box = browser.run(f"(b => [b.x + b.width / 2, b.y + 12])({handle(title)}.getBoundingClientRect())")
    return box[0], box[1]


def expanded(browser: Chromium, title: str) -> str | None:
    found: str | None = browser.run(f"{handle(title)}.getAttribute('aria-expanded')")
    return found


def panel(browser: Chromium) -> dict[str, str]:
    pairs = browser.run(
        "[...document.querySelectorAll('#panel dt')].map(one => [one.textContent, one.nextSibling.textContent])"
    )
    return dict(pairs)


def test_page_starts_with_collapsed_blocks(page: Chromium) -> None:
    stages = [f"stage[{i}]" for i in range(5)]
    assert page.run(TITLES) == ["image", "stem", *stages, "global_avg_pool", "linear", "logits"]
    assert page.run("document.querySelector('h1').textContent") == "full_attention"
    assert expanded(page, "stage[1]") == "false"
    assert expanded(page, "linear") is None
    assert page.run("document.getElementById('legend').children.length") > 5


def test_a_click_opens_a_block_and_a_second_one_closes_it(page: Chromium) -> None:
    page.click(*middle(page, "stage[1]"))
    assert expanded(page, "stage[1]") == "true"
    assert page.run(TITLES)[3:7] == ["stage[1]", "layer[0]", "layer[1]", "layer[2]"]
    assert panel(page)["scope"] == "stage[1]"
    page.click(*middle(page, "layer[1]"))
    titles = page.run(TITLES)
    assert {"choose op", "local_k3_h4", "nonlocal", "one of 7", "add"} <= set(titles)
    assert panel(page) == {
        "scope": "stage[1].layer[1]",
        "block": "layer",
        "choices": "1",
        "result": "32×16×16",
        "operations": "64",
    }
    page.click(*middle(page, "stage[1]"))
    assert expanded(page, "stage[1]") == "false"
    assert "layer[1]" not in page.run(TITLES)


def test_keys_open_and_close_and_keep_the_focus(page: Chromium) -> None:
    for _ in range(20):
        page.press("Tab", 9)
        if page.run("document.activeElement.dataset?.box !== undefined"):
            break
    assert page.run("document.activeElement.querySelector('.title').textContent") == "image"
    page.press("Tab", 9)
    page.press("Tab", 9)
    page.press("Enter", 13, "\r")
    assert expanded(page, "stage[0]") == "true"
    assert page.run(f"document.activeElement === {handle('stage[0]')}")
    page.press("Tab", 9)
    assert page.run(f"document.activeElement === {handle('layer[0]')}")
    page.press(" ", 32, " ")
    assert expanded(page, "layer[0]") == "true"
    page.press("Escape", 27)
    assert page.run("document.getElementById('panel').hidden")


def test_search_marks_boxes_and_opens_their_parents(page: Chromium) -> None:
    page.run("document.getElementById('search').focus()")
    page.send("Input.insertText", text="stage[2].layer[1].op.nonlocal.nonlocal_attention.attention")
    assert page.run("document.getElementById('found').textContent") == "1 found"
    marked = "[...document.querySelectorAll('.holds')].map(one => one.querySelector('.title').textContent)"
    assert page.run(marked) == ["stage[2]"]
    page.press("Enter", 13, "\r")
    assert panel(page)["operation"] == "attention"
    assert panel(page)["shape"] == "f32[16, 16, 16]"
    assert page.run("document.querySelectorAll('.match').length") == 1
    spot = page.run(
        "(b => [b.x, b.y, b.right, b.bottom])(document.querySelector('.match .face').getBoundingClientRect())"
    )
    assert spot[0] > 0
    assert spot[1] > 0
    assert spot[2] < 1300
    assert spot[3] < 900
    page.run("document.getElementById('search').select()")
    page.send("Input.insertText", text="local_attention")
    assert page.run("document.getElementById('found').textContent").endswith(" found")
    page.send("Input.insertText", text=" no such thing")
    assert page.run("document.getElementById('found').textContent") == "0 found"


def test_drag_wheel_and_buttons_move_and_zoom(page: Chromium) -> None:
    def transform() -> Any:
        return page.run(
            "(m => [m.a, m.e, m.f])(document.getElementById('sheet').transform.baseVal.consolidate().matrix)"
        )

    scale, x, y = transform()
    page.mouse("mousePressed", 100, 400, button="left", clickCount=1)
    for step in (10, 40, 60):
        page.mouse("mouseMoved", 100 + step, 400 + step / 2, button="left", buttons=1)
    page.mouse("mouseReleased", 160, 430, button="left", clickCount=1)
    assert transform() == pytest.approx([scale, x + 60, y + 30])
    page.mouse("mouseWheel", 300, 300, deltaX=0, deltaY=50)
    assert transform() == pytest.approx([scale, x + 60, y - 20])
    page.mouse("mouseWheel", 300, 300, deltaX=0, deltaY=-100, modifiers=2)
    assert transform()[0] > scale
    page.run("document.getElementById('fit').click()")
    bottom = page.run(f"{handle('logits')}.getBoundingClientRect().bottom")
    assert bottom < page.run("document.getElementById('view').getBoundingClientRect().bottom")
    assert page.run(TITLES)[0] == "image"


SAVED = """(async () => {
  const saved = [];
  URL.createObjectURL = (content) => { saved.push(content); return "blob:"; };
  HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
  document.getElementById("%s").click();
  while (saved.length < 2) await new Promise((done) => setTimeout(done, 20));
  return [saved[1], [...new Uint8Array(await saved[0].arrayBuffer())]];
})()"""


def saved(page: Chromium, button: str) -> tuple[str, bytes]:
    """The name and the content of the file that a button of the page saves."""
    answer = page.send("Runtime.evaluate", expression=SAVED % button, returnByValue=True, awaitPromise=True)
    name, content = answer["result"]["value"]
    return name, bytes(content)


def test_page_saves_what_it_draws(page: Chromium) -> None:
    page.click(*middle(page, "stage[1]"))
    name, content = saved(page, "svg")
    assert name == "full_attention.svg"
    texts = [element.text for element in ElementTree.fromstring(content).iter() if element.tag.endswith("text")]
    assert {"full_attention", "stage[0]", "layer[1]"} <= set(texts)
    name, content = saved(page, "png")
    assert name == "full_attention.png"
    with Image.open(BytesIO(content)) as image:
        assert image.width > 700
        assert len(set(image.convert("L").tobytes())) > 20


def test_small_map_shows_what_is_in_view_and_moves_it(page: Chromium) -> None:
    page.run("document.getElementById('fit').click()")
    assert page.run("getComputedStyle(document.getElementById('map')).display") == "none"
    page.run("document.getElementById('more').click()")
    left, top, wide, high = page.run(
        "(b => [b.x, b.y, b.width, b.height])(document.getElementById('map').getBoundingClientRect())"
    )
    assert 20 < max(wide, high) <= 160
    page.click(left + wide / 2, top + high - 2)
    spot = page.run(f"{handle('logits')}.getBoundingClientRect().y")
    assert 0 < spot < 900


@pytest.mark.parametrize("depth", with_soak([1, 2, 3, 9], [2]))
def test_page_layout_equals_svg_layout(browser: Chromium, space: Graph, tmp_path: Path, depth: int) -> None:
    of = outline(space)
    show(browser, of, tmp_path, depth)
    rows = browser.run(
        "[...document.querySelectorAll('g.box')].map(g => { const r = g.querySelector('.open, .face');"
        " return [+g.dataset.number, ...['x', 'y', 'width', 'height'].map(a => +r.getAttribute(a))]; })"
    )
    found = {number: spot for number, *spot in rows}
    sheets = place(of.root, of.opened(depth))
    wanted: dict[int, list[float]] = {}
    waiting = [(of.root, 0.0, 0.0)]
    for box, x, y in waiting:
        for part, (left, top) in zip(box.parts, sheets[box.number].corners, strict=False):
            sheet = sheets[part.number]
            wanted[part.number] = [x + left, y + top, sheet.width, sheet.height]
            waiting.append((part, x + left, y + top))
    assert found.keys() == wanted.keys()
    for number, spot in wanted.items():
        assert found[number] == pytest.approx(spot, abs=0.01)


@pytest.mark.soak
def test_a_thousand_nodes_stay_swift(page: Chromium) -> None:
    for _ in range(6):
        page.run("document.getElementById('more').click()")
    assert page.run("document.querySelectorAll('g.box').length") > 1000
    once = (
        "(() => { const start = performance.now();"
        f" {handle('stage[4]')}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}));"
        " document.body.getBoundingClientRect(); return performance.now() - start; })()"
    )
    assert page.run(once) < 1000
    page.run("document.getElementById('less').click()")
    assert page.run("document.querySelectorAll('g.box').length") < 1000


def test_texts_fit_into_their_boxes(browser: Chromium, tmp_path: Path) -> None:
    for file in ("resnet50.arch", "deit_tiny.arch", "mobilenet_v2.arch"):
        show(browser, outline(loading.graph(EXAMPLES / file)), tmp_path, 9)
        wide = browser.run(
            "[...document.querySelectorAll('g.box')].flatMap(g => {"
            " const r = g.querySelector('.open, .face').getBBox();"
            " return [...g.querySelectorAll(':scope > .handle > text')].filter(t => t.getBBox().width > r.width - 8)"
            ".map(t => t.textContent); })"
        )
        assert not wide


def test_page_has_dark_and_light_colors(browser: Chromium, space: Graph, tmp_path: Path) -> None:
    colours = []
    for dark in (False, True):
        show(browser, outline(space), tmp_path, dark=dark)
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        colours.append((paper, browser.run("getComputedStyle(document.querySelector('.face')).fill")))
    assert colours[0][0] == "rgb(255, 255, 255)"
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_inject_no_elements(browser: Chromium, tmp_path: Path, name: str) -> None:
    show(browser, outline(hostile_graph(name)), tmp_path, 3)
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('img, iframe, a, object').length") == 0
    assert browser.run("document.querySelectorAll('g.box').length") > 4
    assert not browser.said
