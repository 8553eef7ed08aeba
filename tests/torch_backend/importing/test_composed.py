"""Operators that are several of archir's, lookups by positions of the largest numbers, and reshapes of any kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.ir.graph import Graph
from archir.ops.conv import Conv, Conv3d
from archir.ops.routing import TopK


class Body(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def graph_of(module: nn.Module, *shape: int) -> Graph:
    """The graph of an import, which has been compared with the module."""
    return archir.from_torch(module, torch.randn(1, *shape)).graph


def shifted(x: Tensor) -> Tensor:
    """Transformer-XL's: rows [6, 11] of relative positions, moved by reshapes alone."""
    batch, rows, columns = x.shape
    return F.pad(x, (1, 0)).reshape(batch, columns + 1, rows)[:, 1:].reshape(batch, rows, columns)


def routed(x: Tensor) -> Tensor:
    """DeepSeek-V3's: of three groups the two best, of these the two best numbers, before a bias was added."""
    scores = x.sigmoid()
    biased = scores + torch.arange(12) / 20
    groups = biased.reshape(-1, 5, 3, 4).topk(2, -1)[0].sum(-1)
    mask = torch.zeros_like(groups).scatter_(-1, groups.topk(2, -1)[1], 1)
    held = mask[..., None].expand(-1, -1, 3, 4).reshape(-1, 5, 12)
    chosen = biased.masked_fill(~held.bool(), float("-inf")).topk(2, -1)[1]
    return scores.gather(-1, chosen)


def turned(x: Tensor) -> Tensor:
    """Llama 4's: pairs of numbers as complex ones, times those of their positions."""
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
    whole = torch.view_as_complex(x.reshape(len(x), 5, -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(whole).flatten(2)


BODIES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "glu": (lambda x: F.glu(x, -1), (5, 8)),
    "glu of channels": (lambda x: F.glu(x, 1), (8, 4, 4)),
    "log_sigmoid": (F.logsigmoid, (5, 4)),
    "softsign": (F.softsign, (5, 4)),
    "expm1": (torch.expm1, (5, 4)),
    "log1p": (lambda x: torch.log1p(x.abs()), (5, 4)),
    "logsumexp": (lambda x: torch.logsumexp(50 * x, -1), (5, 4)),
    "logsumexp of several": (lambda x: torch.logsumexp(x, (1, 2), True), (5, 4)),
    "lerp": (lambda x: torch.lerp(x, x.flip(1), 0.3), (5, 4)),
    "least": (lambda x: x.min(-1)[0] + x.amin(-1) + torch.min(x, -x).sum(-1), (5, 4)),
    "variance": (lambda x: x.var(-1) + x.std(1, unbiased=False).sum(-1, keepdim=True), (4, 4)),
    "variance and mean": (lambda x: torch.var_mean(x, (2, 3), correction=0)[0], (3, 4, 4)),
    "cosine": (lambda x: F.cosine_similarity(x[:, :2], x[:, 2:], -1), (4, 6)),
    "bounds": (lambda x: x.clamp(min=x.flip(-1)), (5, 4)),
    "truth": (lambda x: (x.relu().bool()) * x.exp(), (5, 4)),
    "the largest": (lambda x: x.gather(-1, x.topk(2, -1)[1]), (5, 8)),
    "where the largest is": (lambda x: x.exp().gather(-1, x.max(-1, keepdim=True)[1]), (5, 8)),
    "put": (lambda x: x.scatter(-1, x.topk(2, -1)[1], 7.0), (5, 8)),
    "hidden": (lambda x: x.scatter(-1, x.topk(1, -1)[1], float("-inf")).softmax(-1), (5, 8)),
    "put beside": (lambda x: x.scatter(-1, x.topk(2, -1)[1], x[..., 1:3]), (5, 8)),
    "put into nothing": (
        lambda x: torch.full_like(x, float("-inf")).scatter(-1, x.topk(2, -1)[1], x.topk(2, -1)[0]).sigmoid(),
        (5, 8),
    ),
    "routed": (routed, (5, 12)),
    "shifted": (shifted, (6, 11)),
    "turned": (turned, (5, 4)),
    "regrouped": (lambda x: x.reshape(-1, 10, 6).transpose(1, 2).reshape(-1, 4, 15), (12, 5)),
    "more parts than pixels": (lambda x: F.adaptive_avg_pool2d(x, (7, 3)), (3, 2, 4)),
    "the largest of more parts": (lambda x: F.adaptive_max_pool2d(x, 5), (3, 1, 2)),
    "longer": (lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"), (3, 8)),
    "longer by copies": (lambda x: F.interpolate(x, scale_factor=2.0), (3, 8)),
}


@pytest.mark.parametrize("name", BODIES)
def test_composed_operator_import_equals_module(name: str) -> None:
    body, shape = BODIES[name]
    assert len(graph_of(Body(body), *shape)) > 1


def test_topk_lookup_becomes_single_top_k() -> None:
    """And by no comparison of all positions."""
    body, shape = BODIES["the largest"]
    ops = [graph_of(Body(body), *shape)[n].op for n in graph_of(Body(body), *shape)]
    assert [type(op) for op in ops][1:] == [TopK]


def test_rejects_product_across_batch_samples() -> None:
    with pytest.raises(archir.ArchError, match="a product of samples with each other"):
        graph_of(Body(lambda x: x @ x.t()), 4)


class Frames(nn.Module):
    """Of each frame [3, 8, 8] of a film a map, by one kernel for all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1, groups=1)

    def forward(self, film: Tensor) -> Tensor:
        batch, frames = film.shape[:2]
        y: Tensor = self.conv(film.reshape(batch * frames, *film.shape[2:]))
        return y.reshape(batch, frames, *y.shape[1:])


def test_frames_folded_into_batch_become_one_conv3d() -> None:
    """Frames that are folded into the samples: neither a convolution for each, nor one of maps."""
    imported = archir.from_torch(Frames(), torch.randn(1, 5, 3, 8, 8))
    convolutions = [imported.graph[n].op for n in imported.graph if isinstance(imported.graph[n].op, Conv)]
    assert [(type(op), op.kernel, op.stride, op.padding) for op in convolutions] == [
        (Conv3d, (1, 3, 3), (1, 2, 2), "same")
    ]
    (weight,) = (name for name, source in imported.sources.items() if source.name == "conv.weight")
    assert imported.weights[weight].shape == (4, 3, 1, 3, 3)
