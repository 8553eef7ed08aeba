"""TOML reading: every key has a source position, overrides and writing keep the data."""

from __future__ import annotations

import tomllib
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archir.diagnostics.errors import ArchError
from archir.utils.toml import Document, apply_overrides, dump_toml, parse_toml
from tests.conftest import EXAMPLES

RECIPES = sorted(EXAMPLES.rglob("*.toml"))


def shown(text: str) -> dict[str, str]:
    return {".".join(map(str, path)): span.text for path, span in parse_toml(text, "x.toml", "A2201").spans.items()}


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def assert_places_hold(document: Document) -> None:
    """The text of each place says the value that is at its path."""
    for path, span in document.spans.items():
        if span.text.startswith("["):
            continue  # a header, or a list in a list
        wanted = at(document.data, path)
        if isinstance(path[-1], int):
            assert tomllib.loads(f"x = {span.text}")["x"] == wanted
            continue
        found: Any = tomllib.loads(span.text)
        while found != wanted:  # a dotted key
            (found,) = found.values()
    known = {path[:length] for path in document.spans for length in range(len(path) + 1)}
    assert known >= set(paths(document.data))


def paths(value: Any, base: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*base, key), *paths(item, (*base, key)))]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_keys_of_recipes_have_positions(path: Path) -> None:
    assert_places_hold(parse_toml(path.read_text("utf-8"), path.name, "A2201"))


def test_keys_in_all_toml_syntax_have_positions() -> None:
    text = '''# a comment = 1
a.b."c d" = [1, [2, 3] , { x = 1, y.z = "}" },
  # ] a comment in a list
  """ "quoted" # no comment """, 'C:\\' ]
'k'.m = """a
[no.header]
b = \\"""  and "" x"""" # a comment
e = ''
[[p]]
n = 0xF
'''
    text += "[p.q]\nz = -1.5e3  # no date\n[[p.r]]\nw = inf\n[[p.r]]\r\nw = 2\r\n[[p]]\n[p.q]\nz = true\n[s.t]"
    document = parse_toml(text, "x.toml", "A2201")
    assert_places_hold(document)
    first, second = document.data["p"]
    assert first == {"n": 15, "q": {"z": -1500.0}, "r": [{"w": inf}, {"w": 2}]}
    assert second == {"q": {"z": True}}
    found = shown(text)
    assert found["a.b.c d.2.y.z"] == 'y.z = "}"'
    assert (found["p.0.q.z"], found["p.1.q.z"]) == ("z = -1.5e3", "z = true")
    assert (found["p.0.r.0.w"], found["p.0.r.1.w"]) == ("w = inf", "w = 2")
    assert (found["e"], found["s.t"]) == ("e = ''", "[s.t]")


KEYS = st.sampled_from(["a", "b", "c-d", '"e.f"', "'g'", "a.b", ' "x" . y '])
VALUES = st.recursive(
    st.sampled_from(["1", "-2.5", "true", '"a # b"', "'[x]'", '"""\n]"""', "'''it's'''", '"\\""']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ " + ", # ]\n ".join(items) + " ]"),
        inner.map("{{ k = {0}, l.m = {0} }}".format),
    ),
    max_leaves=6,
)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    KEYS.map(lambda key: f"[ {key} ] # table"),
    KEYS.map(lambda key: f"[[{key}]]"),
    st.just("# comment = 1"),
)


