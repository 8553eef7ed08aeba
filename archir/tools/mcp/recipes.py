"""Recipes as a JSON Schema: editors complete and explain their settings by it, and programs are held to it."""

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
from archir.recipes.recipe import Phase, Recipe
from archir.reuse.teachers import TEACHER
from archir.tools.mcp.schema import Schema

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What editors of TOML read."""


def recipe_schema() -> Schema:
    """A schema (JSON Schema, draft 7) of recipes, with all strategies and objectives that are registered.

    Every recipe that `archir search` takes fits it. What it takes may still be refused: names of phases, choices and
    files, and what contradicts itself, `archir search --check` looks at. With `MODULE:CLASS` for an objective, its
    settings are free.
    """
    kinds = backends.get("torch").recipe_kinds()
    strategies, objectives = kinds["strategy"], kinds["objective"]
    models = _all([Recipe, *strategies.values(), *objectives.values()])
    found, whole = models_json_schema([(model, "validation") for model in models], ref_template="#/definitions/{model}")
    refs = {model: found[model, "validation"] for model in models}
    names = {model: str(ref["$ref"]).rpartition("/")[2] for model, ref in refs.items()}
    definitions = {name: _plain(one) for name, one in whole["$defs"].items()}
    for model, name in names.items():
        _explain(definitions[name], model)
        _require_less(definitions[name], model)
    phase, recipe = definitions[names[Phase]], definitions.pop(names[Recipe])
    phase["properties"]["strategy"]["enum"] = sorted(strategies)
    phase["allOf"] = [
        _if("strategy", name, {"properties": {"options": refs[model]}}, required=True)
        for name, model in sorted(strategies.items())
    ]
    definitions["objective"] = {
        "type": "object",
        "properties": {"kind": {"type": "string", "anyOf": [{"enum": sorted(objectives)}, {"pattern": ":"}]}},
        "allOf": [
            _if("kind", name, _objective(definitions[names[model]]), required=name != "classification")
            for name, model in sorted(objectives.items())
        ],
    }
    objective = {"$ref": "#/definitions/objective"}
    for table in (recipe, phase):
        table["properties"]["objective"] = objective
    phase["properties"]["also"]["items"] = objective
    return {"$schema": DIALECT, **recipe, "title": "A recipe of archir search", "definitions": definitions}


def _if(key: str, name: str, then: Schema, *, required: bool) -> Schema:
    """What holds where a key is a name, or may also be left out, if it is not `required`."""
    given: Schema = {"properties": {key: {"const": name}}}
    return {"if": given | ({"required": [key]} if required else {}), "then": then}


def _objective(model: Schema) -> Schema:
    """An objective's settings beside its `kind`. Where an earlier phase's network teaches, it is the teacher."""
    properties = {**model["properties"], "kind": True, "phase": {"type": "string"}}
    required = [name for name in model.get("required", ()) if name not in TEACHER]
    return {**model, "properties": properties, "required": required}


def _plain(schema: Any) -> Any:
    """A schema in the words of draft 7, without nothing, which TOML cannot say, and without titles that say names
    again."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _plain(value) for key, value in schema.items() if key != "title" or isinstance(value, dict)}
    if found.get("default", ...) is None:
        del found["default"]
    if isinstance(found.get("prefixItems"), list):
        found["items"] = found.pop("prefixItems")
    if isinstance(found.get("anyOf"), list):
        several = [one for one in found.pop("anyOf") if one != {"type": "null"}]
        found |= several[0] if len(several) == 1 else {"anyOf": several}
    return found


def _all(models: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    """Models, and those that their fields are of."""
    found: dict[type[BaseModel], None] = {}
    left = list(models)
    while left:
        model = left.pop()
        if model not in found:
            found[model] = None
            left += [one for field in model.model_fields.values() for one in _inside(field.annotation)]
    return list(found)


def _inside(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for inner in getattr(annotation, "__args__", ()) for one in _inside(inner)]


def _explain(schema: Schema, model: type[BaseModel]) -> None:
    """Say of each property what stands below its field."""
    said: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            said |= _below(base)
    for name, one in schema.get("properties", {}).items():
        if name in said:
            schema["properties"][name] = {**one, "description": said[name]} if "$ref" not in one else {
                "allOf": [one], "description": said[name]
            }  # fmt: skip


def _require_less(schema: Schema, model: type[BaseModel]) -> None:
    """Require nothing of a model that fills in all its settings itself, such as one with presets."""
    with suppress(ValidationError):
        model.model_validate({})
        schema.pop("required", None)


def _below(model: type[BaseModel]) -> Mapping[str, str]:
    """The texts below the fields of a class; none of one that was made without a source."""
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
