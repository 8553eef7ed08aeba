"""Report page of a run: what won, by how much, how sure that is, whether the search worked, what to do next, and all
figures behind it."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite
from statistics import median
from typing import Any

from archir.pages.charts import LineChart
from archir.pages.page import Html, Number, details, facts, image, page, progress_bar, table, value_html
from archir.pages.page import verdict as marked
from archir.runs.trial_report import TrialTable, front_section, importance_section, label_text, trials_section
from archir.runs.verdicts import Verdict, decidedness, equal_shares, overall
from archir.utils.edits import Edit
from archir.utils.metrics import format_metric, is_fraction

_TIMES = {"seconds"}
"""Columns that hold times, which are not reproducible; they are shown in a separate section."""
_BLUE = b"\x2b\x95\xe3"
"""RGB colour of the pixels of heat maps."""
_MAX_COLUMNS = 300
"""Maximum number of heat map columns. If there are more epochs, evenly spaced epochs are shown."""
MAX_CHOICES, MAX_SHARES = 12, 30
"""Maximum numbers of outcomes, and of shares of relaxed choices, that are listed without a click."""


@dataclass(frozen=True)
class PhaseRows:
    """Metrics of a phase, as returned by `Phase.rows`; `unit` is the word for a row, such as epoch or generation."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    unit: str = "epoch"


@dataclass(frozen=True)
class ChoiceProbabilities:
    """Probabilities of a choice's alternatives over epochs, `probabilities[epoch][alternative]`.

    `chosen` are the indices of the alternatives in the derived architecture.
    """

    choice: str
    alternatives: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    chosen: Sequence[int] = ()
    phase: str = ""


@dataclass(frozen=True)
class Comparison:
    """Table that compares networks: headings, rows whose first cell names a network, and what the numbers mean."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""


@dataclass(frozen=True)
class PhaseProgress:
    """Progress of a phase: epochs (or batches) done, their number if it is known, and seconds so far."""

    name: str
    strategy: str
    done: int
    total: int | None
    state: str
    unit: str = "epoch"
    seconds: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the phase ends, at the mean speed so far; None if unknown."""
        if self.total is None or not self.done or self.state == "done":
            return None
        return self.seconds / self.done * max(0, self.total - self.done)


@dataclass(frozen=True)
class Report:
    """All data of a run's report page.

    `pictures` are SVGs of the derived network or cells by title; `architecture` has the outcomes of its choices.
    `result`, shown first, has the results of the run. `comparisons` compare the result with random networks and with
    the baseline, `certainty` says how sure the numbers are, `verdicts` whether the search worked, and `next_steps` are
    (purpose, shell command) pairs. `trials` has a table of candidates per phase. `facts` are (name, value) tables by
    heading, such as costs and export verification. `recipe` is the recipe text; `overrides` are the edits to it made
    with `--set`: (start, end, new text). `progress` is for runs that are not finished; pages of these reload
    themselves every `reload` seconds, unless that is 0.
    """

    title: str
    subtitle: str = ""
    phases: Sequence[PhaseRows] = ()
    choice_probabilities: Sequence[ChoiceProbabilities] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recipe: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    architecture: Mapping[str, str] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    certainty: Sequence[str] = ()
    verdicts: Sequence[Verdict] = ()
    next_steps: Sequence[tuple[str, str]] = ()
    trials: Sequence[TrialTable] = ()
    overrides: Sequence[Edit] = ()
    progress: Sequence[PhaseProgress] = ()
    reload: int = 0


def report_page(report: Report) -> str:
    """Return the HTML page of a report."""
    return page(report.title, report.subtitle, _sections(report), report.reload)


