"""Certificates as JSON: what was asked of which space, what the answer is, and what it takes to prove it again.

    {"kind": "archir optimum", "schema": 1, "archir": "0.1.0", "space": {a graph with its bounds}, "tables": {},
     "fixed": {"depth": 2}, "objective": {"cost": "macs", "greatest": false}, "architecture": {"op": "conv3"},
     "value": "2338976", "bound": "2338976", "needed": [0], "multipliers": [1048576, 3204], "sha256": "..."}

No architecture is better than `bound`; without an architecture, none keeps the bounds of the space that are `needed`.
`verify` works costs, scores and the proof out again, and believes nothing that a certificate says of them. Its own
SHA-256 shows that it is whole; it is no signature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from archir.base.errors import ArchError, fail
from archir.base.files import read_bytes
from archir.base.visible import one_line
from archir.costs.account import PEAKS
from archir.ir.choices.cases import varies, when
from archir.ir.choices.conditions import either, negate
from archir.ir.graph import Constraint
from archir.ir.text.cursor import Cursor
from archir.ir.text.serial import from_json, to_json
from archir.language.elaboration.names.locals import latency_file
from archir.search.scores.table import Scores, Term
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.certificates.columns import Column, exceeded, objective_of
from archir.search.spaces.certificates.layers import layers
from archir.search.spaces.certificates.proof import anything
from archir.search.spaces.optimal.problem import Objective, shown
from archir.search.spaces.space import Space

KIND, SCHEMA = "archir optimum", 1
MOST_BYTES = 2**26
_FRACTION = re.compile(r"-?\d{1,100}(/[1-9]\d{0,99})?")


@dataclass(frozen=True)
class Claim:
    """An answer: no architecture of a space within its bounds is better than `bound`, and this one has `value`; without
    one, no architecture keeps those of the bounds that are `needed`."""

    space: Space
    objective: Objective
    fixed: Mapping[str, int]
    architecture: Architecture | None
    value: Fraction | None
    bound: Fraction | None
    needed: tuple[int, ...]
    multipliers: tuple[int, ...]

    def __repr__(self) -> str:
        what = f"{'greatest' if self.objective.greatest else 'least'} {self.objective.name}"
        said = "nothing is within the bounds" if self.value is None else f"{what} = {shown(self.value)}"
        return one_line(f"<Claim about {self.space.name}: {said}>")

    @property
    def bounds(self) -> list[Constraint]:
        """The bounds on costs that are needed."""
        every = bounds_of(self.space)
        return [every[i] for i in self.needed]

    @property
    def labels(self) -> dict[str, Any]:
        """What is fixed, by path."""
        return {one.path: one.label(self.fixed[one.path]) for one in self.space.choices if one.path in self.fixed}

    @property
    def hash(self) -> str:
        """The SHA-256 of the space without bounds on costs."""
        return hash_of(self.space)


def bounds_of(space: Space) -> list[Constraint]:
    """The bounds on costs of a space."""
    return [one for one in space.graph.constraints if one.cost is not None]


def hash_of(space: Space) -> str:
    """The SHA-256 of a space without bounds on costs, as JSON."""
    return _digest(to_json(space.unbounded.graph))


def said(bound: Constraint) -> str:
    """A bound in words: what it is, whatever its text says."""
    plain = bound.condition is True and not varies(bound.limit)
    return f"{bound.cost} {bound.relation} {bound.limit:,}" if plain else f"{bound.text}, which depends on choices"


# what holds


def check(claim: Claim, space: Space | None = None) -> None:
    """Prove a claim, which is to be about a space if one is given; its bounds may be others.

    Raises ArchError: A3311 (it does not hold), A3312 (that takes too long).
    """
    if space is not None and hash_of(space) != claim.hash:
        raise _wrong(f"it is of another space than this `{space.name}`")
    if claim.architecture is not None:
        _check_architecture(claim, claim.architecture)
    bounds, target = claim.bounds, None
    first = Column(0, ())
    if claim.bound is not None and isinstance(claim.objective.what, str) and claim.objective.what in PEAKS:
        bounds = [*bounds, _better(claim.objective, claim.bound)]
    elif claim.bound is not None:
        first, scale, constant = objective_of(claim.space, claim.objective)
        total = (claim.bound - constant) * scale * (-1 if claim.objective.greatest else 1)
        if total.denominator != 1:
            raise _wrong("the bound is no sum of what is optimised")
        target = int(total) - 1
    columns = [first, *(column for bound in bounds for column in exceeded(claim.space, bound))]
    multipliers = claim.multipliers or (0,) * len(columns)
    if len(multipliers) != len(columns) or min(multipliers) < 0:
        raise _wrong(f"there are {len(columns)} multipliers, which are at least 0")
    free = claim.space.unbounded
    followed = layers(free, [*free.account.conditions, *_held(free, claim.fixed)], columns)
    if anything(followed, tuple(column.constant for column in columns), target, multipliers):
        better = "an architecture within the bounds may be better" if target is not None else "nothing rules out all"
        raise _wrong(better if claim.architecture is not None else "there may be an architecture within the bounds")


def _check_architecture(claim: Claim, architecture: Architecture) -> None:
    for path, outcome in claim.fixed.items():
        if architecture.outcomes.get(path, outcome) != outcome:
            raise _wrong(f"`{path}` is not what is fixed")
    what = claim.objective.what
    if isinstance(what, str):
        codes = np.array([architecture.codes], np.int16)
        value = Fraction(int(claim.space.cost(codes, [what])[what][0]))
    else:
        value = what(architecture)
    if value != claim.value:
        raise _wrong("the architecture does not have the value")
    if claim.bound is None or (claim.bound < value if claim.objective.greatest else claim.bound > value):
        raise _wrong("the architecture is better than the bound")
    if len(claim.needed) != len(bounds_of(claim.space)):
        raise _wrong("an optimum is within all bounds")


def _better(objective: Objective, bound: Fraction) -> Constraint:
    """That a peak is better than a number."""
    if bound.denominator != 1:
        raise _wrong("the bound is no integer")
    relation = ">" if objective.greatest else "<"
    return Constraint(True, text="what is better", cost=str(objective.what), relation=relation, limit=int(bound))


def _held(space: Space, fixed: Mapping[str, int]) -> list[Any]:
    """Conditions that choices have what is fixed, where they are there."""
    return [
        either(negate(one.active), when(one.choice, [fixed[one.choice.path]]))
        for one in space.order
        if one.choice.path in fixed
    ]


def _wrong(text: str) -> ArchError:
    return fail("A3311", f"the certificate does not hold: {text}")


# as JSON


def to_bytes(claim: Claim, version: str) -> bytes:
    """A claim as a file."""
    data = {
        "kind": KIND,
        "schema": SCHEMA,
        "archir": version,
        "space": to_json(claim.space.graph),
        "tables": {name: _table(name, path) for name, path in _tables(claim).items()},
        "fixed": claim.labels,
        "objective": _objective_json(claim.objective),
        "architecture": None if claim.architecture is None else dict(claim.architecture),
        "value": None if claim.value is None else str(claim.value),
        "bound": None if claim.bound is None else str(claim.bound),
        "needed": list(claim.needed),
        "multipliers": list(claim.multipliers),
    }
    return (json.dumps({**data, "sha256": _digest(data)}, indent=1) + "\n").encode()


def is_certificate(content: bytes) -> bool:
    """Whether a file says that it is one."""
    return re.match(rb'\s*{\s*"kind":\s*"' + KIND.encode() + rb'"', content) is not None


def read(path: Path) -> Claim:
    """The claim of a file, not proved yet. Raises ArchError (A3310) for what is none, or is not whole."""
    try:
        return parse(read_bytes(path, MOST_BYTES), path.parent)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("A3310", f"{path} cannot be read as a certificate: {reason}") from None
    except ArchError as error:
        if error.diagnostics[0].code.startswith("A33"):
            raise
        raise fail("A3310", f"{path} is no certificate of an optimum: {error.diagnostics[0].message}") from error


def parse(content: bytes, folder: Path = Path()) -> Claim:
    """The claim of a file's content; tables of latencies are looked for from the current folder, or beside the file."""
    data = json.loads(content)
    parts = Cursor(data).fields(
        "kind", "schema", "archir", "space", "tables", "fixed", "objective", "architecture", "value", "bound", "needed",
        "multipliers", "sha256",
    )  # fmt: skip
    parts["kind"].one_of(KIND)
    if parts["schema"].integer() != SCHEMA:
        raise parts["schema"].wrong(f"this archir reads schema {SCHEMA}")
    if parts["sha256"].text() != _digest({name: one for name, one in data.items() if name != "sha256"}):
        raise fail("A3310", "the certificate is not what was written: its SHA-256 is another", None)
    tables = {name: _found(one, folder) for name, one in parts["tables"].entries().items()}
    graph = from_json(parts["space"].value)
    graph.constraints = [
        replace(one, table=tables[one.cost]) if one.cost in tables else one for one in graph.constraints
    ]
    space = Space(graph)
    fixed = {path: _outcome(space, path, label) for path, label in parts["fixed"].entries().items()}
    objective = _objective(space, parts["objective"])
    given = parts["architecture"]
    labels = None if given.value is None else {path: _label(one) for path, one in given.entries().items()}
    needed = tuple(one.integer() for one in parts["needed"].items())
    if list(needed) != sorted({*needed} & {*range(len(bounds_of(space)))}):
        raise parts["needed"].wrong("there are no such bounds")
    architecture = None if labels is None else _architecture(space, labels)
    value, bound = (_number(parts[name]) for name in ("value", "bound"))
    if (architecture is None) != (value is None) or (architecture is None) != (bound is None):
        raise given.wrong("an architecture has a value and a bound")
    multipliers = tuple(one.integer() for one in parts["multipliers"].items())
    return Claim(space, objective, fixed, architecture, value, bound, needed, multipliers)


