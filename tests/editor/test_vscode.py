"""The VS Code extension: its manifest's files exist and its snippets are valid programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from PIL import Image

from archir import __version__
from archir.tools.lsp.checking import Checker
from tests.conftest import ROOT
from tests.editor.textmate import EXTENSION

MANIFEST = json.loads((EXTENSION / "package.json").read_text("utf-8"))
SNIPPETS = json.loads((EXTENSION / "snippets" / "arch.json").read_text("utf-8"))


def named(value: Any) -> list[str]:
    """The files that a manifest names."""
    if isinstance(value, dict):
        return [file for one in value.values() for file in named(one)]
    if isinstance(value, list):
        return [file for one in value for file in named(one)]
    return [value] if isinstance(value, str) and value.startswith("./") else []


def test_manifest_names_existing_files() -> None:
    files = [file for file in named(MANIFEST) if file != MANIFEST["main"]]  # which bundle.mjs writes
    assert len(files) == 3
    assert [file for file in files if not (EXTENSION / file).is_file()] == []
    bundler = (EXTENSION / "bundle.mjs").read_text("utf-8")
    assert f'outfile: "{MANIFEST["main"].removeprefix("./")}"' in bundler
    assert MANIFEST["version"] == __version__
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_manifest_has_a_repository_and_an_icon_of_at_least_128_pixels() -> None:
    assert MANIFEST["repository"]["directory"] == EXTENSION.relative_to(ROOT).as_posix()
    with Image.open(EXTENSION / MANIFEST["icon"]) as icon:
        assert (icon.format, icon.width) == ("PNG", icon.height)
        assert icon.width >= 128


def expanded(snippet: dict[str, Any]) -> str:
    """A snippet as it is before anything is typed into it."""
    body = snippet["body"]
    return re.sub(r"\$\{\d+:([^}]*)\}", r"\1", body if isinstance(body, str) else "\n".join(body))


NET = "net tiny {\n    input image: f32[3, 8, 8]\n    x = image |> relu\n    {}\n    output y = x |> conv(8)\n}\n"


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_expand_to_valid_programs(name: str) -> None:
    text = expanded(SNIPPETS[name])
    if not re.match(r"net|block|cell", text):
        inside = {"A choice of operations": "x = image |> conv(16) |> {}", "A choice of values": "w = {}"}
        used = inside.get(name, "nodes = [image, x]\n    picked = {}" if name == "A choice of a few" else "{}")
        text = used.replace("{}", text.replace("\n", "\n    "))
        text = NET.replace("{}", text)
    elif not text.startswith("net"):
        text += "\n\nnet tiny {\n    input image: f32[3, 8, 8]\n    output y = image |> name\n}\n"
    assert Checker("tiny.arch").check(text) == ()


def test_language_patterns_match_words_and_indentation() -> None:
    language = json.loads((EXTENSION / "language-configuration.json").read_text("utf-8"))
    word = re.compile(language["wordPattern"])
    assert [one[0] for one in word.finditer("x |> conv_3(16, 1.5K) @tag")] == ["x", "conv_3", "16", "1.5K", "@tag"]
    rules = language["indentationRules"]
    deeper, shallower = (re.compile(rules[f"{one}IndentPattern"]) for one in ("increase", "decrease"))
    assert [line for line in ("net n {", "f(  # c", "x = (1)", "# {") if deeper.search(line)] == ["net n {", "f(  # c"]
    assert [line for line in ("    }", "  ) |> f", "x = y }") if shallower.search(line)] == ["    }", "  ) |> f"]
