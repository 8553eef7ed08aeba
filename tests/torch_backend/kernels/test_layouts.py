"""Kernels compute what torch does, forwards and backwards, however operands, weights and gradients lie in memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

import archir
from archir.passes.relax import relax
from archir_torch.lowering.kernels import library
from archir_torch.lowering.kernels.kernel_lowerings import KERNELS
from archir_torch.lowering.kernels.library import ARGUMENTS, unavailable_reason
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.operations.norm import batch_norm
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from tests.soak import with_soak

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason="there is no C++ compiler")

PIECES: dict[str, Sequence[str]] = {
    "batch_norm": ["batch_norm", "batch_norm |> relu", "relu |> batch_norm"],
    "relu": ["relu"],
    "relu6": ["relu6"],
    "hard_swish": ["hard_swish"],
    "identity": ["identity"],
    "add": ["skip"],
    "local_attention": ["attend", "attend_plainly"],
    "conv": [
        "conv(C, kernel=3, groups=C, bias=false)",
        "relu |> conv(C, kernel=3, groups=C, bias=false) |> conv(C, kernel=1, bias=false) |> batch_norm",
        "batch_norm |> conv(C, kernel=5, groups=C, bias=false, dilation=2) |> conv(C, kernel=1, bias=false)",
        "conv(C, kernel=3)",
    ],
    "conv1d": ["along(3, 1)", "along(4, 2)", "along(31, 1)"],
    "max_pool": ["max_pool(3, stride=1, padding=1)", "max_pool(2, stride=1, padding=1)"],
    "avg_pool": ["avg_pool(3, stride=1, padding=1)", "avg_pool(3, stride=1, padding=1, count_padding=true)"],
}
"""Programs of maps with C channels by the name of a lowering that has a kernel."""
BLOCKS = """
block skip(x) { return x + (x |> batch_norm) + (x |> relu) }
block along(x, kernel, dilation) {
    y = x |> to_tokens |> conv1d(x.channels, kernel, groups=x.channels, dilation=dilation, bias=kernel > 3)
    return y |> to_map(x.height)
}
block attend(x) { return local_attention(x |> conv(4, kernel=1), x |> conv(4, kernel=1), x, kernel=3) }
block attend_plainly(x) { return local_attention(x, x |> relu, x, kernel=3, relative=false) }
"""


def relaid(rng: random.Random, x: Tensor) -> Tensor:
    """Equal numbers that lie otherwise in memory: axes permuted, every second one, behind others, repeated."""
    x = x.detach()
    match rng.choice(["permuted", "permuted", "sliced", "behind", "channels last", "expanded", "plain"]):
        case "permuted":
            order = rng.sample(range(x.dim()), x.dim())
            return x.permute(order).contiguous().permute([order.index(axis) for axis in range(x.dim())])
        case "sliced" if x.dim():
            axis = rng.randrange(x.dim())
            return torch.stack([x, x + 1], axis + 1).flatten(axis, axis + 1)[
                (slice(None),) * axis + (slice(0, None, 2),)
            ]
        case "behind":
            return torch.cat([x.new_ones(3), x.flatten()])[3:].view(x.shape)
        case "channels last" if x.dim() == 4:
            return x.contiguous(memory_format=torch.channels_last)
        case "expanded":
            return x.clone().as_strided(
                x.shape, [0 if size == 1 else stride for size, stride in zip(x.shape, x.stride(), strict=True)]
            )
    return x.clone()


def results(network: Network, x: Tensor, more: dict[str, Tensor], by: Sequence[Tensor]) -> list[Tensor]:
    """Outputs, gradients, and the statistics that norms have taken up."""
    leaves = [x.requires_grad_(), *(one.requires_grad_() for one in more.values()), *network.parameters()]
    y = network(x, weights=more) if isinstance(network, MixedNetwork) else network(x)
    outputs = list(y.values())
    found = torch.autograd.grad(outputs, leaves, by, allow_unused=True, materialize_grads=True)
    return [*(one.detach() for one in outputs), *found, *network.buffers()]


def drawn(seed: int, pieces: Sequence[str]) -> list[list[Tensor]]:
    """The results of a network of these pieces in torch, of tensors that lie as usual, and with kernels, of others."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    channels, batch = rng.choice([1, 2, 3, 8, 9]), rng.choice([1, 1, 2, 3])
    height, width = rng.choice([1, 2, 5, 7]), rng.choice([1, 3, 6])
    if batch * height * width == 1:
        width = 3
    steps = "\n".join(f"    x = x |> {piece.replace('C', str(channels))}" for piece in pieces)
    mixed = rng.random() < 0.3
    last = "x |> choose one { a: batch_norm, b: identity, c: relu }" if mixed else "x |> relu"
    inputs = f"input x: f32[{channels}, {height}, {width}]"
    net = f"net n() {{\n    {inputs}\n{steps}\n    output y = {last}\n    output z = x\n}}"
    graph = archir.loads(f"{BLOCKS}\n{net}\n").graph

    def made() -> Network:
        own = torch.Generator().manual_seed(seed)
        network = lower_mixed(relax(graph), generator=own) if mixed else lower(graph, generator=own)
        with torch.no_grad():  # biases of zero bring means of norms to the corner of a relu
            for one in network.double().parameters():
                one += 0.1 * torch.randn(one.shape, generator=own, dtype=torch.double)
        return network.train()

    def random_like(shape: Sequence[int]) -> Tensor:
        return torch.randn(tuple(shape), generator=generator, dtype=torch.double)

    plain, compiled = made(), made()
    compiled.use_kernels()
    for one in compiled.parameters():
        one.data = relaid(rng, one.data)
    x, more = random_like([batch, channels, height, width]), {}
    if isinstance(plain, MixedNetwork):
        more = {name: random_like([count]).softmax(0) for name, count in plain.names.items()}
    with torch.no_grad():
        shapes = [one.shape for one in (plain(x, weights=more) if more else plain(x)).values()]
    plain, summed = made(), rng.random() < 0.3
    by = [torch.ones(shape, dtype=torch.double) if summed else random_like(shape) for shape in shapes]
    others = [torch.ones((), dtype=torch.double).expand(one.shape) if summed else relaid(rng, one) for one in by]
    return [
        results(plain, x.clone(), {name: one.clone() for name, one in more.items()}, by),
        results(compiled, relaid(rng, x), {name: relaid(rng, one) for name, one in more.items()}, others),
    ]


