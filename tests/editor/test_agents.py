"""The MCP server: every tool through the official client, small answers, confined folders."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, StdioServerParameters

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.op import OPS
from archir.tools.mcp.answers import MAX_MESSAGE, MAX_PROBLEMS, MAX_TEXT
from archir.tools.mcp.server import language, libraries, make_server, operations
from archir.tools.mcp.tools import TOOLS, WRITING_TOOLS
from archir.utils.files import confined_to, read_bytes, write_atomic
from tests.conftest import EXAMPLES, ROOT

SPACE = """\
net small(classes = 10) {
    input image: f32[1, 8, 8]
    x = image |> conv(choose width(8, 16)) |> relu
    repeat choose depth(1, 2) {
        x = x |> conv(x.channels) |> relu
    }
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
WRONG = SPACE.replace("|> relu\n    repeat", "|> reluu\n    repeat")


def asked(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the official client is answered, call by call."""

    async def ask() -> list[dict[str, Any]]:
        async with Client(make_server([folder])) as client:
            return [(await client.call_tool(name, given)).structured_content or {} for name, given in calls]

    return asyncio.run(ask())


def answered(place: Path, name: str, /, **given: Any) -> dict[str, Any]:
    (found,) = asked(place, (name, given))
    return found


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with a space, beside one with a secret."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "space.arch").write_text(SPACE)
    (tmp_path / "secret.arch").write_text("const SECRET = 1\n" + SPACE)
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    return tmp_path / "room"


def test_every_tool_has_description_and_output_schema(room: Path) -> None:
    async def ask() -> Any:
        async with Client(make_server([room])) as client:
            return await client.list_tools()

    tools = {one.name: one for one in asyncio.run(ask()).tools}
    assert tools.keys() == TOOLS.keys()
    for name, one in tools.items():
        assert one.description
        assert {"ok", "problems"} <= one.output_schema["properties"].keys()
        assert "workspace" not in one.input_schema.get("properties", {})
        assert one.annotations.read_only_hint == (name not in WRITING_TOOLS)


def test_tools_check_fix_and_count_a_program(room: Path) -> None:
    """As an agent would: check, read, fix, look again, then count, cost, draw and show."""
    (first,) = asked(room, ("check", {"text": WRONG}))
    assert not first["ok"]
    (problem,) = first["problems"]
    assert (problem["code"], problem["line"], problem["column"]) == ("A0201", 3, 47)
    assert problem["source"].strip() == "x = image |> conv(choose width(8, 16)) |> reluu"
    assert "relu" in problem["hint"]
    fixed = answered(room, "fix", text=WRONG)
    assert fixed["ok"]
    assert fixed["text"] == SPACE
    assert fixed["changes"]
    assert not fixed["written"]
    checked = answered(room, "check", path="space.arch")
    assert checked["nets"] == [{"name": "small", "nodes": 12, "choices": 2}] or checked["nets"][0]["choices"] == 2
    counted = answered(room, "count", text=SPACE, where="macs <= 100K")
    assert counted["size"] == "4"
    space = archir.loads(SPACE)
    assert counted["within"] == [str(space.where("macs <= 100K").count()[0])]
    assert [one["path"] for one in counted["choices"]] == ["width", "depth"]
    costs = answered(room, "cost", path="space.arch")
    assert costs["ranges"]["params"] == {"least": 738, "greatest": 4_922}
    drawn = answered(room, "sample", path="space.arch", number=3, seed=1)["architectures"]
    assert len(drawn) == 3
    one = answered(room, "cost", path="space.arch", choices=drawn[0]["choices"])
    assert {name: one["costs"][name] for name in drawn[0]["costs"]} == drawn[0]["costs"]
    assert "conv" in answered(room, "show", path="space.arch")["text"]
    assert answered(room, "show", path="space.arch", form="svg", seed=0)["text"].startswith("<svg")
    assert "flowchart" in answered(room, "show", path="space.arch", form="mermaid")["text"]
    assert answered(room, "format", text=SPACE.replace("    ", " "))["text"] == SPACE


def test_documented_exchange_matches_the_server(room: Path) -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    asked_for, said = re.search(r"^check (\{[^\n]*\})\n(.*?)```", page, re.MULTILINE | re.DOTALL).groups()  # type: ignore[union-attr]
    (problem,) = answered(room, "check", **json.loads(asked_for))["problems"]
    for key in ("code", "message", "line", "column", "source", "hint"):
        assert f"{json.dumps(key)}: {json.dumps(problem[key])}" in said


def test_files_are_changed_only_with_write(room: Path) -> None:
    (room / "wrong.arch").write_text(WRONG)
    assert not answered(room, "fix", path="wrong.arch")["written"]
    assert (room / "wrong.arch").read_text() == WRONG
    assert answered(room, "fix", path="wrong.arch", write=True)["written"]
    assert (room / "wrong.arch").read_text() == SPACE
    (room / "wide.arch").write_text(SPACE.replace("    ", "  "))
    answered(room, "format", path="wide.arch", write=True)
    assert (room / "wide.arch").read_text() == SPACE
    assert answered(room, "fix", text=WRONG, write=True)["problems"][0]["code"] == "A2606"


def test_writing_tools_change_the_file_of_the_named_net(room: Path) -> None:
    name = SPACE.split("net ", 1)[1].split("(")[0].split()[0]
    (room / "wrong.arch").write_text(WRONG)
    (room / "wide.arch").write_text(SPACE.replace("    ", "  "))
    before = sorted(room.iterdir())
    assert answered(room, "fix", path=f"wrong.arch:{name}", write=True)["written"]
    answered(room, "format", path=f"wide.arch:{name}", write=True)
    assert (room / "wrong.arch").read_text() == (room / "wide.arch").read_text() == SPACE
    assert sorted(room.iterdir()) == before


def test_explain_tool_covers_codes_operations_and_blocks(room: Path) -> None:
    for what, said in {
        "A0201": "# A0201", "conv": "conv(x, channels", "std.cells": "block sep_conv(", "sep_conv": "import std.cells",
        "std.cells.sep_conv": "separable",
    }.items():  # fmt: skip
        found = answered(room, "explain", what=what)
        assert found["ok"], what
        assert said in found["text"], what
    (problem,) = answered(room, "explain", what="convv")["problems"]
    assert "conv" in problem["hint"]


def test_status_tool_lists_runs(room: Path) -> None:
    (room / "runs").mkdir()
    assert answered(room, "status")["runs"] == []
    (room / "recipe.toml").write_text(
        'space = "space.arch"\nexport = false\ndata = { source = "digits", limit = 60 }\n\n'
        '[[phase]]\nname = "train"\nstrategy = "random"\noptions = { trials = 2, scorer = { kind = "proxies" }, '
        'objectives = ["naswot:max"] }\n'
    )
    archir.run(room / "recipe.toml", room / "runs" / "first", device="cpu")
    (found,) = answered(room, "status")["runs"]
    assert (found["name"], found["state"], found["phase"]) == ("first", "finished", "train")
    assert answered(room, "status", folder="runs/first")["runs"] == [found]
    (room / "runs" / "first" / "link").symlink_to(room.parent / "secret.json")
    assert "is a symbolic link" in answered(room, "status")["problems"][0]["message"]


@pytest.fixture
def outside(room: Path) -> Path:
    (room / "link.arch").symlink_to(room.parent / "secret.arch")
    (room / "folder").symlink_to(room.parent)
    (room / "imports.arch").write_text('import "../secret.arch"\n' + SPACE)
    (room / "through.arch").write_text('import "folder/secret.arch"\n' + SPACE)
    (room / "linked.arch").write_text('import "link.arch"\n' + SPACE)
    table = SPACE.replace("\n}\n", '\n    require latency("../secret.json") <= 1ms\n}\n')
    (room / "table.arch").write_text(table)
    (room / "absolute.arch").write_text(table.replace("../secret.json", str(room.parent / "secret.json")))
    return room


PATHS = ["../secret.arch", "link.arch", "folder/secret.arch", "/etc/passwd", "", "a\0b", "x" * 5000, ".", "\ud800"]


@pytest.mark.parametrize("tool", ["check", "fix", "format", "count", "cost", "sample", "show"])
def test_rejects_paths_outside_served_folders(tool: str, outside: Path) -> None:
    paths = [*PATHS, str(outside.parent / "secret.arch")]
    for path, found in zip(paths, asked(outside, *((tool, {"path": path}) for path in paths)), strict=True):
        assert not found["ok"], path
        assert "SECRET" not in json.dumps(found), path
        assert not any(word in json.dumps(found) for word in ("root:", "Traceback")), path


@pytest.mark.parametrize("name", ["imports", "through", "linked", "table", "absolute"])
def test_programs_cannot_read_files_outside_served_folders(name: str, outside: Path) -> None:
    tools = ("check", "count", "cost", "fix")
    for tool, found in zip(tools, asked(outside, *((one, {"path": f"{name}.arch"}) for one in tools)), strict=True):
        assert not found["ok"], tool
        assert "SECRET" not in json.dumps(found)


def test_program_text_reads_only_library_files(outside: Path) -> None:
    assert not answered(outside, "check", text='import "space.arch"\n' + SPACE)["ok"]
    assert answered(outside, "check", text="import std.cells\n" + SPACE)["ok"]
    table = f'latency("{outside.parent / "secret.json"}") <= 1ms'
    found = answered(outside, "count", text=SPACE, where=table)
    assert not found["ok"]
    assert "outside" in found["problems"][0]["message"]


@pytest.mark.parametrize("folder", ["..", "folder", "/", "missing"])
def test_status_rejects_folders_outside(folder: str, outside: Path) -> None:
    assert not answered(outside, "status", folder=folder)["ok"]


def test_writing_tools_do_not_write_outside(outside: Path) -> None:
    before = (outside.parent / "secret.arch").read_text()
    for path in ("link.arch", "../secret.arch", "folder/secret.arch"):
        for tool in WRITING_TOOLS:
            assert not answered(outside, tool, path=path, write=True)["ok"]
    assert (outside.parent / "secret.arch").read_text() == before


def test_confined_reads_reject_links_and_outside_paths(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("in/a", "b"):
        (tmp_path / name).write_text("text")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "b")
    with confined_to([tmp_path / "in"]):
        assert read_bytes(tmp_path / "in" / "a", 10) == b"text"
        for path in (tmp_path / "b", tmp_path / "in" / "link", tmp_path / "in" / ".." / "b"):
            with pytest.raises(OSError, match="outside"):
                read_bytes(path, 10)
            with pytest.raises((OSError, ArchError)):
                write_atomic(path, b"other")
    assert (tmp_path / "b").read_text() == "text"


def test_rejects_file_exchanged_while_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("mine")
    (tmp_path / "b").write_text("secret")
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened(tmp_path / "b", *rest, **more))
    with confined_to([tmp_path / "in"]), pytest.raises(OSError, match="exchanged"):
        read_bytes(tmp_path / "in" / "a", 10)


HOSTILE = {
    "deep": "net n { input x: f32[1]\n output y = " + "(" * 5000 + "x" + ")" * 5000 + "}",
    "long": "net n { input x: f32[1]\n" + "y = x |> relu\n" * 60_000 + "output z = y }",
    "work": "net n { input x: f32[1]\n for i in 0..1000000 { x = x |> relu }\n output y = x }",
    "many": "net n { input x: f32[1]\n" + "".join(f"y{i} = z{i}\n" for i in range(500)) + "output y = x }",
    "name": "net n { input x: f32[1]\n output y = x |> \u202e\x1b[31m }",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_get_small_answers(name: str, room: Path) -> None:
    asking = [("check", {"text": HOSTILE[name]}), ("count", {"text": HOSTILE[name]}), ("check", {"text": SPACE})]
    *wrong, right = asked(room, *asking)
    for found in wrong:
        assert not found["ok"]
        assert len(found["problems"]) <= MAX_PROBLEMS
        assert len(json.dumps(found)) < 3 * MAX_TEXT
        assert "\x1b" not in json.dumps(found, ensure_ascii=False)
    assert right["ok"]
    assert name != "many" or wrong[0]["more"] > 0


def test_messages_stay_short_for_long_names(room: Path) -> None:
    for given in ({"text": SPACE.replace("relu", "a" * 100_000)}, {"path": "space.arch", "where": "a" * 100_000}):
        problems = answered(room, "count", **given)["problems"]
        assert problems
        assert all(len(one["message"]) <= MAX_MESSAGE + 3 for one in problems)


@pytest.mark.parametrize("tool", ["check", "fix"])
def test_long_request_times_out_and_next_is_answered(tool: str, room: Path) -> None:
    """Each net of a text is checked within a budget of its own, so that many of them would take minutes."""
    many = "\n".join(f"net n{i} {{ input x: f32[4]\n output y = x |> relu }}" for i in range(5_000))

    async def ask() -> list[dict[str, Any]]:
        async with Client(make_server([room], seconds=0.2)) as client:
            asking = [(tool, {"text": many}), ("explain", {"what": "A0602"})]
            return [(await client.call_tool(name, given)).structured_content or {} for name, given in asking]

    ended, after = asyncio.run(ask())
    assert not ended["ok"]
    assert "A0602" in {one["code"] for one in ended["problems"]}
    assert after["ok"]


def test_long_answers_are_truncated(room: Path) -> None:
    found = answered(room, "show", text=(EXAMPLES / "resnet50.arch").read_text(), form="svg")
    assert found["ok"]
    assert len(found["text"]) <= MAX_TEXT


def test_language_page_programs_are_valid() -> None:
    for program in re.findall(r"```arch\n(.*?)```", language(), re.DOTALL):
        assert archir.loads(program).size > 1
    headings = re.findall(r"```arch\n(\w+)\(", operations())
    assert headings == sorted(name for name in OPS if not OPS[name].internal)
    assert "sep_conv" in libraries()


def test_documentation_pages_are_mcp_resources(room: Path) -> None:
    async def ask() -> list[str]:
        async with Client(make_server([room])) as client:
            listed = {str(one.uri) for one in (await client.list_resources()).resources}
            return [(await client.read_resource(uri)).contents[0].text for uri in sorted(listed)]

    assert len(asyncio.run(ask())) == 3


def test_mcp_command_serves_over_stdio(room: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "archir", "mcp", str(room)])

    async def ask() -> dict[str, Any]:
        async with Client(server) as client:
            return (await client.call_tool("check", {"path": "space.arch"})).structured_content or {}

    assert asyncio.run(ask())["ok"]
