"""Architectures: outcomes of the active choices of a space, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.diagnostics.escaping import escape_to_line
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Choice, Label, value_at
from archir.ir.graph import Decision, Graph
from archir.language.file_kinds import non_json_kind

SCHEMA = 1
"""Version of the JSON form."""
MAX_REPR_LABELS = 8
"""Maximum number of choices that the `repr` of an architecture shows."""
MAX_LISTED_ERRORS = 3
"""Maximum number of invalid labels that get a diagnostic each; the others are summarized in one."""


@dataclass(frozen=True, eq=False)
class Architecture(Mapping[str, Label | list[Label]]):
    """An architecture of a space: a mapping from the paths of the active choices to their labels.

    `codes` has an entry for each choice of the space, in sampling order: the index of its outcome, or -1 if it is
    inactive. Architectures are immutable and hashable.

    Examples:
        >>> architecture = space.architecture({"depth": 1, "op[0]": "conv", "op[0].conv.kernel": 5})
        >>> architecture["op[0]"], dict(architecture) == dict(space.decode(architecture.codes))
        ('conv', True)
    """

    choices: Sequence[Choice]
    codes: tuple[int, ...]
    space: str = ""
    graph: Graph | None = field(default=None, repr=False)
    """Graph of the space, for drawing the architecture; it is not copied to other processes."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: None if name == "graph" else value for name, value in vars(self).items() if name != "_active"}

    def __repr__(self) -> str:
        shown = [f"{path}={label}" for path, label in islice(self.items(), MAX_REPR_LABELS)]
        more = [f"{len(self) - MAX_REPR_LABELS:,} more"] if len(self) > MAX_REPR_LABELS else []
        return escape_to_line(f"<Architecture of {self.space}: {', '.join([*shown, *more]) or 'no choices'}>")

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcomes of the active choices by path."""
        return {choice.path: code for choice, code in zip(self.choices, self.codes, strict=True) if code >= 0}

    def __getitem__(self, path: str) -> Label | list[Label]:
        choice, code = self._active[path]
        return choice.label(code)

    def __iter__(self) -> Iterator[str]:
        return iter(self._active)

    def __len__(self) -> int:
        return len(self._active)

    @cached_property
    def _active(self) -> dict[str, tuple[Choice, int]]:
        """Active choices and their outcomes, by path; not copied to other processes."""
        return {choice.path: (choice, code) for choice, code in zip(self.choices, self.codes, strict=True) if code >= 0}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Architecture):
            return self.codes == other.codes and [c.path for c in self.choices] == [c.path for c in other.choices]
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.codes)

    def __str__(self) -> str:
        return "\n".join(f"{path} = {label}" for path, label in self.items())

    def to_json(self, parameters: Mapping[str, Any] | None = None) -> str:
        """Return the architecture as JSON text, with the name and the parameters of its net."""
        data = {
            "archir": SCHEMA,
            "space": self.space,
            "parameters": {name: json_value(value) for name, value in (parameters or {}).items()},
            "choices": dict(self),
        }
        return json.dumps(data, indent=2) + "\n"


def choice_columns(architectures: Sequence[Architecture]) -> dict[str, list[Any]]:
    """Return the labels of architectures as columns `choices.PATH`, with None where a choice is inactive."""
    paths = dict.fromkeys(path for architecture in architectures for path in architecture)
    return {f"choices.{path}": [architecture.get(path) for architecture in architectures] for path in paths}


def json_value(value: Any) -> Any:
    """Convert a parameter of a net to a JSON value; fractions become strings."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return [json_value(item) for item in value] if isinstance(value, (tuple, list, range)) else str(value)


@dataclass(frozen=True)
class ArchitectureFile:
    """Content of an architecture file: labels by the paths of choices, not yet checked against a space."""

    space: str
    parameters: Mapping[str, Any]
    choices: Mapping[str, Any]


def read_architecture(text: str, name: str = "<architecture>") -> ArchitectureFile:
    """Parse an architecture file. Raises ArchError (A1001) if the file is invalid."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = non_json_kind(name)
        text = f"{name} is not JSON: {error}" if kind is None else f"{name} is {kind}, not an architecture"
        raise fail(
            "A1001", text, None, "`archir sample SPACE` writes architectures as JSON" if kind else None
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("choices"), dict):
        raise fail("A1001", f"{name} is not an architecture: it must be an object with `choices`")
    if data.get("archir") != SCHEMA:
        raise fail("A1001", f"{name} has schema {data.get('archir')!r}, but only schema {SCHEMA} can be read")
    parameters, space = data.get("parameters", {}), data.get("space", "")
    if not isinstance(parameters, dict) or not isinstance(space, str):
        raise fail("A1001", f"{name} is not an architecture: `parameters` must be an object, `space` a string")
    return ArchitectureFile(space, parameters, data["choices"])


def encode_labels(labels: Mapping[str, Any], order: Sequence[Decision], space: str) -> list[int]:
    """Return the outcomes of all choices for labels by path, -1 for inactive choices.

    `order` has the sampling order. Raises ArchError (A1002 to A1004) that names all invalid labels.
    """
    codes = [-1] * len(order)
    outcomes, active = dict[str, int](), set[str]()
    for position, decision in enumerate(order):
        path = decision.choice.path
        if value_at(decision.active, outcomes) is True:
            active.add(path)
            outcome = decision.choice.outcome(labels[path]) if path in labels else None
            if outcome is not None:
                outcomes[path] = codes[position] = outcome
    problem = _label_errors(labels, {decision.choice.path: decision.choice for decision in order}, active, space)
    if problem is not None:
        raise problem
    return codes


def _label_errors(
    labels: Mapping[str, Any], choices: Mapping[str, Choice], active: set[str], space: str
) -> ArchError | None:
    """Return the error for labels that are not an architecture of the space; None if they are one.

    Up to MAX_LISTED_ERRORS problems get a diagnostic each; the others are summarized in one.
    """
    unknown = [path for path in labels if path not in choices]
    invalid = [path for path in labels if path in choices and choices[path].outcome(labels[path]) is None]
    others = {*unknown, *invalid, *active}
    inactive = [path for path in labels if path not in others]
    missing = [path for path in choices if path in active and path not in labels]
    if len(unknown) + len(invalid) + len(inactive) + len(missing) > MAX_LISTED_ERRORS:
        parts = [
            ("A1002", f"`{space}` has no choice {{}}", unknown),
            ("A1003", "invalid labels are given for {}", invalid),
            ("A1004", "{} must not be given, because other choices make it inactive", inactive),
            ("A1004", "{} must be given", missing),
        ]
        problems = [(code, text.format(join_names(paths, 3))) for code, text, paths in parts if paths]
        text = f"this is not an architecture of `{space}`: {'; '.join(part for _, part in problems)}"
        return ArchError(Diagnostic(problems[0][0], text))
    diagnostics = [
        Diagnostic("A1002", f"`{space}` has no choice `{path}`", hint=suggest(path, choices)) for path in unknown
    ]
    for path in invalid:
        names = ", ".join(map(str, choices[path].alternatives))
        take = choices[path].k
        expected = f"{take} of {names}" if take is not None else f"one of {names}"
        diagnostics.append(
            Diagnostic("A1003", f"`{path}` is {json.dumps(labels[path], default=str)}, but must be {expected}")
        )
    for path in inactive:
        diagnostics.append(Diagnostic("A1004", f"`{path}` is given, but the other choices leave it inactive"))
    diagnostics += [Diagnostic("A1004", f"`{path}` is missing") for path in missing]
    return ArchError(*diagnostics) if diagnostics else None
