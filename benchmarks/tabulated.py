"""Searches of NAS-Bench-201 in its table of results: the best validation accuracy found, averaged over seeds.

ARCHIR_NAS=FOLDER python benchmarks/tabulated.py [--seeds 500] [--processes 2] [--others 20]

The folder has `nb201.npz` (see `benchmarks/published.py`). Seeds of the benchmark's trainings are averaged before a
strategy sees them. Local search goes on until it has the best of the table. Samplers of Optuna, and of Nevergrad where
it is installed, choose by the same queries; `--others` is how many seeds they have, which are slower. The figures are
kept in `benchmarks/results/tabulated_cpu.txt`.
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

os.environ.setdefault("OMP_NUM_THREADS", "1")  # each process has a core

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
TO_THE_BEST = "local search, evaluations until the best of all"
AT = (100, 300)


@cache
def space() -> Space:
    return archir.load(ROOT / "examples/nas_bench_201/nas_bench_201.arch")


@cache
def table(measure: str) -> Results:
    file, about = Path(os.environ["ARCHIR_NAS"]) / "nb201.npz", ROOT / "examples/tables/nas_bench_201.toml"
    return archir.results(file, space(), map=about, measures=[measure])


def scores(strategy: str, measure: str, seed: int, trials: int) -> Iterator[float]:
    """What is found, evaluation by evaluation."""
    name, options = STRATEGIES[strategy]
    aim = {"objectives": [f"{measure}:max"]} if name == "random" else {"objective": f"{measure}:max"}
    search = archir.strategy(name, space(), {**options, **aim, "trials": trials}, seed=seed)
    while batch := search.ask():
        told = table(measure).scored(batch)
        yield from (one[measure] for _, one in told if one is not None)
        search.tell(told)


def by_optuna(sampler: str, measure: str, seed: int) -> list[float]:
    """The same by a sampler of Optuna, with the line that an Optuna user adds."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed))
    found = table(measure)
    study.optimize(lambda trial: found(archir.optuna.suggest(trial, space()))[measure], n_trials=max(AT))
    return [trial.value for trial in study.trials if trial.value is not None]


def by_nevergrad(optimizer: str, measure: str, seed: int) -> list[float]:
    """The same by an optimizer of Nevergrad."""
    nevergrad = import_module("nevergrad")
    varied = archir.nevergrad.parametrization(space())
    varied.random_state.seed(seed)
    search = nevergrad.optimizers.registry[optimizer](parametrization=varied, budget=max(AT))
    found: list[float] = []
    for _ in range(max(AT)):
        one = search.ask()
        found.append(table(measure)(archir.nevergrad.architecture(one.value, space()))[measure])
        search.tell(one, -found[-1])
    return found


OTHERS: Mapping[str, Callable[[str, int], list[float]]] = {
    "TPE of Optuna": partial(by_optuna, "TPESampler"),
    "genetic algorithm (NSGA-II) of Optuna": partial(by_optuna, "NSGAIISampler"),
} | ({"discrete (1+1) of Nevergrad": partial(by_nevergrad, "DiscreteOnePlusOne")} if find_spec("nevergrad") else {})


def figures(job: tuple[str, str, int]) -> tuple[list[float], float]:
    """The figures of a strategy, a measure and a seed, and the seconds of processor time that they took."""
    strategy, measure, seed = job
    begin = time.process_time()
    if strategy == TO_THE_BEST:
        aim = max(table(measure).values[measure][0][1])
        found = [float(next(n for n, one in enumerate(scores("local search", measure, seed, 10**5), 1) if one >= aim))]
    else:
        other = OTHERS.get(strategy)
        one = other(measure, seed) if other else list(scores(strategy, measure, seed, max(AT)))
        found = [100 * max(one[:count]) for count in AT]
    return found, time.process_time() - begin


def line(data: str, strategy: str, done: list[tuple[list[float], float]]) -> str:
    def mean(values: tuple[float, ...], digits: int) -> str:
        return f"{fmean(values):.{digits}f} ({stdev(values) / len(values) ** 0.5:.{digits + 1}f})"

    columns = list(zip(*(found for found, _ in done), strict=True))
    seconds = f"{1000 * fmean(took for _, took in done):6.0f} ms"
    if strategy == TO_THE_BEST:
        cells = f"{mean(columns[0], 1):49}"
    else:
        cells = "   ".join(f"{at} evaluations {mean(one, 2)}" for at, one in zip(AT, columns, strict=True))
    return f"{data:11}{strategy:52}{cells}   {len(done):4} seeds {seconds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--others", type=int, default=20)
    given = parser.parse_args()
    begin, cpu = time.perf_counter(), time.process_time()
    list(space().unique(space().enumerate()))  # hashed once, before processes are forked
    for measure in MEASURES.values():
        table(measure)
    lines = ["NAS-Bench-201: best validation accuracy found, percent, mean over seeds (standard error); CPU a search"]
    with multiprocessing.get_context("fork").Pool(given.processes) as pool:
        total = _measured(pool.imap, given.seeds, given.others, lines)
    minutes, cores = (time.perf_counter() - begin) / 60, (time.process_time() - cpu + total) / 60
    lines.append(
        f"{minutes:.1f} minutes with {given.processes} processes, {cores:.1f} minutes of processor time in all"
    )
    print(lines[-1])
    (ROOT / "benchmarks/results/tabulated_cpu.txt").write_text("\n".join(lines) + "\n")


def _measured(run: Callable[..., Iterator[Any]], seeds: int, others: int, lines: list[str]) -> float:
    total = 0.0
    for data, measure in MEASURES.items():
        # on ImageNet16 the best network computes the same as others, which are tried once: it need not be met
        until = [TO_THE_BEST] if data != "ImageNet16" else []
        for strategy in [*STRATEGIES, *until, *(OTHERS if others > 1 else [])]:
            few = others if strategy in OTHERS else seeds
            done = list(run(figures, [(strategy, measure, seed) for seed in range(few)], 5))
            total += sum(took for _, took in done)
            lines.append(line(data, strategy, done))
            print(lines[-1], flush=True)
    return total


if __name__ == "__main__":
    main()
