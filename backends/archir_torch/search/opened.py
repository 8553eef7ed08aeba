"""Which choices a phase searches, and what the others are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from archir.errors import ArchError, Diagnostic, suggest
from archir.search.space import Space


def opened(space: Space, patterns: Sequence[str]) -> set[str]:
    """The paths of the choices that patterns of paths (`stage[*].op`, `*` for anything) or tags (`@edges`) name.

    Raises ArchError (A2203) for a pattern that names none.
    """
    found: set[str] = set()
    problems = []
    for pattern in patterns:
        if pattern.startswith("@"):
            named = {choice.path for choice in space.choices if pattern[1:] in choice.tags}
            known = sorted({f"@{tag}" for choice in space.choices for tag in choice.tags})
        else:
            wanted = re.compile(".*".join(map(re.escape, pattern.split("*"))))
            named = {choice.path for choice in space.choices if wanted.fullmatch(choice.path)}
            known = [choice.path for choice in space.choices]
        if not named and space.choices:
            hint = suggest(pattern, known) or f"there are {', '.join(known[:5])}{', ...' if len(known) > 5 else ''}"
            problems.append(Diagnostic("A2203", f"`{pattern}` names no choice of `{space.name}`", None, hint))
        found |= named
    if problems:
        raise ArchError(*problems)
    return found


def settled(space: Space, labels: Mapping[str, Any], open_: Collection[str]) -> dict[str, int]:
    """The outcomes of the choices that are not open, as an architecture has them. Raises ArchError (A2204)."""
    found: dict[str, int] = {}
    problems = []
    for choice in space.choices:
        if choice.path in open_:
            continue
        outcome = choice.outcome(labels[choice.path]) if choice.path in labels else None
        if outcome is not None:
            found[choice.path] = outcome
        elif choice.path in labels:
            text = f"`{choice.path}` has no alternative {labels[choice.path]!r}"
            problems.append(Diagnostic("A2204", text, choice.span))
    if problems:
        raise ArchError(*problems)
    return found
