"""`archir print`: values of expressions in a net."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archir.api import loading
from archir.cli import main
from archir.diagrams.diagram import value_at
from archir.language.elaboration.expression_query import evaluate_expression
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

TEXT = """
const K = 3

block step(x, width) {
    return x |> conv(width, kernel=K)
}

net n(depth=2) {
    input x: f32[3, 8, 8]
    width = choose width(4, 6, 8)
    y = x |> step(width)
    repeat depth { y = y |> relu }
    s = y |> choose op { same: identity, half: conv(width, stride=2) |> upsample(2) }
    require width != 6 or op != half
    output z = s |> global_avg_pool |> linear(10)
}
"""
ALONE = "const WIDTHS = [8, 16]\n\nblock step(x) {\n    return x |> relu\n}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "n.arch"
    path.write_text(TEXT.replace("    require width != 6 or op != half\n", ""))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["print", *map(str, arguments)])


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("K", "3\n"),
        ("depth * 1/3", "2/3\n"),
        ("width * 2", "8   in 2 of 6 architectures\n12  in 2 of 6 architectures\n16  in 2 of 6 architectures\n"),
        ("width > 4", "false  in 2 of 6 architectures\ntrue   in 4 of 6 architectures\n"),
        ("x |> step(5)", "f32[5, 8, 8]\n"),
        ("x |> conv(5, stride=2) |> conv(width)", None),
        ("[width, K]", None),
        ("step", "block step(x, width)\n"),
    ],
)
def test_print_shows_value_of_expression(expression: str, shown: str | None, file: Path) -> None:
    done = run(expression, file)
    assert done.exit_code == 0, done.output
    assert shown is None or done.stdout == shown
    assert shown is not None or done.stdout.count("in 2 of 6 architectures") == 3


def test_print_uses_parameters_seeds_and_architecture_files(file: Path, tmp_path: Path) -> None:
    assert run("depth", file, "-p", "depth=5").stdout == "5\n"
    space = loading.load(file)
    for seed in range(4):
        chosen = space.sample(seed)
        assert run("width", file, "--seed", seed).stdout == f"{chosen['width']}\n"
    (tmp_path / "a.json").write_text(chosen.to_json())
    assert run("y", file, "--arch", tmp_path / "a.json").stdout == f"f32[{chosen['width']}, 8, 8]\n"


def test_choose_option_fixes_some_choices(file: Path) -> None:
    assert run("width", file, "--choose", "width=6").stdout == "6\n"
    assert run("width", file, "--choose", "op=half").stdout.count("in 1 of 3 architectures\n") == 3
    both = json.loads(run("width", file, "--choose", "op=half", "--choose", "width=8", "--json").stdout)
    assert (both["of"], [one["value"] for one in both["values"]]) == (1, ["8"])
    assert "`n` has no choice `widht`\n  hint: did you mean `width`?" in run("s", file, "--choose", "widht=6").stderr
    assert "`width` is 7, but must be one of 4, 6, 8" in run("s", file, "--choose", "width=7").stderr
    wrong = run("s", file, "--choose", "width=4", "--choose", "width=6")
    assert "A1004" in wrong.stderr
    assert "no architecture makes these choices together" in wrong.stderr
    for arguments, said in (
        (["--choose", "width"], "PATH=LABEL"),
        (["--choose", "width=4", "--seed", "0"], "exclude each other"),
    ):
        assert said in run("s", file, *arguments).stderr
    assert f"the expression comes first: archir print 'width' {file}" in run(file, "width").stderr


def test_costs_and_block_local_names_get_hints(file: Path) -> None:
    assert "hint: only complete networks have costs: `archir cost` prints them" in run("macs", file).stderr
    file.write_text(TEXT.replace("return x", "inner = x\n    return inner"))
    assert "hint: `inner` is only known in `block step`: return it from there" in run("inner", file).stderr


def test_print_evaluates_constants_of_file_without_nets(tmp_path: Path) -> None:
    (tmp_path / "library.arch").write_text(ALONE)
    assert run("WIDTHS", tmp_path / "library.arch").stdout == "[8, 16]\n"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("widht + 1", "<expression>:1:1: error[A0201]: there is no `widht`\n    widht + 1\n    ^^^^^\n"),
        ("K + (width", "<expression>:1:5: error[A0102]: this `(` is not closed"),
        ("x |> conv(3, kernl=3)", "<expression>:1:14: error[A0203]: `conv` has no attribute `kernl`"),
        ("x + y", "<expression>:1:1: error[A0401]"),
        ("", "an expression is one line"),
        ("1\n}\nnet m {", "an expression is one line"),
        ("1 }", "<expression>:1:3"),
        ("1 } block b(x) { return x", "<expression>:1:3: error[A0102]: this `}` closes no `{`"),
        ("# nothing", "<expression>:1:1"),
        ("2 ** 10**9", "<expression>:1:1: error[A06"),
    ],
)
def test_expression_errors_have_their_position(expression: str, said: str, file: Path) -> None:
    done = run(expression, file)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_file_errors_have_their_position(tmp_path: Path) -> None:
    (tmp_path / "n.arch").write_text(TEXT.replace("relu", "rleu"))
    assert f"{tmp_path / 'n.arch'}:12:29" in run("K", tmp_path / "n.arch").stderr
    (tmp_path / "two.arch").write_text(
        "net a {\n input x: f32[1]\n output y = x\n}\nnet b {\n input x: f32[1]\n output y = x\n}\n"
    )
    assert "A0808" in run("x", tmp_path / "two.arch").stderr
    assert run("x", f"{tmp_path / 'two.arch'}:b").stdout == "f32[1]\n"


@pytest.mark.parametrize(
    ("name", "expression"), [("nas_bench_201/nas_bench_201.arch", "x"), ("trionet/trionet.arch", "x")]
)
def test_value_counts_sum_to_number_of_architectures(name: str, expression: str) -> None:
    """What is said to be so many is so in those that are drawn, and nothing is forgotten."""
    done = json.loads(run(expression, EXAMPLES / name, "--json").stdout)
    counts = [one["architectures"] for one in done["values"]]
    assert sum(counts) == done["of"] == loading.load(EXAMPLES / name).satisfying


def test_value_conditions_hold_for_every_architecture() -> None:
    answer = evaluate_expression("width * 10", TEXT.replace("op != half", "depth != 2"), "n.arch")
    space = Space(answer.graph)
    assert [text for text, _, _ in answer.values] == ["40", "60", "80"]
    for architecture in space.enumerate():
        (found,) = [text for text, _, when in answer.values if value_at(when, architecture.outcomes) is True]
        assert found == str(architecture["width"] * 10)  # type: ignore[operator]
