"""Values that are tensors for some choices and numbers for others, and defaults that choose."""

from __future__ import annotations

from collections import Counter

import pytest

import archir


def space(body: str, before: str = "") -> archir.Space:
    return archir.loads(f"{before}\nnet n {{\ninput x: f32[4, 6, 6]\nv = choose v(x, 2)\n{body}\n}}")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("output y = x * v", ["mul", "scale"]),
        ("output y = v + x", ["add", "shift"]),
        ("output y = -v * x", ["scale mul", "scale"]),
        ("output y = sum([x, v])", ["add", "shift"]),
        ("u = choose u(3, x)\noutput y = u * v * x", ["mul mul", "mul scale", "scale mul", "scale"]),
        ("output y = x - v", ["sub", "shift"]),
    ],
)
def test_arithmetic_on_mixed_values_builds_expected_operations(body: str, wanted: list[str]) -> None:
    found = space(body)
    graphs = [found.specialize(architecture) for architecture in found.enumerate()]
    named = [[graph[number].op.name for number in graph if graph[number].op.name != "input"] for graph in graphs]
    assert Counter(" ".join(sorted(ops)) for ops in named) == Counter(" ".join(sorted(one.split())) for one in wanted)


def test_a_default_is_evaluated_in_the_call_that_lacks_it() -> None:
    """Its choices and weights are those of the call, as if they stood in the block."""
    block = "block layer(x, kernel = choose kernel(1, 3), y = x |> conv(4)) {\nreturn (x |> conv(4, kernel)) + y\n}"
    found = space("z = x |> layer |> layer\noutput y = z |> choose last { more: layer, none: identity }", block)
    assert [choice.path for choice in found.choices][1:] == [
        "layer.kernel",
        "layer_2.kernel",
        "last",
        "last.more.kernel",
    ]
    assert found.size == 2 * (2 * 2 * (2 + 1))
    scopes = {found.graph[number].scope for number in found.graph}
    assert scopes >= {"layer.conv", "layer.conv_2", "layer_2.conv", "last.more.conv"}
