"""Every lowering against what its operation declares: shapes, weights, multiply-accumulates, gradients."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import archir.ops  # noqa: F401  (declares the operations)
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ir.op import OPS, Composite, Op
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.ops.activation import Relu, Zero
from archir.ops.arithmetic import Greater
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.constant import Constant, Positions, Sinusoidal
from archir.ops.conv import Conv
from archir.ops.lookup import Equal, OneHot, ToNumbers
from archir.ops.norm import BatchNorm
from archir.ops.pool import AvgPool, MaxPool
from archir.ops.random import Dropout, DropPath
from archir.ops.routing import TopPositions
from archir.ops.shape import ChannelShuffle, FirstTokens, Pad, Parameter, Slice, ToMap, ToTokens, Upsample
from archir.passes.cost import cost
from archir_torch.lowering.local_attention import _Shifted, _unfolded_attention, local_attention
from archir_torch.lowering.module import Network, lower, missing_rules, weights_of
from archir_torch.lowering.rules import RULES, lowers
from archir_torch.measuring.latency import random_input
from tests.op_cases import CASES, MAP, TOKENS, VECTOR, Case, Dims, graph_of, name_of
from tests.soak import with_soak


def run(network: Network, *inputs: Tensor) -> Tensor:
    found = network(*inputs)
    return found["y"] if isinstance(found, dict) else found


def inputs_of(graph: Graph, batch: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [random_input(kind, batch, generator) for kind in ranged_inputs(graph).values()]


def test_every_operation_has_a_rule_and_a_case() -> None:
    assert missing_rules() == []
    assert {type(op) for op, _ in CASES} == {
        op for op in OPS.values() if not (op.internal or issubclass(op, Composite))
    }


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_lowered_shapes_weights_and_gradients_match_declaration(case: Case) -> None:
    op, dims = case
    graph = graph_of(op, dims)
    network = lower(graph)
    assert {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()} == {
        key: weight.shape for key, weight in weights_of(graph).items()
    }
    for training in (False, True):
        inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs_of(graph)]
        y = run(network.train(training), *inputs)
        assert tuple(y.shape) == (2, *infer(graph)[graph.outputs["y"]].shape)
        assert y.isfinite().all()
        fixed = isinstance(op, Parameter) and not op.trained
        looked_up = Zero, OneHot, Equal, ToNumbers, Greater, Sinusoidal, Positions, Constant, TopPositions
        if fixed or isinstance(op, looked_up):
            assert not y.requires_grad
            continue
        network.zero_grad()
        (y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum().backward()
        computed = inputs[:1] if isinstance(op, FirstTokens) else inputs  # of the other, it takes the length
        leaves = [*network.parameters(), *(x for x in computed if x.requires_grad and dims)]
        assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in leaves)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_batch_result_equals_results_of_single_samples(case: Case) -> None:
    """In evaluation a batch gives what its samples give one by one."""
    op, dims = case
    graph = graph_of(op, dims)
    network = lower(graph).eval()
    inputs = inputs_of(graph)
    with torch.no_grad():
        together = run(network, *inputs)
        apart = torch.cat([run(network, *(x[i : i + 1] for x in inputs)) for i in range(2)])
    torch.testing.assert_close(together, apart)
    precise = run(network.double(), *(x.double() if x.is_floating_point() else x for x in inputs))
    assert precise.dtype == (torch.float64 if together.is_floating_point() else together.dtype)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_cost_equals_parameters_and_macs_of_module(case: Case) -> None:
    """For every operation: torch's counter, which knows convolutions and matrix products, or a formula."""
    op, dims = case
    compared(op, dims, graph_of(op, dims))


def compared(op: Op, dims: tuple[Dims, ...], graph: Graph) -> None:
    network = lower(graph).eval().requires_grad_(False)
    plain = sdpa_kernel(SDPBackend.MATH)  # the counter does not know the flash kernel for CPUs
    with FlopCounterMode(display=False) as counter, torch.no_grad(), plain:
        y = run(network, *inputs_of(graph, 1))
    assert tuple(y.shape) == (1, *infer(graph)[graph.outputs["y"]].shape)
    if op.random:
        assert run(network.train(), *inputs_of(graph, 1)).isfinite().all()
    found = cost(graph)
    macs = window_macs(op, *dims) if isinstance(op, LocalAttention) else counter.get_total_flops() / 2
    assert (found.params, found.macs) == (sum(weight.numel() for weight in network.parameters()), macs)


