"""Runs: folders in which a search leaves what it did, whole at every moment, and goes on where it was stopped.

    with Run.create(folder, "digits", {"recipe.toml": text, "space/net.arch": text}, environment()) as run:
        phase = run.phase("search")
        phase.begin({"epochs": 50})
        phase.record({"epoch": 0, "loss": 1.2, "accuracy": 0.6})    # a row of metrics.sqlite, scalars for TensorBoard
        phase.save({"step": 100}, {"safetensors": data})            # a checkpoint; the last two are kept
        phase.finish({"accuracy": 0.6})
        run.write({"best.json": text, "report.html": page(report)}) # results, all of them or none
        run.finish()

    with Run.resume(folder) as run:                                 # verified, locked, what was half-done is undone
        checkpoint = run.phase("search").last()                     # None, or facts and verified bytes
    run = Run.open(folder)                                          # verified, to be read; any number at a time
    summaries("runs")                                               # what `archir runs` lists

Everything is verified by SHA-256 before it is used; damage is a diagnostic (A1801 to A1810) that names the file.
`archir_torch.training.checkpoint_phase` keeps tensors in a phase. How it works is in `docs/runs.md`.
"""

from archir.runs.environment import environment
from archir.runs.journal import Trial
from archir.runs.phase import Checkpoint, Phase
from archir.runs.report.contents import PhaseRows, Report, Weighing
from archir.runs.report.page import page
from archir.runs.run import Run
from archir.runs.summaries import Summary, summaries

__all__ = [
    "Checkpoint",
    "Phase",
    "PhaseRows",
    "Report",
    "Run",
    "Summary",
    "Trial",
    "Weighing",
    "environment",
    "page",
    "summaries",
]
