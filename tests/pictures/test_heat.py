"""Pictures with boxes colored by cost share: shares add up, and colors are readable in light and dark mode."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from archir.cli.main import main
from archir.costs.means import means
from archir.costs.scopes import costs_by_scope, total_costs
from archir.pictures import style
from archir.pictures.outline import Outline, outline
from archir.pictures.style import Heat, colour_index
from archir.spaces.space import Space
from tests.chromium import PROGRAM, Chromium
from tests.conftest import EXAMPLES
from tests.examples import elaborated

SPACE = EXAMPLES / "full_attention" / "full_attention.arch"
PERCENT = re.compile(r"\(([\d.]+)%\)")


def full_attention() -> Space:
    return elaborated("full_attention/full_attention.arch")


def heated(name: str, block: str | None = None) -> Outline:
    space = full_attention()
    return outline(space.graph, block, Heat(name, means(space.account, name), True))


@pytest.mark.parametrize("name", ["params", "macs", "activation_bytes", "kernels"])
def test_box_shares_equal_mean_costs_of_their_scopes(name: str) -> None:
    account = full_attention().account
    of, total = heated(name), total_costs(account)[name].mean
    shares = {(box.scope or box.title).partition(".")[0]: box.share for box in of.root.parts}
    for scope, part in costs_by_scope(account, 1).items():
        own = part[name].mean
        assert shares[scope].startswith(f"mean {name}: ")
        assert shares[scope].endswith(f" ({float(own / total):.1%})")
    assert {box.heat for box in of.root.walk()} <= set(range(len(style.STEPS) + 1))
    assert of.root.heat == len(style.STEPS)


def test_alternatives_count_as_often_as_they_are_taken() -> None:
    of = heated("kernels", "layer")
    choice = next(box for box in of.root.walk() if box.title == "choose op")
    shares = {box.title: float(PERCENT.findall(box.share)[0]) for box in choice.parts}
    assert shares["local_k7_h4"] > shares["local_k3_h4"] > shares["nonlocal"] > shares["one of 7"] == 0
    assert sum(shares.values()) == pytest.approx(float(PERCENT.findall(choice.share)[0]), abs=0.5)


def test_color_index_follows_cost_share() -> None:
    found = [colour_index(Fraction(own), Fraction(1000)) for own in (0, 1, 9, 10, 29, 30, 100, 299, 300, 1000)]
    assert found == [0, 1, 1, 2, 2, 3, 4, 4, 5, 5]
    assert colour_index(Fraction(0), Fraction(0)) == 0


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_colors_are_ordered_by_lightness_and_contrast_with_text() -> None:
    """Who sees no hues sees the order; the text of the style sheet stands out (WCAG 2 AA)."""
    pairs = re.findall(r"\.heat\d\{--face:(#\w+);", style.HEAT_STYLE)
    days, nights = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    assert len(days) == len(nights) == len(style.STEPS) + 1
    for faces, ink, sign in ((days, "#1b1f24", -1), (nights, "#e8ebef", 1)):
        assert [luminance(face) for face in faces] == sorted(map(luminance, faces), reverse=sign < 0)
        assert min(contrast(one, other) for one, other in pairwise(faces)) > 1.08
        assert min(contrast(face, ink) for face in faces) >= 4.5


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["show", *arguments])
    return result.output + (f"exit {result.exit_code}" if result.exit_code else "")


def test_svg_has_cost_colors_and_text_format_rejects_heat() -> None:
    path = str(EXAMPLES / "resnet50.arch")
    picture = run(path, "--format", "svg", "--heat", "params")
    tree = ElementTree.fromstring(picture)
    tips = [title.text or "" for title in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert "linear\n1000\nlinear\nparams: 2,049,000 (8.0%)" in tips
    for words in ("share of params, 25.6M in all", "≥ 10% · 2.56M", 'class="box convolution heat3"'):
        assert words in picture
    assert "heat" not in run(path, "--format", "svg")
    assert "--heat only applies to coloured pictures" in run(path, "--heat", "macs")
    assert "--heat only applies to coloured pictures" in run(path, "--format", "dot", "--heat", "macs")
    assert "A1604" in run(path, "--format", "svg", "--heat", "joules")


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH")
@pytest.mark.xdist_group("chromium")
def test_html_page_shows_cost_colors_in_browser(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run(str(SPACE), "--format", "html", "--heat", "macs", "-o", str(page))
    browser = Chromium(tmp_path / "profile")
    faces = {}
    try:
        for dark in (False, True):
            browser.open(page, dark)
            faces[dark] = browser.run("getComputedStyle(document.querySelector('.heat5 .face')).fill")
            legend = browser.run("[...document.getElementById('legend').children].map(one => one.textContent)")
            assert legend[:2] == ["none", "under 1%"]
            assert len(legend) == len(style.STEPS) + 1
        tips = browser.run("[...document.querySelectorAll('.box > title')].map(one => one.textContent)")
        assert any(re.fullmatch(r"stage\[1\]\nmean macs: [\d,.]+ \([\d.]+%\)", tip) for tip in tips), json.dumps(tips)
        assert not browser.said
    finally:
        browser.close()
    assert faces == {False: "rgb(236, 111, 53)", True: "rgb(176, 69, 10)"}
