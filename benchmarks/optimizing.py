"""Exact optimisation: 80 layers of 54 alternatives, three budgets, random additive scores.

`python benchmarks/optimizing.py` prints seconds of processor time, one thread; `--highs` times HiGHS on the same
problems as plain integer programs beside it (`pip install highspy`).
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

import numpy as np

from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.optimum import optimum

LAYERS, ALTERNATIVES, BUDGETS, SIZE = 80, 54, 3, 10**6


def instance(seed: int) -> tuple[Network, list[int]]:
    """Scores and costs are uniform; each budget is 0.24 to 0.36 of the most, where a random architecture has half."""
    rng = np.random.default_rng(seed)
    layers = []
    for _ in range(LAYERS):
        costs = rng.integers(0, SIZE, (ALTERNATIVES, BUDGETS))
        scores = rng.integers(0, SIZE, (ALTERNATIVES, 1))
        nothing = np.zeros(ALTERNATIVES, np.int64)
        steps = np.concatenate([scores, costs], axis=1)
        layers.append(Layer(np.zeros(1, np.int64), nothing, nothing, steps, np.arange(ALTERNATIVES, dtype=np.int16)))
    limits = [int(LAYERS * SIZE * part) for part in rng.uniform(0.24, 0.36, BUDGETS)]
    return Network(tuple(layers), (0,) * (BUDGETS + 1)), limits


def highs(network: Network, limits: list[int]) -> tuple[float, int | None]:
    """Seconds that HiGHS takes to an optimum, and the optimum as it says."""
    import highspy

    start = process_time()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)
    solver.setOptionValue("time_limit", 60.0)
    columns = [[solver.addBinary(obj=float(step[0])) for step in layer.costs] for layer in network.layers]
    for each in columns:
        solver.addConstr(sum(each[1:], each[0]) == 1)
    for room, limit in enumerate(limits, 1):
        pairs = [
            (column, int(step[room]))
            for each, layer in zip(columns, network.layers, strict=True)
            for column, step in zip(each, layer.costs, strict=True)
        ]
        solver.addConstr(solver.qsum([column * cost for column, cost in pairs]) <= limit)
    solver.minimize()
    done = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return process_time() - start, round(solver.getObjectiveValue()) if done else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--highs", action="store_true")
    arguments = parser.parse_args()
    seconds, others = [], []
    for seed in range(arguments.instances):
        network, limits = instance(seed)
        start = process_time()
        answer = optimum(network, limits)
        seconds.append(process_time() - start)
        text = f"{seed:3} {seconds[-1]:6.2f} s  {answer.value}  proved: {answer.settled}"
        if arguments.highs:
            took, value = highs(network, limits)
            others.append(took)
            text += f"  HiGHS {took:6.2f} s  {value}"
        print(text, flush=True)
    print(f"median {median(seconds):.2f} s, most {max(seconds):.2f} s")
    if others:
        print(f"HiGHS: median {median(others):.2f} s, most {max(others):.2f} s")


if __name__ == "__main__":
    main()
