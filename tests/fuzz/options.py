"""Fuzzing of options of commands: parameters, bounds, overrides of recipes."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

from archir.api import loading
from archir.language.elaboration.context import Limits
from archir.language.elaboration.expression_query import evaluate_expression
from archir.language.elaboration.parameters import parse_parameter
from archir.spaces.space import Space
from tests.fuzz import odd
from tests.fuzz.harness import Case, Maker
from tests.fuzz.registry import RECIPE, SPACE, begin, kind, words

VALUES = [
    "1", "-1", "0", "1/2", "1/0", "0/0", "1e400", "1.5", "inf", "nan", "true", "none", "relu", "conv", "x", '"x"', "[", "]", "(", ")",
    ",", "+", "-", "*", "**", "/", "//", "%", "..", "2K", "3M", "9" * 4400, "10 ** 400", "10 ** 10 ** 10", "[0] * 10 ** 9", "1 .. 10 ** 9",
    "for", "in", "if", "else", "==", "<", "and", "or", "not", "range", "sqrt", "log2", "round_to", "len", "sum", ".", "|>", "choose", "{", "}",
    "\n", "#", "=", "@", "image", "wide", "width", "f32", "import", "net",
]  # fmt: skip


@kind
def parameter(folder: Path) -> Maker:
    (folder / "tiny.arch").write_text(SPACE)
    names = ["width", "ratio", "acts", "name", "widht", "", "a.b", "1", "é", "class"]

    def make(rng: random.Random) -> Case:
        value = words(rng, VALUES, 6) if rng.random() < 0.7 else odd.mangled("[1, 2 * (3 + 1/2)]", rng, VALUES)
        text = rng.choice([f"{rng.choice(names)}={value}", f"{rng.choice(names)} = {value}", value])

        def take() -> None:
            name, parsed = parse_parameter(text)
            loading.graph(folder / "tiny.arch", parameters={name: parsed}, limits=Limits(nodes=2000))

        return text, take

    return make


BOUNDS = [
    "macs",
    "params",
    "kernels",
    "activation_bytes",
    "peak_bytes",
    'latency("x.json")',
    "wide",
    "kernel",
    "op",
    "act",
    "none",
    *VALUES,
]


@kind
def where(folder: Path) -> Maker:
    space = Space(loading.loads(SPACE).graph)

    def make(rng: random.Random) -> Case:
        text = (
            words(rng, BOUNDS, 7)
            if rng.random() < 0.5
            else odd.mangled("macs <= 600K and params < 5M or wide == 2", rng, BOUNDS)
        )
        return text, lambda: space.where(text).count()

    return make


@kind
def expression(folder: Path) -> Maker:
    """Expressions of `archir print`."""

    def make(rng: random.Random) -> Case:
        text = words(rng, VALUES, 7) if rng.random() < 0.7 else odd.mangled("[w * 2 for w in [wide, 1/2]]", rng, VALUES)
        return text, lambda: evaluate_expression(text, SPACE, "tiny.arch", limits=Limits(nodes=2000))

    return make


@kind
def overrides(folder: Path) -> Maker:
    """`--set` options for a valid recipe."""
    keys = [".".join(map(str, path)) for path in _paths(tomllib.loads(RECIPE))]
    keys += [key.replace("phase.0", "search").replace("phase.1", "tries") for key in keys]
    keys += [
        "",
        "x",
        "a.b",
        "search",
        "search.",
        ".",
        "..",
        "search.options",
        "phase.0",
        "phase",
        "search.name",
        "tries.name",
        "x" * 300,
    ]
    toml = [
        "[",
        "]",
        "{",
        "}",
        ",",
        "=",
        "1",
        "'",
        '"',
        "\n",
        "[1, 2]",
        "{ a = 1 }",
        "1979-05-27",
        "inf",
        "nan",
        "-1",
        "9" * 5000,
        "[" * 2000,
    ]

    def make(rng: random.Random) -> Case:
        settings = {}
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            key = rng.choice(keys) if rng.random() < 0.9 else odd.mangled(rng.choice(keys), rng)
            value = rng.choice([json.dumps(_short(odd.value(rng))), str(_short(odd.value(rng))), words(rng, toml, 4)])
            settings[key] = value
        return settings, lambda: begin(folder, RECIPE, settings)

    return make


def _short(value: Any) -> Any:
    return value if not isinstance(value, int) or value.bit_length() < 10_000 else 10**4000


def _paths(value: Any, base: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*base, key), *_paths(item, (*base, key)))]
