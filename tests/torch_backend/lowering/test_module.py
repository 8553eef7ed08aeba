"""Lowered networks as modules: names, sharing, memory, and what torch offers on modules."""

from __future__ import annotations

import copy
import shutil
import weakref
from collections.abc import Sequence
from functools import partial
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import archir.ops
from archir.diagnostics.errors import ArchError, Source, Span
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, outcome_in
from archir.ir.graph import Decision, Graph, Node, NodeId
from archir.ir.op import Init, Op, Weight
from archir.ir.structure import Input, Select
from archir.ops.activation import Identity, Relu, Relu6, Sigmoid
from archir.ops.arithmetic import Add, Mul, Sub
from archir.ops.attention import Attention, LocalAttention
from archir.ops.conv import Conv, Linear
from archir.ops.norm import BatchNorm, LayerNorm
from archir.ops.pool import GlobalAvgPool, MaxPool
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import Parameter, ToTokens
from archir_torch import BACKEND
from archir_torch.lowering.module import Network, lower, supports, weights_of
from archir_torch.lowering.rules import RULES
from archir_torch.lowering.weight_init import initial_tensor

MAP = (8, 6, 6)


def chain(*nodes: tuple[Op, str], dims: tuple[int, ...] = MAP) -> Graph:
    """Operations one after the other, with their scopes."""
    graph = Graph("chain")
    x = graph.add(Node(Input("x", dims)))
    for op, scope in nodes:
        x = graph.add(Node(op, scope=scope), x)
    graph.outputs["y"] = x
    return graph


def small_net() -> Graph:
    """A residual block, a local attention, tokens with positions, attention and a head."""
    graph = Graph("small")

    def add(op: Op, scope: str, *operands: NodeId) -> NodeId:
        return graph.add(Node(op, scope=scope), *operands)

    image = add(Input("image", (3, 8, 8)), "")
    x = add(Relu(), "", add(BatchNorm(), "stem.norm", add(Conv(8, 3, 2), "stem.conv", image)))
    y = add(BatchNorm(), "block[0].norm", add(Conv(8, 4), "block[0].conv", x))
    x = add(Relu(), "", add(Add(), "", x, add(DropPath(0.2), "block[0].drop_path", y)))
    x = add(LocalAttention(3, 2), "block[1].local", x, x, x)
    tokens = add(Add(), "", add(ToTokens(), "", x), add(Parameter((16, 8)), "positions"))
    query = add(Linear(8), "block[2].query", add(LayerNorm(), "block[2].norm", tokens))
    tokens = add(Add(), "", tokens, add(Attention(2), "", query, query, tokens))
    features = add(Dropout(0.1), "dropout", add(GlobalAvgPool(), "", tokens))
    graph.outputs["logits"] = add(Linear(5), "head", features)
    return graph


