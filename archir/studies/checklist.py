"""Best practices, and what a study can say of each.

Lindauer and Hutter 2020, Best Practices for Scientific Research on Neural Architecture Search, JMLR 21(243), in its
three parts. And what the guidelines of the COSEAL network ask beyond that: Eimer et al. 2025, Best Practices For
Empirical Meta-Algorithmic Research, arXiv:2512.16491, along its course from questions to results. Both in short words
of our own. What archir cannot know is left to whoever writes about the study.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from archir import __version__
from archir.studies.compared import Compared

SIMPLE = {"random", "local_search", "evolution"}
"""Strategies that every reader knows."""

Answer = Literal["yes", "no", "partly", "for you to say"]


@dataclass(frozen=True)
class Practice:
    """A practice, whether it was followed, and what is known of it."""

    part: str
    what: str
    answer: Answer
    why: str


def practices(found: Compared, tables: Mapping[str, str], seconds: float) -> Iterator[Practice]:
    """All practices. `tables` are the hashes of the tasks' tables; `seconds` are those of all searches together."""
    study = found.study
    seeds = study.seeds
    kinds = {one.strategy for one in study.strategy}
    code, compare, report = "Releasing code", "Comparing methods", "Reporting"
    hashes = "; ".join(f"{name}: SHA-256 {one[:16]}..." for name, one in tables.items())
    yield Practice(code, "Code for the training pipeline, and its hyperparameters", "for you to say",
                   "networks were looked up in tables of results: cite who trained them, and their code")  # fmt: skip
    yield Practice(code, "Code for the search space", "yes", "the study names the programs of its spaces")
    yield Practice(code, "Code for the methods, their hyperparameters and seeds", "yes",
                   f"archir {__version__}; study.toml in the folder has all options and seeds {study.seed} to "
                   f"{study.seed + seeds - 1}")  # fmt: skip
    yield Practice(compare, "Exactly the same benchmark for all: space, data, training", "yes",
                   f"all strategies look up the same tables; {hashes}")  # fmt: skip
    yield Practice(compare, "Nothing but the method differs", "yes",
                   "the same space, evaluations and bounds for all")  # fmt: skip
    yield Practice(compare, "Comparison over time, not at one point alone", "yes",
                   f"curves from the first evaluation to {max(study.budgets):g}")  # fmt: skip
    random = "random" in kinds
    yield Practice(compare, "Comparison with random search", "yes" if random else "no",
                   "`random` is in the study" if random else "add a strategy `random`")  # fmt: skip
    enough = seeds >= 10
    yield Practice(compare, "Several runs with different seeds, and how they spread", "yes" if enough else "partly",
                   f"{seeds} seeds; quartiles, tests and probabilities are shown")  # fmt: skip
    yield Practice(compare, "Ablations: what makes a method better", "for you to say",
                   "a strategy may stand in the study several times, with other options")  # fmt: skip
    yield Practice(compare, "The same evaluation for all, by tabular or surrogate benchmarks", "yes",
                   "tables of results")  # fmt: skip
    yield Practice(compare, "What is searched by is not what is reported", "for you to say",
                   "figures are of what strategies see; test accuracies are no part of this study")  # fmt: skip
    yield Practice(report, "How hyperparameters of the methods were tuned, and on what", "for you to say",
                   "archir knows the options and not how you came to them")  # fmt: skip
    yield Practice(report, "The time of the whole, and of the search itself", "partly",
                   f"{seconds:.0f} seconds of searching; what training took, tables say at best")  # fmt: skip
    yield Practice(report, "Hardware and software", "yes",
                   f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}")  # fmt: skip
    yield Practice(report, "All confounding details: whatever else might matter", "for you to say",
                   "what you tried and left out of the study, too")  # fmt: skip
    yield Practice(report, "Statistical tests, corrected for how many there are", "yes",
                   "Wilcoxon's signed ranks over tasks and seeds, corrected by Holm")  # fmt: skip
    several = len(found.tasks) > 1
    yield Practice(report, "More than one task, before a claim is general", "yes" if several else "no",
                   f"{len(found.tasks)} task{'s' if several else ''}; nothing is said of others")  # fmt: skip
    yield from _guidelines(found)


def _guidelines(found: Compared) -> Iterator[Practice]:
    """What COSEAL's guidelines ask beyond the practices for NAS."""
    study = found.study
    question, design, running, results = (
        f"{part} (COSEAL 2025)" for part in ("The question", "The design", "Running it", "The results")
    )
    yield Practice(question, "The goal is clear beforehand: a hypothesis that may fail, or an exploration",
                   "for you to say", "the study says what is compared, not what you expected")  # fmt: skip
    simple = sorted({one.strategy for one in study.strategy} & SIMPLE)
    yield Practice(design, "Baselines that are simple and well known", "yes" if simple else "no",
                   f"{', '.join(simple)}" if simple else f"there is none of {', '.join(sorted(SIMPLE))}")  # fmt: skip
    given = ", ".join(f"{one.name}: {', '.join(one.options) or 'none'}" for one in study.strategy)
    yield Practice(design, "All methods were configured with the same effort", "for you to say",
                   f"options that are no defaults: {given}")  # fmt: skip
    several = len(found.tasks) > 1
    searched = ", ".join(f"{one.name}: {len(one.regrets[0])} of {study.seeds}" for one in found.tasks)
    yield Practice(design, "Benchmarks that fit the question, and are of several kinds and difficulties",
                   "partly" if several else "no",
                   f"tasks: {', '.join(one.name for one in found.tasks)}; why these is for you to say")  # fmt: skip
    yield Practice(design, "Where a table or a model stands for real runs, that is said", "partly",
                   "all scores are looked up; whether a table was measured or predicted is for you to say")  # fmt: skip
    yield Practice(design, "What was decided is written down", "partly",
                   "study.toml has what was decided, and not why")  # fmt: skip
    yield Practice(running, "One way from the experiment to its figures, without steps by hand", "yes",
                   "`archir compare study.toml` runs the searches and makes this page")  # fmt: skip
    yield Practice(running, "Dependencies are fixed, such as by a container", "for you to say",
                   f"this was archir {__version__}, numpy {np.__version__}; others may draw otherwise")  # fmt: skip
    yield Practice(running, "Failures are expected, and none is lost", "yes",
                   f"seeds that all strategies searched: {searched}; what fails is said, and done again")  # fmt: skip
    yield Practice(running, "Everything is open: code, settings, raw results", "for you to say",
                   "publish the folder: study.toml, study.sqlite and results.csv, and the tables")  # fmt: skip
    yield Practice(running, "Raw results have a format that others read", "yes",
                   "CSV, JSON and SQLite; each candidate with --trials")  # fmt: skip
    yield Practice(results, "Figures and statistics that outliers do not decide", "yes",
                   "medians, quartiles and ranks")  # fmt: skip
    yield Practice(results, "Presented impartially, with what did not work", "for you to say",
                   "this page has all tasks, strategies and budgets; what you show of it is yours")  # fmt: skip
