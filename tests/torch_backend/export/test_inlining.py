"""Lowering rules inlined as expressions once constants and axes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from archir_torch.export.source.inlining import expression, specialise_rule


def by_mode(x: Any, *, mode: str) -> Any:
    if mode == "add":
        return x + 1
    return x * 2


def by_axes(x: Any) -> Any:
    if x.dim() == 3:
        return x.mean(1)
    return x.mean((2, 3))


def by_unknown(x: Any, y: Any) -> Any:
    if y.dim() > 2:
        return x
    if x > y:
        return x
    return y


def by_both(x: Any, *, one: bool, other: bool) -> Any:
    if one and other:
        return x.both()
    if one or other:
        return x.either()
    return x.neither()


def of_sizes(x: Any, *, sizes: Any) -> Any:
    rows, columns = sizes
    return x.reshape(-1, rows, *sizes, columns)


def of_many(*values: Any) -> Any:
    return values


def of_each(x: Any) -> Any:
    return sum(one for one in x)


def of_a_name(x: Any) -> Any:
    y = x + 1
    return y


def of_nothing(x: Any, *, some: bool) -> Any:
    if some:
        return x
    return None if some else x.tail()


def never(x: Any, *, some: bool) -> Any:
    if some:
        return x
    raise ValueError(x)


def chosen(x: Any, y: Any, *, bias: float | None) -> Any:
    return x + y if bias is None else x + y + bias


def asked(x: Any, y: Any) -> Any:
    return x if y else -x


@pytest.mark.parametrize(
    ("rule", "operands", "values", "text"),
    [
        (by_mode, ["a.b"], {"mode": "add"}, "a.b + 1"),
        (by_mode, ["a"], {"mode": "twice"}, "a * 2"),
        (by_axes, ["a"], {}, "a.mean((2, 3))"),
        (by_both, ["a"], {"one": True, "other": True}, "a.both()"),
        (by_both, ["a"], {"one": False, "other": True}, "a.either()"),
        (by_both, ["a"], {"one": False, "other": False}, "a.neither()"),
        (of_sizes, ["a"], {"sizes": (2, 3)}, "a.reshape(-1, 2, 2, 3, 3)"),
        (of_sizes, ["a"], {"sizes": (2, 3, 4)}, None),
        (of_sizes, ["a"], {"sizes": 2}, None),
        (of_nothing, ["a"], {"some": False}, "a.tail()"),
        (chosen, ["a", "b"], {"bias": None}, "a + b"),
        (chosen, ["a", "b"], {"bias": -1.5}, "a + b + -1.5"),
        (asked, ["a", "b"], {}, None),
        (by_mode, ["a", "b"], {"mode": "add"}, None),
        (of_many, ["a"], {}, None),
        (of_each, ["a"], {}, None),
        (of_a_name, ["a"], {}, None),
        (never, ["a"], {"some": False}, None),
    ],
)
def test_rule_becomes_expression_when_constants_decide(
    rule: Callable[..., Any], operands: list[str], values: dict[str, Any], text: str | None
) -> None:
    assert expression(rule, operands, [4] * len(operands), values) == text


def test_number_of_axes_selects_expression() -> None:
    assert expression(by_axes, ["a"], [3], {}) == "a.mean(1)"
    assert expression(by_unknown, ["a", "b"], [2, 3], {}) == "a"
    assert expression(by_unknown, ["a", "b"], [3, 2], {}) is None


def test_specialized_rule_keeps_remaining_branches() -> None:
    assert specialise_rule(by_mode, [4], {"mode": "add"}) == "def by_mode(x: Any) -> Any:\n    return x + 1"
    assert specialise_rule(by_mode, [4], {"mode": "twice"}).endswith("-> Any:\n    return x * 2")
    assert specialise_rule(by_axes, [4], {}) == "def by_axes(x: Any) -> Any:\n    return x.mean((2, 3))"
    assert "if one and other" in specialise_rule(by_both, [4], {"one": True}), "what nothing decides stays whole"
