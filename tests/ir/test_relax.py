"""Lifting, freezing and relaxing choices keep the meaning of every architecture."""

from __future__ import annotations

import random

import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.structure import Mix, Select
from archir.ir.verify import verify
from archir.passes.freeze import freeze
from archir.passes.lift import lift
from archir.passes.relax import relax
from archir.passes.specialize import specialize
from archir.spaces.space import Space
from archir_torch.lowering.module import lower
from archir_torch.supernet.mixture import lower_mixed
from tests.examples import elaborated
from tests.soak import with_soak

SPACES = {
    "full_attention": ("full_attention/full_attention.arch", {}),
    "darts": ("darts/darts.arch:darts", {"channels": 4, "cells": 3, "affine": False, "zero": True, "size": 8}),
    "nos": ("nos/nos.arch:nos", {"channels": 16, "cells": 3, "affine": False, "size": 8}),
    "autola": ("autola/autola.arch", {"zero": True, "affine": False, "size": 8, "depth": 8}),
    "nas_bench_201": ("nas_bench_201/nas_bench_201.arch", {"channels": 4, "cells": 1, "size": 16}),
    "trionet": ("trionet/trionet.arch", {}),
    "glit": ("glit/glit.arch", {"depth": 4}),
    "mobilenet_v3_ofa": ("mobilenet_v3_ofa/mobilenet_v3_ofa.arch", {}),
    "autoformer": ("autoformer/autoformer.arch", {}),
}
ELASTIC = {"trionet", "glit", "mobilenet_v3_ofa", "autoformer"}
"""Spaces with choices of values, whose alternatives get names of their own."""


FEW = {"darts", "nas_bench_201", "nos"}
"""Spaces whose mixtures the suite runs, of pairs and of plain choices; the soak runs those of all."""


WAYS = with_soak(SPACES, {"darts", "nas_bench_201", "nos", "glit", "mobilenet_v3_ofa", "autoformer"})
"""Cells of pairs and of plain choices, layers that may be skipped, elastic convolutions and attention."""


def space_of(name: str) -> Space:
    path, parameters = SPACES[name]
    return elaborated(path, **parameters)


@pytest.mark.parametrize("name", WAYS)
def test_every_space_can_be_relaxed(name: str) -> None:
    relaxed = relax(space_of(name).graph)
    verify(relaxed)
    assert not [n for n in relaxed if isinstance(relaxed[n].op, Select) or relaxed[n].op.varying_attributes]
    assert any(isinstance(relaxed[n].op, Mix) for n in relaxed)


@pytest.mark.parametrize("name", with_soak(sorted(ELASTIC), {"mobilenet_v3_ofa", "autoformer"}))
def test_lifting_keeps_every_architecture(name: str) -> None:
    space = space_of(name)
    lifted = lift(space.graph)
    verify(lifted)
    rng = random.Random(1)
    for _ in range(5):
        outcomes = space.sample(rng).outcomes
        one, other = specialize(space.graph, outcomes), specialize(lifted, outcomes)
        assert archir.canonical_hash(one) == archir.canonical_hash(other)


@pytest.mark.parametrize("name", WAYS)
def test_freezing_in_two_steps_equals_specializing(name: str) -> None:
    space = space_of(name)
    rng = random.Random(2)
    for _ in range(2):
        outcomes = space.sample(rng).outcomes
        some = {path: outcome for path, outcome in outcomes.items() if rng.random() < 0.5}
        frozen = freeze(space.graph, some)
        verify(frozen)
        assert not some.keys() & frozen.decisions.keys()
        whole = specialize(space.graph, outcomes)
        assert archir.canonical_hash(specialize(frozen, outcomes)) == archir.canonical_hash(whole)