class ByHand(nn.Module):
    """`small_net` without attention and random operations, as a person writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.ModuleDict({"conv": nn.Conv2d(3, 8, 3, 2, 1, bias=False), "norm": nn.BatchNorm2d(8)})
        self.block = nn.ModuleList([nn.ModuleDict({"conv": nn.Conv2d(8, 8, 3, padding=1, bias=False)})])
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem["norm"](self.stem["conv"](x)), inplace=True)
        x = F.relu(x + self.block[0]["conv"](x), inplace=True)
        return self.head(x.mean((2, 3)))


def by_hand() -> Graph:
    """The graph of `ByHand`."""
    graph = Graph("hand")
    x = graph.add(Node(Input("image", (3, 8, 8))))
    x = graph.add(Node(Conv(8, 3, 2), scope="stem.conv"), x)
    x = graph.add(Node(Relu()), graph.add(Node(BatchNorm(), scope="stem.norm"), x))
    x = graph.add(Node(Add()), x, graph.add(Node(Conv(8), scope="block[0].conv"), x))
    x = graph.add(Node(GlobalAvgPool()), graph.add(Node(Relu()), x))
    graph.outputs["logits"] = graph.add(Node(Linear(5), scope="head"), x)
    return graph


def images(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def gradients(module: nn.Module, y: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    (y * torch.linspace(0, 1, y.numel()).reshape(y.shape)).sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


# the hand-written module


@pytest.mark.parametrize("training", [False, True])
def test_lowered_network_equals_handwritten_module(training: bool) -> None:
    network, hand = lower(by_hand()).train(training), ByHand().train(training)
    found = hand.load_state_dict(network.state_dict(), strict=False)
    assert found.unexpected_keys == []
    assert found.missing_keys == []
    assert list(network.state_dict()) == [n for n in hand.state_dict() if "num_batches" not in n]
    x = images()
    torch.testing.assert_close(network(x), hand(x), rtol=0, atol=0)
    ours, theirs = gradients(network, network(x)), gradients(hand, hand(x))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    torch.testing.assert_close(network.state_dict()["stem.norm.running_var"], hand.stem["norm"].running_var)


# names


def test_state_dict_is_keyed_by_scopes() -> None:
    graph = chain((Conv(8, bias=True), "layer[2][0].op.conv3"), (BatchNorm(), "layer[2][0].norm"))
    network = lower(graph)
    assert list(network.state_dict()) == list(weights_of(graph))
    assert list(network.state_dict())[:2] == ["layer.2.0.op.conv3.weight", "layer.2.0.op.conv3.bias"]
    assert [name for name, _ in network.named_parameters()] == [k for k, w in weights_of(graph).items() if not w.buffer]
    assert [name for name, _ in network.named_buffers()] == [k for k, w in weights_of(graph).items() if w.buffer]
    assert network.get_submodule("layer.2.0.op.conv3").extra_repr().startswith("conv, weight=[8, 8, 3, 3]")


ODD = [
    *("training", "training.forward.type", "half", "half_", "half__.half", "_modules[0]", "_steps", "__class__"),
    *("a.weight", "a", "a.b.running_mean", "function", "attributes.x", "input_names", "π odd", "0", "_"),
]


@pytest.mark.parametrize("scopes", [ODD, ODD[::-1]], ids=["forth", "back"])
def test_unusual_scopes_work_as_module_names(scopes: Sequence[str]) -> None:
    graph = chain(*((BatchNorm() if "." in scope else Conv(8), scope) for scope in scopes))
    network, x = lower(graph), torch.randn(2, *MAP)
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert set(state) == set(weights_of(graph))
    assert sum(tensor.numel() for tensor in state.values()) == sum(w.elements for w in weights_of(graph).values())
    assert all(network.get_submodule(name) is module for name, module in network.named_modules())
    network.train().eval()
    y = network(x)
    torch.testing.assert_close(torch.func.functional_call(network, dict(network.named_parameters()), (x,)), y)
    other = lower(graph, generator=torch.Generator().manual_seed(1)).eval()
    assert not torch.equal(other(x), y)
    other.load_state_dict(state)
    torch.testing.assert_close(other(x), y)
    torch.testing.assert_close(copy.deepcopy(network).double()(x.double()), y.double(), atol=1e-4, rtol=1e-4)
    nested = nn.Sequential(network)
    nested.load_state_dict({f"0.{name}": tensor for name, tensor in state.items()})
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})


def test_equal_scopes_share_weights() -> None:
    graph = Graph("shared")
    a, b = graph.add(Node(Input("a", (4,)))), graph.add(Node(Input("b", (4,))))
    left, right = (graph.add(Node(Linear(3), scope="twin"), x) for x in (a, b))
    graph.outputs |= {"left": left, "right": right}
    network = lower(graph)
    assert list(network.state_dict()) == ["twin.weight", "twin.bias"]
    x = torch.randn(2, 4)
    found = network(x, x)
    assert torch.equal(found["left"], found["right"])
    grad = gradients(network, found["left"] + found["right"])["twin.weight"]
    torch.testing.assert_close(grad, 2 * gradients(network, network(x, x)["left"])["twin.weight"])


def test_random_operations_need_no_scope() -> None:
    network = lower(chain((Dropout(0.0), ""), (Dropout(0.9), ""), (Conv(8), "a"), (DropPath(0.5), "a")))
    x = torch.randn(64, *MAP)  # one of them is dropped, almost surely
    assert (network.train()(x) == 0).any()
    assert torch.equal(network.eval()(x), network(x))
    assert list(network.state_dict()) == ["a.weight"]


# inputs and outputs


def test_inputs_are_positional_and_outputs_named() -> None:
    graph = Graph("several")
    numbers = [graph.add(Node(Input(name, (4,)))) for name in ("second", "first")]
    graph.outputs["difference"] = graph.add(Node(Sub()), *numbers)
    graph.outputs["copy"] = numbers[0]
    network = lower(graph)
    a, b = torch.randn(2, 3, 4)
    found = network(a, b)
    assert list(found) == ["difference", "copy"]
    assert torch.equal(found["difference"], a - b)
    assert torch.equal(found["copy"], a)
    with pytest.raises(TypeError, match=r"takes 2 inputs \(second, first\), got 1"):
        network(a)


def test_dead_nodes_are_not_lowered() -> None:
    graph = chain((Conv(8), "alive"))
    (x,) = graph.inputs.values()
    graph.add(Node(Conv(8), scope="dead"), x)
    graph.add(Node(Select("op", (0,))), x)
    network = lower(graph)
    assert list(network.state_dict()) == list(weights_of(graph)) == ["alive.weight"]


# memory


def test_values_are_freed_after_their_last_use() -> None:
    network = lower(chain(*((Linear(4), f"layer[{i}]") for i in range(4)), dims=(4,)))
    alive: list[weakref.ref[Tensor]] = []
    counts: list[int] = []

    def watch(module: nn.Module, operands: tuple[Tensor, ...], y: Tensor) -> None:
        alive.append(weakref.ref(y))
        counts.append(sum(one() is not None for one in alive))

    for i in range(4):
        network.get_submodule(f"layer.{i}").register_forward_hook(watch)
    with torch.no_grad():
        network(torch.randn(2, 4))
    assert counts == [1, 2, 2, 2]


def relu_after(op: Op, relu: Op, *, operands: int = 1, twice: bool = False, out: bool = False) -> Graph:
    graph = Graph("relu")
    x = graph.add(Node(Conv(8, 1), scope="first"), graph.add(Node(Input("x", MAP))))
    inner = graph.add(Node(op, scope="inner"), *[x] * operands)
    y = graph.add(Node(relu), inner)
    graph.outputs["y"] = graph.add(Node(Mul()), y, inner) if twice else graph.add(Node(Conv(4), scope="last"), y)
    if out:
        graph.outputs["inner"] = inner
    return graph


def overwrites(graph: Graph) -> bool:
    """Whether the network overwrites what it computes before the relu."""
    functions = [step.function for step in lower(graph)._steps]
    return any(function.keywords.get("inplace", False) for function in functions if isinstance(function, partial))


@pytest.mark.parametrize("relu", [Relu(), Relu6()], ids=lambda op: op.name)
@pytest.mark.parametrize(
    "op",
    [Conv(8, bias=True), BatchNorm(), Add(), Sub(), Sigmoid(), MaxPool(3), Identity(), Dropout(), Mul()],
    ids=lambda op: op.name,
)
def test_in_place_relu_keeps_outputs_and_gradients(op: Op, relu: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    operands = len(op.operands)
    graph = relu_after(op, relu, operands=operands)
    x = torch.randn(2, *MAP, generator=torch.Generator().manual_seed(0))

    def first_and_second(network: Network) -> list[Tensor]:
        """The output, the gradients, and the gradients of their norm."""
        torch.manual_seed(0)
        y = network.train()(x)
        parameters = list(network.parameters())
        firsts = torch.autograd.grad((y**2).sum(), parameters, create_graph=True)
        seconds = torch.autograd.grad(sum((g**2).sum() for g in firsts), parameters)
        return [y, *firsts, *seconds]

    found = first_and_second(lower(graph))
    monkeypatch.setattr("archir_torch.lowering.module._may_overwrite", lambda graph, number: False)
    torch.testing.assert_close(found, first_and_second(lower(graph)), rtol=0, atol=0)


def test_relu_runs_in_place_only_after_single_use_operands() -> None:
    for op, operands in ((Conv(8), 1), (BatchNorm(), 1), (Add(), 2), (Sub(), 2)):
        assert overwrites(relu_after(op, Relu(), operands=operands))
        assert not overwrites(relu_after(op, Relu(), operands=operands, twice=True))
        assert not overwrites(relu_after(op, Relu(), operands=operands, out=True))
    for op in (Sigmoid(), Identity(), Dropout(), MaxPool(3)):
        assert not overwrites(relu_after(op, Relu()))
    assert not overwrites(chain((Relu(), "")))


def test_inputs_are_never_overwritten() -> None:
    x = torch.randn(2, *MAP)
    before = x.clone()
    lower(chain((Relu(), ""), (Relu6(), "")))(x)
    assert torch.equal(x, before)


# what torch offers on modules


def test_compiles_to_one_graph() -> None:
    network, x = lower(small_net()), images()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled.eval()(x), network.eval()(x))
    network.train()
    found = gradients(network, compiled(x))
    assert set(found) == {name for name, _ in network.named_parameters()}
    assert all(grad.isfinite().all() for grad in found.values())


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from torch's own modules, as inductor imports them
def test_runs_under_inductor() -> None:
    network, x = lower(by_hand()).eval(), images()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(network, fullgraph=True)(x), network(x))


def test_exports_with_any_batch() -> None:
    network = lower(small_net()).eval()
    exported = torch.export.export(network, (images(),), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),))
    for batch in (1, 5):
        torch.testing.assert_close(exported.module()(images(batch)), network(images(batch)))
    assert set(exported.state_dict) == set(weights_of(small_net()))


def test_runs_in_float64_and_bfloat16() -> None:
    network, x = lower(small_net()).eval(), images()
    y = network(x)
    torch.testing.assert_close(copy.deepcopy(network).double()(x.double()), y.double(), atol=1e-5, rtol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        evaluated, trained = network(x), network.train()(x)
    assert evaluated.dtype == trained.dtype == torch.bfloat16
    torch.testing.assert_close(evaluated.float(), y, atol=0.05, rtol=0.05)
    found = gradients(network, trained)
    assert all(grad.dtype == torch.float32 and grad.isfinite().all() for grad in found.values())


def test_layers_can_be_listed_hooked_replaced_and_parametrized() -> None:
    network, x = lower(by_hand()).eval(), images()
    y = network(x)
    weight_norm(network.get_submodule("stem.conv"))
    torch.testing.assert_close(network(x), y)
    network.head = nn.Linear(8, 7)
    assert network(x).shape == (2, 7)
    seen: list[str] = []
    for name, module in network.named_modules():
        module.register_forward_hook(lambda module, operands, y, name=name: seen.append(name))
    network(x)
    assert [n for n in seen if "parametrizations" not in n] == ["stem.conv", "stem.norm", "block.0.conv", "head", ""]
    twin = copy.deepcopy(network)
    with torch.no_grad():
        twin.head.weight.zero_()
    assert not torch.equal(twin(x), network(x))


def test_submodule_in_eval_mode_keeps_its_statistics() -> None:
    network = lower(by_hand()).train()
    network.get_submodule("stem").eval()
    before = network.state_dict()["stem.norm.running_mean"].clone()
    network(images())
    assert torch.equal(network.state_dict()["stem.norm.running_mean"], before)


# initial weights


def test_weights_come_from_the_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again = (lower(small_net(), generator=torch.Generator().manual_seed(7)).state_dict() for _ in range(2))
    other = lower(small_net(), generator=torch.Generator().manual_seed(8)).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_initial_weights_have_declared_distributions() -> None:
    generator, fan_in = torch.Generator().manual_seed(0), 64
    found = {kind: initial_tensor(Weight((200, 300), kind, fan_in), generator) for kind in get_args(Init)}
    deviations = {"zeros": 0, "ones": 0, "slope": 0, "lecun": 1 / 8, "fan_in": 1 / 8 / 3**0.5, "token": 0.0176}
    largest = {"zeros": 0, "ones": 1, "fan_in": 1 / 8, "token": 0.04}
    assert set(found) == set(deviations)
    for kind, tensor in found.items():
        assert tensor.std().item() == pytest.approx(deviations[kind], rel=0.02)
        assert tensor.abs().max() <= largest.get(kind, 1)
        assert tensor.mean().item() == pytest.approx({"ones": 1.0, "slope": 0.25}.get(kind, 0.0), abs=0.005)


# refusals


def test_open_choices_are_rejected_with_source_position() -> None:
    source = Source("space.arch", "x |> choose op { a: relu  b: sigmoid }\ny |> conv(choose width(4, 8))")
    op, width = Choice("op", ("a", "b"), 0), Choice("width", (4, 8), 1)
    graph = chain((Relu(), ""))
    graph.decisions = {choice.path: Decision(choice) for choice in (op, width)}
    (x,) = graph.inputs.values()
    select = graph.add(Node(Select("op", (0, 1)), Span(source, 5, 11)), graph.outputs["y"], x)
    channels = if_else(outcome_in(width, [0]), 4, 8)
    graph.outputs["y"] = graph.add(Node(Conv(channels), Span(source, 44, 48), "conv"), select)
    found = supports(graph)
    assert [(d.code, str(d.span)) for d in found] == [("A0901", "space.arch:1:6"), ("A0901", "space.arch:2:6")]
    assert "`op` must be chosen" in found[0].message
    assert "`width` must be chosen" in found[1].message
    assert BACKEND.supports(graph) == found
    with pytest.raises(ArchError) as refusal:
        lower(graph)
    assert list(refusal.value.diagnostics) == found


def test_operations_without_a_rule_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain((Relu(), ""))
    assert supports(graph) == []
    monkeypatch.delitem(RULES, Relu)
    (problem,) = supports(graph)
    assert (problem.code, problem.message) == ("A0904", "the torch backend has no lowering of `relu`")


def test_backend_lowers_and_runs_on_arrays() -> None:
    network = BACKEND.lower(by_hand(), seed=3)
    assert BACKEND.name == "torch"
    expected = lower(by_hand(), generator=torch.Generator().manual_seed(3)).eval()(images())
    run = BACKEND.runner(network.train())
    torch.testing.assert_close(torch.from_numpy(run({"image": images().numpy()})["logits"]), expected)
    assert network.training
    assert list(BACKEND.arrays(network)) == list(weights_of(by_hand()))


def test_state_dict_may_hold_arrays() -> None:
    graph = archir.loads("net n {\n    input x: f32[4]\n    output y = x |> linear(3) |> linear(2)\n}").graph
    source, module = archir.compile(graph, seed=1), archir.compile(graph)
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in source.state_dict().items()}
    next(iter(arrays.values())).setflags(write=False)
    module.load_state_dict(arrays)
    assert all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in module.state_dict().items())
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict(dict([*arrays.items()][1:]))
