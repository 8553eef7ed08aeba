"""Executors: who scores the candidates of a search, and where.

    with executor("processes:4", limit=60) as workers:
        for outcome in workers.run(work, [("7", architecture), ...]):   # Done or Failed, one per key, as they come
            ...

`work.prepare()` is called once in each worker and returns the function that scores. Workers stay while the executor is
open. How failures are answered is in `docs/executors.md`.
"""

from archir.search.executors.named import device_of, executor
from archir.search.executors.protocol import Done, Executor, Failed, Outcome, Score, Work

__all__ = ["Done", "Executor", "Failed", "Outcome", "Score", "Work", "device_of", "executor"]
