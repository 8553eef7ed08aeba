"""Tables of scores: a number for each outcome of a choice, or of a pair of choices, that add up to an architecture's.

    {"kind": "archir scores", "schema": 1, "space": "small", "constant": 0.91, "made": {"by": "replace-one"},
     "terms": [{"choices": ["op[0]"], "values": {"conv3": 0, "skip": -0.02}},
               {"choices": ["op[0]", "op[1]"], "values": {"conv3": {"skip": 0.01}}}]}

A term counts where all its choices are active; what it does not name is 0. Of a choice of several, labels are joined by
commas. Numbers are exact: what is written in decimals is read as such.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, fail, suggest
from archir.diagnostics.visible import one_line
from archir.diagrams.cases import Choice
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.files import read_bytes, write_atomic

KIND, SCHEMA = "archir scores", 1
MOST_BYTES = 2**28
MOST_DIGITS = 40
"""Digits and decimal exponent of a number in a file: sums of such are exact and short."""


@dataclass(frozen=True)
class Term:
    """Scores of one choice's outcomes, or of two choices', by these; outcomes that are missing have 0."""

    choices: tuple[str, ...]
    values: Mapping[tuple[int, ...], Fraction]


@dataclass(frozen=True)
class Scores:
    """A space's scores; `made` says how they came to be."""

    space: str
    terms: tuple[Term, ...]
    constant: Fraction = Fraction(0)
    made: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return one_line(f"<Scores of {self.space}: {len(self.terms):,} terms>")

    def __call__(self, architecture: Architecture) -> Fraction:
        """The score of an architecture, exactly."""
        outcomes = architecture.outcomes
        total = self.constant
        for term in self.terms:
            if all(path in outcomes for path in term.choices):
                total += term.values.get(tuple([outcomes[path] for path in term.choices]), Fraction(0))
        return total

    def write(self, path: str | Path, space: Space) -> None:
        """Write the file: whole, or not at all."""
        choices = {choice.path: choice for choice in space.choices}
        terms = [{"choices": list(term.choices), "values": _nested(term, choices)} for term in self.terms]
        data = {"kind": KIND, "schema": SCHEMA, "space": self.space, "constant": _number(self.constant)}
        write_atomic(Path(path), (json.dumps({**data, "made": self.made, "terms": terms}, indent=1) + "\n").encode())


def read(path: Path, space: Space) -> Scores:
    """The scores of a file, which are to be of this space. Raises ArchError (A3322) for what is none, or of another."""
    try:
        data = json.loads(read_bytes(path, MOST_BYTES), parse_float=_exact, parse_int=_exact, parse_constant=_exact)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("A3322", f"{path} cannot be read as scores: {reason}", None, _HINT) from None
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("schema") != SCHEMA:
        raise fail("A3322", f"{path} is no table of scores", None, _HINT)
    reading = _Reading(str(path), {choice.path: choice for choice in space.choices})
    scores = reading.scores(data)
    if reading.problems:
        raise ArchError(*reading.problems)
    return scores


_HINT = "`archir scores SPACE --trials RUN -o scores.json` makes one; docs/scores.md says what is in it"


class _Reading:
    """Terms of a file, as those of a space; what does not fit is in `problems`."""

    def __init__(self, file: str, choices: Mapping[str, Choice]) -> None:
        self.file, self.choices = file, choices
        self.problems: list[Diagnostic] = []

    def scores(self, data: Mapping[str, Any]) -> Scores:
        constant, terms, made = data.get("constant", Fraction(0)), data.get("terms"), data.get("made", {})
        if not isinstance(constant, Fraction) or not isinstance(terms, list) or not isinstance(made, dict):
            self._wrong("`constant` is a number, `terms` a list and `made` an object")
            return Scores("", ())
        found = [self._term(one) for one in terms]
        return Scores(str(data.get("space", "")), tuple([term for term in found if term]), constant, made)

    def _term(self, data: Any) -> Term | None:
        paths: Any = data.get("choices") if isinstance(data, dict) else None
        if not _one_or_two(paths):
            self._wrong("each term has one or two `choices`, and `values`")
            return None
        if unknown := [path for path in paths if path not in self.choices]:
            self._wrong(f"there is no choice `{unknown[0]}`", suggest(str(unknown[0]), self.choices))
            return None
        values = dict(self._values([self.choices[path] for path in paths], data.get("values")))
        return Term(tuple(paths), values)

    def _values(self, choices: Sequence[Choice], values: Any) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        if not choices:
            if isinstance(values, Fraction):
                yield (), values
            else:
                self._wrong("a score is a number")
            return
        labels = {spelled(choices[0], outcome): outcome for outcome in range(choices[0].outcomes)}
        if not isinstance(values, dict):
            self._wrong(f"`values` has the labels of `{choices[0].path}`")
            return
        for label, inner in values.items():
            if label not in labels:
                self._wrong(f"`{choices[0].path}` has no `{label}`", suggest(label, labels))
                continue
            for rest, score in self._values(choices[1:], inner):
                yield (labels[label], *rest), score

    def _wrong(self, text: str, hint: str | None = None) -> None:
        self.problems.append(Diagnostic("A3322", f"{self.file}: {text}", hint=hint))


def _one_or_two(paths: Any) -> bool:
    """Whether these are the paths of one choice, or of two."""
    texts = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    return texts and len(paths) in (1, 2) and len({*paths}) == len(paths)


def spelled(choice: Choice, outcome: int) -> str:
    """An outcome as files write it: its label, or those of several."""
    label = choice.label(outcome)
    return ", ".join(map(_plain, label)) if isinstance(label, list) else _plain(label)


def _plain(label: object) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _nested(term: Term, choices: Mapping[str, Choice]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for outcomes, score in term.values.items():
        *outer, last = [spelled(choices[path], one) for path, one in zip(term.choices, outcomes, strict=True)]
        inner = found
        for label in outer:
            inner = inner.setdefault(label, {})
        inner[last] = _number(score)
    return found


def _number(score: Fraction) -> float | int:
    return int(score) if score.denominator == 1 else float(score)


def _exact(text: str) -> Fraction:
    digits, _, power = text.lower().partition("e")
    if len(digits) > MOST_DIGITS or len(power) > 4 or abs(int(power or 0)) > MOST_DIGITS:
        raise ValueError(f"`{text[:MOST_DIGITS]}` has too many digits")
    return Fraction(text)
