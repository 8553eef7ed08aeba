"""Measure exact optimisation: 80 layers of 54 alternatives, three budgets, random additive scores.

`python benchmarks/optimizing.py` prints seconds of processor time, one thread. `--others` also solves the same problems
as integer programs by HiGHS and CBC (`pip install highspy pulp`). `--smaller 1000` compares the answers with those of
HiGHS on as many smaller problems, some of which are infeasible. `--llama` computes a front of a thousand points.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from importlib.util import find_spec
from os import times
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from measure import Table

import archir
from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.optimum import optimum
from archir.spaces.scores import AdditiveScores, Term

HERE = Path(__file__).resolve().parent

LAYERS, ALTERNATIVES, BUDGETS, SIZE = 80, 54, 3, 10**6
MAX_SECONDS = 60.0
"""Time limit of the other solvers for a problem, in seconds."""
COSTS = "kv_bytes(context=4096)", "decode_macs(context=4096)"
"""Costs of the front of Llama 3."""


def instance(
    seed: int, count: int = LAYERS, alternatives: int = ALTERNATIVES, tight: tuple[float, float] = (0.24, 0.36)
) -> tuple[Network, list[int]]:
    """Return a random problem: a network and its budgets.

    Scores and costs are uniform; each budget is 0.24 to 0.36 of the maximum, of which a random architecture costs half.
    """
    rng = np.random.default_rng(seed)
    layers = []
    for _ in range(count):
        costs = rng.integers(0, SIZE, (alternatives, BUDGETS))
        scores = rng.integers(0, SIZE, (alternatives, 1))
        nothing = np.zeros(alternatives, np.int64)
        steps = np.concatenate([scores, costs], axis=1)
        layers.append(Layer(np.zeros(1, np.int64), nothing, nothing, steps, np.arange(alternatives, dtype=np.int16)))
    limits = [int(count * SIZE * part) for part in rng.uniform(*tight, BUDGETS)]
    return Network(tuple(layers), (0,) * (BUDGETS + 1)), limits


def highs(network: Network, limits: list[int]) -> tuple[float, int | None, bool]:
    """Return the seconds that HiGHS takes, its optimum, and True if it finds the problem infeasible."""
    import highspy

    start = process_time()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)
    solver.setOptionValue("time_limit", MAX_SECONDS)
    columns = [[solver.addBinary(obj=float(step[0])) for step in layer.costs] for layer in network.layers]
    for layer_columns in columns:
        solver.addConstr(sum(layer_columns[1:], layer_columns[0]) == 1)
    for budget, limit in enumerate(limits, 1):
        pairs = [
            (column, int(step[budget]))
            for layer_columns, layer in zip(columns, network.layers, strict=True)
            for column, step in zip(layer_columns, layer.costs, strict=True)
        ]
        solver.addConstr(solver.qsum([column * cost for column, cost in pairs]) <= limit)
    solver.minimize()
    status, kinds = solver.getModelStatus(), highspy.HighsModelStatus
    value = round(solver.getObjectiveValue()) if status == kinds.kOptimal else None
    return process_time() - start, value, status == kinds.kInfeasible


def cbc(network: Network, limits: list[int]) -> tuple[float, int | None, bool]:
    """Return the seconds that CBC takes, from PuLP, its optimum, and True if it finds the problem infeasible."""
    import pulp

    start = times()
    problem = pulp.LpProblem("instance", pulp.LpMinimize)
    columns = [
        [pulp.LpVariable(f"x_{i}_{j}", cat="Binary") for j in range(len(layer.costs))]
        for i, layer in enumerate(network.layers)
    ]
    pairs = [
        (column, step.tolist())
        for layer_columns, layer in zip(columns, network.layers, strict=True)
        for column, step in zip(layer_columns, layer.costs, strict=True)
    ]
    problem += pulp.LpAffineExpression([(column, step[0]) for column, step in pairs])
    for layer_columns in columns:
        problem += pulp.lpSum(layer_columns) == 1
    for budget, limit in enumerate(limits, 1):
        problem += pulp.LpAffineExpression([(column, step[budget]) for column, step in pairs]) <= limit
    status = problem.solve(pulp.PULP_CBC_CMD(msg=False, threads=1, timeLimit=MAX_SECONDS, gapRel=0, gapAbs=0.5))
    took = sum(times()[:4]) - sum(start[:4])
    done = status == pulp.LpStatusOptimal and took < MAX_SECONDS
    return took, round(pulp.value(problem.objective)) if done else None, status == pulp.LpStatusInfeasible


def smaller(count: int) -> None:
    """Compare answers on smaller problems, about a third of which are infeasible."""
    differ, infeasible_count = [], 0
    for seed in range(count):
        network, limits = instance(seed, 6 + seed % 15, 2 + seed % 9, (0.2, 0.5))
        answer, (_, value, infeasible) = optimum(network, limits), highs(network, limits)
        infeasible_count += infeasible
        if not answer.is_proved or answer.value != value or infeasible != (answer.value is None):
            differ.append((seed, answer.value, value))
    print(
        f"{count} smaller problems, {infeasible_count} of them infeasible: "
        f"{len(differ)} answers differ from HiGHS {differ[:5]}"
    )


def llama() -> None:
    """Compute fronts of random scores and two costs: of a thousand points, and of all."""
    space = archir.load(HERE.parent / "examples" / "llama" / "llama3.arch")
    rng = np.random.default_rng(0)
    terms = [
        Term((choice.path,), {(i,): Fraction(int(rng.integers(10**9)), 10**9) for i in range(choice.outcome_count)})
        for choice in space.choices
    ]
    for points in (1_000, None):
        start = process_time()
        front = archir.exact_front(space, AdditiveScores(space.name, tuple(terms)), *COSTS, points=points)
        print(f"Llama 3, score, {', '.join(COSTS)}: {len(front.points):,} points, {process_time() - start:.1f} s")


def run(quick: bool) -> Table:
    """Solve ten instances by archir, HiGHS and CBC, for `make bench`; solvers that are not installed are left out."""
    solvers = {"HiGHS": ("highspy", highs), "CBC": ("pulp", cbc)}
    installed = {name: solve for name, (package, solve) in solvers.items() if find_spec(package)}
    table = Table(
        "80 layers of 54 alternatives, three budgets: seconds to a proved optimum", ["seed", "archir", *installed]
    )
    for seed in range(2 if quick else 10):
        network, limits = instance(seed)
        start = process_time()
        answer = optimum(network, limits)
        cells = [f"{process_time() - start:.2f}"]
        for solve in installed.values():
            seconds, value, _ = solve(network, limits)
            assert value in (None, answer.value), "another optimum"
            cells.append(f"{seconds:.2f}" if value is not None else "none in time")
        table.add(str(seed), *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--smaller", type=int, default=0)
    parser.add_argument("--llama", action="store_true")
    arguments = parser.parse_args()
    solvers = {"HiGHS": highs, "CBC": cbc} if arguments.others else {}
    took: dict[str, list[float]] = {name: [] for name in ("archir", *solvers)}
    for seed in range(arguments.instances):
        network, limits = instance(seed)
        start = process_time()
        answer = optimum(network, limits)
        took["archir"].append(process_time() - start)
        text = f"{seed:3} {took['archir'][-1]:6.2f} s  {answer.value}  proved: {answer.is_proved}"
        for name, solve in solvers.items():
            seconds, value, _ = solve(network, limits)
            took[name].append(seconds)
            text += f"  {name} {seconds:6.2f} s  {'in time: none' if value is None else value}"
        print(text, flush=True)
    for name, seconds in took.items() if arguments.instances else ():
        print(f"{name}: median {median(seconds):.2f} s, most {max(seconds):.2f} s")
    if arguments.smaller:
        smaller(arguments.smaller)
    if arguments.llama:
        llama()


if __name__ == "__main__":
    main()
