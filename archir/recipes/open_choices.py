"""Open choices (the choices that a phase searches), and the outcomes of the choices that a phase fixes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Span, fail, join_names
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Choice
from archir.passes.freeze import freeze
from archir.spaces.architecture import Architecture
from archir.spaces.completion import largest, smallest
from archir.spaces.space import Space
from archir.utils.globs import matches

_EXTREMES = {"largest": largest, "smallest": smallest}


@dataclass(frozen=True)
class OpenSpace:
    """Space with some choices fixed.

    `space` has only the choices that are still open; `fixed_outcomes` maps the path of each fixed choice to its
    outcome.
    """

    full_space: Space
    space: Space
    fixed_outcomes: Mapping[str, int]

    def completed(self, architecture: Architecture) -> Architecture:
        """Extend an architecture of `space` to one of the full space. Raises ArchError (A1004, A1008)."""
        return self.full_space.from_outcomes({**self.fixed_outcomes, **architecture.outcomes})

    @property
    def strengths(self) -> dict[str, list[float]]:
        """One-hot strengths of the alternatives of each fixed choice, by path: 1 for selected ones, 0 for others."""
        picked = {
            c.path: (c, c.subsets[self.fixed_outcomes[c.path]])
            for c in self.full_space.choices
            if c.path in self.fixed_outcomes
        }
        return {p: [float(i in taken) for i in range(len(c.alternatives))] for p, (c, taken) in picked.items()}

    def restricted(self, architecture: Architecture) -> Architecture:
        """Reduce an architecture of the full space to one of `space`.

        Raises ArchError: A2209 (it has another outcome for a fixed choice), A1004 or A1008 (it is not an architecture
        of `space`).
        """
        for path, outcome in architecture.outcomes.items():
            if self.fixed_outcomes.get(path, outcome) != outcome:
                choice = next(choice for choice in self.full_space.choices if choice.path == path)
                text = f"`{path}` is held at {choice.label(self.fixed_outcomes[path])}, but this architecture has"
                hint = "open the choice, or fix it at the same alternative as before"
                raise fail("A2209", f"{text} {choice.label(outcome)}", choice.span, hint)
        return self.space.from_outcomes(architecture.outcomes)


def matching_paths(space: Space, patterns: Sequence[str]) -> set[str]:
    """Return the paths of all choices that match any of the patterns.

    A pattern is a path with wildcards (`stage[*].op`) or a tag (`@edges`). Raises ArchError (A2203) if one
    matches no choice.
    """
    paths: set[str] = set()
    problems = []
    for pattern in patterns:
        if pattern.startswith("@"):
            matched = {choice.path for choice in space.choices if pattern[1:] in choice.tags}
            names = sorted({f"@{tag}" for choice in space.choices for tag in choice.tags})
        else:
            matched = {choice.path for choice in space.choices if matches(pattern, choice.path)}
            names = [choice.path for choice in space.choices]
        if not matched and space.choices:
            hint = suggest(pattern, names) or f"there are {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
            problems.append(Diagnostic("A2203", f"`{pattern}` names no choice of `{space.name}`", None, hint))
        paths |= matched
    if problems:
        raise ArchError(*problems)
    return paths


def open_paths(space: Space, open_: Sequence[str] | None, labels: Mapping[str, Any]) -> set[str]:
    """Return the paths of the open choices, which are the choices to search.

    These are the choices that match a pattern in `open_` or, if `open_` is None, the choices that match no pattern in
    `labels`. Raises ArchError (A2203) for a pattern that matches no choice.
    """
    if open_ is not None:
        return matching_paths(space, open_)
    return {choice.path for choice in space.choices} - matching_paths(space, list(labels))


def label_problems(space: Space, pattern: str, label: Any, open_: Collection[str]) -> list[Diagnostic]:
    """Return diagnostics (A2204) for the fixed choices that match the pattern but have no alternative `label`.

    There is one for each place in the source. Raises ArchError (A2203) if the pattern matches no choice.
    """
    paths = matching_paths(space, [pattern]) - set(open_)
    by_span: dict[Span, list[Choice]] = {}
    for choice in space.choices:
        if choice.path in paths and not _is_extreme(label) and choice.outcome(label) is None:
            by_span.setdefault(choice.span, []).append(choice)
    return [_unknown_label(choices[0], label, len(choices) - 1) for choices in by_span.values()]


def _labels_to_outcomes(space: Space, labels: Iterable[tuple[Choice, Any]]) -> dict[str, int]:
    """Convert labels of choices to outcomes; later labels override earlier ones.

    A label is one of the alternatives, `"largest"` or `"smallest"`. Raises ArchError (A2204).
    """
    outcomes: dict[str, int] = {}
    problems = []
    for choice, label in labels:
        outcome = choice.outcome(label)
        if outcome is None and _is_extreme(label):
            outcome = _EXTREMES[label](space, outcomes).outcomes.get(choice.path, 0)
        if outcome is None:
            problems.append(_unknown_label(choice, label))
        else:
            outcomes[choice.path] = outcome
    if problems:
        raise ArchError(*problems)
    return outcomes


def fix_choices(
    space: Space, open_: Sequence[str] | None, labels: Mapping[str, Any], architecture: Mapping[str, Any] | None
) -> OpenSpace:
    """Fix choices of a space to the labels of patterns and, where no pattern matches, to those of an architecture.

    The architecture may be incomplete. Open choices: see `open_paths`. Raises ArchError: A2203, A2204, A2208 (a
    choice is neither open nor fixed).
    """
    paths = open_paths(space, open_, labels)
    closed = [choice for choice in space.choices if choice.path not in paths]
    matched = ((label, matching_paths(space, [pattern])) for pattern, label in labels.items())
    by_pattern = ((choice, label) for label, names in matched for choice in closed if choice.path in names)
    from_architecture = ((c, (architecture or {})[c.path]) for c in closed if c.path in (architecture or {}))
    outcomes = {**_labels_to_outcomes(space, from_architecture), **_labels_to_outcomes(space, by_pattern)}
    graph = freeze(space.graph, outcomes) if outcomes else space.graph
    undecided = [path for path in graph.decisions if path not in paths]
    if undecided:
        text = f"{', '.join(f'`{path}`' for path in undecided[:3])}{', ...' if len(undecided) > 3 else ''}"
        others = 'set `fixed = { "PATTERN" = LABEL }`, or name a phase in start.architecture'
        hint = f"open them, {others}" if open_ else others
        verb = "is" if len(undecided) == 1 else "are"
        raise fail("A2208", f"{text} of `{space.name}` {verb} neither searched nor fixed", None, hint)
    return OpenSpace(space, Space(graph) if outcomes else space, outcomes)


def fixed_architecture(space: Space, labels: Mapping[str, Any], architecture: Mapping[str, Any] | None) -> Architecture:
    """Return the architecture that is defined by the labels of patterns and, where no pattern matches, by an
    architecture.

    Raises ArchError: A2203, A2204, A2208 (a choice is not fixed), A1008 (the architecture violates a constraint).
    """
    if not labels:
        return space.architecture(architecture or {})
    return space.architecture(dict(space.from_outcomes(fix_choices(space, (), labels, architecture).fixed_outcomes)))


def label_hint(label: object, labels: Sequence[object]) -> str:
    """Return a hint for an unknown label: the most similar label, and all labels."""
    listing = f"there are {join_names(labels)}" if labels else "there are none"
    correction = suggest(str(label), map(str, labels))
    return listing if correction is None else f"{correction} {listing[0].upper()}{listing[1:]}"


def _is_extreme(label: object) -> bool:
    return isinstance(label, str) and label in _EXTREMES


def _unknown_label(choice: Choice, label: object, others: int = 0) -> Diagnostic:
    """Return the diagnostic for a choice that has no such alternative; `others` is the number of further ones."""
    hint = label_hint(label, choice.alternatives)
    if choice.k is not None:
        hint += f"; give a list of {choice.k} of them"
    text = f"`{choice.path}` and {others} more choices have" if others else f"`{choice.path}` has"
    return Diagnostic("A2204", f"{text} no alternative {label!r}", choice.span, hint)
