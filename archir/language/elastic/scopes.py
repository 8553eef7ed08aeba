"""Matches scopes against patterns such as `layer4*`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph


def matches_scope(scope: str, where: str) -> bool:
    """Return True if the pattern `where` matches a scope or one of its ancestors."""
    plain = where.replace("[", "[[]")  # scopes have brackets of their own
    return any(fnmatchcase(scope, form) for form in (plain, f"{plain}.*", f"{plain}[[]*"))


def require_scope(network: Graph, where: str) -> None:
    """Raise ArchError (A3230) if the pattern `where` matches no scope of a network."""
    inputs = {*network.inputs.values()}
    scopes = [network[number].scope for number in network if number not in inputs]
    if any(scope and matches_scope(scope, where) for scope in scopes):
        return
    outermost = list(dict.fromkeys(re.split(r"[.\[]", scope)[0] for scope in scopes if scope))
    hint = f"there are {join_names(outermost)}: see `archir show`" if outermost else None
    raise fail("A3230", f"`{network.name}` has no scope `{where}`", None, suggest(where, outermost) or hint)


def label_of(path: str) -> str:
    """Return the label of a choice: the last component of its path, without loop indices."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