def window_macs(op: LocalAttention, query: Dims, key: Dims, value: Dims) -> int:
    """For each position: query times keys and weights times values over a window, query times the offsets of rows and
    columns. The module multiplies elementwise, which the counter does not count."""
    window = op.kernel * op.kernel
    offsets = op.kernel * key[0] if op.relative else 0
    return math.prod(query[1:]) * (query[0] * window + value[0] * window + offsets)


PARTS = 16


def near(value: object) -> list[object]:
    """Values of an attribute beside one: integers one more and one less, and the least ones."""
    if type(value) is int:
        return sorted({value - 1, value + 1, -1, 0, 1, 2} - {value})
    if type(value) is float:
        return [0.0, -value, value + 1]
    if type(value) is bool:
        return [not value]
    if type(value) is tuple:
        return [(*value[:i], other, *value[i + 1 :]) for i, item in enumerate(value) for other in near(item)]
    return []


def variants() -> Iterator[tuple[tuple[object, ...], Case]]:
    """Every case with one attribute changed, or one dimension or the rank of one operand or of all of that shape; and
    the rule and what was changed."""
    for op, dims in CASES:
        for name, value in op.attributes().items():
            plain = [None] if value is not None and type(op).__dataclass_fields__[name].default is None else []
            for i, other in enumerate([*near(value), *plain]):
                yield (type(op), name, i), (replace(op, **{name: other}), dims)
        for i, shape in enumerate(dims):
            for j, other in enumerate([*near(shape), shape[1:], (2, *shape)]):
                yield (type(op).infer, i, j), (op, (*dims[:i], other, *dims[i + 1 :]))
                yield (type(op).infer, "all", j), (op, tuple(other if one == shape else one for one in dims))


@pytest.mark.parametrize("part", with_soak(range(PARTS), [0]))
def test_accepted_attribute_variants_match_declared_costs(part: int) -> None:
    """Near the limits of attributes and dimensions: shapes, parameters and MACs of one sample.

    The first part has a third of the changes of each rule.
    """
    few = list(dict.fromkeys(dict(reversed(list(variants()))).values()))[::3]
    rest = [*dict.fromkeys(few + [case for _, case in variants()])][len(few) :] if part else []
    ran = 0
    for op, dims in rest[part - 1 :: PARTS - 1] if part else few:
        graph = graph_of(op, dims)
        try:
            verify(graph)
        except ArchError:
            continue
        if isinstance(op, AxialAttention) and dims[0][0] == op.heads:
            continue  # products over one channel are elementwise, which the counter does not count
        compared(op, dims, graph)
        ran += 1
    assert ran


def one(op: Op, *inputs: Tensor, training: bool = False, **weights: Tensor) -> Tensor:
    """The operation on these inputs, with these weights if any are given."""
    network = lower(graph_of(op, tuple(tuple(x.shape[1:]) for x in inputs))).train(training)
    if weights:
        network.load_state_dict({f"block.0.op.{name}": tensor for name, tensor in weights.items()}, strict=False)
    return run(network, *inputs)


def test_padding_never_wins_a_max_pool() -> None:
    x = -torch.rand(2, 3, 5, 5) - 1
    for kernel in (2, 3):
        assert (one(MaxPool(kernel), x) < 0).all()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_avg_pool_leaves_padding_out(kernel: int, stride: int) -> None:
    ones, size = torch.ones(1, 1, 5, 5), math.ceil(5 / stride)
    torch.testing.assert_close(one(AvgPool(kernel, stride), ones), torch.ones(1, 1, size, size))
    assert one(AvgPool(kernel, stride, count_padding=True), ones).amin() < 1


