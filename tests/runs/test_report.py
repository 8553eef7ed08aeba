"""The report page of a run: its content, that it is one deterministic file, and how it behaves in a browser."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("fcntl", reason="the browser is driven over POSIX pipes")

from archir import loads
from archir.pages.charts import Axis, LineChart, epoch_ticks, scale, tick_label
from archir.recipes.run_report import report_of_run
from archir.runs import Run, Trial
from archir.runs.report import ChoiceProbabilities, PhaseProgress, PhaseRows, Report, png, report_page, shown_epochs
from archir.runs.trial_report import TrialRow, TrialTable, choice_importances
from archir.runs.verdicts import Verdict, probability_verdict
from archir.utils.toml import apply_overrides, parse_toml
from tests.chromium import PROGRAM, Chromium

HOSTILE = "</script><script>alert(1)</script>\"'&<b>"


def report(epochs: int = 12, choices: int = 3, name: str = "op") -> Report:
    rows = [
        {"epoch": e, "loss": 2.0 / (e + 1), "architecture loss": 3.0 / (e + 1), "accuracy": e / epochs,
         "macs": 2e8 - e * 1e6, "note": name, "seconds": 1.5}
        for e in range(epochs)
    ]  # fmt: skip
    weights = [[(e + 1) / (epochs + 1), 0.0, epochs / (epochs + 1) - e / (epochs + 1)] for e in range(epochs)]
    weighings = [
        ChoiceProbabilities(f"{name}{i}", ["conv", name, "skip"], weights, (0,), "search") for i in range(choices)
    ]
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="90"><text y="40">net</text></svg>'
    facts = {"Costs": {"parameters": 1_234_567, "share": 0.25, "fits": True}, name: {name: name, "none": None}}
    return Report(name, f"about {name}", [PhaseRows("search", rows), PhaseRows("retrain", [])], weighings, {name: svg},
                  facts, f"[recipe]\nname = '{name}'\n",
                  {"python": "3.11", "packages": {"torch": "2.11"}})  # fmt: skip


def trials(name: str = "evolve") -> TrialTable:
    tried = [
        TrialRow(0, {"accuracy": 0.5, name: 1.0}, {"params": 1200.0}, {"op": name, "ks": [1, 2]}),
        TrialRow(1, {"accuracy": None}, {"params": 300.0}, {"op": "skip"}, f"it broke: {name}"),
        TrialRow(2, {"accuracy": 0.75}, {"params": 900.0}, {"op": "pool"}),
    ]
    return TrialTable(name, tried, lambda number: f"archir train --trial {name} {number}")


class Tags(HTMLParser):
    """Every tag with its attributes, and that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_self_contained_and_deterministic() -> None:
    text = report_page(report())
    assert text == report_page(report())
    for tag, attributes in Tags(text).found:
        assert tag not in {"link", "iframe", "object"}
        source = attributes.get("src", "data:") or ""
        assert source.startswith("data:")
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text)


def test_report_has_all_sections_charts_and_figures() -> None:
    text = report_page(report())
    found = re.findall(r"<h2>(.*?)</h2>", text)
    assert found == [
        "Result", "Which choices mattered", "Phase search", "Phase retrain", "Architecture parameters", "Costs", "op",
        "Recipe", "Environment", "Time",
    ]  # fmt: skip
    assert re.findall(r"<figcaption>(.*?)</figcaption>", text) == ["loss", "accuracy", "macs", "op0", "op1", "op2"]
    for wanted in ("1,234,567", "No epoch was done", "torch 2.11", "in all 18.0 s", "<li class=chosen>conv</li>"):
        assert wanted in text
    assert "seconds" not in text
    assert report_page(Report("nothing")).count("<section") == 0


def test_times_affect_only_the_time_section() -> None:
    one, other = report(), report()
    rows = [{**row, "seconds": 9.0} for row in other.phases[0].rows]
    other = replace(other, phases=[PhaseRows("search", rows), other.phases[1]])
    first, second = report_page(one), report_page(other)
    assert first != second
    assert first.partition('<section id="time">')[0] == second.partition('<section id="time">')[0]


