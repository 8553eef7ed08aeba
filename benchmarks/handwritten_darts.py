"""The search network of DARTS (Liu et al. 2019, section 2 and appendix A) as a torch module written by hand.

There is one module for each candidate operation; an edge is the weighted sum of all of them, and a node the sum of its
edges. It is the reference of relaxed graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

OPERATIONS = (
    "none",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
EDGES = tuple((node, source) for node in range(4) for source in range(node + 2))
"""Edges of a cell: node, and source (0 and 1 are the cell's inputs)."""


class Zero(nn.Module):
    """The operation "none": zeros."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x.mul(0.0) if self.stride == 1 else x[:, :, :: self.stride, :: self.stride].mul(0.0)


class FactorizedReduce(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(channels, out // 2, 1, 2, bias=False)
        self.odd = nn.Conv2d(channels, out // 2, 1, 2, bias=False)
        self.bn = nn.BatchNorm2d(out, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(x)
        return self.bn(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1))


def relu_conv_bn(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out, affine=False))


def separable(channels: int, kernel: int, stride: int, dilation: int = 1) -> list[nn.Module]:
    padding = dilation * (kernel - 1) // 2
    return [
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels, affine=False),
    ]


def candidate(name: str, channels: int, stride: int) -> nn.Module:
    match name:
        case "none":
            return Zero(stride)
        case "max_pool_3x3":
            return nn.Sequential(nn.MaxPool2d(3, stride, 1), nn.BatchNorm2d(channels, affine=False))
        case "avg_pool_3x3":
            pool = nn.AvgPool2d(3, stride, 1, count_include_pad=False)
            return nn.Sequential(pool, nn.BatchNorm2d(channels, affine=False))
        case "skip_connect":
            return nn.Identity() if stride == 1 else FactorizedReduce(channels, channels)
        case "sep_conv_3x3" | "sep_conv_5x5":
            kernel = int(name[-1])
            return nn.Sequential(*separable(channels, kernel, stride), *separable(channels, kernel, 1))
    return nn.Sequential(*separable(channels, int(name[-1]), stride, 2))


class Edge(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.candidates = nn.ModuleList([candidate(name, channels, stride) for name in OPERATIONS])

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        return sum(w * operation(x) for w, operation in zip(weights, self.candidates, strict=True))  # type: ignore[return-value]


class Cell(nn.Module):
    def __init__(self, before: int, last: int, channels: int, reduces: bool, reduced: bool) -> None:
        super().__init__()
        self.reduces = reduces
        self.a = FactorizedReduce(before, channels) if reduced else relu_conv_bn(before, channels)
        self.b = relu_conv_bn(last, channels)
        self.edges = nn.ModuleList([Edge(channels, 2 if reduces and source < 2 else 1) for _, source in EDGES])

    def forward(self, a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
        states = [self.a(a), self.b(b)]
        first_edge = 0
        for _ in range(4):
            edges = range(first_edge, first_edge + len(states))
            states.append(sum(self.edges[i](x, weights[i]) for i, x in zip(edges, states, strict=True)))  # type: ignore[arg-type]
            first_edge = edges.stop
        return torch.cat(states[2:], dim=1)


class DartsSearch(nn.Module):
    """The search network; called with the weights [14, 8] of the operations of normal and of reduction cells."""

    def __init__(self, channels: int = 16, cells: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 3 * channels, 3, padding=1, bias=False), nn.BatchNorm2d(3 * channels))
        self.cells = nn.ModuleList()
        before = last = 3 * channels
        reduced = False
        for i in range(cells):
            reduces = i in (cells // 3, 2 * cells // 3)
            channels = 2 * channels if reduces else channels
            self.cells.append(Cell(before, last, channels, reduces, reduced))
            before, last, reduced = last, 4 * channels, reduces
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(last, classes)

    def forward(self, x: Tensor, normal: Tensor, reduction: Tensor) -> Tensor:
        before = last = self.stem(x)
        for cell in self.cells:
            before, last = last, cell(before, last, reduction if cell.reduces else normal)
        return self.linear(self.pool(last).flatten(1))


def weights_in_graph(network: DartsSearch) -> dict[str, Tensor]:
    """Return the network's weights by their names in the relaxed graph of `examples/darts/darts.arch`."""
    weights = {
        "small_stem.conv.weight": network.stem[0].weight,
        "small_stem.batch_norm.weight": network.stem[1].weight,
        "small_stem.batch_norm.bias": network.stem[1].bias,
        "linear.weight": network.linear.weight,
        "linear.bias": network.linear.bias,
    }
    for i, cell in enumerate(network.cells):
        if isinstance(cell.a, FactorizedReduce):
            weights |= _reduce(f"stacked_cells.factorized_reduce.{i}", cell.a)
            weights[f"stacked_cells.relu_conv_bn.{i}.conv.weight"] = cell.b[1].weight
        else:
            weights[f"stacked_cells.relu_conv_bn.{i}.conv.weight"] = cell.a[1].weight
            weights[f"stacked_cells.relu_conv_bn_2.{i}.conv.weight"] = cell.b[1].weight
        kind = "reduction" if cell.reduces else "normal"
        for (node, source), edge in zip(EDGES, cell.edges, strict=True):
            for name, operation in zip(OPERATIONS, edge.candidates, strict=True):
                scope = f"stacked_cells.{kind}.{i}.searched.edge.{node}.{source}.{name}"
                if isinstance(operation, FactorizedReduce):
                    weights |= _reduce(f"{scope}.factorized_reduce", operation)
                elif isinstance(operation, nn.Sequential):
                    scope = f"{scope}.sep_conv" if name.startswith("sep") else scope
                    for layer, module in enumerate(operation):
                        if isinstance(module, nn.Conv2d):
                            unit = "separable_unit" if layer < 4 else "separable_unit_2"
                            conv = "conv" if layer % 4 == 1 else "conv_2"
                            weights[f"{scope}.{unit}.{conv}.weight"] = module.weight
    return weights


def _reduce(scope: str, module: FactorizedReduce) -> dict[str, Tensor]:
    return {f"{scope}.conv.weight": module.even.weight, f"{scope}.conv_2.weight": module.odd.weight}


def alphas_in_graph(normal: Tensor, reduction: Tensor) -> dict[str, Tensor]:
    """Return rows of [14, 8] tensors by the paths of the space's choices."""
    return {
        f"{kind}.searched.edge[{node}][{source}].op": row
        for kind, rows in (("normal", normal), ("reduction", reduction))
        for (node, source), row in zip(EDGES, rows.unbind(), strict=True)
    }
