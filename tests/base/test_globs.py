"""Patterns with stars: what they match, and that many stars take no longer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archir.utils.globs import matches


@pytest.mark.parametrize(
    ("pattern", "text", "right"),
    [
        ("", "", True), ("", "a", False), ("*", "", True), ("*", "anything", True), ("a", "a", True),
        ("a", "ab", False), ("a*", "a\n", True),
        ("stage[*].op", "stage[12].op", True), ("stage[*].op", "stage[12].opt", False), ("*.op", "stage[0].op", True),
        ("a*a", "a", False), ("a*a", "aa", True), ("**", "x", True), ("a*b*c", "abbc", True), ("a*b*c", "acb", False),
        ("[ab]", "a", False), ("[ab]", "[ab]", True), ("?", "a", False), ("stem.*", "stem\n.x", False),
    ],
)  # fmt: skip
def test_glob_matches_examples(pattern: str, text: str, right: bool) -> None:
    assert matches(pattern, text) is right


@given(st.text("ab*[.", max_size=12), st.text("ab[.", max_size=14))
def test_glob_equals_regular_expression(pattern: str, text: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(pattern, text) == bool(re.fullmatch(expression, text, re.DOTALL))


@pytest.mark.timeout(20)
def test_many_stars_take_no_exponential_time() -> None:
    """A regular expression takes 2^25 steps for the first, and more than anybody waits for the others."""
    for stars in (25, 1000, 100_000):
        assert not matches("a*" * stars + "b", "a" * (2 * stars))
        assert matches("a*" * stars, "a" * (2 * stars))
