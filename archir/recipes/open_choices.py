"""Which choices a phase searches, and what the others are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed, suggest
from archir.diagrams.cases import Choice
from archir.passes.freeze import freeze
from archir.spaces.architecture import Architecture
from archir.spaces.partial import largest, smallest
from archir.spaces.space import Space
from archir.utils.globs import matches

_EXTREMES = {"largest": largest, "smallest": smallest}


@dataclass(frozen=True)
class Opened:
    """A space of which some choices are made: `space` has the others, `made` the outcomes of these by path."""

    whole: Space
    space: Space
    made: Mapping[str, int]

    def completed(self, architecture: Architecture) -> Architecture:
        """An architecture of `space` as one of the whole. Raises ArchError (A1004, A1008) if it is none."""
        return self.whole.exactly({**self.made, **architecture.outcomes})

    @property
    def strengths(self) -> dict[str, list[float]]:
        """By path of a choice that is made, 1 for the alternatives that were taken and 0 for others."""
        picked = {c.path: (c, c.subsets[self.made[c.path]]) for c in self.whole.choices if c.path in self.made}
        return {p: [float(i in taken) for i in range(len(c.alternatives))] for p, (c, taken) in picked.items()}

    def restricted(self, architecture: Architecture) -> Architecture:
        """An architecture of the whole as one of `space`. Raises ArchError: A2209 (a choice that is made was made in
        another way), A1004, A1008 (it is none of `space`)."""
        for path, outcome in architecture.outcomes.items():
            if self.made.get(path, outcome) != outcome:
                choice = next(choice for choice in self.whole.choices if choice.path == path)
                text = f"`{path}` is held at {choice.label(self.made[path])}, but this architecture has"
                hint = "open the choice, or hold it as it was"
                raise fail("A2209", f"{text} {choice.label(outcome)}", choice.span, hint)
        return self.space.exactly(architecture.outcomes)


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
            named = {choice.path for choice in space.choices if matches(pattern, choice.path)}
            known = [choice.path for choice in space.choices]
        if not named and space.choices:
            hint = suggest(pattern, known) or f"there are {', '.join(known[:5])}{', ...' if len(known) > 5 else ''}"
            problems.append(Diagnostic("A2203", f"`{pattern}` names no choice of `{space.name}`", None, hint))
        found |= named
    if problems:
        raise ArchError(*problems)
    return found


def searched(space: Space, open_: Sequence[str] | None, labels: Mapping[str, Any]) -> set[str]:
    """The paths of the choices that are open: those that patterns name, or else all that labels say nothing of.

    Raises ArchError (A2203) for a pattern that names none.
    """
    if open_ is not None:
        return opened(space, open_)
    return {choice.path for choice in space.choices} - opened(space, list(labels))


def settled(space: Space, labels: Mapping[str, Any], open_: Collection[str]) -> dict[str, int]:
    """The outcomes of the choices that are not open, as an architecture has them. Raises ArchError (A2204)."""
    found: dict[str, int] = {}
    problems = []
    for choice in space.choices:
        if choice.path in labels and choice.path not in open_:
            outcome = choice.outcome(labels[choice.path])
            if outcome is None:
                problems.append(_unknown(choice, labels[choice.path]))
            else:
                found[choice.path] = outcome
    if problems:
        raise ArchError(*problems)
    return found


def unknown(space: Space, pattern: str, label: Any, open_: Collection[str]) -> list[Diagnostic]:
    """What is wrong (A2204) with a label of the choices that a pattern names and that are not open. Raises ArchError
    (A2203)."""
    named = opened(space, [pattern]) - set(open_)
    known = (choice for choice in space.choices if choice.path in named and not _extreme(label))
    return [_unknown(choice, label) for choice in known if choice.outcome(label) is None]


def fixed(space: Space, labels: Mapping[str, Any], open_: Collection[str]) -> dict[str, int]:
    """The outcomes of choices that patterns name and that are not open. Raises ArchError (A2203, A2204)."""
    found: dict[str, int] = {}
    problems = []
    for pattern, label in labels.items():
        named = opened(space, [pattern])
        for choice in space.choices:
            if choice.path not in named - set(open_):
                continue
            outcome = choice.outcome(label)
            if outcome is None and _extreme(label):
                outcome = _EXTREMES[label](space, found).outcomes.get(choice.path, 0)
            if outcome is None:
                problems.append(_unknown(choice, label))
            else:
                found[choice.path] = outcome
    if problems:
        raise ArchError(*problems)
    return found


def settle(
    space: Space, open_: Sequence[str] | None, labels: Mapping[str, Any], architecture: Mapping[str, Any] | None
) -> Opened:
    """A space in which patterns say what is open, or else all is that labels say nothing of; the rest is as labels of
    patterns and an architecture say.

    Raises ArchError (A2203, A2204), A2208 if choices are left that are neither open nor made.
    """
    paths = searched(space, open_, labels)
    made = {**settled(space, architecture or {}, paths), **fixed(space, labels, paths)}
    graph = freeze(space.graph, made) if made else space.graph
    left = [path for path in graph.decisions if path not in paths]
    if left:
        text = f"{', '.join(f'`{path}`' for path in left[:3])}{', ...' if len(left) > 3 else ''}"
        others = 'say `fixed = { "PATTERN" = LABEL }`, or name a phase in start.architecture'
        hint = f"open them, {others}" if open_ else others
        raise fail("A2208", f"what is {text} of `{space.name}`, which is not open?", None, hint)
    return Opened(space, Space(graph) if made else space, made)


def closed(space: Space, labels: Mapping[str, Any], architecture: Mapping[str, Any] | None) -> Architecture:
    """The one architecture that labels of patterns and an architecture say.

    Raises ArchError (A2203, A2204), A2208 if choices are left, A1008 (it breaks a constraint).
    """
    if not labels:
        return space.architecture(architecture or {})
    return space.architecture(dict(space.exactly(settle(space, (), labels, architecture).made)))


def near(label: object, known: Sequence[object]) -> str:
    """The hint to a label that is none of these: the one that may have been meant, and which there are."""
    there = f"there are {listed(known)}" if known else "there are none"
    meant = suggest(str(label), map(str, known))
    return there if meant is None else f"{meant} {there[0].upper()}{there[1:]}"


def _extreme(label: object) -> bool:
    return isinstance(label, str) and label in _EXTREMES


def _unknown(choice: Choice, label: object) -> Diagnostic:
    hint = near(label, choice.alternatives)
    if choice.take is not None:
        hint += f", of which a list has {choice.take}"
    return Diagnostic("A2204", f"`{choice.path}` has no alternative {label!r}", choice.span, hint)
