"""Architectures: what was chosen, of the choices that are active; and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed, suggest
from archir.diagnostics.visible import one_line
from archir.diagrams.cases import Choice, Label, at
from archir.ir.graph import Decision, Graph
from archir.language.kinds import other_kind

SCHEMA = 1
MOST_LABELS = 8
"""Choices that a `repr` says."""
MOST_DIFFERENCES = 3
"""Differences between an architecture and a space that are said one by one."""


@dataclass(frozen=True, eq=False)
class Architecture(Mapping[str, Label | list[Label]]):
    """A mapping from the paths of active choices to what was chosen.

    `codes` has an entry for each choice of the space, in drawing order: the outcome, or -1 for an inactive choice.
    """

    choices: Sequence[Choice]
    codes: tuple[int, ...]
    space: str = ""
    graph: Graph | None = field(default=None, repr=False)
    """The space's graph, for pictures; copies in other processes go without."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "graph": None}

    def __repr__(self) -> str:
        said = [f"{path}={label}" for path, label in islice(self.items(), MOST_LABELS)]
        more = [f"{len(self) - MOST_LABELS:,} more"] if len(self) > MOST_LABELS else []
        return one_line(f"<Architecture of {self.space}: {', '.join([*said, *more]) or 'no choices'}>")

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcomes of the active choices by path."""
        return {choice.path: code for choice, code in zip(self.choices, self.codes, strict=True) if code >= 0}

    def __getitem__(self, path: str) -> Label | list[Label]:
        for choice, code in zip(self.choices, self.codes, strict=True):
            if choice.path == path and code >= 0:
                return choice.label(code)
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Architecture):
            return self.codes == other.codes and [c.path for c in self.choices] == [c.path for c in other.choices]
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.codes)

    def __str__(self) -> str:
        return "\n".join(f"{path} = {label}" for path, label in self.items())

    def to_json(self, parameters: Mapping[str, Any] | None = None) -> str:
        """The architecture as JSON text, with the name and parameters of its net."""
        data = {
            "archir": SCHEMA,
            "space": self.space,
            "parameters": {name: plain(value) for name, value in (parameters or {}).items()},
            "choices": dict(self),
        }
        return json.dumps(data, indent=2) + "\n"


def columns_of(architectures: Sequence[Architecture]) -> dict[str, list[Any]]:
    """What was chosen as columns `choices.PATH`, with None where a choice was not made."""
    paths = dict.fromkeys(path for one in architectures for path in one)
    return {f"choices.{path}": [one.get(path) for one in architectures] for path in paths}


def plain(value: Any) -> Any:
    """A parameter as an architecture file holds it: fractions are texts."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return [plain(item) for item in value] if isinstance(value, (tuple, list, range)) else str(value)


@dataclass(frozen=True)
class Written:
    """An architecture file as it was read: labels by path, not yet related to a space."""

    space: str
    parameters: Mapping[str, Any]
    choices: Mapping[str, Any]


def read_architecture(text: str, name: str = "<architecture>") -> Written:
    """The content of an architecture file. Raises ArchError (A1001)."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = other_kind(name)
        text = f"{name} is not JSON: {error}" if kind is None else f"{name} is {kind}, and no architecture"
        raise fail(
            "A1001", text, None, "`archir sample SPACE` writes architectures as JSON" if kind else None
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("choices"), dict):
        raise fail("A1001", f"{name} is no architecture: it must be an object with `choices`")
    if data.get("archir") != SCHEMA:
        raise fail("A1001", f"{name} has schema {data.get('archir')!r}, not {SCHEMA}")
    parameters, space = data.get("parameters", {}), data.get("space", "")
    if not isinstance(parameters, dict) or not isinstance(space, str):
        raise fail("A1001", f"{name} is no architecture: `parameters` must be an object, `space` a string")
    return Written(space, parameters, data["choices"])


def encoded(labels: Mapping[str, Any], order: Sequence[Decision], space: str) -> list[int]:
    """The outcomes of labels by path, with -1 for choices that are not active; `order` is that in which choices are
    made. Raises ArchError (A1002 to A1004) naming all that does not fit."""
    codes = [-1] * len(order)
    outcomes, active = dict[str, int](), set[str]()
    for position, decision in enumerate(order):
        path = decision.choice.path
        if at(decision.active, outcomes) is True:
            active.add(path)
            outcome = decision.choice.outcome(labels[path]) if path in labels else None
            if outcome is not None:
                outcomes[path] = codes[position] = outcome
    problem = _differences(labels, {one.choice.path: one.choice for one in order}, active, space)
    if problem is not None:
        raise problem
    return codes


def _differences(
    given: Mapping[str, Any], choices: Mapping[str, Choice], active: set[str], space: str
) -> ArchError | None:
    """What keeps labels from being an architecture of a space; in one sentence where it is much."""
    given_in_vain = [path for path in given if path not in choices]
    unfit = [path for path in given if path in choices and choices[path].outcome(given[path]) is None]
    others = {*given_in_vain, *unfit, *active}
    inactive = [path for path in given if path not in others]
    missing = [path for path in choices if path in active and path not in given]
    if len(given_in_vain) + len(unfit) + len(inactive) + len(missing) > MOST_DIFFERENCES:
        parts = [
            ("A1002", "it has no {}", given_in_vain),
            ("A1003", "{} cannot be what is given", unfit),
            ("A1004", "{} must not be given, for other choices leave it inactive", inactive),
            ("A1004", "{} must be given", missing),
        ]
        said = [(code, text.format(listed(paths, 3))) for code, text, paths in parts if paths]
        text = f"this is no architecture of `{space}`: {'; '.join(part for _, part in said)}"
        return ArchError(Diagnostic(said[0][0], text))
    found = [
        Diagnostic("A1002", f"`{space}` has no choice `{path}`", hint=suggest(path, choices)) for path in given_in_vain
    ]
    for path in unfit:
        names = ", ".join(map(str, choices[path].alternatives))
        take = choices[path].take
        wanted = f"{take} of {names}" if take is not None else f"one of {names}"
        found.append(Diagnostic("A1003", f"`{path}` is {json.dumps(given[path], default=str)}, but must be {wanted}"))
    for path in inactive:
        found.append(Diagnostic("A1004", f"`{path}` is given, but the other choices leave it inactive"))
    found += [Diagnostic("A1004", f"`{path}` is missing") for path in missing]
    return ArchError(*found) if found else None
