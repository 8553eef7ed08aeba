"""Whatever comes in, what comes out is a graph or a diagnostic: no traceback, no hang, no full memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from archir.base.errors import ArchError
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir_grammar import grammar
from tests.conftest import EXAMPLES, ROOT

SMALL = Limits(nodes=2_000, work=200_000)
FILES = sorted(EXAMPLES.rglob("*.arch")) + sorted((ROOT / "archir" / "language" / "std").glob("*.arch"))
TOKENS = sorted(
    {t.pattern.value for t in Lark(grammar(), parser="lalr").terminals if t.pattern.type == "str"}
    | {
        "x",
        "y",
        "conv",
        "relu",
        "op",
        "image",
        "f32",
        "3",
        "16",
        "1/2",
        '"same"',
        "\n",
        " ",
        "kernel",
        "0.5",
        "2K",
        "@tag",
    }
)


def survives(text: str) -> None:
    for run in (lambda: survey(text, "fuzz.arch"), lambda: elaborate(text, "fuzz.arch", limits=SMALL)):
        try:
            run()
        except ArchError as error:
            str(error)


@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    survives(text)


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    survives(data.decode("latin-1"))


@given(st.lists(st.sampled_from(TOKENS), max_size=60))
def test_random_tokens(tokens: list[str]) -> None:
    survives(" ".join(tokens))
    survives("net n {\n input image: f32[3, 8, 8]\n" + " ".join(tokens) + "\n output y = image\n}")


def mutated(text: str, rng: random.Random) -> str:
    """A text with a few words or characters dropped, doubled, swapped or replaced."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                words[i] = ""
            case 1:
                words[i], words[j] = words[j], words[i]
            case 2:
                words[i] = rng.choice(TOKENS)
            case 3:
                words.insert(i, words[j])
            case _:
                word = words[i]
                k = rng.randrange(len(word) + 1)
                words[i] = word[:k] + chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x2FFF)])) + word[k:]
    return " ".join(words)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mutated_examples(path: Path) -> None:
    rng = random.Random(path.stem)
    for _ in range(15):
        text = mutated(path.read_text(), rng)
        try:
            elaborate(text, path.name, folder=path.parent, limits=SMALL)
        except ArchError as error:
            str(error)


