"""Executors: score the candidates of a search in this process, in several processes, or on a Ray cluster.

    with executor("processes:4", limit=60) as workers:
        for outcome in workers.run(work, [("7", architecture), ...]):   # Done or Failed, one per key, as completed
            ...

`work.prepare()` is called once in each worker and returns the scoring function. Workers live until the
executor is closed. `docs/executors.md` describes how failures are handled.
"""

from archir.search.executors.factory import device_of, executor
from archir.search.executors.tasks import Done, Executor, Failed, Outcome, Score, Work

__all__ = ["Done", "Executor", "Failed", "Outcome", "Score", "Work", "device_of", "executor"]
