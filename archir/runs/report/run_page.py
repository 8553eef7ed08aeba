"""Report page of a run that may still be running, generated from its journal only; no code from the run is
executed."""

from __future__ import annotations

from typing import Any

from archir.diagnostics.errors import ArchError
from archir.runs.folder import RECIPE
from archir.runs.journal import Trial
from archir.runs.report.contents import PhaseRows, Report
from archir.runs.report.page import page
from archir.runs.report.trials import TrialRow, TrialTable
from archir.runs.run import Run
from archir.runs.summaries import Summary
from archir.search.fronts.metric_format import format_metric


def run_page(run: Run, summary: Summary) -> str:
    """Return an HTML page with the current state of a run."""
    return page(
        Report(
            title=summary.name,
            subtitle=f"{run.title}: {summary.state}, last written {summary.changed}",
            phases=[PhaseRows(phase.name, rows) for phase in run.phases() if (rows := phase.rows())],
            recipe=run.content(RECIPE).decode("utf-8", "replace"),
            result=_result(summary),
            trials=[
                _trial_table(run, phase.name, trials, summary) for phase in run.phases() if (trials := phase.trials())
            ],
        )
    )


def error_page(name: str, error: ArchError) -> str:
    """Return an HTML page for a run that cannot be read, with the diagnostics."""
    return page(Report(title=name, result={diagnostic.code: diagnostic.message for diagnostic in error.diagnostics}))


def _result(summary: Summary) -> dict[str, Any]:
    """Return the result table: state, progress, and scores."""
    result: dict[str, Any] = {"state": summary.state, "phase": summary.phase, "epochs or batches": summary.epoch}
    if summary.validation is not None:
        result[f"{summary.criterion}, validation"] = format_metric(summary.criterion, summary.validation)
    if summary.score is not None:
        result[f"{summary.criterion}, held out"] = format_metric(summary.criterion, summary.score)
    return result


def _trial_table(run: Run, phase: str, trials: list[Trial], summary: Summary) -> TrialTable:
    """Return the table of a phase's trials."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.scores))
    score = summary.criterion if summary.criterion in names else names[0] if names else ""
    rows = [TrialRow(trial.id, trial.scores, {}, trial.architecture, trial.error) for trial in trials]

    def command(number: int) -> str:
        return f"archir train --trial {run.folder.name} {phase}:{number} -o {phase}-{number}"

    return TrialTable(phase, rows, command, score, summary.larger if score == summary.criterion else True)
