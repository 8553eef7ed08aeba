"""Means of costs over all architectures of a space, exact: every architecture counts alike."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from archir.costs.account import Account
from archir.costs.counting.plain import PlainAccount
from archir.costs.dynamic import Chain, State
from archir.costs.sums import Term, depends, factors
from archir.diagnostics.errors import fail
from archir.diagrams.cases import Choice, support
from archir.ir.graph import NodeId


def means(account: Account, name: str) -> dict[NodeId, Fraction]:
    """What each node contributes to a cost on average; nodes that never contribute are left out.

    Raises ArchError (A0510, A1601, A1602, A1604).
    """
    account.known(name, summed=True)
    costs = {number: terms[name] for number, terms in account.contributions.items() if name in terms}
    known = _means_of(account, [term for terms in costs.values() for term in terms])
    return {
        number: sum((known[term] * times for term, times in terms.items()), Fraction())
        for number, terms in costs.items()
    }


def _means_of(account: Account, terms: Iterable[Term]) -> dict[Term, Fraction]:
    """The mean of each term; those that depend on the same choices are added up along one chain."""
    if isinstance(account, PlainAccount):
        return account.average(terms)
    found: dict[Term, Fraction] = {}
    varied: dict[frozenset[Choice], list[Term]] = {}
    for term in dict.fromkeys(terms):
        if depends(term):
            varied.setdefault(frozenset(support(*factors(term))), []).append(term)
        else:
            found[term] = Fraction(term)
    for together in varied.values():
        chain = account.sums({str(i): {term: 1} for i, term in enumerate(together)})
        found.update(zip(together, averages(chain), strict=True))
    return found


def averages(chain: Chain) -> list[Fraction]:
    """The mean total of each cost of a chain. Raises ArchError (A0510) if no architecture satisfies the conditions."""
    ahead = _ahead(chain)
    if () not in ahead[0]:
        raise fail("A0510", "no architecture satisfies the constraints")
    totals = [0] * len(chain.constant)
    behind: dict[State, int] = {(): 1}
    for level, after in zip(chain.levels, ahead[1:], strict=True):
        reached: dict[State, int] = {}
        for state, count in behind.items():
            for step in level[state]:
                if step.after in after:
                    reached[step.after] = reached.get(step.after, 0) + count
                    for cost, own in enumerate(step.costs):
                        if own:
                            totals[cost] += count * after[step.after] * own
        behind = reached
    return [Fraction(total, ahead[0][()]) + own for total, own in zip(totals, chain.constant, strict=True)]


def _ahead(chain: Chain) -> list[dict[State, int]]:
    """For each level and state, how many ways lead on from it; states that lead nowhere are missing."""
    found: list[dict[State, int]] = [{} for _ in chain.levels] + [{(): 1}]
    for i, level in reversed(list(enumerate(chain.levels))):
        for state, steps in level.items():
            ways = sum(found[i + 1].get(step.after, 0) for step in steps)
            if ways:
                found[i][state] = ways
    return found
