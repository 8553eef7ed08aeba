"""Small programs that would take too much time, memory, or space of messages."""

from __future__ import annotations

import random


def net(body: str, before: str = "") -> str:
    """Return a program of one net."""
    return f"{before}\nnet n {{\n input image: f32[4, 8, 8]\n x = image\n {body}\n output y = x\n}}\n"


def doubling(first: str, step: str, times: int = 60) -> str:
    """Return blocks each of which uses the previous one twice."""
    blocks = "".join(f"block b{i}(x) {{\n {step.format(i - 1)}\n}}\n" for i in range(1, times + 1))
    return f"block b0(x) {{\n return {first}\n}}\n{blocks}"


def colouring(nodes: int, edges: int, colours: int) -> str:
    """Return a net whose architectures are the colourings of a random graph."""
    rng = random.Random(0)
    pairs = sorted({tuple(sorted(rng.sample(range(nodes), 2))) for _ in range(edges)})
    labels = ", ".join(map(str, range(colours)))
    choices = "\n ".join(f"c{i} = choose c{i}({labels})" for i in range(nodes))
    return net(choices + "\n " + "\n ".join(f"require c{a} != c{b}" for a, b in pairs))


def numbered_lines(count: int, line: str) -> str:
    """Return numbered lines."""
    return "\n ".join(line.format(i) for i in range(count))


CHOICES = "cs = [choose c(1, 2, 3) for i in 0..{}]\n "
LIST = "l = [i for i in 0..10_000]\n "
NET = "net n {{\n input image: f32[3, 8, 8]\n x = image\n {}\n output y = x\n}}\n"
DOUBLE = "".join(f"block b{i}(x) {{\n return x |> b{i - 1} |> b{i - 1}\n}}\n" for i in range(1, 61))

