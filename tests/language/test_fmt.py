"""`archir fmt`: one layout that keeps the meaning and every comment."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.language.formatter import canonical
from archir.language.syntax.parse import MAX_BYTES, parse, tokens
from tests.conftest import GOLDEN, ROOT
from tests.language.programs import Speaker, untidy

FILES = [
    path
    for path in sorted(ROOT.rglob("*.arch"))
    if not {"wrong", "golden", ".venv"} & set(path.relative_to(ROOT).parts)
]
INPUTS = sorted((GOLDEN / "fmt").glob("*.in.arch"))


def comments(text: str) -> list[str]:
    """The comments of a text in order: strings hold no `#` that counts, and nothing else can be confused with one."""
    return [found.rstrip() for found in re.findall(r'"[^"\n]*"|#[^\n]*', text) if found.startswith("#")]


def is_kept(text: str) -> str:
    """Assert the laws of formatting for a text; the formatted one."""
    after = canonical(text)
    assert parse(after) == parse(text)
    assert comments(after) == comments(text)
    assert canonical(after) == after
    assert not re.search(r"[ \t\r]$", after, re.MULTILINE)
    assert "\n\n\n" not in after
    assert after == "" or (after.endswith("\n") and not after.startswith("\n") and not after.endswith("\n\n"))
    return after


def test_format_test_files_are_found() -> None:
    assert {"attention", "full_attention", "resnet50"} <= {path.stem for path in FILES}
    assert len(INPUTS) > 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_repository_programs_are_formatted(path: Path) -> None:
    text = path.read_text()
    assert canonical(text, str(path)) == text


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_formatted_output_equals_golden_file(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"fmt/{path.name.replace('.in.', '.out.')}", is_kept(path.read_bytes().decode()))


def programs(seed: int, how_much: float) -> str | None:
    """A random program, untidily written; none for the few that do not parse."""
    rng = random.Random(seed)
    text = Speaker(rng).program()
    try:
        tree = parse(text)
    except ArchError:
        return None
    written = untidy(text, rng, how_much)
    assert parse(written) == tree
    return written


PROGRAMS = given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3, 0.9]))


@settings(max_examples=20)
@PROGRAMS
def test_formatting_keeps_meaning_and_comments(seed: int, how_much: float) -> None:
    text = programs(seed, how_much)
    if text is not None:
        is_kept(text)


@pytest.mark.soak
@settings(max_examples=500)
@PROGRAMS
def test_formatting_keeps_meaning_of_many_programs(seed: int, how_much: float) -> None:
    text = programs(seed, how_much)
    if text is not None:
        is_kept(text)


def test_random_programs_parse_and_cover_every_construct() -> None:
    texts = [programs(seed, 0.3) for seed in range(30)]
    parsed = [text for text in texts if text is not None]
    assert len(parsed) > 25
    shown = repr([parse(text) for text in parsed])
    names = [name for name, kind in vars(archir.language.syntax.ast).items() if isinstance(kind, type)]
    abstract = {"Tree", "Expr", "Statement", "Choose", "Item", "Span", "Fraction"}
    assert not [name for name in names if name not in abstract and f"{name}(" not in shown]


@given(st.lists(st.sampled_from(["", "#", "# a", "  # b ", "\t", "x", "#\r", "\f"]), max_size=8), st.booleans())
def test_comment_only_files_format_or_are_rejected(lines: list[str], end: bool) -> None:
    text = "\n".join(lines) + "\n" * end
    try:
        parse(text)
    except ArchError:
        with pytest.raises(ArchError):
            canonical(text)
    else:
        is_kept(text)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=3_000)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3, 0.9]))
def test_formatting_keeps_meaning_of_thousands_of_programs(seed: int, how_much: float) -> None:
    text = programs(seed, how_much)
    if text is not None:
        is_kept(text)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a = 1 / 2", "a = 1/2"),
        ("a = x/2", "a = x / 2"),
        ("a = 1/2/3", "a = 1/2 / 3"),
        ("a = x/1/2", "a = x / 1 / 2"),
        ("a = 2*1/2", "a = 2 * 1/2"),
        ("a = 1/2**3", "a = 1 / 2 ** 3"),
        ("a = 2**1/2", "a = 2 ** 1 / 2"),
        ("a = - 1+ -b*-c", "a = -1 + -b * -c"),
        ("a = not  -b", "a = not -b"),
        ("a = 0 .. n-1", "a = 0..n - 1"),
        ("a = b [ 1 : ] ( c = 3 ) . d", "a = b[1:](c=3).d"),
        ("a = match(b){1=>( 2 ),else=>[ 3 ]}", "a = match (b) { 1 => (2), else => [3] }"),
        ("a = [ ( 1 , ) , ( ) , [ ] ]", "a = [(1,), (), []]"),
        ("a = ((b))", "a = ((b))"),
        ("a = choose k@t( 1,2 )", "a = choose k @t(1, 2)"),
        ("a = choose { b:c }", "a = choose { b: c }"),
        ("a = choose 2 of[b,c]where(d)", "a = choose 2 of [b, c] where (d)"),
        ("return b ,\n a", "return b, a"),
        ("a , b=c", "a, b = c"),
        ("repeat  3{}", "repeat 3 {}"),
    ],
)
def test_spacing_of_expressions_is_normalized(given: str, wanted: str) -> None:
    assert is_kept(f"block f() {{ {given} }}") == f"block f() {{\n    {wanted}\n}}\n"


def test_breakable_lines_have_at_most_120_columns() -> None:
    for path in INPUTS:
        long = [line for line in canonical(path.read_bytes().decode()).splitlines() if len(line.split("  #")[0]) > 120]
        assert all("cannot_be_broken" in line for line in long)


def test_formatting_large_inputs_takes_bounded_time() -> None:
    for text in (
        "net n {\n" + " x = x" + " |> relu" * 8_000 + "\n}\n",
        "const A = " + "[" * 90 + "1, 2, 3" + "]" * 90,
        "const A = [" + "(1, 2, 3), " * 5_000 + "]",
        "block f() {\n x = " + "choose c { a: " * 90 + "relu" + "}" * 90 + "\n}",
        "#\n" * 50_000,
    ):
        begin = time.process_time()
        canonical(text)
        assert time.process_time() - begin < 10


def run(*arguments: str, code: int = 0, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["fmt", *arguments], input=text, catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


UGLY, TIDY = "const a=1 # one\n", "const a = 1  # one\n"


def test_fmt_rewrites_files_and_folders(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    ugly, tidy, other = inner / "ugly.arch", tmp_path / "tidy.arch", inner / "other.txt"
    ugly.write_bytes(UGLY.replace("\n", "\r\n").encode())
    tidy.write_text(TIDY)
    other.write_text(UGLY)
    when = tidy.stat().st_mtime_ns
    assert run(str(tmp_path)).stdout == f"{ugly}: reformatted\n"
    assert ugly.read_bytes() == TIDY.encode()
    assert other.read_text() == UGLY
    assert tidy.stat().st_mtime_ns == when
    assert run(str(tmp_path)).stdout == ""


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file.arch", tmp_path / "link.arch"
    file.write_text(UGLY)
    link.symlink_to(file)
    run(str(link))
    assert link.is_symlink()
    assert file.read_text() == TIDY


def test_check_and_diff_write_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.arch"
    file.write_text(UGLY)
    assert run(str(file), "--check", code=1).stdout == f"{file}: would be reformatted\n"
    changes = run(str(file), "--diff").stdout
    assert "-const a=1 # one\n+const a = 1  # one\n" in changes
    assert run(str(file), "--diff", "--check", code=1).stdout == changes
    assert file.read_text() == UGLY
    file.write_text(TIDY)
    assert run(str(file), "--check", "--diff").output == ""
    file.write_text(TIDY.rstrip())
    assert "\\ No newline at end of file\n+" in run(str(file), "--diff").stdout


def test_fmt_reads_standard_input() -> None:
    assert run("-", text=UGLY).stdout == TIDY
    assert run("-", text=TIDY).stdout == TIDY
    assert run("-", "--check", text=UGLY, code=1).stdout == "<stdin>: would be reformatted\n"
    assert run("-", "--check", text=TIDY).stdout == ""
    assert "+const a = 1  # one" in run("-", "--diff", text=UGLY).stdout
    assert "`-` cannot be combined with other files" in run("-", "x.arch", code=2).stderr
    assert "<stdin>:1:10: error[A0102]" in run("-", text="const a = \n", code=1).stderr
    assert "error[A0107]: <stdin> is not UTF-8 text (byte 6)" in run("-", text=b"const \xff = 1\n", code=1).stderr
    assert "error[A0105]: <stdin> is larger" in run("-", text=b"#" * (MAX_BYTES + 1), code=1).stderr


def test_broken_files_are_skipped_and_others_formatted(tmp_path: Path) -> None:
    broken, ugly = tmp_path / "a.arch", tmp_path / "b.arch"
    broken.write_text("const a = (1\n")
    ugly.write_text(UGLY)
    result = run(str(tmp_path), str(tmp_path / "missing.arch"), code=1)
    assert "a.arch:1:11: error[A0102]" in result.stderr
    assert "error[A0801]: cannot read" in result.stderr
    assert "2 problems" in result.stderr
    assert broken.read_text() == "const a = (1\n"
    assert ugly.read_text() == TIDY
    (tmp_path / "empty").mkdir()
    assert "there are no .arch files in" in run(str(tmp_path / "empty"), code=1).stderr
    assert "Missing argument" in run(code=2).stderr


def test_python_format_equals_command() -> None:
    assert archir.format(UGLY) == TIDY
    with pytest.raises(ArchError, match=r"named\.arch:1:5"):
        archir.format("const", "named.arch")


def test_fmt_process_is_quick_and_imports_no_framework(tmp_path: Path) -> None:
    file = tmp_path / "hundred.arch"
    file.write_text((ROOT / "examples" / "full_attention" / "layers.arch").read_text() * 2)
    program = (
        "import sys\nfrom archir.cli import main\n"
        f"main(['fmt', {str(file)!r}], standalone_mode=False)\n"
        "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)\n"
    )
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": paths})
    assert os.times().children_user - before.children_user < 5  # processor time: 0.2 s on an idle machine


def test_tokenizer_is_thread_safe() -> None:
    texts = [f"const a{i} = {i}\n" * 40 for i in range(8)]
    wanted = [[str(token) for token in tokens(text)] for text in texts]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [[str(token) for token in file] for file in pool.map(tokens, texts)]
    finally:
        sys.setswitchinterval(before)
    assert found == wanted