class Grower:
    """Programs that parse: expressions and statements over a few names, most of them wrong."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.depth = 0

    def expression(self) -> str:
        self.depth += 1
        try:
            names = ["image", "x", "y", "k", "3", "8", "1/2", "true", "[1, 2]", "0..3", '"a"', "none", "relu", "f"]
            if self.depth > 5:
                return self.rng.choice(names)
            one, two, three = (
                self.expression() if self.rng.random() < 0.5 else self.rng.choice(names) for _ in range(3)
            )
            forms = [
                *names, f"({one} + {two})", f"({one} |> conv({two}))", f"({one} |> relu)", f"conv({one}, 4, kernel={two})",
                f"({one} if {two} else {three})", f"choose c{self.rng.randrange(9)}({one}, {two})", f"[{one} for i in {two}]",
                f"({one} |> choose d{self.rng.randrange(9)} {{ a: relu, b: conv({two}) }})", f"{one}[{two}]", f"({one} == {two})",
                f"(match {one} {{ {two} => {three}, else => {one} }})", f"sum([{one}, {two}])", f"{one}.channels",
                f"concat({one}, {two})", f"(own conv({one}, {two}))", f"f({one}, {two})", f"({one} and {two})", f"-{one}",
                f"sum(choose s{self.rng.randrange(9)} 2 of [{one}, {two}, {three}])",
            ]  # fmt: skip
            return self.rng.choice(forms)
        finally:
            self.depth -= 1

    def statement(self, indent: str) -> str:
        value = self.expression()
        inner = indent + " "
        body = f"{inner}x = {self.expression()}\n{indent}"
        forms = [
            f"x = {value}", f"y = {value}", f"k = choose k{self.rng.randrange(20)}(1, 3)", f"for i in {value} {{\n{body}}}",
            f"repeat {value} {{\n{body}}}", f"if {value} {{\n{body}}} else {{\n{body}}}", f"require {value}",
        ]  # fmt: skip
        return indent + self.rng.choice(forms)

    def program(self) -> str:
        lines = "\n".join(self.statement(" ") for _ in range(self.rng.randint(1, 6)))
        return (
            "block f(x, k = 3) {\n return x |> conv(4, k)\n}\nnet n {\n input image: f32[4, 8, 8]\n x = image\n y = image\n k = 3\n"
            f"{lines}\n output z = x\n}}\n"
        )


def test_grown_programs() -> None:
    fine = unparsed = 0
    for seed in range(400):
        text = Grower(random.Random(seed)).program()
        try:
            elaborate(text, "grown.arch", limits=SMALL)
            fine += 1
        except ArchError as error:
            unparsed += any(d.code in ("A0101", "A0102") for d in error.diagnostics)
    assert unparsed == 0
    assert fine > 20


NET = "net n {{\n input image: f32[3, 8, 8]\n x = image\n {}\n output y = x\n}}\n"
DOUBLE = "".join(f"block b{i}(x) {{\n return x |> b{i - 1} |> b{i - 1}\n}}\n" for i in range(1, 61))
BOMBS = {
    "ten million nodes": NET.format("repeat 10_000_000 {\n x = x |> relu\n }"),
    "ten million empty rounds": NET.format("repeat 10_000_000 {\n }"),
    "nested repeats": NET.format("repeat 1000 {\n repeat 1000 {\n repeat 1000 {\n y = 3\n }\n }\n }"),
    "nested repeats of nodes": NET.format("repeat 1000 {\n repeat 1000 {\n x = x |> relu\n }\n }"),
    "doubling blocks": "block b0(x) {\n return x |> relu\n}\n" + DOUBLE + NET.format("x = x |> b60"),
    "doubling through a parameter": "block twice(x, f) {\n return x |> f |> f\n}\nblock b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return x |> twice(b{i - 1})\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "doubling without nodes": "block b0(x) {\n return x\n}\n" + DOUBLE + NET.format("x = x |> b60"),
    "doubling through alternatives": "block b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return x |> choose c {{ a: b{i - 1}, b: b{i - 1} }}\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "doubling through lists": "block b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return sum([f(x) for f in [b{i - 1}, b{i - 1}]])\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "open brackets": "const a = " + "(" * 100_000,
    "open lists": "const a = " + "[" * 100_000 + "]" * 100_000,
    "braces": "net n " + "{" * 100_000,
    "unary minuses": "const a = " + "-" * 100_000 + "1",
    "nots": "const a = " + "not " * 50_000 + "true",
    "ternaries": "const a = " + "1 if true else " * 20_000 + "2",
    "powers": NET.format("a = 2 ** 2 ** 2 ** 2 ** 2 ** 2"),
    "repeated squaring": NET.format("a = 3\n" + " a = a * a\n" * 60),
    "string doubling": NET.format('a = "abc"\n' + " a = a + a\n" * 60),
    "list doubling": NET.format("a = [1, 2]\n" + " a = a + a\n" * 60),
    "list nesting": NET.format("a = [1]\n" + " a = [a, a]\n" * 60 + " b = a == a"),
    "long range": NET.format("a = [i for i in 0..10 ** 12]"),
    "sum of a long range": NET.format("a = sum(0..10 ** 9)"),
    "nested comprehension": NET.format("a = [i + j + k for i in 0..1000 for j in 0..1000 for k in 0..1000]"),
    "large subset": NET.format("a = choose a 20 of [i for i in 0..40]"),
    "many alternatives": NET.format("a = choose a(0..10 ** 9)"),
    "sum of forty choices": NET.format("a = sum([choose c(1, 2, 3, 5, 8, 13) for i in 0..40])\n x = x |> conv(a)"),
    "product of forty choices": NET.format(
        "a = 1\n for i in 0..40 {\n a = a * choose c(2, 3, 5, 7) + i\n }\n x = x |> conv(a)"
    ),
    "list of forty choices": NET.format(
        "a = [choose c(1, 2) for i in 0..40]\n if a == [1 for i in 0..40] {\n x = x |> relu\n }"
    ),
    "long pipe": NET.format("x = x" + " |> relu" * 50_000),
    "long sum": NET.format("a = 1" + " + 1" * 50_000),
    "many statements": NET.format("a = 1\n" * 20_000),
    "nested ifs": NET.format("if true { " * 99 + "a = 1" + "}" * 99),
    "long else if": NET.format("if false { a = 1 }" + " else if false { a = 1 }" * 5_000),
    "choices in depth": NET.format("x = x |> choose c { a: " * 90 + "relu" + "}" * 90),
    "garbage": "@#$%^&*" * 140_000,
    "a megabyte of comment": "#" * 2**20,
    "a megabyte of newlines": "\n" * (2**20 - 10),
    "two megabytes": "a" * 2**21,
    "tensor of many choices": NET.format(
        "for i in 0..40 {\n k = choose c(1, 2)\n if k == 1 {\n x = x |> relu\n }\n }\n for i in 0..40 {\n x = x + x\n }"
    ),
    "merging many branches": NET.format(
        "\n".join(f"if (choose c{i}(1, 2)) == 1 {{\n x = x |> relu\n }}" for i in range(200))
    ),
}
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
import archir.ops
from archir.language.elaboration.elaborate import elaborate
from archir.base.errors import ArchError
text = sys.stdin.read()
begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime
try:
    elaborate(text, "bomb.arch")
    said = "fine"
except ArchError as error:
    said = error.diagnostics[0].code
print(said, resource.getrusage(resource.RUSAGE_SELF).ru_utime - begin)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str) -> None:
    """A diagnostic in under 2 s of processor time and 1 GiB; what is large but right may take longer."""
    environment = {"PYTHONPATH": ":".join(str(ROOT / part) for part in ("", "backends", "grammar"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=BOMBS[name], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, seconds = done.stdout.split()
    assert said == "fine" or said.startswith("A0")
    assert float(seconds) < (10 if said == "fine" else 6), (said, seconds)


@pytest.mark.soak
@settings(max_examples=20_000)
@given(st.lists(st.sampled_from(TOKENS), max_size=80))
def test_random_tokens_for_long(tokens: list[str]) -> None:
    survives("net n {\n input image: f32[3, 8, 8]\n" + " ".join(tokens) + "\n output y = image\n}")


@pytest.mark.soak
def test_grown_programs_for_long() -> None:
    for seed in range(400, 20_000):
        text = Grower(random.Random(seed)).program()
        try:
            elaborate(text, "grown.arch", limits=SMALL)
        except ArchError as error:
            str(error)