def _sections(report: Report) -> Iterator[tuple[str, str]]:
    if report.progress:
        yield "Progress", _progress(report.progress)
    if report.result or report.pictures:
        yield "Result", _result(report)
    if report.comparisons:
        yield "Compared", "".join(map(_comparison, report.comparisons))
    if report.certainty:
        yield "How sure", "".join(f"<p>{escape(text)}</p>" for text in report.certainty)
    if report.verdicts:
        yield "Did the search work?", _verdicts(report.verdicts)
    if mattering := _choices_that_mattered(report):
        yield "Which choices mattered", mattering
    for trials in report.trials:
        if trials.scored:
            yield f"Front of {trials.phase}", front_section(trials)
    if report.next_steps:
        yield "What to do next", _next_steps(report.next_steps)
    for trials in report.trials:
        yield f"Trials of {trials.phase}", trials_section(trials)
    for phase in report.phases:
        yield f"Phase {phase.name}", _phase(phase)
    if report.choice_probabilities:
        yield "Architecture parameters", _heat_maps(report.choice_probabilities)
    for name, values in report.facts.items():
        yield name, facts(values)
    if report.recipe:
        yield "Recipe", _recipe(report.recipe, report.overrides)
    if report.environment:
        yield "Environment", facts(report.environment)
    if timed := {phase.name: times for phase in report.phases if (times := _times(phase))}:
        yield "Time", facts(timed)


def _progress(phases: Sequence[PhaseProgress]) -> str:
    """Return a table of the phases with bars, and the time that is left in each."""
    rows = []
    for phase in phases:
        of = "" if phase.total is None else f" of {phase.total:,}"
        left = phase.seconds_left
        rows.append(
            [
                phase.name, phase.strategy, phase.state, progress_bar(phase.done, phase.total),
                Number(f"{phase.unit} {phase.done:,}{of}" if phase.done or phase.total else "", phase.done),
                format_duration(phase.seconds) if phase.seconds else "",
                "" if left is None else f"about {format_duration(left)}",
            ]
        )  # fmt: skip
    return table(["phase", "strategy", "state", "", "done", "time", "time left"], rows, "texts")


