"""A run as its report shows it while it is running: from its journal alone, of which no line is run."""

from __future__ import annotations

from typing import Any

from archir.diagnostics.errors import ArchError
from archir.runs.journal import Trial
from archir.runs.report.contents import PhaseRows, Report
from archir.runs.report.page import page
from archir.runs.report.trials import Trials, Tried
from archir.runs.run import RECIPE, Run
from archir.runs.summaries import Summary
from archir.search.fronts.figures import shown


def live(run: Run, summary: Summary) -> str:
    """The page of a run as far as it has come."""
    return page(
        Report(
            title=summary.name,
            subtitle=f"{run.title}: {summary.state}, last written {summary.changed}",
            phases=[PhaseRows(one.name, rows) for one in run.phases() if (rows := one.rows())],
            recipe=run.content(RECIPE).decode("utf-8", "replace"),
            verdict=_verdict(summary),
            trials=[_tried(run, one.name, trials, summary) for one in run.phases() if (trials := one.trials())],
        )
    )


def broken(name: str, error: ArchError) -> str:
    """The page of a run that cannot be read."""
    return page(Report(title=name, verdict={one.code: one.message for one in error.diagnostics}))


def _verdict(summary: Summary) -> dict[str, Any]:
    found: dict[str, Any] = {"state": summary.state, "phase": summary.phase, "epochs or batches": summary.epoch}
    if summary.validation is not None:
        found[f"{summary.criterion}, on what it chooses by"] = shown(summary.criterion, summary.validation)
    if summary.score is not None:
        found[f"{summary.criterion}, held out"] = shown(summary.criterion, summary.score)
    return found


def _tried(run: Run, phase: str, trials: list[Trial], summary: Summary) -> Trials:
    names = list(dict.fromkeys(name for one in trials for name in one.scores))
    score = summary.criterion if summary.criterion in names else names[0] if names else ""
    rows = [Tried(one.id, one.scores, {}, one.architecture, one.error) for one in trials]

    def command(number: int) -> str:
        return f"archir train --trial {run.folder.name} {phase}:{number} -o {phase}-{number}"

    return Trials(phase, rows, command, score, summary.larger if score == summary.criterion else True)
