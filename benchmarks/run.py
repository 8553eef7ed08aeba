"""All benchmarks: prints the figures, and keeps them in `benchmarks/results/DEVICE.txt`.

python benchmarks/run.py [--device cuda] [--quick]
    [--only training,inductor,export,spaces,nine,counters,attention,latency,search_step,compiled,multi_trial,
           supernet,supernet_compiled,executors,tasks,optimizing,loading]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import executors
import exporters
import latency
import loading
import local_attention
import multi_trial
import networks
import optimizing
import search_step
import spaces
import supernet
import tasks
from measure import Table, machine

PARTS = (
    "training,inductor,export,spaces,nine,counters,attention,latency,search_step,compiled,multi_trial,supernet,"
    "supernet_compiled,executors,tasks,optimizing,loading"
)
FILES = {"optimizing": "optimize_solvers", "attention": "local_attention", "compiled": "search_step_compiled"}
RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; nothing is kept")
    parser.add_argument("--only", default=PARTS)
    given = parser.parse_args()
    parts = {
        "training": lambda: networks.training(given.device, given.quick),
        "inductor": lambda: networks.compiled(given.device, given.quick),
        "export": lambda: exporters.run(given.quick),
        "spaces": lambda: spaces.run(given.quick),
        "nine": lambda: spaces.nine(given.quick),
        "counters": lambda: spaces.counters(given.quick),
        "attention": lambda: local_attention.run(given.device, given.quick),
        "latency": lambda: latency.run(given.device, given.quick),
        "search_step": lambda: search_step.run(given.device, given.quick),
        "compiled": lambda: search_step.compiled(given.device, given.quick),
        "multi_trial": lambda: multi_trial.run(given.quick),
        "supernet": lambda: supernet.run(given.device, given.quick),
        "supernet_compiled": lambda: supernet.compiled(given.quick),
        "executors": lambda: executors.run(given.quick),
        "tasks": lambda: tasks.run(given.quick),
        "optimizing": lambda: optimizing.run(given.quick),
        "loading": lambda: loading.run(given.quick),
    }
    tables: list[Table] = []
    print(machine(given.device), flush=True)
    for name in given.only.split(","):
        tables.append(parts[name]())
        print(f"\n{tables[-1]}", flush=True)
    if not given.quick:
        RESULTS.mkdir(exist_ok=True)
        for name, table in zip(given.only.split(","), tables, strict=True):
            file = FILES.get(name, name)
            path = RESULTS / f"{file}_{given.device.split(':')[0]}.txt"
            path.write_text(f"{machine(given.device)}\n\n{table}\n")


if __name__ == "__main__":
    main()
