"""Every diagnostic has a stable code and a page whose examples are correct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.diagnostics.explain import codes, page, title
from archir.language.elaboration.elaborate import elaborate
from tests.conftest import GOLDEN, ROOT

WRONG = ROOT / "tests" / "language" / "wrong"
ALONE = {"A0105", "A0107", "A0511", "A0605", "A0607", "A0802", "A0807", "A0809"}
"""Codes of the language that no single small file shows; they are tested where they arise."""

WARNINGS = {code for code in codes() if code.startswith("A14")}
"""Codes of what is well-formed; `tests/language/test_lint.py` looks at their pages."""


def used() -> set[str]:
    files = [*(ROOT / "archir").rglob("*.py"), *(ROOT / "backends").rglob("*.py")]
    return {code for file in files for code in re.findall(r'"(A\d{4})"', file.read_text())}


def examples(code: str) -> list[str]:
    return re.findall(r"```arch\n(.*?)```", page(code), re.DOTALL)


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert set(codes()) == used()
    assert all(title(code) for code in codes())


def test_every_language_code_has_golden_message_or_example() -> None:
    said = {code for file in (GOLDEN / "wrong").glob("*.txt") for code in re.findall(r"\[(A\d{4})\]", file.read_text())}
    shown = said | {code for code in codes() if examples(code)}
    assert {code for code in codes() if code < "A07" or "A08" <= code < "A09"} - ALONE <= shown


@pytest.mark.parametrize("code", [code for code in codes() if examples(code) and code not in WARNINGS])
def test_page_examples_fail_and_pass_as_stated(code: str) -> None:
    wrong, right = examples(code)
    with pytest.raises(ArchError) as caught:
        elaborate(wrong, "wrong.arch", folder=WRONG)
    assert code in {diagnostic.code for diagnostic in caught.value.diagnostics}
    if "net " in right:
        elaborate(right, "right.arch", folder=WRONG)


def test_an_unknown_code_is_a_diagnostic() -> None:
    with pytest.raises(ArchError, match=r"A1201.*there is no diagnostic `A0491`"):
        page("A0491")


def test_diagnostic_spans_lie_within_the_file() -> None:
    for path in sorted(Path(WRONG).glob("*.arch")):
        with pytest.raises(ArchError) as caught:
            elaborate(path.read_text(), path.name, folder=WRONG)
        for diagnostic in caught.value.diagnostics:
            assert diagnostic.message
            if diagnostic.span is not None:
                assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(diagnostic.span.source.text)