def test_result_comes_first_and_trials_show_scores_and_costs() -> None:
    text = report_page(replace(report(), result={"accuracy, held out": "97.00%"}, trials=[trials()]))
    assert text.index('<section id="result">') < text.index('<section id="phase-search">')
    cells = re.findall(r'<t[hd](?: scope="row")? data-value="([^"]*)">([^<]*)</t[hd]>', text)
    assert cells[:4] == [("0.0", "0"), ("0.5", "50.00%"), ("1.0", "1"), ("1200.0", "1,200")]
    assert ("", "failed") in cells
    assert "op = evolve, ks = [1, 2]" in text
    assert "<code>archir train --trial evolve 2</code>" in text


def test_hostile_names_are_escaped() -> None:
    text = report_page(replace(report(name=HOSTILE), trials=[trials(HOSTILE)], result={HOSTILE: HOSTILE}))
    tags = [tag for tag, _ in Tags(text).found]
    assert tags.count("script") == 1
    assert "b" not in tags


NUMBERS = st.floats(-1e12, 1e12, allow_nan=False) | st.floats(-1, 1)


@example(0.0, 5e-324)
@example(1e12, 999999999999.9999)
@example(-1e300, 1e300)
@given(NUMBERS, NUMBERS)
def test_chart_scale_contains_its_values(one: float, other: float) -> None:
    low, high, step = scale(min(one, other), max(one, other))
    slack = 1e-6 * max(abs(low), abs(high), step)
    assert low - slack <= min(one, other) <= max(one, other) <= high + slack
    assert 2 <= (high - low) / step <= 9


@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (1.2e308, 1.7e308), (-1.7e308, 0.0)])
def test_scales_of_the_largest_numbers_are_finite(ends: tuple[float, float]) -> None:
    low, high, step = scale(*ends)
    assert isfinite(low)
    assert isfinite(high)
    assert 2 <= (high - low) / step <= 9


@given(st.integers(1, 50), st.integers(0, 5000))
def test_epoch_ticks_are_sorted_unique_and_within_range(first: int, more: int) -> None:
    ticks = epoch_ticks(first, first + more)
    assert ticks[0] == first
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 9
    assert ticks[-1] <= first + more


def test_tick_labels_have_digits_for_their_step() -> None:
    assert [tick_label(v, 0.5) for v in (0.0, 0.5, 2.0)] == ["0", "0.5", "2.0"]
    assert [tick_label(v, 0.025) for v in (0.0, 0.025, 0.1)] == ["0", "0.025", "0.100"]
    assert [tick_label(v, 0.2, percent=True) for v in (0.0, 0.2, 1.0)] == ["0%", "20%", "100%"]
    assert tick_label(0.9825, 0.0025, percent=True) == "98.25%"
    assert [tick_label(v, 2e7) for v in (2e8, 3.2e8)] == ["200M", "320M"]
    assert tick_label(-1.5, 0.5) == "-1.5"


def test_gaps_and_single_epochs_are_drawn() -> None:
    gaps = LineChart("loss", [1, 2, 3, 4], {"loss": [1.0, None, 0.0, 2.0]}).figure()
    [path] = re.findall(r'class="curve c0" d="([^"]*)"', gaps)
    assert re.sub(r"[\d.,]+", "", path) == "MML"
    assert gaps.count("<circle") == 3
    assert "<circle" in LineChart("loss", [1], {"loss": [0.5]}).figure()


def pixels(image: bytes) -> list[list[tuple[int, ...]]]:
    """The rows of an RGBA image without filters, its checksums verified."""
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    place, parts = 8, {}
    while place < len(image):
        (size,) = struct.unpack(">I", image[place : place + 4])
        chunk = image[place + 4 : place + 8 + size]
        assert struct.unpack(">I", image[place + 8 + size : place + 12 + size]) == (zlib.crc32(chunk),)
        parts[chunk[:4]] = chunk[4:]
        place += 12 + size
    wide, high = struct.unpack(">II", parts[b"IHDR"][:8])
    data = zlib.decompress(parts[b"IDAT"])
    rows = [data[row * (4 * wide + 1) + 1 : (row + 1) * (4 * wide + 1)] for row in range(high)]
    return [[tuple(row[4 * x : 4 * x + 4]) for x in range(wide)] for row in rows]


def test_heat_map_pixel_opacity_equals_value() -> None:
    found = pixels(png([[0.0, 1.0], [0.25, 0.75], [1.0, 0.0]]))
    assert [[pixel[3] for pixel in row] for row in found] == [[0, 64, 255], [255, 191, 0]]


