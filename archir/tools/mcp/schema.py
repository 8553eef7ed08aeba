"""The architectures of a space as a JSON Schema: what a program that is held to it writes, can be loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from archir.diagnostics.errors import fail
from archir.diagnostics.work import spend
from archir.diagrams.cases import Case, Choice, Value, varies
from archir.diagrams.conditions import negate
from archir.spaces.architecture import SCHEMA, plain
from archir.spaces.space import Space

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MOST_LABELS = 100_000
"""Labels that a schema lists."""
Schema = dict[str, Any]


def schema_of(space: Space) -> Schema:
    """A schema (JSON Schema 2020-12) of architecture files, as `archir sample` writes them.

    It is that of the architectures that keep every `require` and `where` about choices; bounds on costs it cannot say.
    Choices that are always made are plain properties; when others are, and what else is required of choices, is in
    `allOf`. Subsets are arrays in the order of the alternatives. Raises ArchError (A1602) where a choice has too many
    outcomes to be listed.
    """
    return _Writer(space).schema()


class _Writer:
    """Writes each condition once, however often it is part of others."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.definitions: dict[str, Schema] = {}
        self._names: dict[int, tuple[str, Case]] = {}

    def schema(self) -> Schema:
        properties, required, rules = {}, [], []
        total = 0
        for decision in self.space.order:
            choice = decision.choice
            total += choice.outcomes * (choice.take or 1)
            if total > MOST_LABELS:
                raise fail(
                    "A1602", f"a schema of `{self.space.name}` would list more than {MOST_LABELS:,} alternatives"
                )
            properties[choice.path] = _enum(choice, range(choice.outcomes))
            if decision.active is True:
                required.append(choice.path)
            else:
                made = {"required": [choice.path], **self._where(decision.active)}
                rules.append(
                    {"anyOf": [made, {"properties": {choice.path: False}, **self._where(negate(decision.active))}]}
                )
        for constraint in self.space.graph.constraints:
            if constraint.cost is None and varies(constraint.condition):
                rules.append(self._where(constraint.condition))
        choices: Schema = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if rules:
            choices["allOf"] = rules
        parameters = {name: plain(value) for name, value in self.space.graph.parameters.items()}
        found: Schema = {
            "$schema": DIALECT, "title": f"An architecture of {self.space.name}", "type": "object",
            "properties": {
                "archir": {"const": SCHEMA}, "space": {"const": self.space.name},
                "parameters": {"const": parameters}, "choices": choices,
            },
            "required": ["archir", "space", "parameters", "choices"], "additionalProperties": False,
        }  # fmt: skip
        return found | ({"$defs": self.definitions} if self.definitions else {})

    def _where(self, condition: Value) -> Schema:
        """The schema of choices for which a condition holds."""
        if not varies(condition):
            return {} if condition is True else {"not": {}}
        if id(condition) not in self._names:
            name = f"condition{len(self._names)}"
            self._names[id(condition)] = name, condition
            self.definitions[name] = self._tested(condition)
        return {"$ref": f"#/$defs/{self._names[id(condition)][0]}"}

    def _tested(self, condition: Case) -> Schema:
        """One choice is looked at; what is not made counts as its first outcome, as everywhere."""
        choice = condition.choice
        spend(choice.outcomes)
        kinds = {id(branch): branch for branch in condition.branches if branch is not False}
        found = []
        for number, branch in kinds.items():
            outcomes = [i for i, one in enumerate(condition.branches) if id(one) == number]
            test: Schema = {"properties": {choice.path: _enum(choice, outcomes)}}
            if outcomes[0] != 0:
                test["required"] = [choice.path]
            found.append(test | self._where(branch))
        return found[0] if len(found) == 1 else {"anyOf": found}


def _enum(choice: Choice, outcomes: Iterable[int]) -> Schema:
    return {"enum": [choice.label(outcome) for outcome in outcomes]}
