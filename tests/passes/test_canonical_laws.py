"""Canonicalization laws merge only networks that compute the same."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations, islice, permutations, product
from zlib import crc32

import pytest
import torch
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError, RuleError
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph, Node, state_name
from archir.ir.op import Op
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.typing import infer
from archir.ops import activation, arithmetic, norm, pool, shape
from archir.ops import random as randoms
from archir_torch.lowering.module import Layer, lower
from tests.passes.test_canonical import MAP, X

TOKENS = '%0 = input "x" f32[6, 4]\n'

LAWS: dict[str, tuple[str, list[str], list[str]]] = {
    "axes from the end": (MAP, ["mean_over(%0, axis=-1)"], ["mean_over(%0, axis=2)"]),
    "axes of the largest from the end": (MAP, ["max_over(%0, axis=-3)"], ["max_over(%0, axis=0)"]),
    "axes of softmax": (MAP, ["softmax(%0, axis=-1)"], ["softmax(%0, axis=2)"]),
    "axes of concat": (MAP, ["relu(%0)", "concat(%0, %1, axis=-3)"], ["relu(%0)", "concat(%0, %1)"]),
    "pads": (MAP, ["pad(%0, amount=1)"], ["pad(%0, amount=(1, 1, 1, 1))"]),
    "dilation of one pixel": (
        MAP,
        ["conv(%0, channels=4, kernel=1, dilation=3) @ a"],
        ["conv(%0, channels=4, kernel=1) @ a"],
    ),
    "shuffle of one group": (MAP, ["channel_shuffle(%0, groups=1)", "relu(%1)"], ["relu(%0)"]),
    "shuffle of single channels": (MAP, ["channel_shuffle(%0, groups=4)", "relu(%1)"], ["relu(%0)"]),
    "slice of slice": (X, ["slice(%0, start=1, stop=7)", "slice(%1, start=2, stop=5)"], ["slice(%0, start=3, stop=6)"]),
    "slices of two axes": (
        MAP,
        ["slice(%0, stop=2, axis=0)", "slice(%1, start=1, stop=5, axis=2)"],
        ["slice(%0, start=1, stop=5, axis=2)", "slice(%1, stop=2, axis=0)"],
    ),
    "slice of concat": (
        X,
        ["relu(%0)", "concat(%0, %1)", "slice(%2, start=6, stop=13)"],
        ["slice(%0, start=6)", "relu(%0)", "slice(%2, stop=5)", "concat(%1, %3)"],
    ),
    "slice of the second part": (
        X,
        ["relu(%0)", "concat(%0, %1)", "slice(%2, start=8, stop=13)"],
        ["relu(%0)", "slice(%1, stop=5)"],
    ),
    "slice of the first part": (X, ["relu(%0)", "concat(%0, %1)", "slice(%2, stop=8)"], ["identity(%0)"]),
    "numbers that are zero": (
        X,
        ['constant(%0, values=(0.0, 0.0, 0.0), dtype="f32")'],
        ["slice(%0, stop=3)", "zero(%1)"],
    ),
    "slice across concat": (
        MAP,
        ["relu(%0)", "concat(%0, %1)", "slice(%2, stop=3, axis=1)"],
        ["slice(%0, stop=3, axis=1)", "relu(%1)", "concat(%1, %2)"],
    ),
    "concat in concat": (
        X,
        ["relu(%0)", "tanh(%0)", "concat(%0, %1)", "concat(%3, %2)"],
        ["relu(%0)", "tanh(%0)", "concat(%1, %2)", "concat(%0, %3)"],
    ),
    "both halves": (X, ["slice(%0, stop=4)", "slice(%0, start=4)", "concat(%1, %2)", "relu(%3)"], ["relu(%0)"]),
    "both halves of what was computed": (
        X,
        ["slice(%0, stop=4)", "slice(%0, start=4)", "relu(%1)", "relu(%2)", "concat(%3, %4)"],
        ["relu(%0)"],
    ),
    "both halves of what was computed, beside another": (
        X,
        ["slice(%0, stop=4)", "slice(%0, start=4)", "relu(%1)", "relu(%2)", "exp(%0)", "concat(%3, %4, %5)"],
        ["relu(%0)", "exp(%0)", "concat(%1, %2)"],
    ),
    "scale and scale": (X, ["scale(%0, factor=0.1)", "scale(%1, factor=0.2)"], ["scale(%0, factor=0.02)"]),
    "shift and shift": (X, ["shift(%0, amount=1.0)", "shift(%1, amount=-3.0)"], ["shift(%0, amount=-2.0)"]),
    "scale of shift": (
        X,
        ["shift(%0, amount=1.0)", "scale(%1, factor=0.5)"],
        ["scale(%0, factor=0.5)", "shift(%1, amount=0.5)"],
    ),
    "what shifts cancel": (X, ["shift(%0, amount=2.0)", "sub(%1, %0)", "shift(%2, amount=-2.0)"], ["zero(%0)"]),
    "twice": (X, ["add(%0, %0)"], ["scale(%0, factor=2.0)"]),
    "negative": (X, ["zero(%0)", "sub(%1, %0)"], ["scale(%0, factor=-1.0)"]),
    "factors of products": (
        X,
        ["relu(%0)", "scale(%1, factor=2.0)", "mul(%0, %2)"],
        ["relu(%0)", "mul(%0, %1)", "add(%2, %2)"],
    ),
    "scale of a sum": (
        X,
        ["tanh(%0)", "add(%0, %1)", "scale(%2, factor=3.0)"],
        ["tanh(%0)", "scale(%1, factor=3.0)", "scale(%0, factor=3.0)", "add(%2, %3)"],
    ),
    "a rate of 0": (X, ["dropout(%0, rate=0.0)", "relu(%1)"], ["relu(%0)"]),
    "a path that is never dropped": (X, ["drop_path(%0, rate=0.0)", "relu(%1)"], ["relu(%0)"]),
    "zero through the largest": (MAP, ["zero(%0)", "max_over(%1, axis=0)"], ["max_over(%0, axis=0)", "zero(%1)"]),
    "zero through axial attention": (
        MAP,
        ["zero(%0)", 'axial_attention(%0, %0, %1, axis="height", heads=1) @ a'],
        ["zero(%0)"],
    ),
    "reordered before or after": (TOKENS, ["relu(%0)", "transpose(%1)"], ["transpose(%0)", "relu(%1)"]),
    "reshaped sums": (
        TOKENS,
        ["tanh(%0)", "add(%0, %1)", "reshape(%2, shape=(24,))"],
        ["reshape(%0, shape=(24,))", "tanh(%1)", "add(%1, %2)"],
    ),
    "reshaped products": (
        TOKENS,
        ["tanh(%0)", "mul(%0, %1)", "transpose(%2)"],
        ["transpose(%0)", "tanh(%1)", "mul(%1, %2)"],
    ),
    "moved and scaled": (
        TOKENS,
        ["scale(%0, factor=2.0)", "shift(%1, amount=1.0)", "transpose(%2)", "gelu(%3)"],
        ["scale(%0, factor=2.0)", "shift(%1, amount=1.0)", "gelu(%2)", "transpose(%3)"],
    ),
    "upsampled before or after": (MAP, ["silu(%0)", "upsample(%1)"], ["upsample(%0)", "silu(%1)"]),
    "side by side before or after": (
        X,
        ["tanh(%0)", "concat(%0, %1)", "relu(%2)"],
        ["tanh(%0)", "relu(%0)", "relu(%1)", "concat(%2, %3)"],
    ),
    "side by side in part": (
        X,
        ["tanh(%0)", "exp(%0)", "concat(%0, %1)", "relu(%3)", "concat(%4, %2)"],
        ["tanh(%0)", "exp(%0)", "relu(%0)", "relu(%1)", "concat(%4, %2)", "concat(%3, %5)"],
    ),
    "a bias before a batch norm": (
        MAP,
        ["conv(%0, channels=4, bias=true) @ a", "batch_norm(%1) @ n"],
        ["conv(%0, channels=4) @ a", "batch_norm(%1) @ n"],
    ),
    "a bias of a convolution that is called elsewhere": (
        MAP,
        ["conv(%0, channels=4, bias=true) @ a", "conv(%1, channels=4, bias=true) @ a", "batch_norm(%2) @ n"],
        [
            "conv(%0, channels=4, bias=true) @ a",
            "conv(%1, channels=4, bias=true) @ a",
            "shift(%2, amount=1.0)",
            "batch_norm(%3) @ n",
        ],
    ),
    "a shift before a batch norm": (MAP, ["shift(%0, amount=3.0)", "batch_norm(%1) @ n"], ["batch_norm(%0) @ n"]),
}


def network(start: str, operations: list[str]) -> Graph:
    body = "".join(f"%{i} = {text}\n" for i, text in enumerate(operations, 1))
    return parse_graph(f"net tiny {{\n{start}{body}output y = %{len(operations)}}}")


def computed(graph: Graph, training: bool = True) -> Tensor:
    """In double precision, with weights that follow from their names."""
    module = lower(graph).double().train(training)
    for name, tensor in module.named_parameters():
        numbers = torch.Generator().manual_seed(crc32(name.encode()))
        tensor.data.copy_(torch.randn(tensor.shape, generator=numbers, dtype=torch.double))
    (number,) = graph.inputs.values()
    dims = graph[number].op.infer().shape
    x = torch.randn(5, *dims, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    found: Tensor = module(x)
    return found.detach()


@pytest.mark.parametrize("law", LAWS)
def test_law_merges_networks_with_equal_outputs(law: str) -> None:
    start, *both = LAWS[law]
    one, other = (network(start, operations) for operations in both)
    torch.testing.assert_close(computed(one), computed(other))
    assert canonical_hash(one) == canonical_hash(other)


APART: dict[str, tuple[str, list[str], list[str]]] = {
    "axes": (MAP, ["mean_over(%0, axis=-1)"], ["mean_over(%0, axis=1)"]),
    "pads": (MAP, ["pad(%0, amount=(2, 0, 0, 0))"], ["pad(%0, amount=(0, 2, 0, 0))"]),
    "shuffles": (MAP, ["channel_shuffle(%0, groups=2)"], ["relu(%0)"]),
    "slices": (X, ["slice(%0, start=1)", "slice(%1, stop=4)"], ["slice(%0, stop=4)"]),
    "halves the other way round": (X, ["slice(%0, stop=4)", "slice(%0, start=4)", "concat(%2, %1)"], ["identity(%0)"]),
    "halves of two": (
        X,
        ["relu(%0)", "slice(%0, stop=4)", "slice(%1, start=4)", "concat(%2, %3)"],
        ["identity(%0)"],
    ),
    "a half and what was computed": (
        X,
        ["relu(%0)", "slice(%0, stop=4)", "concat(%1, %2)"],
        ["relu(%0)", "slice(%0, stop=4)", "concat(%2, %1)"],
    ),
    "halves along another axis": (
        '%0 = input "x" f32[4, 4]\n',
        ["slice(%0, stop=2)", "slice(%0, start=2)", "concat(%1, %2, axis=0)"],
        ["identity(%0)"],
    ),
    "concat along axes": (
        '%0 = input "x" f32[4, 4]\n',
        ["relu(%0)", "concat(%0, %1, axis=0)", "concat(%0, %1, axis=0)", "concat(%2, %3, axis=1)"],
        ["relu(%0)", "concat(%0, %0, axis=1)", "concat(%1, %1, axis=1)", "concat(%2, %3, axis=0)"],
    ),
    "scale and shift": (
        X,
        ["scale(%0, factor=2.0)", "shift(%1, amount=1.0)"],
        ["shift(%0, amount=1.0)", "scale(%1, factor=2.0)"],
    ),
    "a shift is not a scale": (X, ["shift(%0, amount=1.0)"], ["scale(%0, factor=2.0)"]),
    "softmax before or after": (TOKENS, ["softmax(%0)", "transpose(%1)"], ["transpose(%0)", "softmax(%1)"]),
    "padding before or after": (MAP, ["pad(%0, amount=1)", "sigmoid(%1)"], ["sigmoid(%0)", "pad(%1, amount=1)"]),
    "stretched sums": (
        TOKENS,
        ["slice(%0, stop=1)", "add(%0, %1)", "transpose(%2)"],
        ["slice(%0, stop=1)", "transpose(%0)", "slice(%2, stop=1)", "add(%2, %3)"],
    ),
    "a bias before a layer norm": (
        TOKENS,
        ["linear(%0, channels=4) @ a", "layer_norm(%1) @ n"],
        ["linear(%0, channels=4, bias=false) @ a", "layer_norm(%1) @ n"],
    ),
    "a bias before what comes before a batch norm": (
        MAP,
        ["conv(%0, channels=4, bias=true) @ a", "relu(%1)", "batch_norm(%2) @ n"],
        ["conv(%0, channels=4) @ a", "relu(%1)", "batch_norm(%2) @ n"],
    ),
    "a scale before a batch norm": (MAP, ["scale(%0, factor=-1.0)", "batch_norm(%1) @ n"], ["batch_norm(%0) @ n"]),
    "a shift before a norm that is called elsewhere": (
        MAP,
        ["relu(%0)", "batch_norm(%1) @ n", "shift(%0, amount=3.0)", "batch_norm(%3) @ n", "mul(%2, %4)"],
        ["relu(%0)", "batch_norm(%1) @ n", "batch_norm(%0) @ n", "mul(%2, %3)"],
    ),
    "a bias before a norm that is called elsewhere": (
        MAP,
        ["batch_norm(%0) @ n", "conv(%0, channels=4, bias=true) @ a", "batch_norm(%2) @ n", "add(%1, %3)"],
        ["batch_norm(%0) @ n", "conv(%0, channels=4) @ a", "batch_norm(%2) @ n", "add(%1, %3)"],
    ),
    "a call of a shared norm whose result is multiplied by zero": (
        MAP,
        ["relu(%0)", "batch_norm(%1) @ n", "zero(%2)", "batch_norm(%0) @ n", "add(%3, %4)"],
        ["batch_norm(%0) @ n"],
    ),
    "how often a shared norm is called": (
        MAP,
        ["relu(%0)", "batch_norm(%1) @ n", "batch_norm(%0) @ n", "batch_norm(%0) @ n", "add(%3, %4)", "mul(%2, %5)"],
        ["relu(%0)", "batch_norm(%1) @ n", "batch_norm(%0) @ n", "add(%3, %3)", "mul(%2, %4)"],
    ),
    "two calls of one dropout": (
        X,
        ["dropout(%0) @ d", "dropout(%0) @ d", "add(%1, %2)"],
        ["dropout(%0) @ d", "add(%1, %1)"],
    ),
    "small rates": (X, ["dropout(%0, rate=0.1) @ d"], ["identity(%0)"]),
    "zero as keys of axial attention": (
        MAP,
        ["zero(%0)", 'axial_attention(%1, %1, %0, axis="height", heads=1) @ a'],
        ["zero(%0)"],
    ),
    "factors that differ late": (X, ["scale(%0, factor=0.3)"], ["scale(%0, factor=0.30000000000000004)"]),
    "factors too large for numbers": (
        X,
        ["scale(%0, factor=1e300)", "scale(%1, factor=1e300)"],
        ["scale(%0, factor=1e300)"],
    ),
}


@pytest.mark.parametrize("name", APART)
def test_different_networks_are_not_merged(name: str) -> None:
    start, *both = APART[name]
    one, other = (canonical_hash(network(start, operations)) for operations in both)
    assert one != other


def test_deep_equal_networks_hash_equally() -> None:
    """Past so many functions in a row nothing is moved, and nothing takes long or runs out of stack."""
    for depth in (10, 500):
        steps = [f"{('relu', 'tanh')[i % 2]}(%{i})" for i in range(depth)]
        doubled = [text for i in range(depth) for text in (f"relu(%{2 * i})", f"add(%{2 * i}, %{2 * i + 1})")]
        for body in (steps, doubled):
            moved = canonical_hash(network(TOKENS, [*body, f"transpose(%{len(body)})"]))
            assert moved == canonical_hash(
                network(TOKENS, ["identity(%0)", *_later(body), f"transpose(%{len(body) + 1})"])
            )


def test_repeated_self_concatenation_keeps_distinct_hash() -> None:
    """Sixteen million channels in a few nodes: what lies side by side is not listed."""
    body = [f"concat(%{i}, %{i})" for i in range(24)]
    doubled = canonical_hash(network(MAP, body))
    assert doubled == canonical_hash(network(MAP, ["identity(%0)", *_later(body)]))
    assert doubled != canonical_hash(network(MAP, body[:-1]))


def _later(operations: list[str]) -> list[str]:
    """The same operations, each one node later."""
    return [re.sub(r"%(\d+)", lambda found: f"%{int(found[1]) + 1}", text) for text in operations]


# random networks

UNARY: list[Op] = [
    activation.Relu(), activation.Tanh(), activation.Sigmoid(), activation.Scale(2.0), activation.Scale(-0.5),
    activation.Shift(1.0), activation.Zero(), activation.Softmax(), activation.Softmax(0), shape.Transpose(),
    shape.Reshape((4, 4)), shape.Reshape((2, 8)), shape.Reshape((2, 2, 4)), shape.Flatten(), shape.Slice(0, 2),
    shape.Slice(2, 4), shape.Slice(1, 3, 0), shape.Slice(0, 1), shape.Slice(0, 1, 0), shape.ToTokens(),
    shape.ToMap(2), shape.ChannelShuffle(2), shape.ChannelShuffle(1), shape.Upsample(2), shape.Pad(1),
    pool.MeanOver(0), pool.MeanOver(-1), pool.MaxOver(-1), pool.MaxOver(1), pool.MaxPool(3), pool.AvgPool(3),
    norm.LayerNorm(affine=False), norm.BatchNorm(affine=False), randoms.Dropout(0.0), activation.Identity(),
]  # fmt: skip
BINARY: list[Op] = [
    arithmetic.Add(), arithmetic.Sub(), arithmetic.Mul(), arithmetic.Concat(), arithmetic.Concat(0),
]  # fmt: skip


def some_network(rng: random.Random, size: int) -> Graph:
    parsed = parse_graph('net tiny {\n%0 = input "x" f32[4, 4]\noutput y = %0}')
    graph = parsed.empty_copy()
    numbers = [graph.add(parsed[0])]
    types = {numbers[0]: parsed[0].op.infer()}
    while len(numbers) < size:
        op = rng.choice(UNARY if rng.random() < 0.6 else BINARY)
        operands = [rng.choice(numbers[-4:]) for _ in range(1 if op in UNARY else 2)]
        try:
            type_ = op.infer(*(types[one] for one in operands))
        except RuleError:
            continue
        if type_.elements > 64:
            continue
        scope = f"n{len(numbers)}" if op.weights(*(types[one] for one in operands)) else ""
        number = graph.add(Node(op, scope=scope), *operands)
        if number not in types:
            numbers.append(number)
            types[number] = type_
    graph.outputs = {"y": numbers[-1]}
    return graph


def merged(seeds: range, size: int) -> int:
    """How many random networks share a hash with one that is written otherwise; all that do compute the same."""
    known: dict[str, tuple[str, Tensor]] = {}
    found = 0
    for seed in seeds:
        graph = some_network(random.Random(seed), size)
        text, value = print_graph(graph), computed(graph)
        name = canonical_hash(graph)
        if name in known:
            torch.testing.assert_close(value, known[name][1], rtol=1e-9, atol=1e-9, msg=f"{text}\n{known[name][0]}")
            found += text != known[name][0]
        else:
            known[name] = text, value
    return found


def test_networks_that_differ_in_numbers_never_share_a_hash() -> None:
    assert merged(range(700), 5) > 50
    assert merged(range(700, 1000), 8) > 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("size", range(3, 14))
def test_many_networks_that_differ_in_numbers_never_share_a_hash(size: int) -> None:
    merged(range(size * 10**6, size * 10**6 + 10_000), size)


# random programs with shared weights


class Sharer:
    """Programs over maps of one shape, whose calls of norms, convolutions, linear maps and blocks share weights, and
    in which most alternatives of a choice compute the same, or would if a norm had statistics of its own. Norms of
    constant maps do not multiply their rounding: `eps` is 1."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.blocks: list[str] = []
        self.choices = 0

    def program(self) -> str:
        items = []
        for kind in self.rng.choices(["block", "cell"], k=self.rng.choice([0, 1, 1, 2])):
            items.append(f"{kind} b{len(items)}(x) {{\n    return {self.tensor(2)}\n}}")
            self.blocks.append(f"b{len(items) - 1}")
        lines = [f"x = x |> {self.target()} |> {self.chosen()} |> {self.target()}"]
        lines += [self.statement() for _ in range(self.rng.randint(0, 2))]
        body = "".join(f"    {line}\n" for line in ["input x: f32[4, 3, 3]", *lines, f"output y = {self.tensor(2)}"])
        return "\n".join([*items, f"net n {{\n{body}}}"])

    def statement(self) -> str:
        value = self.tensor(2)
        return (
            f"repeat {self.rng.choice(['2', self.choice('a: 2, b: 3')])} {{ x = {value} }}"
            if self.rng.random() < 0.3
            else f"x = {value}"
        )

    def choice(self, labels: str) -> str:
        self.choices += 1
        return f"choose c{self.choices} {{ {labels} }}"

    def shared(self, kind: str) -> str:
        """An argument that shares weights with other calls of a kind, or none."""
        return self.rng.choice(["", "", f', weights="{kind}"', f', weights="{kind}2"'])

    def tensor(self, depth: int) -> str:
        if depth == 0:
            return "x"
        one = self.tensor(depth - 1)
        match self.rng.randrange(5):
            case 0:
                return f"({one} |> {self.target()})"
            case 1:
                return f"({one} |> {self.chosen()} |> {self.target()})"
            case 2:
                return f"({one} |> {self.chosen()})"
            case 3:
                return f"({one} {self.rng.choice('+-*')} {self.tensor(self.rng.randrange(depth))})"
            case _:
                return f"concat({one}[0:2], {self.tensor(self.rng.randrange(depth))}[2:4])"

    def chosen(self) -> str:
        """A choice of alternatives that are equal before a norm, or in a sum, or everywhere; or of any."""
        if self.choices > 3:
            return self.target()
        one, other = self.rng.choice([("identity", "shift(3)"), ("relu", "relu |> relu"), ("identity", ""), ("", "")])
        one, other = one or self.target(), other or self.target()
        return self.choice(f"a: {one}, b: {other}")

    def target(self) -> str:
        affine = self.rng.choice(["true", "false"])
        forms = [
            self.rng.choice(["relu", "identity", "zero", "shift(3)", "scale(2.0)"]),
            f"batch_norm(eps=1, affine={affine}{self.shared(affine)})",
            'batch_norm(eps=1, weights="n")',
            f'{self.conv()} |> batch_norm(eps=1, weights="n")',
            f"{self.conv()} |> batch_norm(eps=1)",
            f"to_tokens |> linear(4{self.shared('l')}) |> to_map(3)",
        ]
        forms += [f"{name}({self.shared('s')[2:]})" for name in self.blocks]
        return self.rng.choice(forms)

    def conv(self) -> str:
        bias = self.rng.choice(['true, weights="c"', "true", "false"])
        return f"conv(4, kernel=1, bias={bias})"


