"""The JSON Schema of a space's architectures accepts exactly the files that can be loaded."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.spaces.space import Space
from archir.tools.mcp import architecture_schema
from tests.conftest import EXAMPLES

SPACES = {
    "plain": """
net plain {
    input x: f32[4, 8, 8]
    x = x |> conv(choose width(4, 8)) |> choose act(relu, gelu)
    output y = x
}
""",
    "conditional": """
net conditional {
    input x: f32[4, 8, 8]
    depth = choose depth(0, 1, 2)
    x = x |> choose op { skip: identity, conv: conv(4, kernel=choose kernel(3, 5)) }
    repeat depth { x = x |> conv(4, kernel=choose inner(1, 3)) }
    require depth != 1
    output y = x
}
""",
    "required": """
net required {
    input x: f32[4, 8, 8]
    a = choose a(1, 2, 3)
    b = choose b(1, 2, 3)
    c = choose c("1", "2")
    require a + b <= 4
    require a != b or c == "2"
    output y = x |> conv(4 * a) |> conv(4 * b)
}
""",
    "subsets": """
net subsets {
    input x: f32[4, 8, 8]
    paths = choose paths 2 of [x, x |> relu, x |> gelu]
    first = choose first(true, false)
    output y = sum(paths) + (x |> conv(4) if first else x)
}
""",
}


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> Space:
    return archir.loads(SPACES[request.param])


def files(space: Space) -> Iterator[dict[str, Any]]:
    """Every file with any label, or none, for each choice."""
    labels = [[None, *(one.label(outcome) for outcome in range(one.outcome_count))] for one in space.choices]
    for combination in itertools.product(*labels):
        given = zip(space.choices, combination, strict=True)
        choices = {choice.path: label for choice, label in given if label is not None}
        yield {"archir": 1, "space": space.name, "parameters": {}, "choices": choices}


def loads(space: Space, file: dict[str, Any]) -> bool:
    try:
        space.architecture(file["choices"])
    except ArchError:
        return False
    return True


def test_schema_accepts_exactly_loadable_files(space: Space) -> None:
    validator = Draft202012Validator(architecture_schema.architecture_schema(space))
    validator.check_schema(validator.schema)
    taken = {json.dumps(file): validator.is_valid(file) for file in files(space)}
    assert taken == {json.dumps(file): loads(space, file) for file in files(space)}
    assert sum(taken.values()) == space.satisfying


def test_schema_accepts_sampled_and_rejects_altered_files(space: Space) -> None:
    validator = Draft202012Validator(architecture_schema.architecture_schema(space))
    wrong: dict[str, Any]
    for seed in range(5):
        file = json.loads(space.sample(seed).to_json(space.graph.parameters))
        validator.validate(file)
        for wrong in ({"space": "other"}, {"archir": 2}, {"parameters": {"a": 1}}, {"more": 1}):
            assert not validator.is_valid(file | wrong)
        assert not validator.is_valid(file | {"choices": file["choices"] | {"none": "such"}})


@pytest.mark.parametrize(
    "name", ["nas_bench_201/nas_bench_201.arch", "trionet/trionet.arch", "glit/glit.arch", "darts/darts.arch:darts"]
)
def test_schema_accepts_samples_of_published_spaces(name: str) -> None:
    space = archir.load(EXAMPLES / name)
    validator = Draft202012Validator(architecture_schema.architecture_schema(space))
    for seed in range(20):
        file = json.loads(space.sample(seed).to_json(space.graph.parameters))
        validator.validate(file)
        file["choices"].popitem()
        assert not validator.is_valid(file)


def test_grammar_command_writes_architecture_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("space.arch").write_text(SPACES["plain"])
    command = ["grammar", "--to", "json-schema", "space.arch"]
    done = CliRunner().invoke(main, [*command, "-o", "schema.json"])
    assert (done.exit_code, done.output) == (0, "wrote schema.json: a schema of 2 choices\n")
    assert json.loads(CliRunner().invoke(main, command).stdout) == json.loads(Path("schema.json").read_text())
    for wrong in (command[:-1], ["grammar", "space.arch"]):
        refused = CliRunner().invoke(main, wrong)
        assert refused.exit_code == 2
        assert "--to json-schema needs a FILE" in refused.output


def test_rejects_schema_with_too_many_alternatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architecture_schema, "MAX_LABELS", 3)
    with pytest.raises(ArchError, match=r"A1602.*more than 3 alternatives"):
        architecture_schema.architecture_schema(archir.loads(SPACES["plain"]))