def _label(item: Cursor) -> Any:
    """A label, or those of several."""
    if isinstance(item.value, list):
        return [_label(one) for one in item.items()]
    return item.text() if isinstance(item.value, str) else item.value if item.value in (True, False) else item.integer()


def _architecture(space: Space, labels: Mapping[str, Any]) -> Architecture:
    try:
        return space.architecture(labels)
    except ArchError as error:
        raise _wrong(error.diagnostics[0].message) from error


def _number(item: Cursor) -> Fraction | None:
    if item.value is None:
        return None
    if not _FRACTION.fullmatch(item.text()):
        raise item.wrong("expected an integer, or a fraction such as 1/3")
    return Fraction(item.text())


def _outcome(space: Space, path: str, label: Cursor) -> int:
    found = next((choice.outcome(_label(label)) for choice in space.choices if choice.path == path), None)
    if found is None:
        raise label.wrong("there is no such choice, or label")
    return found


def _objective_json(objective: Objective) -> dict[str, Any]:
    what = objective.what
    if isinstance(what, str):
        return {"cost": what, "greatest": objective.greatest}
    terms = [
        {"choices": list(term.choices), "values": [[list(key), str(value)] for key, value in term.values.items()]}
        for term in what.terms
    ]
    return {"constant": str(what.constant), "terms": terms}


