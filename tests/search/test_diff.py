"""What differs between two architectures or spaces, as `archir diff` tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.spaces.diff import Difference
from tests.conftest import EXAMPLES

SPACE = """
net small(width = 8) {
    input image: f32[3, 8, 8]
    depth = choose depth @size (1, 2)
    x = image |> conv(width)
    repeat depth as i {
        x = x |> choose op { conv: conv(width), skip: identity }
    }
    require depth < 3
    require macs <= 1M
    output y = x
}
"""


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.arch").write_text(SPACE)
    space = archir.loads(SPACE)
    for name, labels in {
        "shallow": {"depth": 1, "op[0]": "conv"},
        "deep": {"depth": 2, "op[0]": "conv", "op[1]": "skip"},
        "other": {"depth": 2, "op[0]": "skip", "op[1]": "skip"},
    }.items():
        (tmp_path / f"{name}.json").write_text(space.architecture(labels).to_json(space.graph.parameters))
    return tmp_path


def test_architecture_diff_lists_choices_and_costs(folder: Path) -> None:
    shallow, deep, other = (folder / f"{name}.json" for name in ("shallow", "deep", "other"))
    assert run(shallow, shallow).output == "no differences\n"
    found = json.loads(run(shallow, other, "--json", code=1).output)
    assert found["same"] is False
    assert [tuple(each.values()) for each in found["differences"]] == [
        ("choice", "", "depth", "1", "2"),
        ("choice", "", "op[0]", "conv", "skip"),
        ("choice", "", "op[1]", None, "skip"),
    ]
    table = run(shallow, other, code=1).output
    assert "shallow.json" in table
    assert "op[1]" in table
    with_costs = json.loads(run(shallow, other, "--space", folder / "small.arch", "--json", code=1).output)
    costs = {each["name"]: (each["before"], each["after"]) for each in with_costs["differences"][3:]}
    assert costs["params"] == (f"{8 * 27 + 8 * 72}", f"{8 * 27}")
    assert "note" not in with_costs
    assert "they compute the same" in run(shallow, deep, "--space", folder / "small.arch", code=1).output


def test_architecture_diff_shows_other_net_and_parameters(folder: Path) -> None:
    data = json.loads((folder / "deep.json").read_text())
    data |= {"space": "large", "parameters": {"width": 16}}
    (folder / "wide.json").write_text(json.dumps(data))
    found = json.loads(run(folder / "deep.json", folder / "wide.json", "--json", code=1).output)["differences"]
    assert [(each["kind"], each["before"], each["after"]) for each in found] == [
        ("net", "small", "large"),
        ("parameter", "8", "16"),
    ]
    costs = run(folder / "deep.json", folder / "wide.json", "--space", folder / "small.arch", code=1).output
    assert f"{16 * 27 + 16 * 144:,}" in costs


def differences(before: str, after: str) -> list[Difference]:
    return archir.diff(archir.loads(SPACE), archir.loads(SPACE.replace(before, after)))


def kinds(found: list[Difference]) -> set[str]:
    return {each.kind for each in found}


def test_renamed_parameter_differs_and_whitespace_does_not() -> None:
    assert differences("width", "channels")[0].kind == "parameter"
    assert differences("net", "  net") == []


def test_changed_parameter_changes_its_nodes() -> None:
    found = differences("width = 8", "width = 16")
    assert found[0] == Difference("parameter", "", "width", "8", "16")
    assert kinds(found) == {"parameter", "node"}
    assert Difference("node", "", "conv", "conv(channels=8)", "conv(channels=16)") in found


def test_changed_choice_shows_alternatives_and_size() -> None:
    assert Difference("choice", "", "depth", "1, 2 @size", "1, 2, 4 @size") in differences("(1, 2)", "(1, 2, 4)")
    assert Difference("choice", "", "depth", "1, 2 @size", "1, 2") in differences("@size ", "")
    found = differences("op {", "kind {")
    assert Difference("choice", "", "op[0]", "conv, skip", None) in found
    assert Difference("choice", "", "kind[0]", None, "conv, skip") in found
    assert any(each.name == "op[1]" and "when case(depth: false, true)" in str(each.before) for each in found)
    sizes = [each for each in differences("(1, 2)", "(1, 2, 4)") if each.kind == "size"]
    assert sizes == [Difference("size", "", "architectures", "6", "22")]  # depth < 3 leaves six of them


def test_changed_constraint_shows_in_diff() -> None:
    assert kinds(differences("macs <= 1M", "macs <= 2M")) == {"constraint"}
    assert kinds(differences("depth < 3", "depth < 2")) == {"constraint", "size"}


def test_rewired_nodes_show_in_diff() -> None:
    found = differences("output y = x", "output y = image |> conv(width)")
    (output,) = (each for each in found if each.name == "y")
    assert str(output.after).startswith("output of conv")
    texts = [SPACE.replace("output y = x", f"z = x |> relu\n    output y = {pair}") for pair in ("x - z", "z - x")]
    (node,) = archir.diff(*map(archir.loads, texts))
    assert node.kind == "node"
    assert str(node.before).startswith("sub() of ")


def test_long_tables_are_cut(folder: Path) -> None:
    full = EXAMPLES / "full_attention" / "full_attention.arch"
    deep = EXAMPLES / "full_attention" / "deep.arch"
    assert "more; --all prints them" in run(full, deep, code=1).output
    assert "more; --all" not in run(full, deep, "--all", code=1).output


def test_rejects_incomparable_files(folder: Path) -> None:
    assert "cannot be compared" in run(folder / "deep.json", folder / "small.arch", code=2).stderr
    assert "--space needs" in run(*[folder / "small.arch"] * 2, "--space", folder / "small.arch", code=2).stderr
    (folder / "bad.json").write_text("{}")
    assert "A1001" in run(folder / "deep.json", folder / "bad.json", code=1).stderr
    space = archir.loads(SPACE)
    with pytest.raises(TypeError, match="cannot be compared"):
        archir.diff(space, space.sample(0))
