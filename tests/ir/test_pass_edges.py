"""Edge cases of passes, each against numbers that a change of one condition would alter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.reader import parse_graph
from archir.ir.structure import Mix
from archir.passes.deploy import fold_norm
from archir.passes.freeze import freeze
from archir.passes.lift import lift
from archir.passes.partial import partial
from archir.passes.relax import relax
from archir.passes.resize import valid_sizes
from archir.passes.specialize import specialize
from archir.spaces.completion import smallest
from archir_torch.lowering.module import lower
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from archir_torch.supernet.network import SuperNetwork, extract

TOKENS = '%0 = input "x" f32[6, 4]\n'
MAP = '%0 = input "x" f32[4, 6, 6]\n'


def net(start: str, *operations: str) -> Graph:
    body = "".join(f"%{i} = {text}\n" for i, text in enumerate(operations, 1))
    return parse_graph(f"net tiny {{\n{start}{body}output y = %{len(operations)}}}")


def vanishes(start: str, *operations: str) -> bool:
    """Whether the last operation has the hash of a zero of its type, of operands of which %1 is a zero."""
    made = net(start, "zero(%0)", *operations)
    zero = net(start, "zero(%0)", *operations, f"zero(%{len(operations) + 1})")
    return canonical_hash(made) == canonical_hash(zero)


@pytest.mark.parametrize(
    ("start", "operation", "wanted"),
    [
        (TOKENS, "attention(%1, %0, %0)", False),  # means of the values
        (TOKENS, "attention(%0, %1, %0)", False),
        (TOKENS, "attention(%0, %0, %1)", True),
        (MAP, "local_attention(%1, %0, %0, kernel=3) @ a", False),
        (MAP, "local_attention(%0, %1, %0, kernel=3) @ a", False),
        (MAP, "local_attention(%0, %0, %1, kernel=3) @ a", True),
        (TOKENS, "matmul(%0, %1, transpose=true)", True),
        (TOKENS, "matmul(%1, %0, transpose=true)", True),
        (TOKENS, "mul(%0, %1)", True),
        (TOKENS, "layer_norm(%1) @ n", False),  # its bias
        (TOKENS, "layer_norm(%1, affine=false)", True),
        (TOKENS, "rms_norm(%1) @ n", True),
        (MAP, "group_norm(%1, groups=2) @ n", False),
        (MAP, "group_norm(%1, groups=2, affine=false)", True),
        (MAP, "batch_norm(%1, affine=false) @ n", False),
        (MAP, "conv(%1, channels=4) @ c", True),
        (MAP, "conv(%1, channels=4, bias=true) @ c", False),
        (TOKENS, "linear(%1, channels=4) @ c", False),
        (TOKENS, "linear(%1, channels=4, bias=false) @ c", True),
        (TOKENS, "conv1d(%1, channels=4) @ c", True),
        (TOKENS, "concat(%1, %0)", False),
        (TOKENS, "concat(%1, %1)", True),
        (TOKENS, "softmax(%1)", False),
        (TOKENS, "exp(%1)", False),
        (TOKENS, "hard_sigmoid(%1)", False),
        (TOKENS, "gelu(%1)", True),
        (TOKENS, "scale(%0, factor=0.0)", True),
        (TOKENS, "shift(%1, amount=1.0)", False),
    ],
)
def test_operations_whose_result_is_zero_are_detected(start: str, operation: str, wanted: bool) -> None:
    assert vanishes(start, operation) == wanted


def test_canonical_hash_collects_terms_and_cancels_zeros() -> None:
    def same(one: list[str], other: list[str]) -> bool:
        return canonical_hash(net(TOKENS, *one)) == canonical_hash(net(TOKENS, *other))

    thrice = ["relu(%0)", "add(%1, %1)", "add(%2, %1)"]
    assert same(thrice, ["relu(%0)", "scale(%1, factor=3.0)"])
    assert not same(thrice, thrice[:2])
    assert same(["relu(%0)", "sub(%0, %1)", "add(%2, %1)"], ["identity(%0)"])
    assert not same(["relu(%0)", "sub(%0, %1)", "sub(%2, %1)"], ["identity(%0)"])
    assert same(["relu(%0)", "sub(%1, %1)", "add(%0, %2)"], ["identity(%0)"])
    assert not same(["relu(%0)", "mul(%1, %1)"], ["relu(%0)", "add(%1, %1)"])
    assert same(["relu(%0)", "mul(%0, %1)", "mul(%2, %1)"], ["relu(%0)", "mul(%1, %1)", "mul(%0, %2)"])


# relaxing


def relaxed(program: str) -> MixedNetwork:
    return lower_mixed(relax(archir.loads(program).graph))


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_equal_alternatives_share_one_mixture_term() -> None:
    network = "net n() {\n input x: f32[4]\n output y = choose a { one: x, other: x |> relu, same: x }\n}"
    graph = relax(archir.loads(network).graph)
    (mix,) = (graph[number].op for number in graph if isinstance(graph[number].op, Mix))
    assert isinstance(mix, Mix)
    assert sorted(mix.shares) == [((0, 2),), ((1,),)]
    x, w = numbers(3, 4), torch.tensor([0.2, 0.3, 0.5])
    torch.testing.assert_close(lower_mixed(graph)(x, weights={"a": w}), 0.7 * x + 0.3 * x.relu())


def test_repeated_alternative_counts_twice_in_mixture() -> None:
    network = relaxed("net n() {\n input x: f32[4]\n p = choose p 2 of [x, x, x |> relu]\n output y = p[0] + p[1]\n}")
    x, w = numbers(3, 4), torch.tensor([0.2, 0.3, 0.5])  # of both x, of the first and the last, of the second and it
    (name,) = network.names
    found = network(x, weights={name: w})
    torch.testing.assert_close(found, 0.2 * 2 * x + 0.8 * (x + x.relu()))


def test_choice_used_twice_is_weighted_once() -> None:
    network = relaxed("""
        net n() {
            input x: f32[4]
            k = choose k(1, 2)
            p = x |> relu if k == 1 else x |> tanh
            output y = p if k == 1 else x |> exp
        }
    """)
    x, w = numbers(3, 4), torch.tensor([0.3, 0.7])
    (name,) = network.names
    torch.testing.assert_close(network(x, weights={name: w}), 0.3 * x.relu() + 0.7 * x.exp())


# a part of the channels


def test_bypassed_channels_of_strided_choice_are_pooled() -> None:
    program = """
        net n() {
            input x: f32[8, 6, 6]
            output y = choose op { most: x |> max_pool(3, stride=2), mean: x |> avg_pool(3, stride=2) }
        }
    """
    network = lower_mixed(relax(partial(archir.loads(program).graph, ["op"], 4)))
    x, w = numbers(3, 8, 6, 6), torch.tensor([0.3, 0.7])
    part, rest = x[:, :2], x[:, 2:]
    mean = F.avg_pool2d(part, 3, 2, 1, count_include_pad=False)
    seen = 0.3 * F.max_pool2d(part, 3, 2, 1) + 0.7 * mean
    whole = torch.cat([seen, F.max_pool2d(rest, 2, 2)], 1)
    wanted = whole.reshape(3, 4, 2, 3, 3).transpose(1, 2).reshape(3, 8, 3, 3)
    torch.testing.assert_close(network(x, weights={"op": w}), wanted)


# deployment


@pytest.mark.parametrize("shared", ["a convolution", "a norm", "nothing", "an output"])
def test_norms_are_folded_only_if_weights_are_unshared(shared: str) -> None:
    first, second = ("c", "c") if shared == "a convolution" else ("c", "d")
    norms = ("n", "n") if shared == "a norm" else ("n", "m")
    body = (
        f"{MAP}%1 = conv(%0, channels=4) @ {first}\n%2 = batch_norm(%1) @ {norms[0]}\n%3 = relu(%2)\n"
        f"%4 = conv(%3, channels=4) @ {second}\n%5 = batch_norm(%4) @ {norms[1]}\n"
    )
    outputs = "output y = %5\noutput z = %1" if shared == "an output" else "output y = %5"
    graph = parse_graph(f"net tiny {{\n{body}{outputs}}}")
    module = lower(graph).eval()
    rng = torch.Generator().manual_seed(0)
    for tensor in module.state_dict().values():
        tensor.copy_(torch.rand(tensor.shape, generator=rng) + 0.5)
    weights = {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}
    made, found = fold_norm(graph, weights)
    other = lower(made).eval()
    other.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in found.items()})
    x = numbers(2, 4, 6, 6)
    one, two = module(x), other(x)
    for name in one if isinstance(one, dict) else [None]:
        torch.testing.assert_close(*((v[name] if name else v) for v in (two, one)), rtol=1e-4, atol=1e-4)
    left = sum(type(made[number].op).__name__ == "BatchNorm" for number in made)
    assert left == {"nothing": 0, "an output": 1}.get(shared, 2)


# sharing


@pytest.mark.parametrize(("small", "large"), [(1, 3), (1, 7), (3, 5), (3, 7), (5, 7)])
def test_small_kernel_is_center_of_large_kernel(small: int, large: int) -> None:
    space = archir.loads(f"""
        net n() {{
            input x: f32[2, 9, 9]
            output y = x |> conv(3, kernel=choose k({small}, {large}), bias=false)
        }}
    """)
    network = SuperNetwork(space.graph)
    (whole,) = network.parameters()
    (own,) = extract(network, smallest(space)).parameters()
    margin = (large - small) // 2
    assert torch.equal(own, whole[:, :, margin : large - margin, margin : large - margin])


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("x |> linear(k + 1)", ["input", "linear"]),
        ("[x, x, x, x, x, x, y |> linear(8)][k]", ["input", "select"]),
        ("y |> linear(8)", ["input", "slice", "linear"]),
    ],
)
def test_ill_typed_nodes_of_excluded_architectures_are_dropped(output: str, wanted: list[str]) -> None:
    """`y` is right where k is not 6, and needed by none, by those whose k is 6, or by all."""
    graph = archir.loads(f"""net n {{
        input x: f32[8, 4]
        k = choose k(0, 1, 6)
        require k < 5
        y = x |> slice(stop=k + 1, axis=1)
        output z = {output}
    }}""").graph
    assert [graph[number].op.name for number in graph] == wanted


def test_freeze_removes_inactive_choices() -> None:
    graph = archir.loads("""net n {
        input x: f32[4, 8, 8]
        y = choose op { skip: x, wide: x |> conv(4, kernel=choose kernel(1, 3)) }
        output z = y |> conv(choose last(2, 3))
    }""").graph
    kept = {outcome: [*freeze(graph, {"op": outcome}).decisions] for outcome in (0, 1)}
    assert kept == {0: ["last"], 1: ["op.wide.kernel", "last"]}


def test_own_size_of_network_is_no_other_valid_size() -> None:
    graph = archir.loads("net n { input x: f32[8, 1, 1]\n output y = x |> flatten |> linear(4) }").graph
    with pytest.raises(ArchError, match=r"A0932.*at 2 x 2, `linear.weight` of `linear` would be"):
        valid_sizes(graph, ["height", "width"])
    tokens = archir.loads("net n { input x: f32[2, 8]\n output y = x |> linear(4) }").graph
    assert valid_sizes(tokens, ["tokens"]) == [(1,), (4,)]


def test_valid_sizes_stay_within_embedding_table() -> None:
    graph = archir.loads("net n { input x: f32[8, 4]\n output y = x + (positions(x) |> embedding(9, 4)) }").graph
    assert valid_sizes(graph, ["tokens"]) == [(4,), (7,), (2,), (1,)]


def test_lift_makes_one_version_per_active_choice_combination() -> None:
    space = archir.loads("""net n {
        input x: f32[4, 8, 8]
        kernel = choose op { plain: 1, elastic: choose size(3, 5) }
        output y = x |> conv(4, kernel=kernel) |> avg_pool(kernel)
    }""")
    lifted = lift(space.graph)
    layers = [f"conv.op_{name}" for name in ("plain.size_3", "elastic.size_3", "elastic.size_5")]
    assert [lifted[n].scope for n in lifted if lifted[n].op.name in ("conv", "avg_pool")] == [
        *layers,
        *["avg_pool"] * 3,
    ]
    for architecture in space.enumerate():
        one, other = (specialize(graph, architecture.outcomes) for graph in (space.graph, lifted))
        assert canonical_hash(one) == canonical_hash(other)


def test_alternatives_are_mixed_once_for_all_readers() -> None:
    graph = archir.loads("""net n {
        input x: f32[8, 6, 6]
        y = choose op { one: x |> relu, two: x |> tanh }
        output z = y + (y |> sigmoid)
    }""").graph
    relaxed = relax(graph)
    readers = {relaxed[n].op.name: len(relaxed.consumers(n)) for n in relaxed}
    assert (readers["relu"], readers["tanh"]) == (1, 1)