def _objective(space: Space, item: Cursor) -> Objective:
    if "cost" in item.entries():
        parts = item.fields("cost", "greatest")
        if not isinstance(parts["greatest"].value, bool):
            raise parts["greatest"].wrong("expected true or false")
        return Objective(parts["cost"].text(), parts["greatest"].value)
    parts = item.fields("constant", "terms")
    outcomes = {choice.path: choice.outcomes for choice in space.choices}
    terms = []
    for term in parts["terms"].items():
        given = term.fields("choices", "values")
        paths = tuple(one.text() for one in given["choices"].items())
        if len(paths) not in (1, 2) or len({*paths}) != len(paths) or not {*paths} <= outcomes.keys():
            raise given["choices"].wrong("expected one choice of the space, or two")
        values = {}
        for pair in given["values"].items():
            key, value = pair.items() if len(pair.items()) == 2 else (pair, pair)
            numbers, score = tuple(one.integer() for one in key.items()), _number(value)
            if score is None or len(numbers) != len(paths) or numbers in values:
                raise pair.wrong("expected outcomes and a score")
            if not all(0 <= one < outcomes[path] for one, path in zip(numbers, paths, strict=True)):
                raise pair.wrong("there are no such outcomes")
            values[numbers] = score
        terms.append(Term(paths, values))
    constant = _number(parts["constant"])
    if constant is None:
        raise parts["constant"].wrong("expected a number")
    return Objective(Scores(space.name, tuple(terms), constant), True)


def _tables(claim: Claim) -> dict[str, Path]:
    """The files of tables of latencies, by the cost that each is for."""
    costs = {str(one.cost): one.table for one in bounds_of(claim.space)}
    if isinstance(claim.objective.what, str):
        costs.setdefault(claim.objective.what, None)
    named = {name: (table, latency_file(name)) for name, table in costs.items()}
    return {name: Path(table or file) for name, (table, file) in named.items() if file is not None}


def _table(cost: str, path: Path) -> dict[str, str]:
    return {"file": latency_file(cost) or "", "sha256": sha256(read_bytes(path, MOST_BYTES)).hexdigest()}


def _found(item: Cursor, folder: Path) -> Path:
    parts = item.fields("file", "sha256")
    given = Path(parts["file"].text())
    for path in (given, folder / given.name):
        if path.is_file() and sha256(read_bytes(path, MOST_BYTES)).hexdigest() == parts["sha256"].text():
            return path
    raise fail("A3310", f"the table of latencies {given} is not there, or is another one than when this was proved")


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
