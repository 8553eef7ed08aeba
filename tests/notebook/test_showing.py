"""Representations of values at prompts and in notebooks, also with malicious names."""

from __future__ import annotations

import pickle
from base64 import b64decode
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pytest
from IPython.core.interactiveshell import InteractiveShell

import archir
from archir.api import drawing as pictures
from archir.costs.latencies.measurement import MeasuredNetwork, Validation
from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import Entry, LatencyTable
from archir.costs.latencies.timing import Timing
from archir.diagnostics.errors import Diagnostic, Diagnostics, Note, Source, Span
from archir.diagrams.diagram import Choice
from archir.ir.graph import Graph, Node
from archir.ir.structure import Input
from archir.pages import fragments
from archir.reuse.trial_columns import Trials
from archir.spaces.optimal.fronts import Front, Point
from archir.spaces.scores import AdditiveScores, Term
from archir.tools.notebook.html_pages import Counts
from archir.tools.notebook.registration import DISPLAYED_CLASSES, html, register, text
from tests.conftest import EXAMPLES

PROGRAM = """net small(width = 4) {
    input image: f32[1, 8, 8]
    x = image |> conv(width) |> choose op { conv: conv(width), skip: identity }
    y = x |> choose kernel @search { three: conv(width, kernel=3), five: conv(width, kernel=5) }
    output logits = y |> global_avg_pool |> linear(10)
}
"""
HARM = '"><img src=x onerror=alert(1)><script>alert(1)</script>\x1b[2J</pre>&'
WRONG = "net a {\n    input x: f32[3]\n    output y = x |> lineer(3)\n}\n"
TAGS = {
    "b", "code", "details", "div", "img", "pre", "span", "strong", "summary", "table", "tbody", "td", "th", "thead",
    "tr",
}  # fmt: skip
ATTRIBUTES = {"alt", "class", "open", "scope", "src", "style", "tabindex"}


@cache
def space() -> archir.Space:
    return archir.loads(PROGRAM)


def answer() -> Any:
    return archir.optimize(space(), minimize="macs", best=2)


def table() -> LatencyTable:
    entry = Entry(mean=1.5, spread=0.5, samples=9)
    given: Any = {"machine": {}, "overhead": entry, "entries": {"conv": entry}}
    return LatencyTable(schema_version=1, device="cpu", batch=1, threads=1, **given)


def opened() -> Any:
    with TemporaryDirectory() as folder:
        network = "net one {\n    input x: f32[4]\n    output y = x |> linear(8) |> relu |> linear(2)\n}\n"
        (Path(folder) / "one.arch").write_text(network)
        return archir.open_network(Path(folder) / "one.arch", "widths")


def model() -> LatencyModel:
    given: Any = {"model": "costs", "device": "cpu", "networks": 30, "error": 1200.0, "rank_correlation": None}
    return LatencyModel(schema_version=1, **given, tried={}, offset=0, entries={})


def validated() -> Validation:
    return Validation((MeasuredNetwork(10.0, Timing(8.0, 0.0, 3)), MeasuredNetwork(20.0, Timing(25.0, 0.0, 3))))


def refused(text: str = WRONG) -> archir.ArchError:
    with pytest.raises(archir.ArchError) as found:
        archir.loads(text)
    return found.value


SAID: dict[str, Any] = {
    "<Space small: 4 architectures, 2 choices, image f32[1, 8, 8] -> logits>": space,
    "<Space small: 4 architectures, params <= 1, 2 choices, image f32[1, 8, 8] -> logits>": (
        lambda: space().where("params <= 1")
    ),
    "<Account of small: params, macs, activation_bytes, kernels, peak_bytes>": lambda: space().account,
    "<Graph small: 10 nodes, 2 choices, image f32[1, 8, 8] -> logits>": lambda: space().graph,
    "<Architecture of small: op=conv, kernel=five>": lambda: space().architecture({"op": "conv", "kernel": "five"}),
    "<Answer: least macs = 11,560 (proved), 2 architectures>": answer,
    "<Answer: nothing is within the bounds>": lambda: archir.optimize(space(), minimize="macs", where="params <= 1"),
    "<Front of macs and params: 1 architecture>": lambda: archir.exact_front(space(), "macs", "params"),
    "<error A0201 at <text>:3:21: there is no `lineer`>": lambda: refused().diagnostics[0],
    "<Membership: the largest, <Architecture of small: op=conv, kernel=five>>": lambda: archir.membership(
        space(), archir.Space(space().specialize(space().architecture({"op": "conv", "kernel": "five"})))
    ),
    "<Opened: 1 choice, 1 left; <Space one: 4 architectures, 1 choice, x f32[4] -> y>>": opened,
    "<LatencyModel of costs on cpu: 30 networks, error 1,200 ns>": model,
    "<Validation on 2 networks: mean error 22.5%>": validated,
    "<LatencyTable of 1 operations: cpu, batch 1, 1 thread>": table,
    "<Trials: 2, with trial, scores.accuracy>": lambda: Trials({"trial": [0, 1], "scores.accuracy": [0.5, None]}),
    "<AdditiveScores of small: 1 terms>": lambda: AdditiveScores("small", (Term(("op",), {(0,): Fraction(1)}),)),
}


