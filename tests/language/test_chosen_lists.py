"""Lists whose length depends on choices are values like any others."""

from __future__ import annotations

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.typing import infer
from tests.language.reference.compare import disagreement


def space(body: str, before: str = "") -> archir.Space:
    return archir.loads(f"{before}\nnet n {{\ninput image: f32[4, 6, 6]\n{body}\n}}")


def channels(value: str, statements: str = "", before: str = "") -> list[int]:
    """A value in every architecture, as the number of channels of a convolution."""
    found = space(f"{statements}\noutput y = image |> conv({value}, kernel=1)", before)
    graphs = [found.specialize(architecture) for architecture in found.enumerate()]
    return [graph[graph.outputs["y"]].op.attributes()["channels"] for graph in graphs]


A = "a = choose a(1, 2)"
N = "n = choose n(1, 2, 3)"

VALUES = {
    "1 + len([1 for k in [a] if k == 2])": (A, [1, 2]),
    "len([1 for i in 0..n])": (N, [1, 2, 3]),
    "sum([i + 1 for i in 0..n if i > 0]) + 1": (N, [1, 3, 6]),
    "sum([i * j + 1 for i in 0..n for j in 0..i]) + 1": (N, [1, 2, 6]),
    "len([0, 0, 0][:n])": (N, [1, 2, 3]),
    "[5, 6, 7][0:n][-1]": (N, [5, 6, 7]),
    "len(zip(0..n, [1, 2])) ": (N, [1, 2, 2]),
    "sum(reversed([w for w in [1, 2, 4] if w <= n])[:1])": (N, [1, 2, 2]),
    "sorted([3, n, 2])[0]": (N, [1, 2, 2]),
    "len([w for w in [1, 2, 3] if w in 0..n] + [0])": (N, [1, 2, 3]),
    "max([w for w in [1, 2, 3] if w <= n])": (N, [1, 2, 3]),
    "1 if [n, 1] == [2, 1] else 2": (N, [2, 1, 2]),
    "1 if [w for w in [1, 2] if w < n] == [1] else 2": (N, [2, 1, 2]),
    "1 if (choose c([n, 1], [2])) == [2, 1] else 2": (N, [2, 2, 1, 2, 2, 2]),
    "1 if any([w > 2 for w in 0..n + 1]) else 2": (N, [2, 2, 1]),
    "choose w([w for w in [1, 2, 3] if w >= n])": (N, [1, 2, 3, 2, 3, 3]),
    "choose w([round_to(32, 8), 64])": ("", [32, 64]),
    "sum(choose m 1 of [w for w in [1, 2] if w >= a])": (A, [1, 2, 2]),
    "sum(choose m 2 of [w for w in [1, 2, 3] if w != n])": (N, [5, 4, 3]),
    "sum([f(i) for i in 0..n])": (N, [1, 3, 6]),
    "len(g(0..n))": (N, [1, 2, 3]),
}
BLOCKS = "block f(i) {\nreturn i + 1\n}\nblock g(l) {\nreturn [x for x in l]\n}"


@pytest.mark.parametrize("value", VALUES)
def test_values_of_chosen_lists_equal_expected_channels(value: str) -> None:
    statements, wanted = VALUES[value]
    assert channels(value, statements, BLOCKS) == wanted


def test_loop_over_chosen_list_runs_chosen_times() -> None:
    body = "x = image\nfor i in [j for j in 0..n if j > 0] {\nx = x |> conv(4 + i, kernel=1)\n}\noutput y = x"
    found = space(f"{N}\n{body}")
    assert [len(found.specialize(one)) for one in found.enumerate()] == [1, 2, 3]


def test_conditional_tensors_in_lists_are_concatenated_and_summed() -> None:
    found = space(f"{N}\noutput y = concat([image |> conv(i + 1, kernel=1) for i in 0..n])")
    shapes = [infer(found.specialize(one)) for one in found.enumerate()]
    assert [[*types.values()][-1].shape[0] for types in shapes] == [1, 3, 6]
    assert space(f"{A}\noutput y = sum([image] + [image |> conv(4) for _ in [a] if a == 2])").size == 2
    assert space(f"{A}\noutput y = sum([image, image[0:4]] + [image[0:8] for u in 0..1 if a > 2])").size == 2


