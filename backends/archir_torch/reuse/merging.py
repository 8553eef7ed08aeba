"""Channels that are left out, merged into those that are kept.

What is kept predicts what is left out, linearly, position by position, by least squares over samples (He, Zhang and Sun
2017, section 3.2, fit taps, too). The prediction is folded into the weights that read the channels, so that a network
that is cut out begins near the whole one, and nothing is trained. All that is needed of the samples are the
products of channels with each other, which are the same for every network that may be cut out.
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
from archir.passes.positions import Part
from archir_torch.lowering.module import lower
from archir_torch.reuse.asked import Asked
from archir_torch.reuse.measures import Trained, importance
from archir_torch.reuse.units import Units

MOST_POSITIONS = 256
"""Of a sample that are looked at, such as pixels."""
MOST_BYTES = 4 * 2**30
"""Of the products of channels."""
_RIDGE = 1e-14
"""Regularisation, as a part of the sum of squares of all kept channels: what float32 activations round away."""
_FEW_ROWS_RIDGE = 1e-3
"""Further regularisation, as a part of the mean square of a channel, where there are no more rows than channels."""


class Reader(NamedTuple):
    """A weight that reads channels of a node along an axis."""

    weight: str
    axis: int
    node: NodeId


class Merging:
    """What the channels of a trained network say of each other, and weights of networks that are cut out of it."""

    def __init__(self, trained: Trained, cut: Container[str] | None = None) -> None:
        """`cut` are the weights of which parts may be taken, by name; by default, all may be.

        Raises ArchError: A2221 (there are no samples), A2225 (the products of channels take too much memory).
        """
        self._weights = trained.weights
        units = Units(expand(trained.graph))
        every = readers(units)
        self._readers = {one.weight: one for one in every if cut is None or one.weight in cut}
        self._places = {one.node: _places(units, one.node) for one in self._readers.values()}
        size = sum(8 * len(places) ** 2 for places in self._places.values())
        if size > MOST_BYTES:
            text = f"the products of the channels of `{trained.graph.name}` take {size / 2**30:.1f} GiB"
            raise fail(
                "A2225",
                text,
                None,
                f"at most {MOST_BYTES >> 30} GiB are used; open fewer layers, or do without `refit`",
            )
        self._products = {n: torch.zeros(len(p), len(p), dtype=torch.double) for n, p in self._places.items()}
        self._rows = dict.fromkeys(self._places, 0)
        for seen in activations(trained, self._places):
            for node, x in seen.items():
                rows = x[self._places[node]].flatten(1).double()
                self._products[node] += rows @ rows.T
                self._rows[node] += rows.shape[1]

    def weights(self, parts: Mapping[str, Part]) -> dict[str, Tensor]:
        """Those weights of a network that read fewer channels than the whole one's, by name. `parts` are the
        positions that it takes of each axis of its weights."""
        found = {}
        for name, (_, axis, node) in self._readers.items():
            if name not in parts:
                continue
            kept = torch.tensor(parts[name][axis].positions())
            whole = self._weights[name]
            merge = self._merge(node, kept) if len(kept) < whole.shape[axis] else None
            if merge is None:
                continue
            for other, along in enumerate(parts[name]):
                if other != axis and along.size < whole.shape[other]:
                    whole = whole.index_select(other, torch.tensor(along.positions()))
            found[name] = (whole.movedim(axis, -1) @ merge.to(whole)).movedim(-1, axis).contiguous()
        return found

    def _merge(self, node: NodeId, kept: Tensor) -> Tensor | None:
        """What each kept channel has of every channel of a node [all, kept]; None where parts of units are kept."""
        places, products = self._places[node], self._products[node]
        here = torch.isin(places, kept)
        if not torch.equal(here.any(1), here.all(1)):
            return None
        units = here[:, 0].nonzero()[:, 0]
        square, few = products[units][:, units], len(units) / max(1, self._rows[node])
        part = _RIDGE * len(units) + _FEW_ROWS_RIDGE * min(1.0, few) ** 4
        ridge = part * square.diagonal().mean().clamp_min(1e-30)
        square = square + ridge * torch.eye(len(units), dtype=square.dtype)
        found: Tensor = torch.linalg.solve(square, products[units]).T
        found[units] = torch.eye(len(units), dtype=found.dtype)  # what is kept is known
        merge = torch.zeros(places.numel(), places.numel(), dtype=found.dtype)
        for position in range(places.shape[1]):
            merge[places[:, position][:, None], places[units, position]] = found
        return merge[:, kept]


def _places(units: Units, node: NodeId) -> Tensor:
    """The channels of a node by unit [units, channels of each]: a row moves as one, and its channels tell the same at
    different positions. Where units differ in that, or all channels are one, each channel is on its own."""
    found = [unit.places[node] for unit in units.units if node in unit.places]
    if len(found) == 1 or len({len(one) for one in found}) > 1:
        found = [[channel] for channel in range(units.width(node))]
    return torch.tensor(sorted(found))


def activations(trained: Trained, nodes: Container[NodeId]) -> Iterator[dict[NodeId, Tensor]]:
    """For each batch, the channels of nodes of the expanded network [C, positions]; of each sample, some positions.
    Raises ArchError (A2221) without batches."""
    if not trained.batches:
        raise fail("A2221", "this needs samples, and there are none", None, "l1 needs none")
    graph = expand(trained.graph)
    types = infer(graph)
    names = {f"read_{number}": number for number in graph if number in nodes}
    module = lower(expose(graph, {**graph.outputs, **names})).eval()
    module.load_state_dict({name: trained.weights[name] for name in module.state_dict()})
    generator = torch.Generator().manual_seed(0)
    for batch in trained.batches:
        with torch.no_grad():
            values = module(*batch)
        found = {}
        for name, number in names.items():
            x = values[name].movedim(1 + types[number].channel_axis, 0)
            x = x.reshape(*x.shape[:2], -1)
            if x.shape[2] > MOST_POSITIONS:
                x = x[..., torch.randperm(x.shape[2], generator=generator)[:MOST_POSITIONS]]
            found[number] = x.flatten(1)
        yield found


@importance
def energy(trained: Trained) -> Mapping[NodeId, Tensor]:
    """The mean square of a channel where it is read, after activations and norms, over samples."""
    units = Units(expand(trained.graph))
    sums: dict[NodeId, Tensor] = {}
    counts: dict[NodeId, int] = {}
    for seen in activations(trained, {one.node for one in readers(units)}):
        for node, x in seen.items():
            sums[node] = sums.get(node, 0.0) + x.double().square().sum(1)
            counts[node] = counts.get(node, 0) + x.shape[1]
    return {node: total / counts[node] for node, total in sums.items()}


def readers(units: Units) -> list[Reader]:
    """The weights of a network that multiply all channels of a node: operations are asked, by computing."""
    answers: dict[Hashable, tuple[tuple[str, int], ...]] = {}
    found: dict[str, Reader] = {}
    several: set[str] = set()
    for number in units.graph:
        node, operands = units.graph[number], units.graph.operands(number)
        types = [units.types[operand] for operand in operands]
        if not operands or not node.op.weights(*types):
            continue
        key = node.op, tuple(types)
        if key not in answers:
            answers[key] = _multiplied(Asked(node.op, types, units.types[number]))
        for name, axis in answers[key]:
            one = Reader(state_name(node.scope, name), axis, operands[0])
            if found.setdefault(one.weight, one) != one:
                several.add(one.weight)  # shared, and not of the same channels
    return [one for name, one in found.items() if name not in several]


def _multiplied(asked: Asked) -> tuple[tuple[str, int], ...]:
    """The weights of an operation, and their axes, by which channels of the first operand are multiplied and added up:
    a channel that is a sum of others can be left out, then, and its weights added to theirs."""
    width = asked.width(0)
    if width < 2 or not asked.operands[0].numeric:
        return ()
    found = tuple(
        (name, roles.index("operand"))
        for name, roles in asked.roles.items()
        if "operand" in roles and asked.weights[name].shape[roles.index("operand")] == width
    )
    if not found:
        return ()
    half, at = width - width // 2, 1 + asked.operands[0].channel_axis
    share = torch.zeros(width, width, dtype=torch.double)
    share[:half, :half] = torch.eye(half, dtype=torch.double)
    cut = (asked.xs[0].movedim(at, -1) @ share).movedim(-1, at)
    share[half:, :half] = torch.randn(width - half, half, generator=asked.generator, dtype=torch.double)
    whole = (asked.xs[0].movedim(at, -1) @ share.T).movedim(-1, at)
    folded = {name: (asked.weights[name].movedim(axis, -1) @ share).movedim(-1, axis) for name, axis in found}
    before = asked.run([whole, *asked.xs[1:]], asked.weights)
    after = asked.run([cut, *asked.xs[1:]], {**asked.weights, **folded})
    return found if torch.allclose(before, after, rtol=1e-9, atol=1e-9, equal_nan=True) else ()
