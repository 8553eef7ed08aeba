"""Rules of operations give a value or a diagnostic for numbers of any size and values of every kind."""

from __future__ import annotations

import random
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from archir.api import loading
from archir.cli import main
from archir.diagnostics.errors import ArchError, RuleError
from archir.diagrams import lifting
from archir.diagrams.diagram import Choice, make_diagram
from archir.diagrams.lifting import lift
from archir.ir.attributes import new_op, node_errors
from archir.ir.op import OPS, attribute_types
from archir.ir.types import TensorType
from archir.language.elaboration import static
from archir.language.elaboration.elaborate import elaborate
from archir.ops.activation import Relu
from tests.soak import with_soak

NUMBERS = [
    "0", "1", "-3", "7", "1/3", "-5/2", "0.0", "-1.5", "1.5e300", "1.5e-300", "10 ** 400", "-(10 ** 400)",
    "1/10 ** 400", "10 ** 400 + 1/3", "2 ** 4000", "2 ** 63", "2 ** 62", "10 ** 18", "1.0e308",
]  # fmt: skip
OTHERS = ["true", "none", '"a"', "[1, 2]", "[]", "0..3", "0..2 ** 61", "0..2 ** 64", "image", "relu", "len", '["a", 1]']
BINARY = ["+", "-", "*", "/", "//", "%", "**", "<", "==", "in", "..", "not in"]
CALLS = [*static.FUNCTIONS, *static.FOLDS]
NET = "net n {{\n input image: f32[4, 8, 8]\n {}\n output y = image\n}}\n"