def test_shown_epochs_are_limited_to_three_hundred() -> None:
    assert shown_epochs(5) == [0, 1, 2, 3, 4]
    many = shown_epochs(5000)
    assert (many[0], many[-1], len(many), len(set(many))) == (0, 4999, 300, 300)


# in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


def place(browser: Chromium, what: str) -> list[float]:
    """Left, top, width and height of an element."""
    box = f"document.querySelector('{what}').getBoundingClientRect()"
    found: list[float] = browser.run(f"(b => [b.x, b.y, b.width, b.height])({box})")
    return found


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on PATH")
@pytest.mark.xdist_group("chromium")
class TestInBrowser:
    def opened(self, browser: Chromium, folder: Path, of: Report, dark: bool = False, wide: int = 1300) -> None:
        file = folder / "report.html"
        file.write_text(report_page(of), encoding="utf-8")
        size: dict[str, Any] = {"width": wide, "height": 900, "deviceScaleFactor": 1, "mobile": wide < 600}
        browser.send("Emulation.setDeviceMetricsOverride", **size)
        browser.open(file, dark)

    @pytest.mark.parametrize("wide", [360, 1300])
    @pytest.mark.parametrize("dark", [False, True])
    def test_page_fits_window_in_light_and_dark_mode(
        self, browser: Chromium, tmp_path: Path, wide: int, dark: bool
    ) -> None:
        self.opened(browser, tmp_path, report(name="a_rather_long_name_of_an_alternative" * 2), dark, wide)
        assert browser.run("document.documentElement.scrollWidth") <= wide
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(15, 18, 22)" if dark else "rgb(255, 255, 255)")
        assert browser.run("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
        assert not browser.said

    def test_pointing_at_curve_shows_its_values(self, browser: Chromium, tmp_path: Path) -> None:
        self.opened(browser, tmp_path, report())
        box = place(browser, ".chart svg")
        browser.mouse("mouseMoved", box[0] + box[2] * 0.99, box[1] + box[3] / 2)
        told = browser.run("document.getElementById('tip').innerText")
        assert told.splitlines() == ["epoch 12", "loss: 0.16667", "architecture loss: 0.25"]
        browser.mouse("mouseMoved", 2, 2)
        browser.until("document.getElementById('tip').hidden")
        assert not browser.said

    def test_pointing_at_heat_map_shows_its_values(self, browser: Chromium, tmp_path: Path) -> None:
        self.opened(browser, tmp_path, report(name=HOSTILE))
        browser.run("document.querySelector('.heat img').scrollIntoView()")
        box = place(browser, ".heat img")
        browser.mouse("mouseMoved", box[0] + 1, box[1] + box[3] / 2)
        assert browser.run("document.getElementById('tip').innerText") == f"epoch 1\n{HOSTILE}: 0.0%"
        browser.mouse("mouseMoved", box[0] + box[2] - 1, box[1] + 1)
        assert browser.run("document.getElementById('tip').innerText") == "epoch 12\nconv: 92.3%"
        data = json.loads(browser.run("document.querySelector('.heat').dataset.heat"))
        assert data["names"] == ["conv", HOSTILE, "skip"]
        assert not browser.said

    def test_filter_and_order_of_trials_outlive_reloads(self, browser: Chromium, tmp_path: Path) -> None:
        self.opened(browser, tmp_path, replace(report(), trials=[trials()]))
        rows = "[...document.querySelectorAll('.sortable tbody tr')]"
        shown = f"{rows}.filter(row => !row.hidden).map(row => row.cells[0].innerText).join()"
        browser.run("document.querySelector('.sortable thead button').click()")
        browser.run("(i => { i.value = 'p'; i.dispatchEvent(new Event('input')); })(document.querySelector('input'))")
        before = browser.run(shown)
        browser.run(
            "(i => { i.value = 'pool'; i.dispatchEvent(new Event('input')); })(document.querySelector('input'))"
        )
        assert (before, browser.run(shown)) == ("2,1,0", "2")
        assert browser.run("document.querySelector('output').innerText") == "1 of 3 rows"
        browser.open(tmp_path / "report.html")
        assert browser.run(shown) == "2"
        assert browser.run("document.querySelector('.sortable th').getAttribute('aria-sort')") == "descending"
        browser.run("sessionStorage.clear()")

    def test_words_are_not_split_on_phones(self, browser: Chromium, tmp_path: Path) -> None:
        """Every word of a table or paragraph stands on one line."""
        self.opened(browser, tmp_path, replace(report(), result={"validation accuracy": "97.00%"}), wide=390)
        split = """[...document.querySelectorAll('p, th, td, li, h2, h3')].flatMap(e => [...e.childNodes])
            .filter(n => n.nodeType === 3).flatMap(n => [...n.data.matchAll(/[\\w%.,]+/g)].map(m => {
                const range = document.createRange();
                range.setStart(n, m.index); range.setEnd(n, m.index + m[0].length);
                return [m[0], range.getClientRects().length];
            })).filter(pair => pair[1] > 1).map(pair => pair[0])"""
        assert browser.run(split) == []

    def test_clicking_column_header_sorts_trials(self, browser: Chromium, tmp_path: Path) -> None:
        """Largest first, then smallest first; what has no number comes last."""
        self.opened(browser, tmp_path, replace(report(), trials=[trials()]))
        order = "[...document.querySelectorAll('.sortable tbody tr')].map(row => row.cells[0].innerText).join()"
        click = "document.querySelectorAll('.sortable thead button')[{}].click()"
        assert browser.run(order) == "0,1,2"
        for column, expected in ((1, "2,0,1"), (1, "0,2,1"), (3, "0,2,1"), (3, "1,2,0"), (0, "2,1,0")):
            browser.run(click.format(column))
            assert browser.run(order) == expected
        assert not browser.said


def many(count: int, noise: float = 0.0) -> TrialTable:
    """Trials whose score is that of `op`, and a little that of `width`; `seed` says nothing."""
    draw = random.Random(0)
    rows = []
    for number in range(count):
        choices = {"op": draw.choice(["conv", "pool"]), "width": draw.choice([8, 16, 32]), "seed": draw.choice([1, 2])}
        score = 0.5 + 0.3 * (choices["op"] == "conv") + 0.004 * int(choices["width"]) + noise * draw.random()
        rows.append(TrialRow(number, {"accuracy": score}, {"macs": 1000.0 * int(choices["width"])}, choices))
    return TrialTable(
        "evolve", rows, lambda number: f"archir train --trial evolve {number}", "accuracy", True, {1: "<svg/>"}
    )


def test_only_trials_of_the_largest_budget_are_ranked() -> None:
    """In the order of the search's first objective; a lucky score of a short training is no result."""
    tried = many(30)
    rows = [replace(row, budget=0.5 if row.id < 20 else 1.0, scores={"error": 1.0 + row.id}) for row in tried.rows]
    rows[29] = replace(rows[29], scores={"error": None})
    table = replace(tried, rows=rows, score="error", larger=False, other="macs")
    assert [row.id for row, _ in table.comparable] == [row.id for row, _ in table.scored] == [*range(20, 29)]
    assert table.front_rows[0].id == 20
    assert [row.id for row, _ in replace(table, larger=True).scored] == [*range(28, 19, -1)]
    assert "9 trials have a score, and at least 12 are needed" in report_page(replace(report(), trials=[table]))
    wide = replace(table, other_larger=True).front_rows
    assert [table.at(row) for row in wide] == sorted({table.at(row) for row in wide})
    assert wide[0].id == 20


SPACE = (
    "net n() {\n    input x: f32[3]\n    output y = x |> choose op(relu, gelu, sigmoid) |> choose last(relu, gelu)\n}\n"
)
SEARCH = """
space = "n.arch"
[[phase]]
name = "evolve"
strategy = "evolution"
options = { population = 2, parents = 2, trials = 3, scorer = { kind = "training", images = 50 } }
"""


def searched(folder: Path, recipe: str, objectives: dict[str, bool], scores: list[dict[str, float]]) -> str:
    """Return the report on a phase `evolve` with these scores; the first two trials are random."""
    with Run.create(
        folder, "search", {"recipe.toml": recipe, "overrides.json": "{}", "space/n.arch": SPACE}, {}
    ) as run:
        phase = run.phase("evolve")
        phase.begin({"strategy": "evolution"})
        for number, (architecture, score) in enumerate(zip(loads(SPACE).enumerate(), scores, strict=False)):
            phase.put_trial(Trial(number, str(number), dict(architecture), "done", score))
        phase.record({"epoch": 0, "trials": 2})
        phase.record({"epoch": 1, "trials": len(scores)})
        phase.finish({})
        splits = {"splits": {"train": {"images": 200}, "held_out": {"images": 50}}}
        run.write(
            {
                "phases/evolve/objective.json": json.dumps({"objectives": objectives}),
                "phases/evolve/splits.json": json.dumps(splits),
            }
        )
        return report_page(report_of_run(run, {"phases": {}}))


def test_report_ranks_trials_by_the_first_objective(tmp_path: Path) -> None:
    scores = [{"accuracy": 0.9 - number / 10, "error": 4.0 - number} for number in range(4)]
    text = searched(tmp_path / "error", SEARCH, {"error": False, "peak_bytes": False}, scores)
    assert "best, trial 3 of 4" in text
    assert "error 3 for the best of the first 2 (random), 1 after 4 trials" in text
    assert "No other candidate is better in error and peak_bytes, bytes than these" in text
    peaks = loads(SPACE).cost(list(loads(SPACE).enumerate()), ["peak_bytes"])["peak_bytes"]
    assert f"trial 3\nerror: 1\npeak_bytes: {peaks[3]:,}" in text
    text = searched(tmp_path / "accuracy", SEARCH, {"accuracy": True}, scores)
    assert "best, trial 0 of 4" in text
    text = searched(tmp_path / "cost", SEARCH, {"kernels": False, "accuracy": True}, scores)
    assert re.search(r"best, trial \d of 4</th><td>\d</td>", text)


def test_predictions_have_no_sampling_error(tmp_path: Path) -> None:
    """Predicted accuracies may exceed 1, and were measured on no samples."""
    predicted = SEARCH.replace('"training", images = 50', '"predictor"')
    for last in (0.62, 1.04):
        scores = [{"accuracy": each} for each in (0.5, 0.6, 0.4, last)]
        text = searched(tmp_path / str(last), predicted, {"accuracy": True}, scores)
        assert "better than random architectures" in text
        assert "standard error" not in text
    measured = searched(tmp_path / "measured", SEARCH, {"accuracy": True}, [{"accuracy": x} for x in (0.5, 0.6, 0.62)])
    assert "a difference below 6.9 points may be chance" in measured
    assert "within one standard error of the best (6.9 points on 50 validation samples)" in measured


def test_choice_importances_find_influential_choices() -> None:
    """By their shares of the variance; of few trials, or of chance, nothing is claimed."""
    tried = [(one.choices, score) for one, score in many(200, 0.02).scored]
    op, width, seed = choice_importances(tried, larger=True)
    assert (op.choice, op.best, width.choice, width.best) == ("op", "conv", "width", "32")
    assert 0.75 < op.low <= op.fraction <= op.high < 1
    assert 0 < width.fraction < 0.2
    assert seed.fraction < 0.02
    assert choice_importances(tried[:11], larger=True) == []
    assert choice_importances([(choices, 0.5) for choices, _ in tried], larger=True) == []
    assert choice_importances(tried, larger=False)[0].best == "pool"


@pytest.mark.parametrize(
    ("count", "score", "said"),
    [
        (11, 0.5, "Not known: 11 trials have a score, and at least 12 are needed to estimate it."),
        (24, 0.5, "All trials have the same accuracy (50.00%), so importance cannot be estimated."),
        (24, None, "Every choice has the same outcome in all trials, so importance cannot be estimated."),
    ],
)
def test_report_explains_missing_choice_importances(count: int, score: float | None, said: str) -> None:
    tried = many(count)
    alike = [
        replace(one, scores={"accuracy": i / 100 if score is None else score}, choices={"op": "conv"})
        for i, one in enumerate(tried.rows)
    ]
    assert f"<p>{said}</p>" in report_page(replace(report(), trials=[replace(tried, rows=alike)]))


def test_overrides_are_marked_in_the_recipe() -> None:
    text = "seed = 1\n\n[[phase]]\nname = 'try'\n"
    document = apply_overrides(
        parse_toml(text, "recipe.toml", "A2201"), {"seed": "2", "try.options.trials": "<9>"}, "A1109"
    )
    found = report_page(replace(report(), recipe=text, overrides=list(document.edits())))
    assert (
        "<del>seed = 1</del> <ins>seed = 2</ins>\n\n[[phase]]<ins>\noptions.trials = &quot;&lt;9&gt;&quot;</ins>\n"
        in found
    )
    assert "<ins>" not in report_page(report())


def test_choice_importances_of_random_scores_are_near_zero() -> None:
    """Less what chance would give, a choice of many outcomes has no more than one of few; the interval says so."""
    draw = random.Random(1)
    tried = [({"many": draw.randrange(12), "few": draw.randrange(2)}, draw.random()) for _ in range(60)]
    for one in choice_importances(tried, larger=True):
        assert one.fraction < 0.1
        assert one.low == 0


def test_trials_are_points_linked_with_their_rows() -> None:
    text = report_page(replace(report(), trials=[many(30)]))
    table = text.partition('<table class="figures sortable">')[2]
    rows = re.findall(r'<tr><th scope="row" data-value="(\d+).0">', table)
    assert sorted(rows, key=int) == [str(number) for number in range(30)]
    assert set(re.findall(r'<circle class="point[^>]* data-trial="(\d+)"', text)) == set(rows)
    assert text.count("data-picture=") == 1
    assert "5 trials have a score, and at least 12 are needed" in report_page(replace(report(), trials=[many(5)]))
    assert "explains by itself" in text
    assert report_page(replace(report(), trials=[many(30)])) == text


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e6))
def test_tick_labels_are_distinct(low: float, span: float) -> None:
    low, high, step = scale(low, low + span)
    if step > 1e-9 * max(abs(low), abs(high)):
        for percent in (False, True):
            marks = [tick_label(low + number * step, step, percent) for number in range(round((high - low) / step) + 1)]
            assert len({*marks}) == len(marks), marks


