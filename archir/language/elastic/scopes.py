"""Scopes that a pattern names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from archir.diagnostics.errors import fail, listed, suggest
from archir.ir.graph import Graph


def within(scope: str, where: str) -> bool:
    """Whether a scope is one that a pattern names, or lies in it."""
    plain = where.replace("[", "[[]")  # scopes have brackets of their own
    return any(fnmatchcase(scope, form) for form in (plain, f"{plain}.*", f"{plain}[[]*"))


def checked(network: Graph, where: str) -> None:
    """Raise ArchError (A3230) if a pattern names no scope of a network."""
    inputs = {*network.inputs.values()}
    scopes = [network[number].scope for number in network if number not in inputs]
    if any(scope and within(scope, where) for scope in scopes):
        return
    outermost = list(dict.fromkeys(re.split(r"[.\[]", scope)[0] for scope in scopes if scope))
    there = f"there are {listed(outermost)}: see `archir show`" if outermost else None
    raise fail("A3230", f"`{network.name}` has no scope `{where}`", None, suggest(where, outermost) or there)


def label_of(path: str) -> str:
    """The label of a choice: the last name of its path."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