def close(found: list[list[Tensor]]) -> None:
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("seed", with_soak(range(2000), [*range(7), 35]))
def test_kernels_match_torch_for_any_memory_layout(seed: int) -> None:
    rng = random.Random(-seed)
    close(drawn(seed, [rng.choice(PIECES[rng.choice([*PIECES])]) for _ in range(rng.choice([1, 2, 3]))]))


def test_layout_pieces_cover_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever adds a kernel adds a piece that reaches it."""
    assert {function.__name__ for function in KERNELS} == PIECES.keys()
    calls: Counter[str] = Counter()
    function = library.kernel_function

    def counted(name: str, dtype: torch.dtype) -> Callable[..., Any]:
        calls[name] += 1
        return function(name, dtype)

    monkeypatch.setattr(library, "kernel_function", counted)
    for position, pieces in enumerate(PIECES.values()):
        for piece in pieces:
            close(drawn(position, [piece, "skip"]))
    assert calls.keys() == ARGUMENTS.keys()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(1, 3, 5, 4), (2, 3, 1, 4), (2, 3, 5, 1)])
def test_batch_norm_gradients_do_not_depend_on_layout(shape: tuple[int, ...], training: bool) -> None:
    """Torch's own are not, of maps with an axis of one, where the map is contiguous and its gradient is not."""
    generator = torch.Generator().manual_seed(0)
    x, by = (torch.randn(shape, generator=generator, dtype=torch.double) for _ in range(2))
    found = []
    for order in permutations(range(4)):
        gradient = by.permute(order).contiguous().permute([order.index(axis) for axis in range(4)])
        leaf, statistics = x.clone().requires_grad_(), (torch.zeros(3).double(), torch.ones(3).double())
        y = batch_norm(leaf, *statistics, eps=1e-5, momentum=0.1, training=training)
        found.append(torch.autograd.grad(y, leaf, gradient)[0])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])
