"""`archir check --lint` finds mistakes planted in the examples, at the right line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import EXAMPLES
from tests.examples import linted
from tests.language.mistakes import load_mistakes


@pytest.mark.parametrize(("table", "least"), [("first", 97), ("later", 97)])
def test_nearly_all_planted_mistakes_are_reported(table: str, least: int, tmp_path: Path) -> None:
    """At the right line, with the right words, by `archir check --lint`: so many of a hundred."""
    mistakes = load_mistakes(table)
    missed = []
    for mistake in mistakes:
        right, said = mistake.is_reported(tmp_path)
        if not right:
            missed.append(f"{mistake.file}:{mistake.line}: {mistake.new!r}\n{said}")
    assert len(mistakes) - len(missed) >= least / 100 * len(mistakes), "\n\n".join(missed)


def test_tables_have_at_least_150_distinct_mistakes() -> None:
    assert len({(m.file, m.old, m.new) for table in ("first", "later") for m in load_mistakes(table)}) >= 150


@pytest.mark.parametrize("file", sorted({m.by or m.file for m in load_mistakes("first")} - {"nos/nos.arch"}))
def test_unmodified_examples_give_no_other_warning_than_a1401(file: str) -> None:
    """But that alternatives of some published spaces cost very different amounts, which is so."""
    assert {warning.code for warning in linted(EXAMPLES / file)} <= {"A1401"}