def format_duration(seconds: float) -> str:
    """Format a time with two units at most: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    minutes, rest = divmod(total, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _result(report: Report) -> str:
    """Return the section on what won: the worst verdict, figures, the network drawn, and its choices."""
    worst = overall(report.verdicts)
    banner = _verdict(worst) if worst is not None else ""
    pictures = "".join(
        f"<h3>{escape(title)}</h3>{image(svg, f'{title}, drawn as a graph')}" for title, svg in report.pictures.items()
    )
    chosen = facts(report.architecture) if report.architecture else ""
    if len(report.architecture) > MAX_CHOICES:
        chosen = details(f"Outcomes of the {len(report.architecture)} choices in use", chosen)
    elif chosen:
        chosen = Html(f"<h3>Its choices</h3>{chosen}")
    return f"{banner}{facts(report.result)}{pictures}{chosen}"


def _comparison(comparison: Comparison) -> str:
    note = f"<p>{escape(comparison.note)}</p>" if comparison.note else ""
    title = f"<h3>{escape(comparison.title)}</h3>" if comparison.title else ""
    return f"{title}{table(comparison.head, comparison.rows, 'figures named') if comparison.rows else ''}{note}"


def _verdict(verdict: Verdict) -> str:
    kinds = {"worked": "good", "room left": "neutral", "not judged": "neutral"}
    kind = kinds.get(verdict.state, "poor")
    phase = f"<code>{escape(verdict.phase)}</code> " if verdict.phase else ""
    return marked(f"{phase}<b>{escape(verdict.claim)}</b>: {escape(verdict.evidence)}.", kind)


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    return "".join(map(_verdict, verdicts))


def _next_steps(steps: Sequence[tuple[str, str]]) -> str:
    """Return the commands with their purposes."""
    items = (f"<dt>{escape(purpose)}</dt><dd><code>{escape(command)}</code></dd>" for purpose, command in steps)
    note = "<p>Run these in the folder that contains the run. Replace RECIPE by the path of the recipe.</p>"
    return f'{note}<dl class="steps">{"".join(items)}</dl>'


def _choices_that_mattered(report: Report) -> str:
    """Return what each choice contributes: by the scores of trials, and by the shares of relaxed alternatives."""
    sections = [(trials.phase, importance_section(trials)) for trials in report.trials if trials.scored]
    for phase in dict.fromkeys(choice.phase for choice in report.choice_probabilities):
        of_phase = [choice for choice in report.choice_probabilities if choice.phase == phase and choice.probabilities]
        if of_phase:
            sections.append((phase, _share_table(of_phase)))
    return "".join(f"<h3>{escape(phase)}</h3>{section}" for phase, section in sections)


def _share_table(choices: Sequence[ChoiceProbabilities]) -> str:
    """Return a table of the final shares of relaxed choices, the most decided one first."""
    rows = []
    for choice in sorted(choices, key=lambda choice: -decidedness(choice.probabilities[-1])):
        shares = choice.probabilities[-1]
        strongest = max(range(len(shares)), key=lambda index: shares[index])
        derived = ", ".join(label_text(choice.alternatives[index]) for index in choice.chosen)
        is_strongest = "yes" if strongest in choice.chosen else "no"
        rows.append(
            [
                choice.choice, derived or "not used", label_text(choice.alternatives[strongest]),
                f"{shares[strongest]:.1%}", f"{equal_shares(shares):.2f}", is_strongest if derived else "",
            ]
        )  # fmt: skip
    head = ["choice", "selected", "strongest", "its share", "times an equal share", "selected is strongest"]
    shown = table(head, rows[:MAX_SHARES], "figures named")
    rest = details(f"{len(rows) - MAX_SHARES} more", table(head, rows[MAX_SHARES:], "figures named"))
    return (
        "<p>Shares of the alternatives at the end of the search, the most decided choice first. They show what the "
        "search preferred, not how much it matters for the accuracy; 1.00 times an equal share is no preference.</p>"
        f"{shown}{rest if len(rows) > MAX_SHARES else ''}"
    )


def _recipe(text: str, overrides: Sequence[Edit]) -> str:
    """Return the recipe as HTML; settings that `--set` replaced or added are marked."""
    parts, position = [], 0
    for start, end, new in sorted(overrides):
        parts.append(escape(text[position:start]))
        parts.append(f"<del>{escape(text[max(position, start) : end])}</del> " if end > max(position, start) else "")
        parts.append(f"<ins>{escape(new)}</ins>")
        position = max(position, end)
    note = "<p>Marked settings were replaced or added on the command line.</p>" if overrides else ""
    return f'{note}<pre tabindex="0">{"".join(parts)}{escape(text[position:])}</pre>'


def _phase(phase: PhaseRows) -> str:
    """Return the charts of a phase's metrics, and their table; metrics that never change are listed instead."""
    if not phase.rows:
        return f"<p>No {escape(phase.unit)} was done.</p>"
    names = [
        name for name in dict.fromkeys(name for row in phase.rows for name in row) if name not in _TIMES | {"epoch"}
    ]
    columns = {name: [finite_number(row.get(name)) for row in phase.rows] for name in names}
    epochs = [int(row["epoch"]) + 1 for row in phase.rows]
    values = {name: {value for value in columns[name] if value is not None} for name in names}
    constant = {name: format_metric(name, next(iter(values[name]))) for name in names if len(values[name]) == 1}
    charts = "".join(
        LineChart(title, epochs, {name: columns[name] for name in group}, is_fraction(title), phase.unit).figure()
        for title, group in _grouped(name for name in names if len(values[name]) > 1)
    )
    rows = (
        [epoch, *(value_html(row.get(name)) for name in names)] for epoch, row in zip(epochs, phase.rows, strict=True)
    )
    unchanged = f"<h3>Figures with one value</h3>{facts(constant)}" if constant else ""
    charts = f'<div class="charts">{charts}</div>' if charts else ""
    return f"{charts}{unchanged}{details('Figures', table([phase.unit, *names], rows))}"


