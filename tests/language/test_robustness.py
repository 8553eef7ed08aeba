"""Any input gives a graph or a diagnostic: no traceback, no hang, no exhausted memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from archir.diagnostics.errors import ArchError
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
def test_random_text_never_crashes(text: str) -> None:
    survives(text)


@given(st.binary(max_size=200))
def test_random_bytes_never_crash(data: bytes) -> None:
    survives(data.decode("latin-1"))


@given(st.lists(st.sampled_from(TOKENS), max_size=60))
def test_random_tokens_never_crash(tokens: list[str]) -> None:
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


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 40), marks=pytest.mark.soak)], ids=str)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mutated_examples_never_crash(path: Path, seeds: range) -> None:
    for seed in seeds:
        text = mutated(path.read_text(), random.Random(f"{path.stem} {seed}"))
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


def test_grown_programs_parse_and_never_crash() -> None:
    fine = unparsed = 0
    for seed in range(200):
        text = Grower(random.Random(seed)).program()
        try:
            elaborate(text, "grown.arch", limits=SMALL)
            fine += 1
        except ArchError as error:
            unparsed += any(d.code in ("A0101", "A0102") for d in error.diagnostics)
    assert unparsed == 0
    assert fine > 10


@pytest.mark.soak
@settings(max_examples=20_000)
@given(st.lists(st.sampled_from(TOKENS), max_size=80))
def test_many_random_tokens_never_crash(tokens: list[str]) -> None:
    survives("net n {\n input image: f32[3, 8, 8]\n" + " ".join(tokens) + "\n output y = image\n}")


@pytest.mark.soak
def test_many_grown_programs_never_crash() -> None:
    for seed in range(200, 20_000):
        text = Grower(random.Random(seed)).program()
        try:
            elaborate(text, "grown.arch", limits=SMALL)
        except ArchError as error:
            str(error)