def test_even_kernels_pad_more_at_end() -> None:
    x, weight = torch.randn(2, 3, 7, 7), torch.randn(4, 3, 4, 4)
    expected = F.conv2d(F.pad(x, (1, 2, 1, 2)), weight, stride=2)
    torch.testing.assert_close(one(Conv(4, 4, 2), x, weight=weight), expected)


@pytest.mark.parametrize("shape", [MAP, TOKENS, VECTOR])
def test_batch_norm_normalizes_each_channel(shape: Dims) -> None:
    axis = 1 if len(shape) != 2 else 2
    x = torch.randn(16, *shape) * 3 + 1
    others = [i for i in range(x.dim()) if i != axis]
    graph = graph_of(BatchNorm(), (shape,))
    network = lower(graph).train()
    y = network(x)
    torch.testing.assert_close(y.mean(others), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(others, correction=0), torch.ones(8), atol=1e-4, rtol=0)
    state = network.state_dict()
    torch.testing.assert_close(state["block.0.op.running_mean"], 0.1 * x.mean(others))
    torch.testing.assert_close(state["block.0.op.running_var"], 0.9 + 0.1 * x.var(others))
    before = {key: tensor.clone() for key, tensor in state.items()}
    network.eval()(x)
    assert all(torch.equal(before[key], tensor) for key, tensor in network.state_dict().items())


def reference_attention(query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float | None) -> Tensor:
    """Softmax attention of tokens, head by head."""
    width = query.shape[2] // heads
    parts = []
    for q, k, v in zip(query.chunk(heads, 2), key.chunk(heads, 2), value.chunk(heads, 2), strict=True):
        logits = q @ k.transpose(1, 2) * (width**-0.5 if scale is None else scale)
        parts.append(logits.softmax(2) @ v)
    return torch.cat(parts, 2)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_attention_splits_channels_head_major(scale: float | None) -> None:
    query, key, value = torch.randn(2, 12, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 6)
    expected = reference_attention(query, key, value, 2, scale)
    torch.testing.assert_close(one(Attention(2, scale), query, key, value), expected)
    maps = [x.transpose(1, 2).unflatten(2, size) for x, size in ((query, (3, 4)), (key, (1, 7)), (value, (7, 1)))]
    maps[2] = maps[2].reshape(2, 6, 1, 7)
    got = one(Attention(2, scale), *maps)
    torch.testing.assert_close(got, expected.transpose(1, 2).unflatten(2, (3, 4)))


@pytest.mark.parametrize("relative", [False, True])
def test_local_attention_is_attention_to_a_window(relative: bool) -> None:
    heads, kernel, channels = 2, 3, 6
    query, key, value = torch.randn(3, 2, channels, 4, 5).unbind()
    rows, columns = torch.randn(3, kernel), torch.randn(3, kernel)
    keys = F.unfold(key, kernel, padding=1).view(2, channels, kernel, kernel, 20)
    values = F.unfold(value, kernel, padding=1).view(2, heads, 3, 9, 20)
    if relative:
        offsets = [rows[:, :, None].expand(-1, -1, kernel), columns[:, None].expand(-1, kernel, -1)]
        keys = keys + torch.cat(offsets)[:, :, :, None]
    logits = query.view(2, heads, 3, 1, 20) * keys.reshape(2, heads, 3, 9, 20)
    expected = (logits.sum(2, keepdim=True).softmax(3) * values).sum(3).view(2, channels, 4, 5)
    weights = {"rows": rows, "columns": columns} if relative else {}
    got = one(LocalAttention(kernel, heads, relative), query, key, value, **weights)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    ("op", "size", "keys"),
    [
        (Attention(2, dropout=0.25), 4, 16),
        (LocalAttention(3, 2, dropout=0.25), 4, 9),
        (LocalAttention(3, 2, dropout=0.25), 40, 9),
        (AxialAttention("width", 2, dropout=0.25), 4, 4),
    ],
    ids=["all", "unfolded", "shifted", "axial"],
)
def test_dropout_of_attention_zeroes_weights_in_training(op: Op, size: int, keys: int) -> None:
    network = lower(graph_of(op, ((4, size, size),) * 3)).train()
    query = torch.zeros(8, 4, size, size)
    value = torch.ones(8, 4, size, size)
    torch.manual_seed(0)
    y = run(network, query, query, value)[:, :, 1:-1, 1:-1].detach()  # the windows at the border hold zeros
    kept = y * keys * 0.75  # all weights are 1 / keys, so a sum of weights counts those that are kept
    torch.testing.assert_close(kept, kept.round())
    assert 0.7 < float(kept.mean()) / keys < 0.8
    assert len(kept.round().unique()) > 2
    torch.testing.assert_close(run(network.eval(), query, query, value)[:, :, 1:-1, 1:-1], torch.ones_like(y))


