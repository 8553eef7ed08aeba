"""JSON Schema of recipes, for validation in editors and for constrained output of language models."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from archir import backends
from archir.recipes.external_files import TEACHER
from archir.recipes.recipe import Phase, Recipe
from archir.tools.mcp.architecture_schema import Schema

DIALECT = "http://json-schema.org/draft-07/schema#"
"""URI of the JSON Schema version, the latest that TOML editors support."""


def recipe_schema() -> Schema:
    """Return a JSON Schema (draft 7) of recipes, including all registered strategies and objectives.

    Every recipe that `archir search` accepts is valid under the schema, but not conversely: names of phases, choices
    and files, and contradictions between settings, are only checked by `archir search --check`. The settings of an
    objective given as `MODULE:CLASS` are not restricted.
    """
    kinds = backends.get("torch").recipe_kinds()
    strategies, objectives = kinds["strategy"], kinds["objective"]
    models = _reachable_models([Recipe, *strategies.values(), *objectives.values()])
    schema_refs, bundle = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/definitions/{model}"
    )
    refs = {model: schema_refs[model, "validation"] for model in models}
    names = {model: str(ref["$ref"]).rpartition("/")[2] for model, ref in refs.items()}
    definitions = {name: _to_draft7(definition) for name, definition in bundle["$defs"].items()}
    for model, name in names.items():
        _add_descriptions(definitions[name], model)
        _relax_required(definitions[name], model)
    phase, recipe = definitions[names[Phase]], definitions.pop(names[Recipe])
    phase["properties"]["strategy"]["enum"] = sorted(strategies)
    phase["allOf"] = [
        _conditional("strategy", name, {"properties": {"options": refs[model]}}, required=True)
        for name, model in sorted(strategies.items())
    ]
    definitions["objective"] = {
        "type": "object",
        "properties": {"kind": {"type": "string", "anyOf": [{"enum": sorted(objectives)}, {"pattern": ":"}]}},
        "allOf": [
            _conditional("kind", name, _objective_schema(definitions[names[model]]), required=name != "classification")
            for name, model in sorted(objectives.items())
        ],
    }
    objective = {"$ref": "#/definitions/objective"}
    for table in (recipe, phase):
        table["properties"]["objective"] = objective
    phase["properties"]["also"]["items"] = objective
    return {"$schema": DIALECT, **recipe, "title": "A recipe of archir search", "definitions": definitions}


def _conditional(key: str, name: str, then: Schema, *, required: bool) -> Schema:
    """Return a schema that applies `then` if the property `key` equals `name`.

    Unless the property is `required`, `then` also applies if the property is missing.
    """
    condition: Schema = {"properties": {key: {"const": name}}}
    return {"if": condition | ({"required": [key]} if required else {}), "then": then}


def _objective_schema(model: Schema) -> Schema:
    """Return the schema of an objective's settings, extended by the properties `kind` and `phase`.

    The teacher's settings are optional, since with `phase` the teacher is the network of an earlier phase.
    """
    properties = {**model["properties"], "kind": True, "phase": {"type": "string"}}
    required = [name for name in model.get("required", ()) if name not in TEACHER]
    return {**model, "properties": properties, "required": required}


def _to_draft7(schema: Any) -> Any:
    """Convert a schema to draft 7.

    Null alternatives are removed, as TOML has no null, and so are titles, which only repeat names.
    """
    if isinstance(schema, list):
        return [_to_draft7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _to_draft7(value) for key, value in schema.items() if key != "title" or isinstance(value, dict)}
    if converted.get("default", ...) is None:
        del converted["default"]
    if isinstance(converted.get("prefixItems"), list):
        converted["items"] = converted.pop("prefixItems")
    if isinstance(converted.get("anyOf"), list):
        alternatives = [item for item in converted.pop("anyOf") if item != {"type": "null"}]
        converted |= alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    return converted


def _reachable_models(models: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    """Return the given models and all models that occur, directly or indirectly, in the types of their fields."""
    reachable: dict[type[BaseModel], None] = {}
    pending = list(models)
    while pending:
        model = pending.pop()
        if model not in reachable:
            reachable[model] = None
            pending += [
                inner_model for field in model.model_fields.values() for inner_model in _models_in(field.annotation)
            ]
    return list(reachable)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models that occur in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models_in(argument)]


def _add_descriptions(schema: Schema, model: type[BaseModel]) -> None:
    """Set the description of each property to the docstring of the model's field."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            docs |= _field_docstrings(base)
    for name, field in schema.get("properties", {}).items():
        if name in docs:
            schema["properties"][name] = {**field, "description": docs[name]} if "$ref" not in field else {
                "allOf": [field], "description": docs[name]
            }  # fmt: skip


def _relax_required(schema: Schema, model: type[BaseModel]) -> None:
    """Remove `required` if the model accepts empty settings.

    Such models, for example those with presets, fill in required settings themselves.
    """
    with suppress(ValidationError):
        model.model_validate({})
        schema.pop("required", None)


def _field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of a class's fields by field name; empty if the source is not available."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
