"""Merging of removed channels into kept ones.

A least-squares fit over samples predicts the removed channels linearly from the kept ones at the same position
(He, Zhang and Sun 2017, section 3.2, who also fit the taps of kernels). The prediction is folded into the weights
that read the channels, so that an extracted network starts close to the full one without training. The samples
are needed only for the inner products between channels, which are the same for all networks that may be
extracted.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import NodeId, state_name
from archir.ir.typing import infer
from archir.passes.expand import expand
from archir.passes.expose import expose
from archir.passes.weight_slices import WeightSlice
from archir_torch.lowering.module import lower
from archir_torch.reuse.channel_symmetry import OperationProbe
from archir_torch.reuse.measures import Trained, importance
from archir_torch.reuse.units import ChannelUnits

MAX_POSITIONS = 256
"""Maximum number of positions (such as pixels) per sample that are used in the fit."""
MAX_BYTES = 4 * 2**30
"""Maximum total size in bytes of the matrices of inner products between channels."""
_RIDGE = 1e-14
"""Ridge regularisation relative to the sum of squares of all kept channels: the rounding error of float32
activations."""
_SMALL_SAMPLE_RIDGE = 1e-3
"""Additional ridge regularisation relative to the channels' mean square, for at most one row per channel.

If the samples have more rows than there are channels, the regularisation decreases with the fourth power of the
ratio of channels to rows.
"""


class WeightReader(NamedTuple):
    """Weight that reads the channels of a node along one of its axes."""

    weight: str
    axis: int
    node: NodeId


class Merging:
    """Inner products between the channels of a trained network, from which the weights of extracted networks are
    computed."""

    def __init__(self, trained: Trained, cut: Container[str] | None = None) -> None:
        """Compute the inner products. `cut` lists the weights that may be sliced, by name; by default all.

        Raises ArchError: A2221 (there are no samples), A2225 (the inner products take too much memory).
        """
        self._weights = trained.weights
        units = ChannelUnits(expand(trained.graph))
        all_readers = channel_readers(units)
        self._readers = {reader.weight: reader for reader in all_readers if cut is None or reader.weight in cut}
        self._places = {reader.node: _channels_by_unit(units, reader.node) for reader in self._readers.values()}
        size = sum(8 * len(places) ** 2 for places in self._places.values())
        if size > MAX_BYTES:
            text = f"the products of the channels of `{trained.graph.name}` take {size / 2**30:.1f} GiB"
            raise fail(
                "A2225",
                text,
                None,
                f"at most {MAX_BYTES >> 30} GiB are used; open fewer layers, or do without `refit`",
            )
        self._products = {n: torch.zeros(len(p), len(p), dtype=torch.double) for n, p in self._places.items()}
        self._rows = dict.fromkeys(self._places, 0)
        for values in activations(trained, self._places):
            for node, x in values.items():
                rows = x[self._places[node]].flatten(1).double()
                self._products[node] += rows @ rows.T
                self._rows[node] += rows.shape[1]

    def weights(self, parts: Mapping[str, WeightSlice]) -> dict[str, Tensor]:
        """Return the merged weights of an extracted network by name.

        These are the weights that read fewer channels than in the full network. `parts` maps weight names to the
        positions that the extracted network uses along each axis of the weight.
        """
        merged = {}
        for name, (_, axis, node) in self._readers.items():
            if name not in parts:
                continue
            kept = torch.tensor(parts[name][axis].positions())
            weight = self._weights[name]
            merge = self._merge(node, kept) if len(kept) < weight.shape[axis] else None
            if merge is None:
                continue
            for other_axis, axis_part in enumerate(parts[name]):
                if other_axis != axis and axis_part.size < weight.shape[other_axis]:
                    weight = weight.index_select(other_axis, torch.tensor(axis_part.positions()))
            merged[name] = (weight.movedim(axis, -1) @ merge.to(weight)).movedim(-1, axis).contiguous()
        return merged

    def _merge(self, node: NodeId, kept: Tensor) -> Tensor | None:
        """Return the matrix [all channels, kept channels] that expresses every channel by the kept ones.

        Returns None if units of channels that move together are kept only in part.
        """
        places, products = self._places[node], self._products[node]
        is_kept = torch.isin(places, kept)
        if not torch.equal(is_kept.any(1), is_kept.all(1)):
            return None
        units = is_kept[:, 0].nonzero()[:, 0]
        square, ratio = products[units][:, units], len(units) / max(1, self._rows[node])
        strength = _RIDGE * len(units) + _SMALL_SAMPLE_RIDGE * min(1.0, ratio) ** 4
        ridge = strength * square.diagonal().mean().clamp_min(1e-30)
        square = square + ridge * torch.eye(len(units), dtype=square.dtype)
        coefficients: Tensor = torch.linalg.solve(square, products[units]).T
        coefficients[units] = torch.eye(len(units), dtype=coefficients.dtype)  # kept channels are themselves
        merge = torch.zeros(places.numel(), places.numel(), dtype=coefficients.dtype)
        for position in range(places.shape[1]):
            merge[places[:, position][:, None], places[units, position]] = coefficients
        return merge[:, kept]


def _channels_by_unit(units: ChannelUnits, node: NodeId) -> Tensor:
    """Return the channels of a node by unit, [units, channels per unit].

    A unit is a set of channels that move together; its channels hold the same feature at different positions. If
    units differ in size, or if there is only one unit, each channel has a row of its own.
    """
    rows = [unit.places[node] for unit in units.units if node in unit.places]
    if len(rows) == 1 or len({len(row) for row in rows}) > 1:
        rows = [[channel] for channel in range(units.width(node))]
    return torch.tensor(sorted(rows))


def activations(trained: Trained, nodes: Container[NodeId]) -> Iterator[dict[NodeId, Tensor]]:
    """Yield, for each batch, the values of nodes in the expanded network, [C, positions], at sampled positions.

    At most `MAX_POSITIONS` positions are sampled per sample. Raises ArchError (A2221) if there are no batches.
    """
    if not trained.batches:
        raise fail("A2221", "this measure of importance needs samples, and there are none", None, "`l1` needs none")
    graph = expand(trained.graph)
    types = infer(graph)
    names = {f"read_{number}": number for number in graph if number in nodes}
    module = lower(expose(graph, {**graph.outputs, **names})).eval()
    module.load_state_dict({name: trained.weights[name] for name in module.state_dict()})
    generator = torch.Generator().manual_seed(0)
    for batch in trained.batches:
        with torch.no_grad():
            values = module(*batch)
        values_by_node = {}
        for name, number in names.items():
            x = values[name].movedim(1 + types[number].channel_axis, 0)
            x = x.reshape(*x.shape[:2], -1)
            if x.shape[2] > MAX_POSITIONS:
                x = x[..., torch.randperm(x.shape[2], generator=generator)[:MAX_POSITIONS]]
            values_by_node[number] = x.flatten(1)
        yield values_by_node


@importance
def energy(trained: Trained) -> Mapping[NodeId, Tensor]:
    """Return the mean square of each channel over samples.

    It is measured where weights read the channel, after activations and norms.
    """
    units = ChannelUnits(expand(trained.graph))
    sums: dict[NodeId, Tensor] = {}
    counts: dict[NodeId, int] = {}
    for values in activations(trained, {reader.node for reader in channel_readers(units)}):
        for node, x in values.items():
            sums[node] = sums.get(node, 0.0) + x.double().square().sum(1)
            counts[node] = counts.get(node, 0) + x.shape[1]
    return {node: total / counts[node] for node, total in sums.items()}


def channel_readers(units: ChannelUnits) -> list[WeightReader]:
    """Return the weights that multiply all channels of a node, found by evaluating each operation numerically."""
    cache: dict[Hashable, tuple[tuple[str, int], ...]] = {}
    readers_by_weight: dict[str, WeightReader] = {}
    conflicting: set[str] = set()
    for number in units.graph:
        node, operands = units.graph[number], units.graph.operands(number)
        types = [units.types[operand] for operand in operands]
        if not operands or not node.op.weights(*types):
            continue
        key = node.op, tuple(types)
        if key not in cache:
            cache[key] = _multiplying_weights(OperationProbe(node.op, types, units.types[number]))
        for name, axis in cache[key]:
            reader = WeightReader(state_name(node.scope, name), axis, operands[0])
            if readers_by_weight.setdefault(reader.weight, reader) != reader:
                conflicting.add(reader.weight)  # a shared weight that reads the channels of different nodes
    return [reader for name, reader in readers_by_weight.items() if name not in conflicting]


def _multiplying_weights(probe: OperationProbe) -> tuple[tuple[str, int], ...]:
    """Return the weights of an operation that multiply and sum the channels of the first operand.

    Each weight is returned with its channel axis. A channel that is a linear combination of other channels can be
    removed if the same combination of its weights is added to the weights of the others.
    """
    width = probe.width(0)
    if width < 2 or not probe.operands[0].is_floating:
        return ()
    weights = tuple(
        (name, roles.index("operand"))
        for name, roles in probe.roles.items()
        if "operand" in roles and probe.weights[name].shape[roles.index("operand")] == width
    )
    if not weights:
        return ()
    kept_width, channel_axis = width - width // 2, 1 + probe.operands[0].channel_axis
    mixing = torch.zeros(width, width, dtype=torch.double)
    mixing[:kept_width, :kept_width] = torch.eye(kept_width, dtype=torch.double)
    cut = (probe.xs[0].movedim(channel_axis, -1) @ mixing).movedim(-1, channel_axis)
    mixing[kept_width:, :kept_width] = torch.randn(
        width - kept_width, kept_width, generator=probe.generator, dtype=torch.double
    )
    full = (probe.xs[0].movedim(channel_axis, -1) @ mixing.T).movedim(-1, channel_axis)
    folded = {name: (probe.weights[name].movedim(axis, -1) @ mixing).movedim(-1, axis) for name, axis in weights}
    expected = probe.run([full, *probe.xs[1:]], probe.weights)
    actual = probe.run([cut, *probe.xs[1:]], {**probe.weights, **folded})
    return weights if torch.allclose(expected, actual, rtol=1e-9, atol=1e-9, equal_nan=True) else ()
