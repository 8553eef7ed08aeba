"""Programs with all syntax of the language, most of them invalid, and unusual layouts of them."""

from __future__ import annotations

import random
from itertools import pairwise

from archir.language.syntax.parse import tokens
from tests.language.test_robustness import Grower

_BLANKS = ["", "", " ", "   ", "\t"]
_BREAKS = [
    "\n",
    "\n",
    "\r\n",
    "\n\n",
    "\n  \n\n",
    " # a comment\n",
    "\n# alone\n",
    " #\n\n  # two\n# three\n\n",
    "  # b\r\n",
]
_TIGHT = {"(", ")", "[", "]", "{", "}", ",", ":", "=", "|>", "+", "*", "-", "/", "=>", "\n"}


class Speaker(Grower):
    """Generates programs with every construct of the grammar."""

    def expression(self) -> str:
        if self.depth > 3 or self.rng.random() < 0.5:
            return super().expression()
        self.depth += 1
        try:
            a, b, c = (self.expression() for _ in range(3))
        finally:
            self.depth -= 1
        comma = self.rng.choice(["", ","])
        separator = self.rng.choice([", ", "\n"])
        forms = [
            f"({a}, {b}{comma})",
            f"({a},)",
            "()",
            "[]",
            f"[{a}, {b}, {c}{comma}]",
            f"f({a}, {b}, kernel={c}{comma})",
            f"({a} |> conv({b}, 3) |> relu |> f({c}))",
            f"({a} if {b} else {c} |> relu)",
            f"[{a} for i, j in ({b}) if ({c})]",
            f"(- {a} ** 2)",
            f"({a} * 1/2 - 3)",
            "(-1/2/3 // 4/5 ** 2)",
            f"(({a}) .. ({b}) + 1)",
            f"({a})[{b} : {c}]",
            "y[: 3][2:]",
            f"({a} or {b} and not {c})",
            f"({a} < {b} <= {c} != 3)",
            f"({a} not in [{b}])",
            "1.5e3",
            "2K",
            "1_000",
            "x.shape[0]",
            f"choose @t @u({a}, {b}{comma})",
            f"(choose k @t 2 of [{a}, {b}] where ({c}))",
            f"own f({a})",
            f"match ({a}) {{ 1 | 2 => {b}{separator}({c}) => f{separator}else => {a} }}",
            "match k { }",
            "(choose e { })",
            f"choose op @t {{\n a: {a}{separator}long_name : conv({b}){separator}b: x{comma}\n}}",
            f"match match ({a}) {{ 1 => 2 }} {{ 2 => choose op {{ a: {b} }} }}",
        ]
        return self.rng.choice(forms)

    def statement(self, indent: str) -> str:
        a, b = self.expression(), self.expression()
        forms = [
            super().statement(indent),
            super().statement(indent),
            f"x, y = {a}",
            f"x = {a} |> conv({b}) |> relu",
            f"x = image |> choose op @t {{ one: {a}, other: relu |> f({b}) }} |> relu",
            f"repeat ({a}) as i {{ }}",
            f"for i, j in ({a}) {{ x = i\n y = {b} }}",
            f"if ({a}) {{ }} else if ({b}) {{ x = 1 }} else {{ x = 2 }}",
            f"output x{self.rng.randrange(99)}",
            f"x = ({a}) if k else y |> f({b}) |> g(a, long_argument_name=({a}), other=({b}))",
            f"x = {a} |> f({a}, {b}, {a})",
            f"x = f({a}, {b}) + g({b}, {a}) + ({a} and {b} and {a})",
            f"return {a},\n {b}",
        ]
        return self.rng.choice(forms)

    def program(self) -> str:
        default = self.expression()
        items = [
            "import std.attention",
            'import "a#b.arch" as ab',
            f"const K = {self.expression()}",
            f"own block f(x, k = {default}, act = relu) {{\n return x |> conv(4, k)\n}}",
            "cell c() { }",
            f"net m(a = ({default}), second_parameter = 3, third = [4, 5, 6],) {{ input x: f32[ ]\n output x }}",
        ]
        self.rng.shuffle(items)
        return "\n".join([*items[: self.rng.randrange(6)], super().program()])


def untidy(text: str, rng: random.Random, how_much: float = 0.3) -> str:
    """Return the same tokens with other blanks, line breaks and comments wherever these are allowed."""
    out: list[str] = []
    brackets: list[str] = []
    token_list = tokens(text)
    for before, token in pairwise([None, *token_list, None]):
        old = "" if before is None else "\n" if before.type == "_NL" else str(before)
        new = "" if token is None else str(token)
        if old in ("(", "[", "{"):
            brackets.append(old)
        elif old in (")", "]", "}"):
            brackets.pop()
        out.append(old)
        if token is None:
            out.append(rng.choice(["", "\n", "# the end", "\n\n#\n", " "]))
        elif token.type == "_NL":
            out.append(rng.choice(["", " ", "  # trailing"]) if rng.random() < how_much else "")
        else:
            free = bool(brackets) and brackets[-1] in ("(", "[")
            free |= old in ("", "\n", "{", ",") or new in ("}", "|>")
            if free and rng.random() < how_much:
                out.append(rng.choice(_BREAKS))
            tight = old in _TIGHT or new in _TIGHT or not old
            out.append(rng.choice(_BLANKS) if tight and rng.random() < how_much else " ")
    return "".join(out)
