"""Error messages of wrong programs: `wrong/NAME.arch` against `tests/golden/wrong/NAME.txt`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate

WRONG = Path(__file__).parent / "wrong"
PROGRAMS = sorted(WRONG.glob("*.arch"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_error_message_matches_golden_file(path: Path, golden: Callable[[str, str], None]) -> None:
    with pytest.raises(ArchError) as caught:
        elaborate(path.read_text(), path.name, folder=WRONG)
    golden(f"wrong/{path.stem}.txt", f"{caught.value}\n")


def test_there_are_at_least_100_wrong_programs() -> None:
    assert len(PROGRAMS) >= 100
