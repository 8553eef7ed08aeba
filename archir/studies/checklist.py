"""Checklist of best practices for comparisons in neural architecture search, and which of them a study follows.

It has the three parts of Lindauer and Hutter 2020, Best Practices for Scientific Research on Neural Architecture
Search, JMLR 21(243), and further points of the COSEAL guidelines, from questions to results: Eimer et al. 2025, Best
Practices For Empirical Meta-Algorithmic Research, arXiv:2512.16491. Both are paraphrased. Questions that archir
cannot answer are left to the author of the study.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from archir import __version__
from archir.studies.comparison import StudyComparison

BASELINES = {"random", "local_search", "evolution"}
"""Names of strategies that count as simple, well-known baselines."""

Answer = Literal["yes", "no", "partly", "for you to say"]


@dataclass(frozen=True)
class Practice:
    """A best practice, whether the study follows it, and the evidence for that."""

    part: str
    what: str
    answer: Answer
    why: str


def practices(comparison: StudyComparison, tables: Mapping[str, str], seconds: float) -> Iterator[Practice]:
    """Yield all best practices with their status in a study.

    `tables` maps tasks to the hashes of their tables; `seconds` is the total time of all searches.
    """
    study = comparison.study
    seeds = study.seeds
    kinds = {item.strategy for item in study.strategy}
    code, compare, report = "Releasing code", "Comparing methods", "Reporting"
    hashes = "; ".join(f"{name}: SHA-256 {item[:16]}..." for name, item in tables.items())
    yield Practice(code, "Code for the training pipeline, and its hyperparameters", "for you to say",
                   "networks were looked up in tables: cite the authors of the tables, and their code")  # fmt: skip
    yield Practice(code, "Code for the search space", "yes", "the study refers to the programs of its spaces")
    yield Practice(code, "Code for the methods, their hyperparameters and seeds", "yes",
                   f"archir {__version__}; study.toml in the folder contains all options and seeds {study.seed} to "
                   f"{study.seed + seeds - 1}")  # fmt: skip
    yield Practice(compare, "Exactly the same benchmark for all: space, data, training", "yes",
                   f"all strategies look up the same tables; {hashes}")  # fmt: skip
    yield Practice(compare, "Only the method differs", "yes",
                   "the same space, evaluations and bounds for all")  # fmt: skip
    yield Practice(compare, "Comparison over time, not only at one point", "yes",
                   f"curves from the first evaluation to {max(study.budgets):g}")  # fmt: skip
    random = "random" in kinds
    yield Practice(compare, "Comparison with random search", "yes" if random else "no",
                   "`random` is in the study" if random else "add a strategy `random`")  # fmt: skip
    enough = seeds >= 10
    yield Practice(compare, "Several runs with different seeds, and their variation", "yes" if enough else "partly",
                   f"{seeds} seeds; quartiles, tests and probabilities are shown")  # fmt: skip
    yield Practice(compare, "Ablations: which parts make a method better", "for you to say",
                   "the study can contain a strategy several times, with different options")  # fmt: skip
    yield Practice(compare, "The same evaluation for all, by tabular or surrogate benchmarks", "yes",
                   "tables of results are used")  # fmt: skip
    yield Practice(compare, "The search objective and the reported measure differ", "for you to say",
                   "reported values are those the strategies optimise; test accuracies are not included")  # fmt: skip
    yield Practice(report, "How hyperparameters of the methods were tuned, and on what", "for you to say",
                   "archir records the options, but not how you chose them")  # fmt: skip
    yield Practice(report, "Total time, and time of the search itself", "partly",
                   f"{seconds:.0f} seconds of searching; only the tables may contain training times")  # fmt: skip
    yield Practice(report, "Hardware and software", "yes",
                   f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}")  # fmt: skip
    yield Practice(report, "All other details that may influence the results", "for you to say",
                   "include experiments that you left out of the study")  # fmt: skip
    yield Practice(report, "Statistical tests, corrected for multiple comparisons", "yes",
                   "Wilcoxon's signed-rank tests over tasks and seeds, with Holm's correction")  # fmt: skip
    several = len(comparison.tasks) > 1
    yield Practice(report, "More than one task, before a claim is general", "yes" if several else "no",
                   f"{len(comparison.tasks)} task{'s' if several else ''}; "
                   "the results do not extend to others")  # fmt: skip
    yield from _guidelines(comparison)


def _guidelines(comparison: StudyComparison) -> Iterator[Practice]:
    """Yield the COSEAL guidelines that are not among the NAS-specific best practices."""
    study = comparison.study
    question, design, running, results = (
        f"{part} (COSEAL 2025)" for part in ("The question", "The design", "Running it", "The results")
    )
    yield Practice(question, "The goal is clear beforehand: a hypothesis that can fail, or an exploration",
                   "for you to say", "the study records what is compared, not what you expected")  # fmt: skip
    simple = sorted({item.strategy for item in study.strategy} & BASELINES)
    yield Practice(design, "Baselines that are simple and well known", "yes" if simple else "no",
                   f"{', '.join(simple)}" if simple else f"add one of {', '.join(sorted(BASELINES))}")  # fmt: skip
    options_text = ", ".join(f"{item.name}: {', '.join(item.options) or 'none'}" for item in study.strategy)
    yield Practice(design, "All methods were configured with the same effort", "for you to say",
                   f"options that differ from the defaults: {options_text}")  # fmt: skip
    several = len(comparison.tasks) > 1
    completed_seeds = ", ".join(f"{item.name}: {len(item.regrets[0])} of {study.seeds}" for item in comparison.tasks)
    yield Practice(design, "Benchmarks fit the question, and vary in kind and difficulty",
                   "partly" if several else "no",
                   f"tasks: {', '.join(item.name for item in comparison.tasks)}; "
                   "the reasons are yours to give")  # fmt: skip
    yield Practice(design, "It is stated where a table or a model replaces real runs", "partly",
                   "all scores are looked up; whether a table was measured or predicted is for you to say")  # fmt: skip
    yield Practice(design, "Design decisions are documented", "partly",
                   "study.toml contains the decisions, but not the reasons")  # fmt: skip
    yield Practice(running, "One automated path from the experiment to its figures", "yes",
                   "`archir study study.toml` runs the searches and writes this page")  # fmt: skip
    yield Practice(running, "Dependencies are pinned, for example in a container", "for you to say",
                   f"this was archir {__version__}, numpy {np.__version__}; other versions may sample "
                   "differently")  # fmt: skip
    yield Practice(running, "Failures are expected and reported", "yes",
                   f"seeds completed by all strategies: {completed_seeds}; failed searches are reported and "
                   "repeated by the next call")  # fmt: skip
    yield Practice(running, "Everything is open: code, settings, raw results", "for you to say",
                   "publish the folder: study.toml, study.sqlite and results.csv, and the tables")  # fmt: skip
    yield Practice(running, "Raw results are in a common format", "yes",
                   "CSV, JSON and SQLite; every candidate with --trials")  # fmt: skip
    yield Practice(results, "Figures and statistics are robust to outliers", "yes",
                   "medians, quartiles and ranks")  # fmt: skip
    yield Practice(results, "Impartial presentation, including negative results", "for you to say",
                   "this page shows all tasks, strategies and budgets; what you publish is up to you")  # fmt: skip
