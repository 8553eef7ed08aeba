"""Lint warnings for `lint/NAME.arch` (see `tests/golden/lint/NAME.txt`), for the examples, and on the command line."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.diagnostics.errors import RuleError
from archir.diagnostics.explain import codes, page
from archir.diagnostics.work import MAX_WORK, work_budget
from archir.ir.types import TensorType
from archir.linting.tags import _Typos
from archir.ops.conv import Conv
from tests.conftest import EXAMPLES, GOLDEN
from tests.examples import linted
from tests.soak import with_soak

LINT = Path(__file__).parent / "lint"
PROGRAMS = sorted(LINT.glob("*.arch"))
NAMES = [str(path.relative_to(EXAMPLES).with_suffix("")) for path in sorted(EXAMPLES.rglob("*.arch"))]
LONG = {
    "autola/autola", "autola/imagenet", "darts/darts", "glit/search", "grammar/grammar", "nas_bench_101/nas_bench_101",
    "nas_bert/nas_bert", "nas_fpn/nas_fpn", "nos/nos", "trionet/trionet", "zoo/amoebanet", "zoo/attentive_nas",
    "zoo/auto_deeplab", "zoo/bossnas", "zoo/einspace", "zoo/enas_macro", "zoo/enas_micro", "zoo/enas_rnn", "zoo/fbnet",
    "zoo/hnas", "zoo/hr_nas", "zoo/mixtral", "zoo/mnasnet", "zoo/nas_unet", "zoo/nasnet", "zoo/pnas", "zoo/spos",
    "zoo/transnas_micro", "zoo/vitas",
}  # fmt: skip
"""The examples that take half a second, or more."""
CODES = [code for code in codes() if code.startswith("A14")]


def said(path: Path) -> str:
    return "".join(f"{warning}\n" for warning in linted(path)).replace(f"{path.parent}/", "")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_lint_warnings_match_golden_file(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"lint/{path.stem}.txt", said(path))


@pytest.mark.parametrize("stem", ["clean", *(path.stem for path in PROGRAMS if "no warning" in path.read_text())])
def test_clean_file_gets_no_warnings(stem: str) -> None:
    assert archir.lint(LINT / f"{stem}.arch") == []


def test_every_code_is_in_a_golden_text() -> None:
    found = {code for file in (GOLDEN / "lint").glob("*.txt") for code in re.findall(r"\[(A\d{4})\]", file.read_text())}
    assert set(CODES) == found


@pytest.mark.parametrize("code", CODES)
def test_documented_lint_examples_give_documented_warning(code: str, tmp_path: Path) -> None:
    for text, wanted in zip(re.findall(r"```arch\n(.*?)```", page(code), re.DOTALL), ([code], []), strict=True):
        file = tmp_path / "example.arch"
        file.write_text(text)
        assert [warning.code for warning in archir.lint(file)] == wanted


@pytest.mark.parametrize("name", with_soak(NAMES, sorted({*NAMES} - LONG)[::2]))
def test_lint_of_published_spaces_matches_golden_file(name: str, golden: Callable[[str, str], None]) -> None:
    """What is said of the published spaces is known and true."""
    golden(f"lint/examples/{name.replace('/', '.')}.txt", said(EXAMPLES / f"{name}.arch"))


def test_purposes_add_warnings() -> None:
    path = EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"
    assert archir.lint(path) == []
    (warning,) = archir.lint(path, purpose="differentiable")
    assert warning.code == "A1404"
    assert "`none` is zero, `skip_connect` is a skip connection" in warning.message
    path = LINT / "shared_batch_norm.arch"
    assert len(archir.lint(path, purpose="shared")) == len(archir.lint(path)) + 1


def test_lint_time_is_bounded_by_check_time() -> None:
    path = f"{EXAMPLES / 'darts' / 'darts.arch'}:darts"
    begin = time.process_time()
    archir.check(path)
    middle = time.process_time()
    archir.lint(path)
    assert time.process_time() - middle < 4 * (middle - begin)


ROUNDS = "for i in 0..1999 {\n require widths[i] <= widths[i + 1]\n }"
LINES = "\n".join(f"require widths[{i}] <= widths[{i + 1}]" for i in range(1999))


@pytest.mark.parametrize("requirements", with_soak([ROUNDS, LINES], [ROUNDS]), ids=["rounds", "lines"])
def test_thousands_of_requirements_take_little_more_than_elaboration(tmp_path: Path, requirements: str) -> None:
    """Each is about two of 2,000 choices; all were counted for each, once, until the budget was spent."""
    file = tmp_path / "n.arch"
    file.write_text(f"""net n {{
    input x: f32[4, 8, 8]
    widths = [choose width(1, 2, 3) for i in 0..2000]
    {requirements}
    output y = x |> conv(widths[0])
}}
""")
    with work_budget() as check:
        archir.check(file)
    with work_budget() as lint:
        assert "A1408" not in {warning.code for warning in archir.lint(file)}
    assert MAX_WORK - lint.left < 1.5 * (MAX_WORK - check.left)


def test_norms_behind_many_choices_are_checked_once_each(tmp_path: Path) -> None:
    """Each of the 40 pairs of choices has the pair before twice as its alternatives."""
    pairs = "".join(
        f"x{i + 1} = choose a{i} {{\na: x{i}\nb: y{i}\n}}\ny{i + 1} = choose b{i} {{\na: y{i}\nb: x{i}\n}}\n"
        for i in range(40)
    )
    body = f"x0 = im |> relu\ny0 = im |> gelu\n{pairs}output y = x40 |> batch_norm\noutput z = y40"
    file = tmp_path / "n.arch"
    file.write_text(f"net n {{\ninput im: f32[4, 8, 8]\n{body}\n}}\n")
    assert "A1405" in {warning.code for warning in archir.lint(file, purpose="shared")}


def test_typos_of_tags_are_found_as_by_comparing_each_pair() -> None:
    letters = random.Random(0)
    tags = ["".join(letters.choices("ab", k=letters.randrange(4, 8))) for _ in range(200)]
    earlier = _Typos()
    for number, tag in enumerate(tags):
        assert earlier.find(tag) == next((other for other in tags[:number] if is_typo(tag, other)), None)
        earlier.add(tag)


def is_typo(tag: str, other: str) -> bool:
    shorter, longer = sorted((tag, other), key=len)
    swapped = {tag[:i] + tag[i : i + 2][::-1] + tag[i + 2 :] for i in range(len(tag))}
    shortened = {longer[:i] + longer[i + 1 :] for i in range(1, len(longer) - 1)}
    return len(shorter) >= 5 and tag != other and (other in swapped or shorter in shortened)


def test_a_cost_that_cannot_be_known_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(op: Conv, x: TensorType) -> int:
        raise RuleError("the cost of `conv` is not known")

    monkeypatch.setattr(Conv, "macs", unknown)
    (warning,) = archir.lint(LINT / "costs_far_apart.arch")
    assert warning.severity == "warning"
    assert warning.message == "`costs_far_apart` was not fully checked: the cost of `conv` is not known"


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


def test_check_command_prints_lint_warnings() -> None:
    file = str(LINT / "unused_choice.arch")
    result = run("check", file, "--lint")
    assert "warning[A1403]: `width` changes nothing: no operation depends on it" in result.stderr
    assert "3 warnings; `archir explain A1403` says more" in result.stderr
    assert "every architecture is well-formed" in result.stdout
    assert run("check", file).stderr == ""
    run("check", file, "--strict", code=1)
    run("check", str(LINT / "clean.arch"), "--strict")
    assert "A1404" in run("check", str(LINT / "clean.arch"), "--for", "differentiable").stderr
    data = json.loads(run("check", file, "--lint", "--json").stdout)
    assert [(d["code"], d["severity"], d["line"]) for d in data["diagnostics"]] == [
        ("A1403", "warning", 3), ("A1403", "warning", 4), ("A1403", "warning", 5),
    ]  # fmt: skip
    assert data["nets"][0]["net"] == "unused_choice"