MOST_ARCHITECTURES = 16
MOST_PAIRS = 3
MOST_PAIRINGS, MOST_ORDERS = 3_000, 100


def learned(graph: Graph, names: Mapping[str, str]) -> list[Tensor]:
    """Outputs in training, and then in evaluation with the means of the statistics of all calls; in double precision,
    with weights that follow from the names of their scopes, or those that these are mapped to."""
    module = lower(graph).double()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if isinstance(tensor, nn.Parameter):
            scope, _, part = name.rpartition(".")
            numbers = torch.Generator().manual_seed(crc32(f"{names.get(scope, scope)}.{part}".encode()))
            tensor.data.copy_(torch.randn(tensor.shape, generator=numbers, dtype=torch.double))
    calls: Counter[nn.Module] = Counter()

    def count(layer: Layer, _: object) -> None:
        calls[layer] += 1
        layer.attributes["momentum"] = 1 / calls[layer]

    for layer in module.modules():
        if isinstance(layer, Layer) and "running_mean" in layer.names:
            layer.register_forward_pre_hook(count)
    found: list[Tensor] = []
    for seed, training in enumerate((True, True, False)):
        (x,) = [graph[number].op.infer().shape for number in graph.inputs.values()]
        batch = torch.randn(5, *x, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        made = module.train(training)(batch)
        found += [*made.values()] if isinstance(made, dict) else [made]
    return [tensor.detach() for tensor in found]


def scopes_by_shape(graph: Graph) -> dict[tuple[int, ...], list[str]]:
    """The scopes that have weights, by the shape of these, in the order of calls."""
    types = infer(graph)
    found: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for number in graph:
        weights = graph[number].op.weights(*[types[operand] for operand in graph.operands(number)])
        if "weight" in weights:
            found[weights["weight"].shape].append(state_name(graph[number].scope, "weight").removesuffix(".weight"))
    return {dims: [*dict.fromkeys(scopes)] for dims, scopes in found.items()}


def pairings(one: Graph, other: Graph) -> Iterator[dict[str, str]]:
    """Scopes of another network by those of one whose weights have the same shapes.

    Scopes of one name are paired: all of them, then none, all but one, and all but two; others in many orders, that of
    the calls first.
    """
    mine, theirs = scopes_by_shape(one), scopes_by_shape(other)
    common = [scope for dims, scopes in mine.items() for scope in scopes if scope in theirs.get(dims, [])]
    for apart in ((), common, *combinations(common, 1), *combinations(common, 2)):
        free: list[list[str]] = []
        orders: list[Iterator[tuple[str, ...]]] = []
        for dims, scopes in mine.items():
            others = theirs.get(dims, [])
            kept = [scope for scope in scopes if scope in others and scope not in apart]
            free.append([scope for scope in scopes if scope not in kept])
            left = [scope for scope in others if scope not in kept]
            places = permutations([*left, *(f"unused {scope}" for scope in free[-1])], len(free[-1]))
            orders.append(islice(places, MOST_ORDERS))  # `product` keeps all of them
        for found in islice(product(*orders), MOST_ORDERS):
            yield {a: b for scopes, names in zip(free, found, strict=True) for a, b in zip(scopes, names, strict=True)}


def compute_alike(wanted: list[Tensor], other: Graph, graph: Graph) -> bool:
    """Whether a network computes what another one does, for some pairing of their weights."""
    return any(
        all(
            torch.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True)
            for a, b in zip(learned(graph, names), wanted, strict=True)
        )
        for names in islice(pairings(graph, other), MOST_PAIRINGS)
    )


def agree(seeds: range) -> int:
    """How many networks share a hash with another architecture of their space; all that do compute the same."""
    found = 0
    for seed in seeds:
        text = Sharer(random.Random(seed)).program()
        try:
            space = archir.loads(text)
        except ArchError:
            continue
        first: dict[str, tuple[Graph, list[Tensor]]] = {}
        pairs = 0
        for graph in map(space.specialize, islice(space.enumerate(), MOST_ARCHITECTURES)):
            name = canonical_hash(graph)
            if name not in first:
                first[name] = graph, []
                continue
            other, wanted = first[name]
            if pairs == MOST_PAIRS or print_graph(other) == print_graph(graph):
                continue
            wanted += [] if wanted else learned(other, {})
            assert compute_alike(wanted, other, graph), f"{seed}\n{text}\n{print_graph(other)}\n{print_graph(graph)}"
            pairs += 1
        found += pairs
    return found


def test_weight_sharing_networks_of_equal_hash_agree() -> None:
    assert agree(range(24)) > 30


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("portion", range(10))
def test_many_weight_sharing_networks_of_equal_hash_agree(portion: int) -> None:
    agree(range(24 + 2_000 * portion, 24 + 2_000 * (portion + 1)))
