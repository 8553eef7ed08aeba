"""Fronts as tables, rows and pictures."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

from archir.runs.trial_report import front_plot
from archir.search.ask_tell import Search
from archir.search.fronts import format_value, heading, rows, table
from archir.search.objectives import objective
from archir.search.registry import create
from tests.search.test_multi import BOUND, run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def search() -> Search:
    made = create("nsga2", BOUND, {"population": 12, "generations": 4}, 1)
    run(made, failing=0.1)
    return made


def test_headings_and_values_are_formatted_with_units() -> None:
    assert [heading(name) for name in ("accuracy", "macs", "peak_bytes", 'latency("cpu.json")', "naswot")] == [
        "accuracy, %", "macs", "peak_bytes, bytes", 'latency("cpu.json"), ns', "naswot",
    ]  # fmt: skip
    assert (format_value("accuracy", 0.98765), format_value("macs", 1_234_567), format_value("loss", 0.123456)) == (
        "98.77", "1,234,567", "0.1235",
    )  # fmt: skip


def test_the_table_has_the_objectives_first(search: Search) -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(rows(search.front()), search.objectives.each, "front"))
    lines = [line.split() for line in capture.get().splitlines() if line.strip()]
    assert lines[0] == ["front"]
    assert lines[1] == ["trial", "accuracy,", "%", "macs", "architecture"]
    assert [line[0] for line in lines[3:]] == [str(one.id) for one, _ in search.front()]
    assert [line[-1] for line in lines[3:]] == [one.hash for one, _ in search.front()]


def test_front_rows_are_json_with_choices_and_scores(search: Search) -> None:
    written = json.loads(json.dumps(rows(search.front())))
    assert [BOUND.architecture(row["choices"]) for row in written] == [one.architecture for one, _ in search.front()]
    assert [row["scores"]["macs"] for row in written] == [scores["macs"] for _, scores in search.front()]


def drawn(search: Search, front: set[int], *texts: str) -> ElementTree.Element:
    trials = [(one.candidate, one.scores) for one in search.scored]
    return ElementTree.fromstring(front_plot(trials, front, [objective(text) for text in texts], "a < b"))


def test_the_picture_has_a_point_for_each_trial(search: Search) -> None:
    ids = {one.id for one, _ in search.front()}
    picture = drawn(search, ids, "accuracy:max", "macs:min")
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == len(search.scored)
    marked = {re.findall(r"\d+", circle[0].text or "")[0] for circle in circles if circle.get("class") == "front"}
    assert marked == set(map(str, ids))
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert {"a < b", "accuracy, % (more is better)", "macs (less is better)"} <= set(texts)
    places = [(float(circle.get("cx", "")), float(circle.get("cy", ""))) for circle in circles]
    width, height = (float(picture.get(side, "")) for side in ("width", "height"))
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_front_plot_is_self_contained(search: Search) -> None:
    text = ElementTree.tostring(drawn(search, set(), "accuracy:max", "macs:min"), "unicode")
    assert not re.search(r"href|url\(|@import|<script", text)
    assert re.findall(r"https?://[^\s\"]+", text) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("senses", [("max", "min"), ("max", "max"), ("min", "min"), ("min", "max")])
def test_edge_corners_are_worse_than_front_points(search: Search, senses: tuple[str, str]) -> None:
    """Every corner is as good as its two neighbours in one objective each, and better than neither."""
    aims = [f"{name}:{sense}" for name, sense in zip(("accuracy", "macs"), senses, strict=True)]
    made = create("random", BOUND, {"objectives": aims, "trials": 40}, 2)
    run(made)
    picture = drawn(made, {one.id for one, _ in made.front()}, *aims)
    edge = next(path for path in picture.iter(f"{SVG}path") if path.get("class") == "edge")
    across, up = (float(n) for n in re.findall(r"[-\d.]+", (edge.get("d") or "").partition("H")[0]))
    for x, y in re.findall(r"H([\d.]+)V([\d.]+)", edge.get("d") or ""):
        assert (float(x) < across) if senses[1] == "max" else (float(x) > across)
        assert (float(y) < up) if senses[0] == "max" else (float(y) > up)
        across, up = float(x), float(y)


def test_plot_omits_edge_for_three_objectives_and_axes_for_none(search: Search) -> None:
    picture = drawn(search, {0}, "accuracy:max", "macs:min", "macs:max")
    assert "edge" not in {path.get("class") for path in picture.iter(f"{SVG}path")}
    nothing = ElementTree.fromstring(front_plot([], set(), [objective("accuracy:max"), objective("macs:min")], "none"))
    assert [element.tag for element in nothing.iter(f"{SVG}path")] == []