@given(st.lists(LINES, max_size=8))
def test_keys_of_random_documents_have_positions(lines: list[str]) -> None:
    try:
        document = parse_toml("\n".join(lines), "x.toml", "A2201")
    except ArchError:
        return
    assert_places_hold(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1 2", "x.toml:1:7: error[A2201]: this is not TOML"),
        ("a = 1\nb = [1,", "x.toml:2:7: error[A2201]: this is not TOML"),
        (f"a = 1\nb = {'9' * 5000}", "x.toml:2:5: error[A2201]: this number is too long"),
        (f"b = 0x{'9' * 5000}", "x.toml:1:1: error[A2201]: this number is too long"),
        ('a = "\\u0000"', "x.toml:1:1: error[A2201]: this text has control characters: '\\x00'"),
        ('t = { "\\u001b[31m" = 1 }', "x.toml:1:1: error[A2201]: this key has control characters: '\\x1b[31m'"),
        ("a = 1979-05-27", "x.toml:1:1: error[A2201]: a date cannot be the value of a setting"),
        (f"a = {'[' * 60}{']' * 60}", "x.toml nests tables and lists deeper than 40 levels"),
        (f"a = {'[' * 9000}{']' * 9000}", "x.toml nests tables and lists deeper than 40 levels"),
        (f"{'a.' * 9000}b = 1", "x.toml nests tables and lists deeper than 40 levels"),
        (f"a = '{'x' * 2**20}'", "x.toml is longer than 1,048,576 characters"),
    ],
    ids=range(11),
)
def test_rejects_invalid_or_oversized_toml_with_position(text: str, said: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_toml(text, "x.toml", "A2201")
    assert said in str(caught.value)


def test_overrides_replace_and_add_settings_with_positions() -> None:
    document = parse_toml('a = 1\n[[phase]]\nname = "one"\n[[phase]]\nname = "two"\nb.c = 2\n', "x.toml", "A2201")
    found = apply_overrides(document, {"a": "[1, 2]", "two.b.c": "text", "two.d.e": "'1'", "f": "1\ng = 2"}, "A1109")
    assert found.data["phase"] == [{"name": "one"}, {"name": "two", "b": {"c": "text"}, "d": {"e": "1"}}]
    assert (found.data["a"], found.data["f"]) == ([1, 2], "1\ng = 2")
    assert str(found.span(("phase", 1, "b", "c"))) == "command line:1:1"
    assert str(found.span(("phase", 1, "name"))) == "x.toml:5:1"
    assert document.data["phase"][1] == {"name": "two", "b": {"c": 2}}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_edited_text_of_overrides_parses_to_overridden_data(path: Path) -> None:
    document = parse_toml(path.read_text("utf-8"), path.name, "A2201")
    first = next((str(one["name"]) for one in document.data.get("phase", ())), "")
    new = {"new": "1", "data.new": '"a"', f"{first}.new.a": "[1]", f"{first}.training.new": "2"}
    leaves = [key for key, value in document.data.items() if not isinstance(value, dict | list)]
    found = apply_overrides(document, new | dict.fromkeys(leaves, "3") | {f"{first}.strategy": "other"}, "A1109")
    assert tomllib.loads(edited(found)) == found.data


def edited(document: Document) -> str:
    parts, at = [], 0
    for start, end, new in sorted(document.edits(), key=lambda edit: edit[:2]):
        parts += [document.source.text[at:start], new]
        at = end
    return "".join([*parts, document.source.text[at:]])


@pytest.mark.parametrize(("key", "value", "said"), [
    ("a.b", "1", "command line:1:1: error[A1109]: `a` is not a table\n    a.b=1\n    ^^^"),
    ("phase.b", "1", "command line:1:1: error[A1109]: `phase` is not a table"),
    ("a", '"\\u0007"', "command line:1:1: error[A1109]: this text has control characters"),
])  # fmt: skip
def test_rejects_overrides_of_non_tables_and_control_characters(key: str, value: str, said: str) -> None:
    document = parse_toml("a = 1\nphase = []\n", "x.toml", "A2201")
    with pytest.raises(ArchError) as caught:
        apply_overrides(document, {key: value}, "A1109")
    assert said in str(caught.value)


def test_override_of_phase_list_gets_hint_with_phase_names() -> None:
    document = parse_toml('[[phase]]\nname = "one"\n[[phase]]\nname = "two"\n', "x.toml", "A2201")
    with pytest.raises(ArchError) as caught:
        apply_overrides(document, {"phase.two.b.c": "1"}, "A1109")
    hint = "settings of a phase are `PHASE.KEY`, such as `two.b.c`; there are `one` and `two`"
    assert [one.hint for one in caught.value.diagnostics] == [hint]


def test_dumped_toml_has_sections_and_inline_tables() -> None:
    data = {
        "phase": [{"name": "a", "options": {"trials": 3, "x y": [1.5, 2]}}, {"name": "b"}],
        "data": {"source": "digits"}, "title": 'a "b"', "empty": [], "seed": None,
    }  # fmt: skip
    text = dump_toml(data)
    assert text == (
        'title = "a \\"b\\""\nempty = []\n\n[data]\nsource = "digits"\n\n[[phase]]\nname = "a"\n'
        'options = { trials = 3, "x y" = [1.5, 2] }\n\n[[phase]]\nname = "b"\n'
    )
    assert tomllib.loads(text) == {name: value for name, value in data.items() if value is not None}
