"""Run all benchmarks, print their figures, and keep them in `benchmarks/results/PART_DEVICE.txt`.

python benchmarks/run.py [--device cuda] [--quick]
    [--only training,inductor,export,spaces,nine,counters,attention,latency,search_step,compiled,multi_trial,
           supernet,supernet_compiled,executors,tasks,optimizing,loading,serving,latency_bounds]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import executors
import exporters
import latency
import latency_bounds
import loading
import local_attention
import multi_trial
import networks
import optimizing
import search_step
import serving
import spaces
import supernet
import tasks
from measure import Table, machine

PARTS = (
    "training,inductor,export,spaces,nine,counters,attention,latency,search_step,compiled,multi_trial,supernet,"
    "supernet_compiled,executors,tasks,optimizing,loading,serving,latency_bounds"
)
FILES = {"optimizing": "optimize_solvers", "attention": "local_attention", "compiled": "search_step_compiled"}
"""Names of result files that differ from the part's name."""
RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; results are not saved")
    parser.add_argument("--only", default=PARTS)
    arguments = parser.parse_args()
    parts = {
        "training": lambda: networks.training(arguments.device, arguments.quick),
        "inductor": lambda: networks.compiled(arguments.device, arguments.quick),
        "export": lambda: exporters.run(arguments.quick),
        "spaces": lambda: spaces.run(arguments.quick),
        "nine": lambda: spaces.nine(arguments.quick),
        "counters": lambda: spaces.counters(arguments.quick),
        "attention": lambda: local_attention.run(arguments.device, arguments.quick),
        "latency": lambda: latency.run(arguments.device, arguments.quick),
        "search_step": lambda: search_step.run(arguments.device, arguments.quick),
        "compiled": lambda: search_step.compiled(arguments.device, arguments.quick),
        "multi_trial": lambda: multi_trial.run(arguments.quick),
        "supernet": lambda: supernet.run(arguments.device, arguments.quick),
        "supernet_compiled": lambda: supernet.compiled(arguments.quick),
        "executors": lambda: executors.run(arguments.quick),
        "tasks": lambda: tasks.run(arguments.quick),
        "optimizing": lambda: optimizing.run(arguments.quick),
        "loading": lambda: loading.run(arguments.quick),
        "latency_bounds": lambda: latency_bounds.run(arguments.quick),
        "serving": lambda: serving.run(arguments.quick),
    }
    tables: list[Table] = []
    print(machine(arguments.device), flush=True)
    for name in arguments.only.split(","):
        tables.append(parts[name]())
        print(f"\n{tables[-1]}", flush=True)
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        for name, table in zip(arguments.only.split(","), tables, strict=True):
            file = FILES.get(name, name)
            path = RESULTS / f"{file}_{arguments.device.split(':')[0]}.txt"
            path.write_text(f"{machine(arguments.device)}\n\n{table}\n")


if __name__ == "__main__":
    main()
