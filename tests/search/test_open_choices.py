"""Choices opened by patterns, and choices fixed by an architecture and labels."""

from __future__ import annotations

from typing import Any

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.open_choices import fix_choices, fixed_architecture

SPACE = archir.loads("""
net three() {
    input x: f32[3]
    a = choose a(1, 2, 3)
    b = choose b(4, 5)
    output y = x |> linear(a) |> linear(b) |> linear(choose last(1, 2))
}
""")


def test_labels_override_architecture_for_fixed_choices() -> None:
    found = fix_choices(SPACE, ["last"], {"a": 2}, {"a": 1, "b": 5, "last": 2})
    assert found.fixed_outcomes == {"a": 1, "b": 1}, "labels count more than an architecture"
    assert [choice.path for choice in found.space.choices] == ["last"]
    assert found.space.size == 2


@pytest.mark.parametrize(("label", "outcome"), [("largest", 2), ("smallest", 0), (2, 1)])
def test_a_label_may_be_an_extreme(label: Any, outcome: int) -> None:
    assert fix_choices(SPACE, ["b", "last"], {"a": label}, None).fixed_outcomes == {"a": outcome}


def test_opening_all_choices_keeps_space() -> None:
    found = fix_choices(SPACE, ["*"], {"a": 2}, {"b": 5})
    assert found.fixed_outcomes == {}
    assert found.space is SPACE


def test_without_open_pattern_labels_fix_named_choices() -> None:
    found = fix_choices(SPACE, None, {"a": 2}, {"b": 5})
    assert found.fixed_outcomes == {"a": 1}, "what they do not name stays open, whatever an architecture says"
    assert [choice.path for choice in found.space.choices] == ["b", "last"]
    assert fix_choices(SPACE, None, {"*": "largest"}, None).fixed_outcomes == {"a": 2, "b": 1, "last": 1}
    assert fix_choices(SPACE, None, {}, {"b": 5}).space is SPACE


def test_unknown_label_is_rejected_with_alternatives() -> None:
    words = archir.loads(
        "net n() {\n input x: f32[3]\n output y = x |> choose op { relu: relu, gelu: gelu, skip: identity }\n}"
    )
    for open_ in (None, ()):
        with pytest.raises(ArchError) as caught:
            fix_choices(words, open_, {"op": "skipp"}, None)
        assert "A2204" in str(caught.value)
        assert "hint: did you mean `skip`? There are `relu`, `gelu` and `skip`" in str(caught.value)
    with pytest.raises(ArchError, match=r"(?s)A2204.*no alternative \['a'\].*hint: there are `relu`"):
        fix_choices(words, None, {"op": ["a"]}, None)
    assert fix_choices(words, ["op"], {"op": "skipp"}, None).fixed_outcomes == {}


@pytest.mark.parametrize(
    ("labels", "architecture", "message"),
    [
        ({}, {"a": 7, "b": 9}, r"(?s)A2204.*`a` has no alternative 7.*A2204.*`b` has no alternative 9"),
        ({"a": 7, "b": "small"}, None, r"(?s)A2204.*`a` has no alternative 7.*`b` has no alternative 'small'"),
        ({"c": 1}, None, r"(?s)A2203.*`c` names no choice of `three`"),
        ({"a": 1}, None, r"A2208.*`b` of `three` is neither searched nor fixed"),
        ({}, None, r"A2208.*`a`, `b` of"),
    ],
)
def test_rejects_wrong_or_missing_labels_for_fixed_choices(
    labels: dict[str, Any], architecture: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(ArchError, match=message):
        fix_choices(SPACE, ["last"], labels, architecture)


def test_fixed_architecture_combines_labels_and_architecture() -> None:
    assert dict(fixed_architecture(SPACE, {"*": "largest", "a": 1}, None)) == {"a": 1, "b": 5, "last": 2}
    assert dict(fixed_architecture(SPACE, {"b": 4}, {"a": 1, "b": 5, "last": 2})) == {"a": 1, "b": 4, "last": 2}
    with pytest.raises(ArchError, match=r"(?s)A2208.*`a`, `last` of.*hint: set `fixed"):
        fixed_architecture(SPACE, {"b": 4}, None)
