"""Maps from the names of a file's weights to those of a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archir.backends.weight_names import RenamedWeights, parse, read
from archir.diagnostics.errors import ArchError
from archir.utils.globs import capture_stars, fill_stars

MAP = """
"layer*.conv.weight" = "blocks.*.0.weight"
"layer*.norm.*" = "blocks.*.1.*"
"stem" = "first"
"" = ["*.num_batches_tracked", "head.*"]
"linear.*" = ""
"""
FILE = ["blocks.0.0.weight", "blocks.11.0.weight", "blocks.0.1.scale", "blocks.0.1.num_batches_tracked", "first"]
FILE += ["head.weight", "same"]


def test_patterns_map_weight_names() -> None:
    names = parse(MAP.replace('blocks.*.1.*"', 'blocks.*.1.scale"').replace('norm.*" ', 'norm.scale" '), "map.toml")
    assert names.of(FILE) == {
        "layer0.conv.weight": "blocks.0.0.weight",
        "layer11.conv.weight": "blocks.11.0.weight",
        "layer0.norm.scale": "blocks.0.1.scale",
        "stem": "first",
        "same": "same",
    }
    assert names.keeps_initial("linear.weight")
    assert not names.keeps_initial("stem")
    assert "linear.weight" not in names.of([*FILE, "linear.weight"])


def test_one_source_weight_may_fill_two_targets() -> None:
    names = parse('[["a", "table"], ["b", "table"], ["", "x"]]', "map.json")
    assert names.of(["table", "x"]) == {"a": "table", "b": "table"}
    assert parse('{"a": "table", "": ["x"]}', "map.json").of(["table", "x"]) == {"a": "table"}


@pytest.mark.parametrize("text", ["a.b.c", "a..c", "a.b.b.c", "a.b.c.d.c"])
def test_captured_stars_refill_pattern(text: str) -> None:
    for pattern in ("a.*.c", "*", "a*", "*.*.*", "a.*c", "*b*"):
        pieces = capture_stars(pattern, text)
        assert pieces is None or fill_stars(pattern, pieces) == text
    assert capture_stars("a.*.b", "a.x.c") is None
    assert capture_stars("a.b.c", "a.b.c") == ()


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ('"a*" = "b"', "m.toml", r"m.toml:1:1.*A2220.*`a\*` and `b` have 1 and 0 stars"),
        ('"" = ""', "m.toml", "m.toml:1:1.*A2220.*two empty names"),
        ('"a" = 3', "m.toml", "m.toml:1:1.*A2220.*not two names"),
        ('"a" = "none"\n"b" = "nor.*"', "m.toml", r"(?s)`none`.*`nor\.\*`|stars"),
        ('"a" = "first"\n"b" = "none"\n"c" = "nothing"', "m.toml", r"(?s)m.toml:2:1.*`none`.*m.toml:3:1.*`nothing`"),
        ('"same" = "first"', "m.toml", "A2220.*`first` and `same` of the file are both named `same`"),
        ('"a" = ', "m.toml", "A2220.*not TOML"),
        ("[3]", "m.json", "A2220.*not two names"),
        ("3", "m.json", "A2220.*neither an object nor a list"),
        ("[" * 100_000, "m.json", "A2220.*not JSON"),
    ],
)
def test_rejects_invalid_weight_map(text: str, name: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        parse(text, name).of(FILE)


def test_rejects_unreadable_weight_map(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A2220.*cannot read the map"):
        read(tmp_path / "none.toml")
    (tmp_path / "map.json").write_text(json.dumps({"a": "b"}))
    assert read(tmp_path / "map.json").of(["b"]) == {"a": "b"}


def test_all_weight_mismatches_are_reported_together() -> None:
    names = parse('"a" = "x"\n"new*" = ""', "map.toml")
    given = {"a": (2,), "y": (3,)}
    problems = RenamedWeights("file", names, names.of(["x", "y"])).mismatches(
        {"a": (4,), "b": (1,), "new1": (1,)}, given
    )
    text = str(ArchError(*problems))
    assert "lacks 1 weights: `b`" in text
    assert "1 weights too many: `y`" in text
    assert "`x` in file, which is `a`, has shape [2], not [4]" in text
    assert "new1" not in text