@pytest.mark.parametrize("name", with_soak([name for name in SPACES if name not in ELASTIC], FEW))
def test_one_hot_mixture_weights_equal_the_architecture(name: str) -> None:
    """What a mixture is at its corners, run whole and run lazily, is the network of that architecture."""
    space = space_of(name)
    mixed = lower_mixed(relax(space.graph, edges="weighted")).eval()
    (number,) = space.graph.inputs.values()
    x = torch.randn(2, *space.graph[number].op.dims, generator=torch.Generator().manual_seed(0))  # type: ignore[attr-defined]
    learned = mixed.state_dict()
    choices = {choice.path: choice for choice in space.choices}
    rng = random.Random(3)
    for _ in range(2):
        architecture = space.sample(rng)
        network = lower(space.specialize(architecture)).eval()
        network.load_state_dict({key: learned[key] for key in network.state_dict()})
        weights, active = {}, {}
        for key, length in mixed.names.items():
            choice = choices[key.removesuffix("*")]
            weights[key] = torch.zeros(length)
            if (outcome := architecture.outcomes.get(choice.path)) is not None:
                active[key] = choice.subsets[outcome] if key.endswith("*") else [outcome]
                weights[key][list(active[key])] = 1
        with torch.no_grad():
            wanted = network(x)
            for found in (mixed(x, weights=weights), mixed(x, weights=weights, active=active)):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_relax_merges_selections_and_sums_into_one_mixture() -> None:
    space = archir.loads("""
net n() {
    input x: f32[4]
    a = choose a { left: linear(x, 4), none: zero(x) }
    b = choose b { same: x, inner: choose c { one: linear(x, 4), two: linear(x, 4) } }
    output y = a + b
}""")
    relaxed = relax(space.graph)
    (mix,) = (relaxed[n].op for n in relaxed if isinstance(relaxed[n].op, Mix))
    assert mix == Mix(("a", "b", "b.inner.c"), (((0,), (), ()), ((), (0,), ()), ((), (1,), (0,)), ((), (1,), (1,))))


def test_lift_turns_value_choice_into_operation_choice() -> None:
    space = archir.loads("""
net n() {
    input x: f32[4, 8, 8]
    kernel = choose kernel(3, 5)
    output y = x |> conv(8, kernel=kernel) |> relu
}""")
    lifted = lift(space.graph)
    convs = {lifted[n].scope: lifted[n].op.kernel for n in lifted if lifted[n].op.name == "conv"}  # type: ignore[attr-defined]
    assert convs == {"conv.kernel_3": 3, "conv.kernel_5": 5}
    assert [lifted[n].op for n in lifted if isinstance(lifted[n].op, Select)] == [Select("kernel", (0, 1))]


def test_relax_applies_to_given_choices_only() -> None:
    space = archir.loads("""
net n() {
    input x: f32[4]
    y = choose a { one: linear(x, 4), two: linear(x, 4) }
    output z = choose b { one: linear(y, 4), two: linear(y, 4) }
}""")
    relaxed = relax(space.graph, ["a"])
    verify(relaxed)
    assert [type(relaxed[n].op) for n in relaxed if isinstance(relaxed[n].op, Mix | Select)] == [Mix, Select]


@pytest.mark.parametrize(
    ("code", "program", "said"),
    [
        ("A2003", "output y = choose a { one: linear(x, 4), two: linear(x, 6) }", "`y` depends on `a`"),
        (
            "A2001",
            "output y = choose a { f: x |> linear(4), g: x |> linear(4) |> as_gate }",
            "`a` cannot be relaxed",
        ),
    ],
)
def test_choices_that_cannot_be_relaxed_are_named(code: str, program: str, said: str) -> None:
    with pytest.raises(ArchError) as caught:
        relax(archir.loads(f"net n() {{\n    input x: f32[4]\n    {program}\n}}").graph)
    assert code in {d.code for d in caught.value.diagnostics}
    assert said in str(caught.value)
    assert caught.value.diagnostics[0].span is not None


def test_rejects_too_many_lifted_versions() -> None:
    lines = "\n".join(f"    a{i} = choose a{i}(1, 2, 3)" for i in range(6))
    width = " + ".join(f"a{i}" for i in range(6))
    program = f"net n() {{\n    input x: f32[4]\n{lines}\n    output y = x |> linear({width}) |> linear(2)\n}}"
    with pytest.raises(ArchError, match="A2002"):
        relax(archir.loads(program).graph)
