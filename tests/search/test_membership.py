"""Whether a network is an architecture of a space, and which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import archir
from archir.cli import main

SPACE = """
net space() {
    input x: f32[3, 8, 8]
    for i in 0..3 {
        x = x |> conv(choose width(4, 8, 12), kernel=choose kernel(1, 3)) |> relu
    }
    output y = x |> choose last { skip: identity, pool: max_pool(3, stride=1), act: tanh }
}
"""
NET = """
net network() {
    input x: f32[3, 8, 8]
    a = x |> conv(WIDTH, kernel=3) |> relu
    b = a |> conv(12, kernel=1) |> relu
    output y = b |> conv(4, kernel=3) |> relu |> LAST
}
"""


def network(width: int, last: str = "max_pool(3, stride=1)") -> str:
    return NET.replace("WIDTH", str(width)).replace("LAST", last)


def test_any_architecture_is_found() -> None:
    space = archir.loads(SPACE)
    found = archir.membership(space, archir.loads(network(8)))
    assert found.architecture is not None
    assert list(found.architecture.values()) == [8, 3, 12, 1, 4, 3, "pool"]
    assert not found.largest
    for seed in range(20):
        one = space.sample(seed)
        graph = space.specialize(one)
        again = archir.membership(space, archir.Space(graph))
        assert space.canonical(again.architecture) == space.canonical(one)  # type: ignore[arg-type]


def test_membership_reports_largest_and_rejects_foreign_networks() -> None:
    space = archir.loads(SPACE.replace(", act: tanh", ""))
    most = archir.loads("net n {\n input x: f32[3, 8, 8]\n" + " x = x |> conv(12, kernel=3) |> relu\n" * 3
                        + " output y = x |> max_pool(3, stride=1)\n}")  # fmt: skip
    assert archir.membership(space, most).largest
    for other in (network(6), network(8, "tanh")):
        found = archir.membership(space, archir.loads(other))
        assert found.architecture is None
        assert found.proved


@pytest.mark.parametrize("swapped", [False, True])
def test_diff_command_reports_membership(swapped: bool, tmp_path: Path) -> None:
    (tmp_path / "space.arch").write_text(SPACE)
    (tmp_path / "net.arch").write_text(network(8))
    (tmp_path / "other.arch").write_text(network(6))
    files = [str(tmp_path / name) for name in ("net.arch", "space.arch")]
    done = CliRunner().invoke(main, ["diff", *(files[::-1] if swapped else files)], catch_exceptions=False)
    assert done.exit_code == 0
    assert f"{files[0]} is an architecture of {files[1]}:" in done.output
    told = CliRunner().invoke(main, ["diff", *files, "--json"], catch_exceptions=False)
    assert json.loads(told.output)["architecture"]["last"] == "pool"
    other = CliRunner().invoke(main, ["diff", str(tmp_path / "other.arch"), files[1]], catch_exceptions=False)
    assert other.exit_code == 1
    assert f"no architecture of {files[1]} computes the same as {tmp_path / 'other.arch'}; the nearest" in other.output
    assert "conv(channels=6)" in other.output


def test_membership_reports_closest_architecture_and_differences() -> None:
    space = archir.loads(SPACE)
    found = archir.membership(space, archir.loads(network(6, "tanh")))
    assert found.architecture is None
    assert found.closest is not None
    labels = list(found.closest.values())
    assert labels[1:] == [3, 12, 1, 4, 3, "act"]
    assert [each.before for each in found.differences if each.scope == "conv"] == ["conv(channels=6) f32[6, 8, 8]"]
