"""Recipes as a JSON Schema: it takes what archir takes, and finds what is misspelt."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from archir import backends
from archir.cli import main
from archir.plugins import loading
from archir.recipes.parsing import parse
from archir.tools.mcp.recipe_schema import recipe_schema
from archir.utils.settings import Settings
from tests.plugins import forgotten

ROOT = Path(__file__).parents[2]
RECIPES = [
    path
    for path in [*(ROOT / "examples").rglob("*.toml"), *(ROOT / "archir").rglob("recipe.toml.template")]
    if "[[phase]]" in path.read_text()
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The file that the command writes, and what it says."""
    path = tmp_path_factory.mktemp("schema") / "recipe.schema.json"
    return path, CliRunner().invoke(main, ["grammar", "--to", "recipe-schema", "-o", str(path)]).output


@pytest.fixture(scope="module")
def schema(written: tuple[Path, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written[0].read_text())
    return found


def test_schema_is_valid_draft_7(schema: dict[str, Any]) -> None:
    Draft7Validator.check_schema(schema)
    assert len(RECIPES) > 20
    words = {key for one in parts(schema) for key in one}
    assert not words & {"$defs", "prefixItems"}
    for one in parts(schema):
        assert one.get("type") != "null"
        if "$ref" in one:
            assert one["$ref"].removeprefix("#/definitions/") in schema["definitions"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: "-".join(path.parts[-2:]))
def test_existing_recipes_validate(schema: dict[str, Any], path: Path) -> None:
    assert mistakes(schema, path.read_text()) == []


RECIPE = """space = "space.arch"
objective = { kind = "regression" }
[[phase]]
name = "a"
strategy = "sandwich"
training = { epochs = 2, precision = "bf16" }
options = { drawn = 2 }
[[phase]]
name = "b"
strategy = "evolution"
start = { weights = "a" }
options = { population = 4, scorer = { kind = "training" } }
also = [{ kind = "distillation", phase = "a", weight = 0.5 }]
[[phase]]
name = "c"
strategy = "train"
augment = { preset = "deit", erase = false, jitter = true, crop = { area = [0.2, 1.0] } }
objective = { label_smoothing = 0.1 }
weights = { kind = "sgd", betas = [0.9, 0.999] }
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ('space = "space.arch"', "", ""),
        ("space =", "spaec =", ""),
        ('"sandwich"', '"sandwhich"', "phase.0.strategy"),
        ("drawn", "drwan", "phase.0.options"),
        ("drawn = 2", "population = 2", "phase.0.options"),
        ("epochs = 2", 'epochs = "2"', "phase.0.training.epochs"),
        ("epochs = 2", "epochs = 0", "phase.0.training.epochs"),
        ('"bf16"', '"bf61"', "phase.0.training.precision"),
        ("population = 4", "populaton = 4", "phase.1.options"),
        ("start = { weights", "start = { wieghts", "phase.1.start"),
        ("weight = 0.5", "wieght = 0.5", "phase.1.also.0"),
        ('"regression"', '"regresion"', "objective.kind"),
        ("label_smoothing = 0.1", "label_smoothing = 1.5", "phase.2.objective.label_smoothing"),
        ("[0.9, 0.999]", "[0.9, 0.999, 0.5]", "phase.2.weights.betas"),
        ('name = "c"', 'name = "c d"', "phase.2.name"),
        ("jitter = true", "jitter = 1", "phase.2.augment"),
        ("[0.2, 1.0]", "[0.2]", "phase.2.augment"),
    ],
)
def test_schema_locates_mistakes(schema: dict[str, Any], right: str, wrong: str, place: str) -> None:
    assert mistakes(schema, RECIPE) == []
    assert place in mistakes(schema, RECIPE.replace(right, wrong, 1))


def test_schema_knows_every_strategy_and_objective_option(schema: dict[str, Any]) -> None:
    kinds = backends.get("torch").recipe_kinds()
    for name, options in kinds["strategy"].items():
        for option in options.model_fields:
            assert not unknown(schema, phase(f'strategy = "{name}"\noptions = {{ {option} = 1 }}'))
        assert unknown(schema, phase(f'strategy = "{name}"\noptions = {{ no_option = 1 }}'))
    for name, settings in kinds["objective"].items():
        given = f'strategy = "train"\nobjective = {{ kind = "{name}", '
        for setting in settings.model_fields:
            assert not unknown(schema, phase(f"{given}{setting} = 1 }}"))
        assert unknown(schema, phase(f"{given}no_setting = 1 }}"))


def test_settings_are_explained(schema: dict[str, Any]) -> None:
    definitions = schema["definitions"]
    assert definitions["SandwichOptions"]["properties"]["drawn"]["description"].startswith(
        "Number of uniformly sampled architectures"
    )
    assert (
        definitions["Phase"]["properties"]["augment"]["description"] == "Augmentation; it replaces the one in `data`."
    )


def test_schema_includes_plugin_strategies(tmp_path: Path, schema: dict[str, Any]) -> None:
    (tmp_path / "own_search.py").write_text(PLUGIN)
    with forgotten(tmp_path):
        loading.load("own_search", [tmp_path])
        found = recipe_schema()
    text = phase('strategy = "own"\noptions = { often = 3 }')
    assert mistakes(found, text) == []
    assert mistakes(found, text.replace("often", "oftne")) == ["phase.0.options"]
    assert mistakes(schema, text) == ["phase.0.strategy"]
    common = found["definitions"].keys() & schema["definitions"].keys()
    assert schema["definitions"].keys() - common == {"Phase", "Training"}, "names that the plugin has as well"
    assert all(found["definitions"][name] == schema["definitions"][name] for name in common)


PLUGIN = """
from archir.utils.settings import Settings
from archir_torch.search.job import strategy


class Training(Settings):
    far: bool = False


class Phase(Settings):
    often: int = 1
    training: Training = Training()


@strategy("own", Phase)
def own(job, options):
    raise AssertionError("it is not run")
"""


def test_grammar_command_writes_recipe_schema(written: tuple[Path, str], schema: dict[str, Any]) -> None:
    path, said = written
    assert said == f"wrote {path}: {len(schema['definitions'])} definitions\n"
    refused = CliRunner().invoke(main, ["grammar", "--to", "recipe-schema", "space.arch"])
    assert "--to json-schema needs a FILE" in refused.output


def phase(text: str) -> str:
    return f'space = "space.arch"\n[[phase]]\nname = "a"\n{text}\n'


def mistakes(schema: dict[str, Any], text: str) -> list[str]:
    """The places of what does not fit."""
    found = Draft7Validator(schema).iter_errors(tomllib.loads(text.replace("__NAME__", "name")))
    return [".".join(map(str, one.absolute_path)) for one in found]


def unknown(schema: dict[str, Any], text: str) -> bool:
    """Whether something is misspelt."""
    found = Draft7Validator(schema).iter_errors(tomllib.loads(text))
    return any(one.validator == "additionalProperties" for one in found)


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(one)


def subclasses(kind: type[Settings]) -> Iterator[type[Settings]]:
    """A class of settings, and those derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from subclasses(derived)


def test_a_table_with_some_settings_keeps_the_defaults_of_the_others() -> None:
    backends.get("torch")
    fields = [field for kind in subclasses(Settings) for field in kind.model_fields.values()]
    defaults = [field.default for field in fields if isinstance(field.default, Settings)]
    assert len(defaults) > 10
    for default in defaults:
        assert default == type(default)()


def test_a_rate_of_architecture_parameters_does_not_change_their_optimizer() -> None:
    text = 'space = "s.arch"\ndata.source = "digits"\n[[phase]]\nname = "search"\nstrategy = "darts"\n'
    plain, changed = (parse(text, "r.toml", settings).recipe for settings in ({}, {"search.alphas.lr": "0.006"}))
    assert changed.phase[0].alphas == plain.phase[0].alphas.model_copy(update={"lr": 0.006})
    assert changed.phase[0].alphas.kind == "adam"
