"""Run an executor, to be interrupted in many ways: python -m tests.search.executor_program EXECUTOR FOLDER SECONDS."""

from __future__ import annotations

import sys
from pathlib import Path

from archir.search.executors import executor
from tests.search.works import Obedient


def main(name: str, folder: str, seconds: str) -> None:
    with executor(name) as workers:
        work = Obedient(Path(folder))
        assert len(list(workers.run(work, [(str(key), ("value", key)) for key in range(9)]))) == 9
        print("working", flush=True)
        for outcome in workers.run(work, [(str(key), ("busy", float(seconds), key)) for key in range(4)]):
            print(outcome.key, flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
