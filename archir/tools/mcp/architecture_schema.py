"""JSON Schema of a space's architecture files, for constrained output: every file that satisfies it can be loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from archir.diagnostics.errors import fail
from archir.diagnostics.work import spend
from archir.diagrams.conditions import negate
from archir.diagrams.diagram import Choice, Diagram, Value, varies
from archir.spaces.architecture import SCHEMA, json_value
from archir.spaces.space import Space

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""URI of the JSON Schema version."""
MAX_LABELS = 100_000
"""Maximum number of labels in a schema, over all choices."""
Schema = dict[str, Any]
"""A JSON Schema."""


def architecture_schema(space: Space) -> Schema:
    """Return a JSON Schema (2020-12) of the architecture files that `archir sample` writes for a space.

    It accepts exactly the architectures that satisfy every `require` and `where` on choices; bounds on costs cannot be
    expressed. Choices that are always active are plain properties. The conditions under which other choices are active,
    and requirements, are in `allOf`. Subsets are arrays in the order of the alternatives. Raises ArchError (A1602) if
    there are more than MAX_LABELS labels.
    """
    return _SchemaBuilder(space).schema()


class _SchemaBuilder:
    """Builder of a space's schema. Each condition becomes one entry of `$defs`, to which all its uses refer."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.definitions: dict[str, Schema] = {}
        self._definition_names: dict[int, tuple[str, Diagram]] = {}

    def schema(self) -> Schema:
        """Return the schema. Raises ArchError (A1602) if it has too many labels."""
        properties, required, rules = {}, [], []
        total = 0
        for decision in self.space.order:
            choice = decision.choice
            total += choice.outcome_count * (choice.k or 1)
            if total > MAX_LABELS:
                raise fail(
                    "A1602", f"the schema of `{self.space.name}` would list more than {MAX_LABELS:,} alternatives"
                )
            properties[choice.path] = _enum(choice, range(choice.outcome_count))
            if decision.active is True:
                required.append(choice.path)
            else:
                if_made = {"required": [choice.path], **self._condition_schema(decision.active)}
                rules.append(
                    {
                        "anyOf": [
                            if_made,
                            {"properties": {choice.path: False}, **self._condition_schema(negate(decision.active))},
                        ]
                    }
                )
        for constraint in self.space.graph.constraints:
            if constraint.cost is None and varies(constraint.condition):
                rules.append(self._condition_schema(constraint.condition))
        choices: Schema = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if rules:
            choices["allOf"] = rules
        parameters = {name: json_value(value) for name, value in self.space.graph.parameters.items()}
        result: Schema = {
            "$schema": DIALECT, "title": f"An architecture of {self.space.name}", "type": "object",
            "properties": {
                "archir": {"const": SCHEMA}, "space": {"const": self.space.name},
                "parameters": {"const": parameters}, "choices": choices,
            },
            "required": ["archir", "space", "parameters", "choices"], "additionalProperties": False,
        }  # fmt: skip
        return result | ({"$defs": self.definitions} if self.definitions else {})

    def _condition_schema(self, condition: Value) -> Schema:
        """Return a schema that accepts the choices that satisfy a condition: a reference to its definition."""
        if not varies(condition):
            return {} if condition is True else {"not": {}}
        if id(condition) not in self._definition_names:
            name = f"condition{len(self._definition_names)}"
            self._definition_names[id(condition)] = name, condition
            self.definitions[name] = self._diagram_schema(condition)
        return {"$ref": f"#/$defs/{self._definition_names[id(condition)][0]}"}

    def _diagram_schema(self, condition: Diagram) -> Schema:
        """Return the schema of a decision diagram, with one case for each branch on its first choice.

        As everywhere in archir, an inactive choice counts as its first outcome.
        """
        choice = condition.choice
        spend(choice.outcome_count)
        kinds = {id(branch): branch for branch in condition.branches if branch is not False}
        cases = []
        for number, branch in kinds.items():
            outcomes = [i for i, other_branch in enumerate(condition.branches) if id(other_branch) == number]
            test: Schema = {"properties": {choice.path: _enum(choice, outcomes)}}
            if outcomes[0] != 0:
                test["required"] = [choice.path]
            cases.append(test | self._condition_schema(branch))
        return cases[0] if len(cases) == 1 else {"anyOf": cases}


def _enum(choice: Choice, outcomes: Iterable[int]) -> Schema:
    """Return a schema that accepts the labels of the given outcomes of a choice."""
    return {"enum": [choice.label(outcome) for outcome in outcomes]}
