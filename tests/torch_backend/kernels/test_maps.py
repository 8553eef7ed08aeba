"""Kernels compute what torch does, forwards and backwards, whatever the sizes, and the same bits on any threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from archir_torch.lowering.kernels.attention import window_attention
from archir_torch.lowering.kernels.depthwise import depthwise, window_geometry
from archir_torch.lowering.kernels.library import to_channels_last, unavailable_reason
from archir_torch.lowering.kernels.norm import (
    HARD_SWISH,
    NONE,
    RELU,
    RELU6,
    Norm,
    apply_norm,
    norm_from_statistics,
    norm_of_batch,
)
from archir_torch.lowering.kernels.pool import pool_windows
from archir_torch.lowering.kernels.separable import separable
from archir_torch.lowering.kernels.sums import Term, weighted_sum
from archir_torch.lowering.local_attention import local_attention
from tests.torch_backend.searches import doubles

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason="there is no C++ compiler")

EPS = 1e-5
ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    NONE: lambda x: x, RELU: F.relu, RELU6: F.relu6, HARD_SWISH: F.hardswish,
}  # fmt: skip
FILTERS = [  # kernel, stride, dilation, channels, height, width
    (3, 1, 1, 16, 7, 9), (5, 1, 1, 3, 8, 8), (3, 1, 2, 17, 8, 6), (5, 1, 2, 24, 9, 11), (3, 2, 1, 20, 9, 8),
    (5, 2, 2, 8, 11, 12), (7, 2, 1, 33, 8, 10), (3, 3, 1, 5, 10, 7), (5, 1, 1, 40, 2, 2), (3, 1, 4, 2, 3, 5),
    (31, 1, 1, 4, 1, 17),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other longer than they compute here."""
    with on_threads(1):
        yield


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def leaf(*shape: int, seed: int = 0, like_map: bool = True) -> Tensor:
    x = doubles(*shape, seed=seed)
    return (to_channels_last(x) if like_map and len(shape) == 4 else x).detach().requires_grad_()


def close(one: Callable[[], Tensor], other: Callable[[], Tensor], leaves: Sequence[Tensor]) -> None:
    """The same results, and gradients of all leaves."""
    results = one(), other()
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)
    by = doubles(*results[0].shape, seed=9)
    found = [torch.autograd.grad(y, leaves, by) for y in results]
    torch.testing.assert_close(found[0], found[1], rtol=1e-8, atol=1e-8)


def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Norm:
    return norm_of_batch(x.detach(), *running(x), weight, bias, EPS, 0.1)


def running(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])


@pytest.mark.parametrize("channels", [1, 7, 8, 16, 19])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_norms_and_activations_match_torch(channels: int, activation: int) -> None:
    x, weight, bias = leaf(3, channels, 5, 4), leaf(channels), leaf(channels, seed=1)
    means, variances = running(x), running(x)
    close(
        lambda: apply_norm(x, norm_of_batch(x.detach(), *means, weight, bias, EPS, 0.1), activation),
        lambda: ACTIVATIONS[activation](F.batch_norm(x, *variances, weight, bias, True, 0.1, EPS)),
        [x, weight, bias],
    )
    torch.testing.assert_close(means, variances)
    plain = leaf(2, channels, 3, 3)
    close(lambda: apply_norm(plain, None, activation), lambda: ACTIVATIONS[activation](plain * 1), [plain])