def test_both_forms_of_local_attention_have_the_same_gradients_with_dropout() -> None:
    generator = torch.Generator().manual_seed(0)
    operands = [torch.rand(2, 4, 5, 6, generator=generator, requires_grad=True) for _ in range(3)]
    bias = torch.rand(2, 2, 9, 5, 6, generator=generator, requires_grad=True)
    mask = (torch.rand(2, 2, 9, 5, 6, generator=generator) > 0.3) / 0.7
    forms = [form(*operands, bias, mask, 2, 3) for form in (_Shifted.apply, _unfolded_attention)]
    gradients = [torch.autograd.grad(y.square().sum(), [*operands, bias]) for y in forms]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_dropout_zeroes_numbers_and_drop_path_samples() -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 5)
    numbers, samples = one(Dropout(0.25), x, training=True), one(DropPath(0.25), x, training=True)
    for y in (numbers, samples):
        torch.testing.assert_close(y.unique(), torch.tensor([0, 4 / 3]))
        assert 0.9 < y.mean() < 1.1
    assert (samples.amin(1) == samples.amax(1)).all()
    assert not (numbers.amin(1) == numbers.amax(1)).all()
    assert torch.equal(one(Dropout(0.25), x), x)
    assert torch.equal(one(DropPath(0.25), x), x)


def test_data_movement_operations_place_elements_correctly() -> None:
    x = torch.arange(2 * 4 * 2 * 3.0).reshape(2, 4, 2, 3)
    tokens = one(ToTokens(), x)
    assert torch.equal(tokens[1, 4], x[1, :, 1, 1])
    assert torch.equal(one(ToMap(2), tokens), x)
    assert torch.equal(one(ChannelShuffle(2), x), x[:, [0, 2, 1, 3]])
    assert torch.equal(one(Upsample(2), x)[:, :, ::2, 1::2], x)
    assert torch.equal(one(Pad((1, 0, 0, 2)), x)[:, :, :2, 1:], x)
    assert torch.equal(one(Slice(1, 3), x), x[:, 1:3])
    assert torch.equal(one(Slice(1, 3), tokens), tokens[:, :, 1:3])


def test_lowering_signatures_match_operation_attributes_and_weights() -> None:
    """Positional parameters are the operands, then weights by the operation's names."""
    for op, dims in CASES:
        function = RULES[type(op)].function
        parameters = inspect.signature(function).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        weights = op.weights(*map(TensorType, dims))
        assert set(weights) <= set(positional), f"{op.name} lacks weights"
        fixed = [name for name in type(op).operands if not name.startswith("*")]
        required = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
        assert set(required[len(fixed) :]) <= set(weights), f"{op.name} has no {required}"


def test_registration_rejects_duplicate_or_mismatched_lowering() -> None:
    with pytest.raises(ArchError, match=r"A3103.*two lowerings to torch are named `relu`"):
        lowers(Relu)(lambda x: x)

    class Imagined(Op, abstract=True):
        name = "imagined"

    def rule(x: Tensor, *, colour: str) -> Tensor:
        return x

    with pytest.raises(AssertionError, match="imagined has no colour"):
        lowers(Imagined)(rule)
    assert Imagined not in RULES


def test_local_attention_of_empty_batch_is_empty() -> None:
    query = torch.zeros(0, 8, 6, 6)
    assert local_attention(query, query, query, heads=2, kernel=3).shape == (0, 8, 6, 6)
