"""Additive scores: numbers for outcomes of choices, and of pairs of choices.

An architecture's score is their sum.

    {"kind": "archir scores", "schema": 1, "space": "small", "constant": 0.91, "made": {"by": "replace-one"},
     "terms": [{"choices": ["op[0]"], "values": {"conv3": 0, "skip": -0.02}},
               {"choices": ["op[0]", "op[1]"], "values": {"conv3": {"skip": 0.01}}}]}

A term counts only if all its choices are active; outcomes that it does not list score 0. The labels of a choice of
several alternatives are joined by commas. Decimal numbers are read exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail
from archir.diagnostics.escaping import escape_to_line
from archir.diagnostics.hints import suggest, suggest_file
from archir.diagrams.diagram import Choice
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.files import read_bytes, write_atomic

KIND, SCHEMA = "archir scores", 1
"""Values of `kind` and `schema` in a file."""
MAX_FILE_BYTES = 2**28
"""Maximum size of a file in bytes."""
MAX_DIGITS = 40
"""Maximum number of digits, and maximum decimal exponent, of a number in a file, so that exact sums stay short."""


@dataclass(frozen=True)
class Term:
    """Scores of the outcomes of one choice, or of the pairs of outcomes of two choices.

    Outcomes without a score count 0.
    """

    choices: tuple[str, ...]
    values: Mapping[tuple[int, ...], Fraction]


@dataclass(frozen=True)
class AdditiveScores:
    """Additive scores of a space; `made` describes how they were computed."""

    space: str
    terms: tuple[Term, ...]
    constant: Fraction = Fraction(0)
    made: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return escape_to_line(f"<AdditiveScores of {self.space}: {len(self.terms):,} terms>")

    def __call__(self, architecture: Architecture) -> Fraction:
        """Return the exact score of an architecture."""
        outcomes = architecture.outcomes
        total = self.constant
        for term in self.terms:
            if all(path in outcomes for path in term.choices):
                total += term.values.get(tuple([outcomes[path] for path in term.choices]), Fraction(0))
        return total

    def write(self, path: str | Path, space: Space) -> None:
        """Write the file atomically."""
        choices = {choice.path: choice for choice in space.choices}
        terms = [{"choices": list(term.choices), "values": _nested_scores(term, choices)} for term in self.terms]
        data = {"kind": KIND, "schema": SCHEMA, "space": self.space, "constant": _json_number(self.constant)}
        write_atomic(Path(path), (json.dumps({**data, "made": self.made, "terms": terms}, indent=1) + "\n").encode())


def read(path: Path, space: Space) -> AdditiveScores:
    """Read a file of scores for this space. Raises ArchError (A3322) if it is invalid or belongs to another space."""
    try:
        data = json.loads(
            read_bytes(path, MAX_FILE_BYTES),
            parse_float=_parse_exact,
            parse_int=_parse_exact,
            parse_constant=_parse_exact,
        )
    except (OSError, ValueError, RecursionError) as error:
        text = f"{path} cannot be read as scores: {describe_error(error)}"
        raise fail("A3322", text, None, suggest_file(path) or _HINT) from None
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("schema") != SCHEMA:
        raise fail("A3322", f"{path} is not a table of scores", None, _HINT)
    reading = _ScoresParser(str(path), {choice.path: choice for choice in space.choices})
    scores = reading.scores(data)
    if reading.problems:
        raise ArchError(*reading.problems)
    return scores


_HINT = "`archir scores SPACE --trials RUN -o scores.json` writes one; docs/scores.md describes its format"


class _ScoresParser:
    """Parser of the terms in a file of scores; it collects errors in `problems`."""

    def __init__(self, file: str, choices: Mapping[str, Choice]) -> None:
        self.file, self.choices = file, choices
        self.problems: list[Diagnostic] = []

    def scores(self, data: Mapping[str, Any]) -> AdditiveScores:
        """Parse the whole file."""
        constant, terms, provenance = data.get("constant", Fraction(0)), data.get("terms"), data.get("made", {})
        if not isinstance(constant, Fraction) or not isinstance(terms, list) or not isinstance(provenance, dict):
            self._add_problem("`constant` must be a number, `terms` a list and `made` an object")
            return AdditiveScores("", ())
        parsed = [self._term(item) for item in terms]
        terms = tuple([term for term in parsed if term])
        return AdditiveScores(str(data.get("space", "")), terms, constant, _with_json_numbers(provenance))

    def _term(self, data: Any) -> Term | None:
        """Parse a term; None if it is invalid."""
        paths: Any = data.get("choices") if isinstance(data, dict) else None
        if not _is_path_list(paths):
            self._add_problem("each term must have one or two `choices`, and `values`")
            return None
        if unknown := [path for path in paths if path not in self.choices]:
            self._add_problem(f"there is no choice `{unknown[0]}`", suggest(str(unknown[0]), self.choices))
            return None
        values = dict(self._values([self.choices[path] for path in paths], data.get("values")))
        return Term(tuple(paths), values)

    def _values(self, choices: Sequence[Choice], values: Any) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield each score of a term with the outcomes that it is for."""
        if not choices:
            if isinstance(values, Fraction):
                yield (), values
            else:
                self._add_problem("each score must be a number")
            return
        labels = {outcome_text(choices[0], outcome): outcome for outcome in range(choices[0].outcome_count)}
        if not isinstance(values, dict):
            self._add_problem(f"the keys of `values` must be labels of `{choices[0].path}`")
            return
        for label, inner in values.items():
            if label not in labels:
                self._add_problem(f"`{choices[0].path}` has no `{label}`", suggest(label, labels))
                continue
            for inner_outcomes, score in self._values(choices[1:], inner):
                yield (labels[label], *inner_outcomes), score

    def _add_problem(self, text: str, hint: str | None = None) -> None:
        """Record an error."""
        self.problems.append(Diagnostic("A3322", f"{self.file}: {text}", hint=hint))


def _is_path_list(paths: Any) -> bool:
    """Return True for a list of one path or of two different paths."""
    texts = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    return texts and len(paths) in (1, 2) and len({*paths}) == len(paths)


def outcome_text(choice: Choice, outcome: int) -> str:
    """Return an outcome as in files: its label, or its labels joined by commas."""
    label = choice.label(outcome)
    return ", ".join(map(str, label)) if isinstance(label, list) else str(label)


def _nested_scores(term: Term, choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the scores of a term as JSON objects by label, nested for pairs."""
    nested: dict[str, Any] = {}
    for outcomes, score in term.values.items():
        *outer, last = [
            outcome_text(choices[path], outcome) for path, outcome in zip(term.choices, outcomes, strict=True)
        ]
        inner = nested
        for label in outer:
            inner = inner.setdefault(label, {})
        inner[last] = _json_number(score)
    return nested


def _json_number(score: Fraction) -> float | int:
    """Return a score as a JSON number."""
    return int(score) if score.denominator == 1 else float(score)


def _with_json_numbers(value: Any) -> Any:
    """Return parsed JSON data with its exact numbers converted to JSON numbers."""
    if isinstance(value, dict):
        return {key: _with_json_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_json_numbers(item) for item in value]
    return _json_number(value) if isinstance(value, Fraction) else value


def _parse_exact(text: str) -> Fraction:
    """Parse a decimal number exactly. Raises ValueError if it has too many digits."""
    digits, _, power = text.lower().partition("e")
    if len(digits) > MAX_DIGITS or len(power) > 4 or abs(int(power or 0)) > MAX_DIGITS:
        raise ValueError(f"`{text[:MAX_DIGITS]}` has too many digits")
    return Fraction(text)
