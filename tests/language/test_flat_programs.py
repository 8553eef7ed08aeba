"""Networks written as `.arch` files, and read back."""

from __future__ import annotations

import random

import pytest

import archir
from archir.diagnostics.errors import RuleError
from archir.language.decompiler.flat_program import to_source
from tests.ir.test_relax import WAYS, space_of


@pytest.mark.parametrize("name", WAYS)
def test_architecture_survives_source_round_trip(name: str) -> None:
    space = space_of(name)
    rng = random.Random(0)
    for _ in range(2):
        graph = space.specialize(space.sample(rng))
        again = archir.loads(to_source(graph))
        assert archir.canonical_hash(again.graph) == archir.canonical_hash(graph)
        assert archir.cost(again.specialize(again.sample())) == archir.cost(graph)
        assert list(again.graph.outputs) == list(graph.outputs)


def test_source_omits_default_attributes() -> None:
    graph = archir.loads("net n() {\n    input x: f32[4, 8, 8]\n    output y = conv(x, 8, kernel=5) |> relu\n}").graph
    assert to_source(graph) == (
        "net n {\n    input x: f32[4, 8, 8]\n    conv_out = conv(x, channels=8, kernel=5)\n"
        "    relu_out = relu(conv_out)\n    output y = relu_out\n}\n"
    )


def test_shared_weights_and_second_name_of_output_are_written() -> None:
    source = """net tied {
    input x: f32[8]
    first = linear(x, 8, weights="both")
    z = linear(relu(first), 8, weights="both")
    output y = z
    output again = z
}
"""
    graph = archir.loads(source).graph
    again = archir.loads(to_source(graph)).graph
    assert archir.canonical_hash(again) == archir.canonical_hash(graph)
    assert again.outputs == graph.outputs
    assert archir.cost(again).params == archir.cost(graph).params == 72


def test_choices_are_refused() -> None:
    space = archir.loads("net n() {\n    input x: f32[4]\n    output y = choose op { a: linear(x, 4), b: x }\n}")
    with pytest.raises(RuleError, match="not made"):
        to_source(space.graph)