def test_evolution_charts_say_generation_not_epoch() -> None:
    rows = [{"epoch": n, "validation_accuracy": 0.5 + n / 10, "trials": 4} for n in range(3)]
    text = report_page(Report("run", phases=[PhaseRows("evolve", rows, "generation"), PhaseRows("train", rows)]))
    first, second = text.split('<section id="phase-train">')
    assert "epoch" not in first.split("<main>")[1].replace("&quot;epochs&quot;", "")
    assert '<th scope="col">generation</th>' in first
    assert '<th scope="col">epoch</th>' in second


def test_report_answers_in_the_order_of_questions() -> None:
    verdict = probability_verdict("search", {"op": [0.25, 0.25, 0.26, 0.24]}, 10)
    assert verdict is not None
    text = report_page(
        replace(
            report(), result={"accuracy": "97%"}, verdicts=[verdict], certainty=["one seed"], trials=[many(30)],
            next_steps=[("search on", "archir search --resume x")],
        )
    )  # fmt: skip
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings[:7] == [
        "Result", "How sure", "Did the search work?", "Which choices mattered", "Front of evolve",
        "What to do next", "Trials of evolve",
    ]  # fmt: skip
    assert "<b>undecided</b>: the strongest alternative has 1.04 times an equal share" in text
    assert text.count('class="chart points"') == 1
    assert "<code>archir search --resume x</code>" in text