def test_choices_after_conditional_return_are_not_counted() -> None:
    body = "for i in 0..3 {\nif i == n {\nreturn x\n}\nx = x |> choose op { r: relu, g: gelu }\n}\nreturn x"
    before = f"block f(x, n) {{\n{body}\n}}"
    assert space(f"{N}\noutput y = image |> f(n)", before).size == 2 + 4 + 8


def test_choice_from_filtered_list_offers_only_present_values() -> None:
    found = space("n = choose n(1, 2)\nw = choose w([w for w in [8, 16] if w >= 8 * n])\noutput y = image |> conv(w)")
    assert [dict(one) for one in found.enumerate()] == [{"n": 1, "w": 8}, {"n": 1, "w": 16}, {"n": 2, "w": 16}]
    assert found.size == found.satisfying == 3
    with pytest.raises(ArchError, match="A1008"):
        found.architecture({"n": 2, "w": 8})


def test_alternatives_without_numbers_have_labels() -> None:
    found = space("x = image |> relu\noutput y = choose t(image, x)")
    assert [one["t"] for one in found.enumerate()] == ["image", "x"]
    found = space(f"{A}\noutput y = image |> conv(choose w([a, 3]))")
    assert {one["w"] for one in found.enumerate()} == {"a", 1}


LEGAL = [
    "x == none",
    "1/2 == 0.5",
    "[1, 2] == 1..3",
    "[] == [1]",
    "relu == f",
    "mixed == 1",
    'mixed == "a"',
    '1 in [1, "a"]',
    'kind == "se"',
    "i == depth",
]


@pytest.mark.parametrize("condition", LEGAL)
def test_comparison_that_may_hold_is_accepted(condition: str) -> None:
    body = 'x = image\nmixed = choose mixed(1, "a")\ndepth = choose depth(2, 3)\nkind = "none"\nfor i in 0..2 {\n'
    space(f"{body}if {condition} {{\nx = x |> relu\n}}\n}}\noutput y = x", "block f(x) {\nreturn x\n}")


NEVER = [
    "image == 1", "image == image", '"a" == 1', "k != true", 'k in ["a"]', "[k] == [\"a\"]", 'op == "c"', "k == 4",
    'op in ["c", "d"]', "k not in (4, 6)", "1.5 == \"a\"", "relu == 1", "[1] == 1",
]  # fmt: skip


@pytest.mark.parametrize("condition", NEVER)
def test_rejects_comparison_that_never_holds(condition: str) -> None:
    body = f'k = choose k(3, 5)\nop = choose op("a", "b")\noutput y = image |> relu if {condition} else image'
    with pytest.raises(ArchError, match=r"A0311|A0312"):
        space(body)


@pytest.mark.parametrize(("subject", "pattern"), [("op", '"c"'), ("k", '"a"'), ("k", "4"), ("image", "1")])
def test_rejects_pattern_that_never_matches(subject: str, pattern: str) -> None:
    match = f"match {subject} {{ {pattern} => image |> relu, else => image }}"
    body = f'k = choose k(3, 5)\nop = choose op("a", "b")\noutput y = {match}'
    with pytest.raises(ArchError, match=r"A0311|A0312"):
        space(body)


@pytest.mark.parametrize(
    "line",
    [
        "y = x + (choose c { a: x |> relu, b: 3 })",
        "y = (choose c { a: x |> relu, b: 3 }) * 2 + x",
        "y = x + -(choose c { a: x |> relu, b: 3 })",
        "y = sum([choose c { a: x |> relu, b: 3 }, x, choose d { a: 1, b: x }])",
        "y = sum((choose c { a: x, b: [x, x, 1] })[0:2]) + x",
    ],
)
def test_choice_of_tensor_or_number_computes_as_each_outcome(line: str) -> None:
    text = f"net n {{\n    input x: f32[4, 4, 4]\n    {line}\n    output z = y\n}}\n"
    assert disagreement(text) is None
