"""Run searches of NAS-Bench-201 in its table of results: the best validation accuracy found, averaged over seeds.

ARCHIR_NAS=FOLDER python benchmarks/tabulated.py [--seeds 500] [--processes 2] [--others 20]

The folder has `nb201.npz` (see `benchmarks/published.py`). Results of the benchmark's training seeds are averaged
before a strategy sees them. Local search runs until it finds the table's optimum. Samplers of Optuna, and of Nevergrad
if it is installed, use the same queries; they are slower, and run on `--others` seeds. The figures are kept in
`benchmarks/results/tabulated_cpu.txt`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per process

import archir
from archir.spaces.space import Space
from archir.tabular.results import Results

ROOT = Path(__file__).resolve().parents[1]
MEASURES = {"CIFAR-10": "accuracy", "CIFAR-100": "accuracy_cifar100", "ImageNet16": "accuracy_imagenet16"}
STRATEGIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "random": ("random", {"batch": 50}),
    "regularised evolution, population 20, tournament 5": ("evolution", {"preset": "tabulated"}),
    "local search": ("local_search", {}),
    "bayesian": ("bayesian", {}),
    "bananas": ("bananas", {}),
}
"""The strategies of archir, with their options."""
TO_THE_BEST = "local search, evaluations until the best of all"
CHECKPOINTS = (100, 300)
"""Numbers of evaluations after which the best accuracy is recorded."""


@cache
def space() -> Space:
    """Return the space of NAS-Bench-201."""
    return archir.load(ROOT / "examples/nas_bench_201/nas_bench_201.arch")


@cache
def table(measure: str) -> Results:
    """Return the table of a measure."""
    file, about = Path(os.environ["ARCHIR_NAS"]) / "nb201.npz", ROOT / "examples/tables/nas_bench_201.toml"
    return archir.results(file, space(), map=about, measures=[measure])


def scores(strategy: str, measure: str, seed: int, trials: int) -> Iterator[float]:
    """Run a strategy, and yield the accuracy of each evaluation."""
    name, options = STRATEGIES[strategy]
    objective = {"objectives": [f"{measure}:max"]} if name == "random" else {"objective": f"{measure}:max"}
    search = archir.strategy(name, space(), {**options, **objective, "trials": trials}, seed=seed)
    while batch := search.ask():
        scored = table(measure).scored(batch)
        yield from (values[measure] for _, values in scored if values is not None)
        search.tell(scored)


def by_optuna(sampler: str, measure: str, seed: int) -> list[float]:
    """Run a sampler of Optuna, with the line that an Optuna user adds, and return all accuracies."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed))
    results = table(measure)
    study.optimize(lambda trial: results(archir.optuna.suggest(trial, space()))[measure], n_trials=max(CHECKPOINTS))
    return [trial.value for trial in study.trials if trial.value is not None]


def by_nevergrad(optimizer: str, measure: str, seed: int) -> list[float]:
    """Run an optimizer of Nevergrad, and return all accuracies."""
    nevergrad = import_module("nevergrad")
    varied = archir.nevergrad.parametrization(space())
    varied.random_state.seed(seed)
    search = nevergrad.optimizers.registry[optimizer](parametrization=varied, budget=max(CHECKPOINTS))
    accuracies: list[float] = []
    for _ in range(max(CHECKPOINTS)):
        candidate = search.ask()
        accuracies.append(table(measure)(archir.nevergrad.architecture(candidate.value, space()))[measure])
        search.tell(candidate, -accuracies[-1])
    return accuracies


OTHERS: Mapping[str, Callable[[str, int], list[float]]] = {
    "TPE of Optuna": partial(by_optuna, "TPESampler"),
    "genetic algorithm (NSGA-II) of Optuna": partial(by_optuna, "NSGAIISampler"),
} | ({"discrete (1+1) of Nevergrad": partial(by_nevergrad, "DiscreteOnePlusOne")} if find_spec("nevergrad") else {})
"""Searches of other libraries: functions of a measure and a seed."""


def run_job(job: tuple[str, str, int]) -> tuple[list[float], float]:
    """Return the figures of a strategy, a measure and a seed, and their seconds of processor time."""
    strategy, measure, seed = job
    begin = time.process_time()
    if strategy == TO_THE_BEST:
        optimum = max(table(measure).values[measure][0][1])
        evaluated = enumerate(scores("local search", measure, seed, 10**5), 1)
        results = [float(next(n for n, accuracy in evaluated if accuracy >= optimum))]
    else:
        other = OTHERS.get(strategy)
        accuracies = other(measure, seed) if other else list(scores(strategy, measure, seed, max(CHECKPOINTS)))
        results = [100 * max(accuracies[:count]) for count in CHECKPOINTS]
    return results, time.process_time() - begin


def line(data: str, strategy: str, done: list[tuple[list[float], float]]) -> str:
    """Return a line of the table: means and standard errors over seeds."""

    def mean(values: tuple[float, ...], digits: int) -> str:
        return f"{fmean(values):.{digits}f} ({stdev(values) / len(values) ** 0.5:.{digits + 1}f})"

    columns = list(zip(*(values for values, _ in done), strict=True))
    seconds = f"{1000 * fmean(took for _, took in done):6.0f} ms"
    if strategy == TO_THE_BEST:
        cells = f"{mean(columns[0], 1):49}"
    else:
        cells = "   ".join(
            f"{at} evaluations {mean(column, 2)}" for at, column in zip(CHECKPOINTS, columns, strict=True)
        )
    return f"{data:11}{strategy:52}{cells}   {len(done):4} seeds {seconds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--others", type=int, default=20)
    arguments = parser.parse_args()
    begin, cpu = time.perf_counter(), time.process_time()
    list(space().unique(space().enumerate()))  # hashes architectures once, before processes are forked
    for measure in MEASURES.values():
        table(measure)
    lines = ["NAS-Bench-201: best validation accuracy found, percent, mean over seeds (standard error); CPU a search"]
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        total = _measure_all(pool.imap, arguments.seeds, arguments.others, lines)
    minutes, cores = (time.perf_counter() - begin) / 60, (time.process_time() - cpu + total) / 60
    lines.append(
        f"{minutes:.1f} minutes with {arguments.processes} processes, {cores:.1f} minutes of processor time in all"
    )
    print(lines[-1])
    (ROOT / "benchmarks/results/tabulated_cpu.txt").write_text("\n".join(lines) + "\n")


def _measure_all(run: Callable[..., Iterator[Any]], seeds: int, others: int, lines: list[str]) -> float:
    total = 0.0
    for data, measure in MEASURES.items():
        # on ImageNet16 the best network is equivalent to others, of which only one is tried, so it may not be found
        additional = [TO_THE_BEST] if data != "ImageNet16" else []
        for strategy in [*STRATEGIES, *additional, *(OTHERS if others > 1 else [])]:
            count = others if strategy in OTHERS else seeds
            done = list(run(run_job, [(strategy, measure, seed) for seed in range(count)], 5))
            total += sum(took for _, took in done)
            lines.append(line(data, strategy, done))
            print(lines[-1], flush=True)
    return total


if __name__ == "__main__":
    main()
