"""Programs and figures of the documentation."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from archir.build.elaborate import elaborate
from archir.build.static import FOLDS, FUNCTIONS
from archir.ir.op import OPS
from archir.search.space import Space
from tests.conftest import EXAMPLES, ROOT

PROGRAMS = [
    (path, text)
    for path in sorted((ROOT / "docs").rglob("*.md"))
    for text in re.findall(r"```arch\n(.*?)```", path.read_text(), re.DOTALL)
]


@pytest.mark.parametrize(("path", "text"), PROGRAMS, ids=lambda value: value.stem if isinstance(value, Path) else "")
def test_programs(path: Path, text: str) -> None:
    assert Space(elaborate(text, path.name)).size > 1


def test_every_operation_and_function_is_documented() -> None:
    operations, language = (ROOT / "docs" / "operations.md").read_text(), (ROOT / "docs" / "language.md").read_text()
    for name, op in OPS.items():
        if not op.internal:
            assert re.search(rf"`{name}\b", operations), name
            assert all(re.search(rf"\b{f.name}\b", operations) for f in fields(op)), name
    assert all(f"`{name}" in language for name in [*FUNCTIONS, *FOLDS])


def test_the_figures_of_the_full_attention_readme_are_tested() -> None:
    tested = (ROOT / "tests" / "test_full_attention.py").read_text()
    for figure in re.findall(r"(?<!,)\b\d,\d{3},\d{3}\b(?!,)", (EXAMPLES / "full_attention" / "README.md").read_text()):
        assert figure.replace(",", "_") in tested, figure