@pytest.mark.parametrize("text", SAID)
def test_repr_matches_expected_line(text: str) -> None:
    assert repr(SAID[text]()) == text


def test_cost_repr_shows_values() -> None:
    network = space().specialize(space().sample(0))
    assert repr(archir.cost(network)).startswith("Cost(params=")


def test_counts_of_more_than_100_digits_are_rounded() -> None:
    counts = Counts("many", 10**120, 10**101, (7, 7))
    text = "<many: about 10^120 architectures, about 10^101 satisfy the requirements on choices"
    assert repr(counts) == f"{text}, 7 within the bounds on costs>"


def test_repr_of_large_space_rounds_or_omits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n".join(f"    x{i + 1} = x{i} |> choose c{i} {{ a: relu, b: identity }}" for i in range(60))
    many = archir.loads(f"net many {{\n    input x0: f32[4]\n{body}\n    output y = x60\n}}\n")
    assert repr(many) == "<Space many: about 10^18 architectures, 60 choices, x0 f32[4] -> y>"
    assert len(repr(many.sample(0))) < 150
    monkeypatch.setattr("archir.spaces.counting.MAX_QUICK_WORK", 10)
    assert repr(archir.Space(many.graph)) == "<Space many: many architectures, 60 choices, x0 f32[4] -> y>"


