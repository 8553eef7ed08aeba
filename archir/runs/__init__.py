"""Runs: folders that store the state and results of a search.

A run can be resumed, because its folder is consistent at all times.

    with Run.create(folder, "digits", {"recipe.toml": text, "space/net.arch": text}, environment()) as run:
        phase = run.phase("search")
        phase.begin({"epochs": 50})
        phase.record({"epoch": 0, "loss": 1.2, "accuracy": 0.6})    # a row of metrics.sqlite
        phase.save({"step": 100}, {"safetensors": data})            # a checkpoint; the last two are kept
        phase.finish({"accuracy": 0.6})
        run.write({"best.json": text, "report.html": page(report)}) # results, written atomically
        run.finish()

    with Run.resume(folder) as run:                                 # verified, locked; interrupted writes are completed
        checkpoint = run.phase("search").last()                     # None, or state and verified bytes

    run = Run.open(folder)                                          # verified, read-only; any number of readers
    summaries("runs")                                               # the list that `archir runs` shows

Every file is verified by SHA-256 before use; damage raises a diagnostic (A1801 to A1810) that names the file.
`archir_torch.training.checkpoint_phase` stores tensors in a phase. `docs/runs.md` describes the format.
"""

from archir.runs.journal import Trial
from archir.runs.run import Checkpoint, Phase, Run, environment
from archir.runs.summaries import Summary, summaries

__all__ = ["Checkpoint", "Phase", "Run", "Summary", "Trial", "environment", "summaries"]