@pytest.fixture
def unforeseen(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What was caught by the net under the rules: nothing, for they are all total."""
    met: list[Exception] = []

    def note(error: Exception) -> RuleError:
        met.append(error)
        return RuleError(str(error))

    monkeypatch.setattr(lifting, "unexpected_error", note)
    return met


def expressions() -> list[str]:
    numbers, values = NUMBERS, NUMBERS + OTHERS
    found = [f"({a}) {op} ({b})" for op in BINARY for a in numbers for b in values]
    found += [f"{name}({a})" for name in CALLS for a in values]
    found += [f"{name}({a}, {b})" for name in ("round_to", "zip", "sum", "min", "max") for a in values for b in numbers]
    found += [f"[1, 2, 3][{a}]" for a in values] + [f"[1, 2][{a}:{b}]" for a in numbers for b in numbers[:9]]
    found += [f"(0..9)[{a}:{b}]" for a in numbers for b in numbers[:9]]
    found += [f"[i for i in 0..({a})]" for a in numbers] + [f"choose c({a}, {b})" for a in numbers for b in numbers[:9]]
    found += [f"[{a}, {b}] == [{b}, {a}]" for a in numbers for b in values]
    found += [f"choose c ({a}) of [1, 2, 3]" for a in values] + [f"str([{a}, {a}])" for a in values]
    found += (
        [f"image * ({a})" for a in values] + [f"image / ({a})" for a in values] + [f"image - ({a})" for a in values]
    )
    found += [f"image[{a}:{b}]" for a in numbers for b in numbers[:9]]
    for name, op in sorted(OPS.items()):
        if not op.internal:
            found += [f"{name}(image, {a})" for a in values] + [f"{name}(image, 3, {a})" for a in values]
            found += [f"{name}(image, {field}=({a}))" for field in attribute_types(op) for a in values]
    return found


def places(text: str) -> None:
    """Elaborate a program; all that is wrong with it has a place."""
    try:
        elaborate(text, "net.arch")
    except ArchError as error:
        missing = [problem for problem in error.diagnostics if problem.span is None]
        assert missing == []


@pytest.mark.parametrize("most", [1_000, pytest.param(10**6, marks=pytest.mark.soak)])
def test_expressions_are_values_or_refused(most: int, unforeseen: list[Exception]) -> None:
    """Two hundred in a program: each is a statement of its own, and what is refused of one does not stop the others."""
    found = expressions()
    random.Random(0).shuffle(found)
    for start in range(0, min(len(found), most), 200):
        places(NET.format("\n ".join(f"a{i} = {one}" for i, one in enumerate(found[start : start + 200]))))
    assert unforeseen == []


STATEMENTS = [
    "repeat {} {{\n }}", "for i in 0..({}) {{\n }}", "for i, j in [({}), 2] {{\n }}", "require {} > 1",
    "require macs <= {}", "if {} {{\n }}", "a = match {} {{ 1 => 2, else => 3 }}", "x = image |> reshape([{}, 4])",
    "x = image |> reshape(0..({}))", "k = choose k(0, 1)\n x = image |> conv(k + ({}))",
    "k = choose k(1, 2)\n a = k ** ({})", "x = image |> dropout({})",
    "k = choose k(1, 2)\n a = [round_to(({}) * k, 8), log2(k * ({})), sqrt(({}) / k)]",
]  # fmt: skip


def test_statements_are_run_or_refused(unforeseen: list[Exception]) -> None:
    for value in NUMBERS + OTHERS:
        for statement in STATEMENTS:
            places(NET.format(statement.format(*[value] * 3)))
        places(f"net n {{\n input x: f32[{value}, {value}]\n output x\n}}")
    assert unforeseen == []


def test_rules_of_operations_are_total() -> None:
    """Wrong attributes and operands are refused before the rules, or by `infer`: then nothing else of them fails."""
    rng = random.Random(0)
    values: list[Any] = [0, 1, -1, 2, 3, 4, 10**30, 2.5, None, "a", "same", (), (1, 2), (0, -1), True, Fraction(1, 3)]
    shapes = ((), (4,), (8, 4), (4, 8, 8), (1, 4, 4), (3, 4, 5, 6))
    types = [TensorType(dims, dtype) for dims in shapes for dtype in ("f32", "i64", "bool")]
    refused, accepted = 0, 0
    for name, op in OPS.items():
        for _ in range(60):
            attributes = {field: rng.choice(values) for field in attribute_types(op) if rng.random() < 0.5}
            operands = [rng.choice(types) for _ in range(rng.randrange(4))]
            try:
                made = new_op(name, attributes)
                if [*node_errors(made, len(operands), {})]:
                    continue
                made.infer(*operands)
            except RuleError:
                refused += 1
                continue
            accepted += 1
            for rule in (made.weights, made.macs, made.kernels, made.roles, made.ties, made.limits):
                with suppress(RuleError):
                    rule(*operands)
    assert refused > 1000
    assert accepted > 300


@pytest.mark.parametrize("error", [TypeError, AttributeError])
def test_bug_in_rule_exits_with_internal_error(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Relu, x: TensorType) -> TensorType:
        raise error("a slip")

    monkeypatch.setattr(Relu, "infer", broken)
    (tmp_path / "n.arch").write_text(NET.format("x = image |> relu"))
    done = CliRunner().invoke(main, ["check", str(tmp_path / "n.arch")])
    assert done.exit_code == 70
    assert f"archir failed: {error.__name__}: a slip" in done.stderr


def test_lifted_arithmetic_failure_becomes_rule_error() -> None:
    choice = Choice("c", (0, 1), 0)
    with pytest.raises(RuleError, match="cannot be computed: integer division"):
        lift(lambda: 1 // 0)
    with pytest.raises(RuleError, match="cannot be computed") as caught:
        lift(lambda x: 1 // x, make_diagram(choice, (0, 1)))
    assert str(caught.value.diagnostics[0]).endswith("when c = 0")


def test_rule_error_without_span_prints_as_diagnostic() -> None:
    refusal = RuleError("no", "do", "A0401")
    assert [str(one) for one in refusal.diagnostics] == ["error[A0401]: no\n  hint: do"]


def test_failures_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "n.arch"
    path.write_text(NET.format("x = image"))

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb \x1b[31m")

    monkeypatch.setattr(loading, "graphs", broken)
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 70
    assert done.stderr == (
        "archir failed: ZeroDivisionError: a b \N{REPLACEMENT CHARACTER}[31m. "
        "This is a bug: please report it, with what --traceback prints\n"
    )
    for arguments in (["--traceback", "check", str(path)], ["check", str(path), "--traceback"]):
        done = CliRunner().invoke(main, arguments)
        assert isinstance(done.exception, ZeroDivisionError)
    monkeypatch.setattr(loading, "graphs", lambda *_, **__: (_ for _ in ()).throw(click.UsageError("no")))
    assert CliRunner().invoke(main, ["check", str(path)]).exit_code == 2


@pytest.mark.parametrize("command", with_soak(["count", "sample", "cost", "check"], ["count"]))
def test_graph_coloring_constraints_are_refused_with_location(command: str, tmp_path: Path) -> None:
    """Counting the colourings of a grid couples too many choices at once."""
    rng, lines = random.Random(0), []
    lines += [f" c{i} = choose c{i}(0, 1, 2)" for i in range(90)]
    pairs = {tuple(sorted(rng.sample(range(90), 2))) for _ in range(270)}
    lines += [f" require c{a} != c{b}" for a, b in sorted(pairs)]
    path = tmp_path / "colours.arch"
    path.write_text("net n {\n input x: f32[4]\n" + "\n".join(lines) + "\n output y = x\n}\n")
    done = CliRunner().invoke(main, [command, str(path)])
    if command in ("count", "sample"):
        assert done.exit_code == 1, done.output
        assert str(path) in done.output
    assert done.exit_code in (0, 1), done.output
    assert "archir failed" not in done.output
