"""Exact means of costs over all architectures of a space, with equal weights."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from archir.costs.account import Account
from archir.costs.chain import Chain, State
from archir.costs.sums import Term, factors, is_varying
from archir.diagnostics.errors import fail
from archir.diagrams.diagram import Choice, support
from archir.ir.graph import NodeId


def means(account: Account, name: str) -> dict[NodeId, Fraction]:
    """Return each node's mean contribution to a cost, without nodes that never contribute.

    Raises ArchError (A0510, A1601, A1602, A1604).
    """
    account.check_cost(name, summed=True)
    costs = {number: terms[name] for number, terms in account.contributions.items() if name in terms}
    term_means = _term_means(account, [term for terms in costs.values() for term in terms])
    return {
        number: sum((term_means[term] * times for term, times in terms.items()), Fraction())
        for number, terms in costs.items()
    }


def _term_means(account: Account, terms: Iterable[Term]) -> dict[Term, Fraction]:
    """Return the mean of each term; terms that depend on the same choices are computed in one pass over a chain."""
    term_means: dict[Term, Fraction] = {}
    groups: dict[frozenset[Choice], list[Term]] = {}
    for term in dict.fromkeys(terms):
        if is_varying(term):
            groups.setdefault(frozenset(support(*factors(term))), []).append(term)
        else:
            term_means[term] = Fraction(term)
    for group in groups.values():
        chain = account.chain_of_terms({str(i): {term: 1} for i, term in enumerate(group)})
        term_means.update(zip(group, mean_totals(chain), strict=True))
    return term_means


def mean_totals(chain: Chain) -> list[Fraction]:
    """Return the mean total of each cost of a chain. Raises ArchError (A0510) if no architecture satisfies the
    conditions."""
    paths_to_end = _path_counts(chain)
    if () not in paths_to_end[0]:
        raise fail("A0510", "no architecture satisfies the constraints")
    totals = [0] * len(chain.constant)
    paths_from_start: dict[State, int] = {(): 1}
    for level, next_counts in zip(chain.levels, paths_to_end[1:], strict=True):
        reached: dict[State, int] = {}
        for state, count in paths_from_start.items():
            for step in level[state]:
                if step.after in next_counts:
                    reached[step.after] = reached.get(step.after, 0) + count
                    for cost, own in enumerate(step.costs):
                        if own:
                            totals[cost] += count * next_counts[step.after] * own
        paths_from_start = reached
    return [Fraction(total, paths_to_end[0][()]) + own for total, own in zip(totals, chain.constant, strict=True)]


def _path_counts(chain: Chain) -> list[dict[State, int]]:
    """Return, for each level and state, the number of paths from the state to the end; dead ends are missing."""
    counts: list[dict[State, int]] = [{} for _ in chain.levels] + [{(): 1}]
    for i, level in reversed(list(enumerate(chain.levels))):
        for state, steps in level.items():
            ways = sum(counts[i + 1].get(step.after, 0) for step in steps)
            if ways:
                counts[i][state] = ways
    return counts