def test_worst_verdict_stands_at_the_top() -> None:
    verdicts = [Verdict("worked", "a", "decided", "x"), Verdict("at chance", "b", "the supernet is at chance", "y")]
    section = report_page(Report("r", result={"a": 1}, verdicts=verdicts)).partition('<section id="did')[0]
    assert "the supernet is at chance" in section
    assert "decided" not in section


def test_progress_tells_the_time_left() -> None:
    phase = PhaseProgress("search", "darts", 3, 10, "running", seconds=90.0)
    text = report_page(Report("r", progress=[phase], reload=5))
    assert "about 3 min 30 s" in text
    assert "epoch 3 of 10" in text
    assert '<progress value="3" max="10"' in text
    assert '<body data-reload="5">' in text


def test_constants_are_listed_instead_of_drawn() -> None:
    rows = [{"epoch": n, "loss": 1.0 / (n + 1), "failed": 0} for n in range(3)]
    text = report_page(Report("run", phases=[PhaseRows("evolve", rows)]))
    assert re.findall(r"<figcaption>(.*?)</figcaption>", text) == ["loss"]
    assert '<th scope="row">failed</th><td>0</td>' in text


def test_axes_fit_percentages_and_counts() -> None:
    ticks = [label for _, label in Axis.linear([0.98, 1.0], 0, 1, percent=True).ticks]
    assert ticks[-1] in ("100%", "100.0%", "100.00%")
    assert max(value for value, _ in Axis.linear([1.0], 0, 1, percent=True).ticks) <= 1
    assert [label for _, label in Axis.linear([0, 1, 2], 0, 1).ticks] == ["0", "1", "2"]