def finite_number(value: Any) -> float | None:
    """Return a finite number as float; None for anything else."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _grouped(columns: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Group columns into charts: all losses, all accuracies, and each other metric with its validation counterpart."""
    groups: dict[str, list[str]] = {"loss": [], "accuracy": []}
    for name in columns:
        kind = next((kind for kind in ("loss", "accuracy") if kind in name), name.removeprefix("validation_"))
        groups.setdefault(kind, []).append(name)
    return [(kind, names) for kind, names in groups.items() if names]


def _heat_maps(probabilities: Sequence[ChoiceProbabilities]) -> str:
    """Return all heat maps, grouped by phase; those of a phase have the same colour scale."""
    parts = []
    for phase in dict.fromkeys(choice.phase for choice in probabilities):
        if phase:
            parts.append(f"<h3>{escape(phase)}</h3>")
        of_phase = [choice for choice in probabilities if choice.phase == phase]
        values = [float(value) for choice in of_phase for row in choice.probabilities for value in row]
        low, high = min(values, default=0.0), max(values, default=1.0)
        low, high = (low, high) if high > low else (0.0, 1.0)
        ends = f"probability {100 * low:.3g}% <i></i> {100 * high:.3g}%, epochs to the right"
        maps = "".join(_heat_map(choice, low, high) for choice in of_phase)
        parts.append(f'<p class="scale">{ends}</p><div class="heats" tabindex="0">{maps}</div>')
    return "".join(parts)


def _heat_map(choice: ChoiceProbabilities, low: float, high: float) -> Html:
    """Return the figure of a choice: an image of its alternatives' probabilities by epoch, as opacity from `low` to
    `high`, with names and final probabilities."""
    epochs = shown_epochs(len(choice.probabilities))
    columns = [[min(1.0, max(0.0, float(p))) for p in choice.probabilities[epoch]] for epoch in epochs]
    last = columns[-1] if columns else [0.0] * len(choice.alternatives)
    names = "".join(
        f"<li{' class=chosen' if position in choice.chosen else ''}>{escape(name)}</li>"
        for position, name in enumerate(choice.alternatives)
    )
    shares = "".join(f"<li>{100 * share:.1f}%</li>" for share in last)
    data = {
        "epochs": [epoch + 1 for epoch in epochs],
        "names": [*choice.alternatives],
        "permille": [[round(1000 * p) for p in column] for column in columns],
    }
    shades = [[min(1.0, max(0.0, (p - low) / (high - low))) for p in column] for column in columns]
    source = b64encode(png(shades)).decode() if columns else ""
    return Html(
        f'<figure class="heat" data-heat="{escape(json.dumps(data, separators=(",", ":")))}">'
        f"<figcaption>{escape(choice.choice)}</figcaption><ol>{names}</ol>"
        f'<img alt="probabilities by epoch" height="{20 * len(last)}" src="data:image/png;base64,{source}">'
        f'<ol class="shares">{shares}</ol></figure>'
    )


def shown_epochs(count: int) -> list[int]:
    """Return the indices of the epochs to show: all, or evenly spaced ones that include the first and the last."""
    if count <= _MAX_COLUMNS:
        return list(range(count))
    return [round(index * (count - 1) / (_MAX_COLUMNS - 1)) for index in range(_MAX_COLUMNS)]


def png(columns: Sequence[Sequence[float]]) -> bytes:
    """Return a PNG image (RFC 2083) with one pixel per value in [0, 1]: blue, with the value as opacity."""
    width, height = len(columns), len(columns[0])
    rows = (b"\0" + b"".join(_BLUE + bytes([round(255 * column[row])]) for column in columns) for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _times(phase: PhaseRows) -> dict[str, str]:
    """Return the total time and the median time per epoch, as text; {} if no times were recorded."""
    seconds = [value for row in phase.rows if (value := finite_number(row.get("seconds"))) is not None]
    if not seconds:
        return {}
    return {"in all": f"{sum(seconds):.1f} s", "median of epochs": f"{median(seconds):.2f} s"}