class Reader(HTMLParser):
    """Tags, attributes and texts of a fragment, which is whole: what is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "img":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def svgs(self) -> list[str]:
        found = [value for name, value in self.attributes if name == "src"]
        return [b64decode(value.removeprefix("data:image/svg+xml;base64,"), validate=True).decode() for value in found]


def harmless(html: str | None) -> Reader:
    """A fragment in which nothing runs and nothing is fetched."""
    assert html is not None
    found = Reader(html)
    assert found.tags <= TAGS
    assert {name for name, _ in found.attributes} <= ATTRIBUTES
    assert not [value for name, value in found.attributes if name == "style" and "url" in value]
    assert "\x1b" not in html
    for svg in found.svgs:
        ElementTree.fromstring(svg)
        assert "<script" not in svg
        assert "onerror=alert(1)>" not in svg
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    return found


@pytest.mark.parametrize("make", [*SAID.values(), lambda: archir.cost(space().specialize(space().sample(0)))])
def test_notebook_html_is_harmless(make: Any) -> None:
    value = make()
    found = harmless(html(value))
    assert text(value) == repr(value)
    assert found.text


def test_a_space_is_shown_with_counts_choices_and_a_picture() -> None:
    found = harmless(html(space()))
    for part in ("small", "4", "image f32[1, 8, 8]", "logits f32[10]", "three | five", "@search", "11,560"):
        assert part in found.text, part
    (svg,) = found.svgs
    assert "prefers-color-scheme:dark" in svg
    assert "choose kernel" in svg


def test_diagnostics_are_shown_as_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(WRONG)
    found = archir.check(tmp_path / "net.arch")
    assert isinstance(found, Diagnostics)
    shown = harmless(html(found)).text
    assert "error A0201: there is no `lineer`" in shown
    assert "    output y = x |> lineer(3)\n                        ^^^^^^\n  hint: did you mean `linear`?" in shown
    assert harmless(html(Diagnostics())).text == "no problems"
    many = harmless(html(Diagnostics(found * 50)))
    assert many.text.count("lineer(3)") == fragments.MAX_ROWS
    assert "and 30 more" in many.text


def hostile() -> list[Any]:
    graph = Graph(HARM)
    number = graph.add(Node(Input.of(HARM, [3])))
    graph.outputs[HARM] = number
    graph.parameters[HARM] = HARM
    span = Span(Source(HARM, HARM + "\n"), 0, 5)
    choice = Choice(HARM, (HARM, "b"), 0)
    architecture = archir.Architecture([choice], (0,), HARM, graph)
    diagnostic = Diagnostic("A0201", HARM, span, HARM, (Note(HARM, span),))
    return [
        graph, archir.Space(graph), architecture, diagnostic, Trials({HARM: [HARM, 1]}),
        Front((Point(architecture, (Fraction(1), 2)),), True, (HARM, "macs")),
    ]  # fmt: skip


@pytest.mark.parametrize("value", hostile(), ids=lambda value: type(value).__name__)
def test_malicious_names_are_escaped(value: Any) -> None:
    found = harmless(html(value))
    assert "alert(1)" in found.text
    assert "\x1b" not in repr(value)
    assert "\n" not in repr(value)


def test_large_values_are_truncated_in_html(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials({"x" * 10_000: ["y" * 10_000] * 10_000})
    shown = html(trials)
    assert shown is not None
    assert "and 9,980 more" in shown
    assert len(shown) < 20_000
    monkeypatch.setattr(fragments, "MAX_PICTURE_BYTES", 100)
    assert not harmless(html(space())).svgs
    monkeypatch.setattr("archir.api.drawing.MAX_NODES", 5)
    assert "of many nodes: archir.show(graph) draws it" in harmless(html(space().graph)).text


def test_show_prints_text_at_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    archir.show(space())
    assert capsys.readouterr().out.splitlines()[:2] == [repr(space().graph), "net small(width=4) {"]
    archir.show(space().architecture({"op": "skip", "kernel": "five"}))
    assert "kernel.five" in capsys.readouterr().out
    archir.show(archir.load(EXAMPLES / "resnet50.arch"))
    said = capsys.readouterr().out.splitlines()
    assert len(said) == pictures.MAX_LINES + 2
    assert "more lines: archir.print_graph(graph)" in said[-1]


def test_pictures_are_written_to_files(tmp_path: Path) -> None:
    archir.show(space(), tmp_path / "space.svg", heat="macs")
    assert "mean macs" in (tmp_path / "space.svg").read_text()
    archir.show(space().sample(0), tmp_path / "one.html", depth=2)
    assert "<!doctype html>" in (tmp_path / "one.html").read_text().lower()
    with pytest.raises(archir.ArchError) as found:
        archir.show(space().graph, tmp_path / "space.gif")
    assert "`" + str(tmp_path / "space.gif") in str(found.value)
    assert found.value.diagnostics[0].code == "A1302"


def test_unpickled_architecture_without_space_cannot_be_shown() -> None:
    one = space().sample(0)
    copy = pickle.loads(pickle.dumps(one))
    assert copy.codes == one.codes
    assert copy.graph is None
    assert harmless(html(copy)).svgs == []
    with pytest.raises(archir.ArchError, match="does not know its space"):
        archir.show(copy)


def test_ipython_shows_every_registered_class() -> None:
    shell = InteractiveShell()
    register(shell)
    formatted, _ = shell.display_formatter.format(space())
    assert formatted == {"text/plain": repr(space()), "text/html": html(space())}
    for place in DISPLAYED_CLASSES:
        module, _, name = place.partition(":")
        formatters = shell.display_formatter.formatters
        assert formatters["text/html"].lookup_by_type(getattr(import_module(module), name)) is html, place


def test_ipython_error_shows_call_and_diagnostic() -> None:
    try:
        archir.loads(WRONG)
    except archir.ArchError as error:
        lines = error._render_traceback_()
    assert lines[0].endswith("archir.loads(WRONG)")
    assert "loading.py" not in "\n".join(lines)
    assert "\x1b[1;31merror[A0201]" in lines[1]
    assert lines[3].strip("\x1b[0m31 ") == "^^^^^^"
    assert lines[-1] == "`archir explain A0201` says more"