def test_statistics_keep_their_digits_far_from_zero() -> None:
    x = to_channels_last(torch.randn(4, 5, 33, 31, generator=torch.Generator().manual_seed(0)) + 1000)
    found = norm_of_batch(x, *running(x), None, None, EPS, 0.1)
    torch.testing.assert_close(found.mean.double(), x.double().mean((0, 2, 3)), rtol=1e-7, atol=0)
    variance = x.double().var((0, 2, 3), correction=0)
    torch.testing.assert_close(found.inverse.double(), (variance + EPS).rsqrt(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("settings", FILTERS, ids=str)
def test_depthwise_convolutions_match_torch(settings: tuple[int, ...]) -> None:
    kernel, stride, dilation, channels, height, width = settings
    pad = dilation * (kernel - 1) // 2
    x, filter, weight = (
        leaf(2, channels, height, width),
        leaf(channels, 1, kernel, kernel, like_map=False),
        leaf(channels),
    )
    where = window_geometry(x, (kernel, kernel), stride, dilation, (pad,) * 4)

    def plain(y: Tensor) -> Tensor:
        return F.conv2d(y, filter, None, stride, pad, dilation, channels)

    close(lambda: depthwise(x, None, NONE, filter, where), lambda: plain(x), [x, filter])
    close(
        lambda: depthwise(x, norm(x, weight, None), RELU, filter, where),
        lambda: plain(F.relu(F.batch_norm(x, *running(x), weight, None, True, 0.1, EPS))),
        [x, filter, weight],
    )


def test_asymmetric_padding_matches_torch() -> None:
    x, filter = leaf(2, 3, 6, 7), leaf(3, 1, 3, 2, like_map=False)
    where = window_geometry(x, (3, 2), 1, 1, (1, 0, 0, 2))
    close(
        lambda: depthwise(x, None, NONE, filter, where),
        lambda: F.conv2d(F.pad(x, (1, 0, 0, 2)), filter, groups=3), [x, filter],
    )  # fmt: skip


@pytest.mark.parametrize("settings", FILTERS, ids=str)
def test_chained_separable_convolutions_match_torch(settings: tuple[int, ...]) -> None:
    """Two of them with norms between and behind, as DARTS has them."""
    kernel, stride, dilation, channels, height, width = settings
    pad, outputs = dilation * (kernel - 1) // 2, channels + 3
    x, share = leaf(2, channels, height, width), leaf(1)
    filters = [leaf(count, 1, kernel, kernel, like_map=False) for count in (channels, outputs)]
    products = [leaf(outputs, count, 1, 1, like_map=False, seed=2) for count in (channels, outputs)]
    weight, bias = leaf(outputs, seed=3), leaf(outputs, seed=4)

    def ours() -> Tensor:
        first = window_geometry(x, (kernel, kernel), stride, dilation, (pad,) * 4)
        y, mean, variance, handed = separable(x, None, RELU, None, filters[0], first, products[0])
        pixels = y.numel() // outputs
        inner = norm_from_statistics(mean, variance, pixels, *running(y), weight, bias, EPS, 0.1)
        second = window_geometry(y, (kernel, kernel), 1, dilation, (pad,) * 4)
        z, mean, variance, last = separable(y, inner, HARD_SWISH, handed, filters[1], second, products[1])
        outer = norm_from_statistics(mean, variance, pixels, *running(z), None, None, EPS, 0.1)
        return weighted_sum([Term(z, outer, share.squeeze(), last), Term(z.detach())])

    def theirs() -> Tensor:
        y = F.conv2d(F.conv2d(F.relu(x), filters[0], None, stride, pad, dilation, channels), products[0])
        y = F.hardswish(F.batch_norm(y, *running(y), weight, bias, True, 0.1, EPS))
        z = F.conv2d(F.conv2d(y, filters[1], None, 1, pad, dilation, outputs), products[1])
        return F.batch_norm(z, *running(z), None, None, True, 0.1, EPS) * share + z.detach()

    close(ours, theirs, [x, share, *filters, *products, weight, bias])


def test_rejects_second_reader_of_fused_norm_input() -> None:
    x, filter, product = leaf(2, 3, 4, 4), leaf(3, 1, 3, 3, like_map=False), leaf(2, 3, 1, 1, like_map=False)
    y, mean, variance, handed = separable(
        x, None, NONE, None, filter, window_geometry(x, (3, 3), 1, 1, (1,) * 4), product
    )
    found = weighted_sum(
        [Term(y, norm_from_statistics(mean, variance, 32, *running(y), None, None, EPS, 0.1), None, handed)]
    )
    with pytest.raises(RuntimeError, match="read by another operation"):
        (found.square().sum() + y.square().sum()).backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("channels", [3, 16, 21])
def test_weighted_sums_of_norms_match_torch(channels: int) -> None:
    maps = [leaf(2, channels, 4, 3, seed=seed) for seed in range(4)]
    shares, weight, bias = leaf(3), leaf(channels, seed=5), leaf(channels, seed=6)
    one, two, three = shares.unbind()

    def theirs() -> Tensor:
        normed = [
            F.batch_norm(x, *running(x), w, b, True, 0.1, EPS)
            for x, w, b in ((maps[0], weight, bias), (maps[1], None, None))
        ]
        return one * normed[0] + two * normed[1] + three * maps[2] + maps[3]

    close(
        lambda: weighted_sum([
            Term(maps[0], norm(maps[0], weight, bias), one), Term(maps[1], norm(maps[1], None, None), two),
            Term(maps[2], None, three), Term(maps[3]),
        ]),
        theirs, [*maps, shares, weight, bias],
    )  # fmt: skip


@pytest.mark.parametrize(("kernel", "stride", "channels"), [(3, 1, 16), (3, 2, 5), (2, 2, 24), (5, 1, 3)])
def test_pools_match_torch(kernel: int, stride: int, channels: int) -> None:
    x, pad = leaf(2, channels, 7, 8), kernel // 2
    where = window_geometry(x, (kernel, kernel), stride, 1, (pad,) * 4)
    close(lambda: pool_windows(x, where, is_max=True), lambda: F.max_pool2d(x, kernel, stride, pad), [x])
    for padded in (False, True):
        close(
            lambda padded=padded: pool_windows(x, where, is_max=False, count_padding=padded),  # type: ignore[misc]
            lambda padded=padded: F.avg_pool2d(x, kernel, stride, pad, count_include_pad=padded), [x],  # type: ignore[misc]
        )  # fmt: skip


def test_max_pool_tie_sends_gradient_to_first_pixel() -> None:
    x = to_channels_last(torch.zeros(1, 2, 4, 4, dtype=torch.double)).requires_grad_()
    where = window_geometry(x, (2, 2), 2, 1, (0,) * 4)
    close(lambda: pool_windows(x, where, is_max=True), lambda: F.max_pool2d(x, 2, 2), [x])


@pytest.mark.parametrize(
    ("heads", "depth", "kernel", "size"),
    [(2, 3, 3, (5, 7)), (1, 4, 7, (4, 4)), (3, 2, 5, (9, 6)), (2, 1, 3, (3, 5)), (2, 2, 3, (4, 9)), (1, 2, 1, (3, 3))],
)
def test_local_attention_kernel_matches_plain_lowering(
    heads: int, depth: int, kernel: int, size: tuple[int, int]
) -> None:
    query, key = (leaf(2, heads * depth, *size, seed=seed) for seed in (1, 2))
    value, table = leaf(2, 2 * heads, *size, seed=3), leaf(heads * depth, kernel, seed=4)
    close(
        lambda: window_attention(query, key, value, None, heads, kernel),
        lambda: local_attention(query, key, value, heads=heads, kernel=kernel), [query, key, value],
    )  # fmt: skip
    half = heads * depth // 2
    both = torch.cat([table[:half, :, None].expand(-1, -1, kernel), table[half:, None].expand(-1, kernel, -1)]).flatten(
        1
    )
    close(
        lambda: window_attention(query, key, value, both, heads, kernel),
        lambda: local_attention(query, key, value, table[:half], table[half:], heads=heads, kernel=kernel),
        [query, key, value, table],
    )  # fmt: skip


def test_any_number_of_threads_gives_the_same_bits() -> None:
    """In single precision, of maps that are several chunks of pixels."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_()

    x, filter, product = (
        to_channels_last(drawn(3, 19, 20, 20).detach()).requires_grad_(),
        drawn(19, 1, 5, 5),
        drawn(6, 19, 1, 1),
    )
    share, leaves = drawn(1), [x, filter, product]
    where, window = (window_geometry(x, size, 1, 1, (pad,) * 4) for size, pad in (((5, 5), 2), ((3, 3), 1)))

    def results() -> list[Tensor]:
        own = norm(x, None, None)
        y = depthwise(x, own, RELU, filter, where)
        z, mean, variance, handed = separable(x, own, RELU, None, filter, where, product)
        behind = norm_from_statistics(mean, variance, z.numel() // 6, *running(z), None, None, EPS, 0.1)
        w = weighted_sum(
            [
                Term(z, behind, share.squeeze(), handed),
                Term(window_attention(z.detach(), z.detach(), z.detach(), None, 2, 3)),
            ]
        )
        pools = [pool_windows(x, window, is_max=largest) for largest in (False, True)]
        outputs = [apply_norm(x, own, HARD_SWISH), y, w, *pools]
        return [*outputs, *torch.autograd.grad([one.square().sum() for one in outputs], [*leaves, share])]

    found = []
    for count in (1, 2, 1):
        with on_threads(count):
            found.append(results())
    assert all(torch.equal(one, other) for more in found[1:] for one, other in zip(found[0], more, strict=True))
    plain = F.conv2d(F.relu(F.batch_norm(x, *running(x), None, None, True, 0.1, EPS)), filter, None, 1, 2, 1, 19)
    torch.testing.assert_close(found[0][1], plain, rtol=1e-4, atol=1e-4)