BOMBS = {
    # bounds
    "a peak that nothing drawn keeps": net(
        "xs = [x |> conv(choose w(1..64)) for i in 0..20]\n x = sum([y |> conv(4) for y in xs])\n"
        " require peak_bytes <= 5K"
    ),
    # loops and lists
    "ten million nodes": net("repeat 10_000_000 {\n x = x |> relu\n }"),
    "two hundred thousand nodes": net("repeat 199_000 {\n x = x |> relu\n }"),
    "convolutions": net("repeat 90_000 {\n x = x |> conv(4)\n }"),
    "ten million empty rounds": net("repeat 10_000_000 {\n }"),
    "nested repeats": net("repeat 1000 {\n repeat 1000 {\n repeat 1000 {\n y = 3\n }\n }\n }"),
    "nested comprehensions": net("a = [i + j + k for i in 0..1000 for j in 0..1000 for k in 0..1000]"),
    "comprehensions in comprehensions": net("a = [[[k for k in 0..500] for j in 0..500] for i in 0..500]"),
    "filters": net("a = [i for i in 0..1000 for j in 0..1000 if j < 0]"),
    "appending": net("a = [0]\n for i in 0..50_000 {\n a = a + [i]\n }"),
    "prepending lists": net("a = []\n for i in 0..50_000 {\n a = [a]\n }"),
    "doubling lists": net("a = [1, 2]\n" + " a = a + a\n" * 60),
    "nesting lists": net("a = [1]\n" + " a = [a, a]\n" * 60 + " b = a == a"),
    "comparing lists": net(LIST + "for i in 0..50_000 {\n b = l == l\n }"),
    "comparing nested lists": net("a = [1]\n" + " a = [a, a]\n" * 13 + " repeat 50_000 {\n b = a == a\n }"),
    "membership": net(LIST + "for i in 0..50_000 {\n b = -1 in l\n }"),
    "sorting": net(LIST + "for i in 0..50_000 {\n b = sorted(l)\n }"),
    "sums": net(LIST + "for i in 0..50_000 {\n b = sum(l)\n }"),
    "minima": net(LIST + "b = [min(l) for i in 0..50_000]"),
    "zips": net(LIST + "for i in 0..50_000 {\n b = zip(l, l, l)\n }"),
    "reversals": net(LIST + "for i in 0..50_000 {\n l = reversed(l)\n }"),
    "slices": net(LIST + "for i in 0..50_000 {\n b = l[1:]\n }"),
    "texts of lists": net("l = [i for i in 0..1_000]\n for i in 0..50_000 {\n b = str(l)\n }"),
    "texts of nested lists": net('a = ["aaaaaaaaaa"]\n' + " a = [a, a]\n" * 15 + " b = str(a)"),
    "long ranges": net("a = [i for i in 0..10 ** 12]\n b = sum(0..10 ** 9)\n c = list(0..10 ** 18)"),
    "many variables": net(numbered_lines(5_000, "v{} = 1") + "\n for i in 0..50_000 {\n a = i\n }"),
    "many variables in a comprehension": net(numbered_lines(5_000, "v{} = 1") + "\n a = [i for i in 0..50_000]"),
    "many variables and branches": net(
        numbered_lines(2_000, "v{} = 1") + "\n c = choose c(1, 2)\n repeat 9_000 {\n if c == 1 { a = 1 }\n }"
    ),
    # numbers and texts
    "powers": net("a = 2 ** 2 ** 2 ** 2 ** 2 ** 2"),
    "giant exponents": net("a = 10 ** 10 ** 9\n b = 1.5 ** 10 ** 9\n c = 2 ** -(10 ** 9)\n d = (1/3) ** 10 ** 8"),
    "repeated squaring": net("a = 3\n" + " a = a * a\n" * 60),
    "harmonic sum": net("a = 0\n for i in 1..2_000 {\n a = a + 1/i\n }"),
    "long fractions": net(
        "a = 3 ** 1200 / 7 ** 700\n b = 5 ** 900 / 11 ** 600\n for i in 0..99_000 {\n c = a * b - a / b\n }"
    ),
    "long division": net("a = 3 ** 2500\n for i in 0..99_000 {\n c = a * a // a % 7 ** 1000\n }"),
    "doubling strings": net('a = "abc"\n' + " a = a + a\n" * 60),
    "long strings": net('a = "' + "a" * 5_000 + '"\n for i in 0..99_000 {\n b = a + a == a + a\n }'),
    # choices
    "large subset": net("a = choose a 20 of [i for i in 0..40]"),
    "astronomic subset": net("a = choose a 50_000 of list(0..100_000)"),
    "almost all of a list": net("a = choose a 19_999 of list(0..20_000)"),
    "one of a long list": net("a = choose a 1 of list(0..20_000)"),
    "pairs": net("a = choose a 2 of list(0..200)\n b = choose b 2 of list(0..200)\n c = [a, b] == [b, a]"),
    "many alternatives": net("a = choose a(0..10 ** 9)"),
    "twenty thousand alternatives": net("a = choose a(0..20_000)\n x = x |> conv(a + 1) |> conv(a * a + 1)"),
    "depth": net("repeat choose depth(1, 32_767) {\n x = x |> relu\n }"),
    "depth of choices": net(
        "repeat choose depth(1, 2, 9_000) {\n x = x |> choose op { a: relu, b: gelu, c: conv(4) }\n }"
    ),
    "lists of chosen length": net(
        "l = [1]\n for i in 0..100 {\n l = (l + [i]) if choose c(true, false) else l\n }\n x = x |> conv(sum(l))"
    ),
    "sum of choices": net(CHOICES.format(60) + "x = x |> conv(sum(cs))"),
    "product of choices": net("a = 1\n for i in 0..40 {\n a = a * choose c(2, 3, 5, 7) + i\n }\n x = x |> conv(a)"),
    "list of choices": net(CHOICES.format(40) + "if cs == [1 for i in 0..40] {\n x = x |> relu\n }"),
    "sorted choices": net(CHOICES.format(40) + "b = sorted(cs)\n x = x |> conv(b[20])"),
    "parity": net(
        "cs = [choose c(0, 1) for i in 0..100]\n ds = [choose d(0, 1) for i in 0..100]\n "
        "require sum([a * b for a, b in zip(cs, reversed(ds))]) % 2 == 1"
    ),
    "far pairs": net("cs = [choose c(1, 2, 3) for i in 0..60]\n for i in 0..30 {\n require cs[i] == cs[i + 30]\n }"),
    "knapsack": net(
        "cs = [choose c(0, 1) for i in 0..60]\n require sum([c * 3 ** i for c, i in zip(cs, 0..60)]) > 10 ** 20"
    ),
    "colouring": colouring(90, 270, 3),
    "colouring with many colours": colouring(40, 200, 12),
    "many choices": net("for i in 0..100_000 {\n a = choose c(1, 2)\n }"),
    "many requirements": net(
        numbered_lines(5_000, "c{0} = choose c{0}(1, 2)")
        + "\n "
        + numbered_lines(4_999, "require c{0} == 1 or c4999 == 2")
    ),
    "ladder of requirements": net(
        "cs = [choose c(1, 2, 3) for i in 0..2000]\n for i in 0..1999 {\n require cs[i] <= cs[i + 1]\n }"
    ),
    "subset with a condition": net(
        "a = choose a 3 of list(0..49) where a[0] * a[1] % 7 != a[2] and a[0] < a[1]\n b = a[0] + a[2]"
    ),
    "merging many branches": net(numbered_lines(400, "if (choose c{0}(1, 2)) == 1 {{\n x = x |> relu\n }}")),
    "tensor of many choices": net(
        "for i in 0..40 {\n k = choose c(1, 2)\n if k == 1 {\n x = x |> relu\n }\n }\n for i in 0..40 {\n x = x + x\n }"
    ),
    "widths": net("for i in 0..60 {\n x = x |> conv(choose w(1..64))\n }"),
    "widths that meet": net(
        "a = choose a(1..3_000)\n b = choose b(1..3_000)\n x = x |> conv(a) |> conv(b) |> conv(a * b)"
    ),
    "dense": net("xs = [x]\n for i in 0..300 {\n xs = xs + [concat(xs) |> conv(choose w(4, 8))]\n }\n x = concat(xs)"),
    "peak of a wide net": net(
        "xs = [x |> conv(choose w(4, 8), kernel=choose k(1, 3)) for i in 0..200]\n x = sum(choose s 2 of xs[0:100])\n "
        "require peak_bytes < 100_000"
    ),
    "own calls": net(
        "w = [choose w(1, 2, 3, 4, 5, 6, 7, 8) for i in 0..6]\n x = own b(x, w[0], w[1], w[2], w[3], w[4], w[5])",
        "block b(x, a, b, c, d, e, f) {\n return x |> conv(a + b * 8 + c * 64 + d + e + f)\n}",
    ),
    "wirings": net("xs = [x, x |> relu]\n for i in 0..60 {\n xs = xs + [sum(choose ins 2 of xs)]\n }\n x = xs[61]"),
    "sum of ranges": net("ws = [choose w(1..65) for i in 0..200]\n x = x |> conv(sum(ws))"),
    "required sum of ranges": net("ws = [choose w(0..500) for i in 0..100]\n require sum(ws) == 20_000"),
    "sorted ranges": net("ws = [choose w(1..100) for i in 0..8]\n b = sorted(ws)\n x = x |> conv(b[3])"),
    "ends of a list of chosen length": net(
        "l = [choose a(1..9)]\n for i in 0..40 {\n l = l + [choose c(1..9)] if choose k(true, false) else l\n }\n"
        " x = x |> conv(l[0] * l[-1])"
    ),
    "filter of choices": net(
        "cs = [choose c(true, false) for i in 0..200]\n l = [i for i, c in enumerate(cs) if c]\n"
        " x = x |> conv(len(l) + 1)"
    ),
    "chosen concatenation": net(
        "xs = [x |> conv(choose w(1..9)) for i in 0..40]\n x = concat(choose s 20 of xs[0:24])"
    ),
    "two bounds": net("for i in 0..100 {\n x = x |> conv(choose w(1..64))\n }\n require macs <= 5M and params >= 100K"),
    # blocks
    "recursion": net(
        "x = x |> b(17)", "block b(x, d) {\n return x |> relu if d == 0 else x |> b(d - 1) |> b(d - 1)\n}"
    ),
    "recursion of choices": net(
        "x = x |> b(14)",
        "block b(x, d) {\n return x |> relu if d == 0 else x |> choose op { a: relu, b: b(d - 1) } |> b(d - 1)\n}",
    ),
    "a parameter of many items": f"net n(p = [{'1, ' * 100_000}1]) {{\n input x: f32[4]\n output y = x\n}}\n",
    "doubling blocks": net("x = x |> b60", doubling("x |> relu", "return x |> b{0} |> b{0}")),
    "doubling without nodes": net("x = x |> b60", doubling("x", "return x |> b{0} |> b{0}")),
    "doubling in lists": net("x = x |> b60", doubling("x |> relu", "return sum([f(x) for f in [b{0}, b{0}]])")),
    "doubling by alternatives": net(
        "x = x |> b60", doubling("x |> relu", "return x |> choose c {{ a: b{0}, b: b{0} }}")
    ),
    "doubling by branches": net(
        "x = x |> b25", doubling("x |> relu", "if x.channels > 3 {{ return x |> b{0} |> b{0} }}\n return x", 25)
    ),
    "cells": net(
        "repeat 9_000 {\n x = x |> c\n }",
        "cell c(x) {\n repeat 20 { x = x |> choose op { a: relu, b: gelu } }\n return x\n}",
    ),
    "cells that differ": net(
        "for i in 1..9_000 {\n x = x |> c(i)\n }",
        "cell c(x, w) {\n return x |> conv(w) |> choose op { a: relu, b: gelu }\n}",
    ),
    "many parameters": net(
        "x = f(x" + ", 1" * 20_000 + ")", "block f(x" + "".join(f", p{i}" for i in range(20_000)) + ") {\n return x\n}"
    ),
    "match of many arms": net("a = match 3 { " + ", ".join(f"{i} + 7 => {i}" for i in range(20_000)) + ", else => 1 }"),
    "match of many choices": net(
        "a = choose a(0..200)\n b = match a { " + ", ".join(f"{i} => {i}" for i in range(200)) + " }\n c = b + a"
    ),
    "many nets": "".join(f"net n{i} {{\n input x: f32[1]\n output y = x\n}}\n" for i in range(9_000)),
    "many blocks": net("x = x |> relu", "".join(f"block f{i}(x) {{\n return x\n}}\n" for i in range(20_000))),
    "many tags": net("a = choose a " + " ".join(f"@t{i}" for i in range(60_000)) + " (1, 2)"),
    "tags that are nearly others": net(
        "".join(
            f"x = x |> choose c{i} "
            + " ".join(f"@t{tag}g{j}x" for tag in ones for j in range(20_000))
            + " { a: relu }\n"
            for i, ones in enumerate(("ao", "a"))
        )
    ),
    "many labels": net("x = x |> choose op { " + ", ".join(f"a{i}: relu" for i in range(20_000)) + " }"),
    # tensors
    "huge dimensions": "net n {\n input x: f32[10 ** 400, 10 ** 400, 10 ** 400]\n output y = x |> conv(10 ** 300)\n}\n",
    "huge convolution": net("x = x |> conv(2 ** 40, kernel=2 ** 20 + 1) |> conv(2 ** 40)"),
    "many dimensions": "net n {\n input x: f32[" + "1, " * 60_000 + "1]\n output y = x |> relu\n}\n",
    "reshape to a range": net("x = x |> reshape(0..10 ** 9)\n y = x |> reshape([1 for i in 0..90_000])"),
    "concatenations": net("repeat 40 {\n x = concat(x, x)\n }"),
    # texts of programs
    "open brackets": "const a = " + "(" * 100_000,
    "brackets": "const a = " + "[" * 90 + "1" + "]" * 90 + "\n" + "const b = [[[[[[]]]]]]\n" * 30_000,
    "braces": "net n " + "{" * 100_000,
    "minuses": "const a = " + "-" * 1_000_000 + "1",
    "ternaries": "const a = " + "1 if true else " * 60_000 + "2",
    "long sum": net("a = 1" + " + 1" * 200_000),
    "long pipe": net("x = x" + " |> relu" * 100_000),
    "long else if": net("if false { a = 1 }" + " else if false { a = 1 }" * 40_000),
    "nested ifs": net("if true { " * 99 + "a = 1" + "}" * 99),
    "many statements": net("a = 1\n" * 150_000),
    "many constants": numbered_lines(60_000, "const A{0} = {0}"),
    "comment": "#" * (2**20 - 2),
    "comments": "# }\r\n" * 200_000,
    "newlines": "\n" * (2**20 - 10),
    "string": 'const a = "' + "a" * 1_000_000 + '"',
    "strings": "const a = [" + '"", ' * 250_000 + "]",
    "garbage": "@#$%^&*" * 140_000,
    "thousands of errors": net("\n ".join(f"a{i} = relv + conw + imagf{i}" for i in range(20_000))),
    "errors on a long line": net("a = [" + ", ".join(f"1 + relv{i}" for i in range(30_000)) + "]"),
    "errors with long names": net(
        "\n ".join(f"a = {'b' * 3_000}{i}" for i in range(300)), numbered_lines(900, "const " + "b" * 900 + "{0} = 1")
    ),
    "unclosed strings": "\n".join('const a = "a' for _ in range(60_000)),
    "long import": 'import "' + "a/" * 100_000 + '.arch"\n' + net(""),
    "many imports": "\n".join(f'import "a{i}.arch"' for i in range(30_000)) + net(""),
    "same library": "import std.attention\n" * 30_000 + net(""),
    # what a reader meets first
    "nested repeats of nodes": NET.format("repeat 1000 {\n repeat 1000 {\n x = x |> relu\n }\n }"),
    "doubling through a parameter": "block twice(x, f) {\n return x |> f |> f\n}\nblock b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return x |> twice(b{i - 1})\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "doubling through alternatives": "block b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return x |> choose c {{ a: b{i - 1}, b: b{i - 1} }}\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "doubling through lists": "block b0(x) {\n return x |> relu\n}\n"
    + "".join(f"block b{i}(x) {{\n return sum([f(x) for f in [b{i - 1}, b{i - 1}]])\n}}\n" for i in range(1, 61))
    + NET.format("x = x |> b60"),
    "open lists": "const a = " + "[" * 100_000 + "]" * 100_000,
    "unary minuses": "const a = " + "-" * 100_000 + "1",
    "nots": "const a = " + "not " * 50_000 + "true",
    "string doubling": NET.format('a = "abc"\n' + " a = a + a\n" * 60),
    "list doubling": NET.format("a = [1, 2]\n" + " a = a + a\n" * 60),
    "text of a list of strings": net(f's = "{"a" * 9_900}"\n b = [s for i in 0..99_000]\n t = str(b)'),
    "labels that are lists of strings": net(f's = "{"a" * 9_900}"\n b = [s for i in 0..99_000]\n k = choose k(b, 1)'),
    "list nesting": NET.format("a = [1]\n" + " a = [a, a]\n" * 60 + " b = a == a"),
    "long range": NET.format("a = [i for i in 0..10 ** 12]"),
    "sum of a long range": NET.format("a = sum(0..10 ** 9)"),
    "nested comprehension": NET.format("a = [i + j + k for i in 0..1000 for j in 0..1000 for k in 0..1000]"),
    "sum of forty choices": NET.format("a = sum([choose c(1, 2, 3, 5, 8, 13) for i in 0..40])\n x = x |> conv(a)"),
    "product of forty choices": NET.format(
        "a = 1\n for i in 0..40 {\n a = a * choose c(2, 3, 5, 7) + i\n }\n x = x |> conv(a)"
    ),
    "list of forty choices": NET.format(
        "a = [choose c(1, 2) for i in 0..40]\n if a == [1 for i in 0..40] {\n x = x |> relu\n }"
    ),
    "choices in depth": NET.format("x = x |> choose c { a: " * 90 + "relu" + "}" * 90),
    "a megabyte of comment": "#" * 2**20,
    "a megabyte of newlines": "\n" * (2**20 - 10),
    "two megabytes": "a" * 2**21,
    # kinds that others thought of
    "wirings that follow each other": net(
        "xs = [x]\n for i in 0..60 {\n a, b = choose w 2 of (0..i + 2)\n"
        " xs = xs + [xs[min(a, i)] + xs[min(b, i)]]\n }\n x = xs[-1]"
    ),
    "zips of chosen lists": net(
        "ls = [choose l([1, 2], [3, 4, 5], [6]) for i in 0..40]\n m = ls[0]\n"
        " for l in ls {\n m = [a + b for a, b in zip(m, l)]\n }\n x = x |> conv(sum(m))"
    ),
    "required products": net(
        "ws = [choose w(1..32) for i in 0..40]\n p = 1\n for w in ws {\n p = p * w\n }\n require p == 2 ** 60"
    ),
    "required differences": net(
        "ws = [choose w(1..200) for i in 0..100]\n for i in 0..100 {\n for j in 0..i {\n require ws[i] != ws[j]\n }\n }"
    ),
    "recursion with choices as arguments": net(
        "x = x |> b(12, 4)",
        "block b(x, d, w) {\n return x |> conv(w) if d == 0 else"
        " x |> b(d - 1, w + choose s(0, 1, 2)) |> b(d - 1, choose t(w, 8))\n}",
    ),
    "recurrence": net(
        "h = x\n for t in 0..20_000 {\n h = (h + x) |> conv(4) |> choose act { a: relu, b: tanh }\n }\n x = h"
    ),
    "strings of choices": net(
        'a = ""\n for i in 0..60 {\n a = a + str(choose c(1, 2, 3))\n }\n if a == "1" {\n x = x |> relu\n }'
    ),
    "volumes": "net n {\n input x: f32[4, 2 ** 20, 2 ** 20, 2 ** 20]\n y = x\n repeat 20_000 {\n"
    " y = y |> conv(choose w(1..64), kernel=3)\n }\n output z = y\n}\n",
    "repeats in comprehensions": net(
        "xs = [x |> b(i) for i in 0..1_000]\n x = sum(xs)",
        "block b(x, n) {\n repeat n {\n x = x |> relu\n }\n return x\n}",
    ),
    "experts": "import std.transformer\nnet n {\n input x: f32[16, 32]\n for i in 0..400 {\n"
    " gates = x |> linear(64) |> softmax\n"
    " x = sum([x |> linear(32) for e in 0..choose experts(2..64)])\n }\n output y = x\n}\n",
    "chosen sizes of maps": net(
        "for i in 0..60 {\n x = x |> resize(choose side(4..40)) |> conv(choose w(1..40), kernel=choose k(1, 3, 5))\n }"
    ),
    "how many, chosen": net("ws = choose ws 10 of (1..25)\n x = x |> conv(sum(ws))"),
    "an import of a long path": 'import "' + "a" * 1_000 + '/b.arch"\n' + net(""),
}
"""What is asked, and the program."""
