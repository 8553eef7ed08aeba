"""Mistakes planted in the examples are found, and `archir check --fix` repairs most of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from archir.cli import main
from archir.language.formatter import canonical
from archir.tools.fixing.repair import repair_text
from archir.tools.lsp.checking import Checker
from tests.editor.planting import KINDS, Planted, plant

WRONG = """block conv_relu(x, width) {
    return x |> conv(width 3) |> batchnorm |> relu
}

net tiny {
    input image: f32[3, 32, 32]
    x = image |> conv_relu((32)
    output logits = x |> global_avg_pool |> linear(10)
}
"""
RIGHT = WRONG.replace("width 3", "width, 3").replace("batchnorm", "batch_norm").replace("((", "(")


def mended(mistake: Planted) -> tuple[bool, bool, bool]:
    """Whether it is found, whether it is mended to what checks, and whether that is the original."""
    place = Checker(str(mistake.path), mistake.path.parent)
    repair = repair_text(mistake.text, place.name, place.check, place.check_names)
    assert len(repair.remaining) < len(mistake.diagnose()) or repair.text == mistake.text
    same = not repair.remaining and canonical(repair.text) == canonical(mistake.original)
    return mistake.is_reported(), not repair.remaining, same


def told(kinds: dict[str, int]) -> Counter[str]:
    """How many of so many mistakes of each kind are found, mended, and mended to the original."""
    total: Counter[str] = Counter()
    for kind, many in kinds.items():
        for seed in range(many):
            found, checks, same = mended(plant(seed, kind))
            total.update(all=1, found=found, mended=checks, same=same)
    return total


def test_fix_repairs_most_of_a_few_mistakes() -> None:
    found = told({"deleted": 1, "doubled": 1, "swapped": 1, "name": 1, "heads": 1, "arity": 1})
    assert found["found"] == found["all"]
    assert found["mended"] >= 0.7 * found["all"]
    assert found["same"] >= 0.5 * found["mended"]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_fix_repairs_most_of_five_hundred_mistakes() -> None:
    """All are found at the right line; 70% mended to what checks, half of these to what was there before."""
    found = told({kind: 500 // len(KINDS) + (n < 500 % len(KINDS)) for n, kind in enumerate(KINDS)})
    print(dict(found))
    assert found["all"] == 500
    assert found["found"] == 500
    assert found["mended"] >= 350
    assert found["same"] >= 0.5 * found["mended"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    return result.exit_code, result.output + result.stderr


def test_fix_writes_file_once(tmp_path: Path) -> None:
    file = tmp_path / "net.arch"
    file.write_text(WRONG)
    code, output = run("check", "--fix", str(file))
    assert code == 0, output
    assert "+    return x |> conv(width, 3) |> batch_norm |> relu" in output
    assert file.read_text() == RIGHT
    before = file.stat().st_mtime_ns
    code, output = run("check", "--fix", str(file))
    assert code == 0
    assert "nothing was fixed" not in output
    assert file.stat().st_mtime_ns == before


def test_unfixable_file_is_left_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "net.arch"
    file.write_text("there is nothing here that is a program\nat all, not even nearly\n")
    code, output = run("check", "--fix", str(file))
    assert code == 1
    assert "nothing was fixed" in output
    assert file.read_text().startswith("there is nothing here")


def test_fix_rejects_standard_input() -> None:
    assert run("check", "--fix", "-")[0] == 2


@settings(max_examples=8)
@given(st.data())
def test_fix_reduces_problems_or_keeps_text(data: st.DataObject) -> None:
    """Two mistakes at once: fewer are left, or the text is the same."""
    at = sorted(data.draw(st.lists(st.integers(0, len(RIGHT) - 1), min_size=2, max_size=2)), reverse=True)
    text = RIGHT
    for place in at:
        text = text[:place] + text[place + 1 :]
    place = Checker("net.arch")
    repair = repair_text(text, place.name, place.check, place.check_names)
    left = len(place.check(repair.text))
    assert left < len(place.check(text)) or repair.text == text
    assert left == len(repair.remaining)
