"""Relaxed graphs as modules: the weights of the mixtures are arguments of the call.

The weight of a batch norm's result is put into the norm, which scales it anyway: neither the weighted result nor what
its gradient would need is computed or kept. Sums are accumulated in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import itemgetter, mul
from typing import Any

import torch
from torch import Tensor, nn

from archir.backends import unlowered
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Mix
from archir.ir.typing import infer
from archir.ops.norm import BatchNorm
from archir.ops.shape import Slice
from archir.passes.expand import expand
from archir_torch.lowering.inputs import check_inputs
from archir_torch.lowering.kernels.lazy import Sum, read_of, settled, term, whole
from archir_torch.lowering.kernels.library import suits
from archir_torch.lowering.kernels.sums import Term
from archir_torch.lowering.module import Home, Layer, Named, Network, Path, Step, called, parts_of
from archir_torch.lowering.rules import RULES
from archir_torch.supernet.fused import Shared, Stacked, in_parts, part_of

Weights = Mapping[str, Tensor]
"""Weights by the names that mixtures have for them: of a choice's outcomes [n], or of its alternatives (`path*`)."""
Active = Mapping[str, Collection[int]]
"""The positions whose weights are not zero, by the same names."""
Factors = tuple[tuple[str, tuple[int, ...]], ...]
"""A product of sums: for each name the positions whose weights are added up."""


class MixedNetwork(Network):
    """A network with mixtures: `forward(*inputs, weights=...)`. With `active`, only what has a weight is run."""

    def __init__(self, graph: Graph, generator: torch.Generator | None = None, *, fold_norms: bool = True) -> None:
        self.layout: torch.memory_format | None = None
        """How inputs that are maps are laid out before anything reads them; the rest follows. None: as they come."""
        self._norms: dict[NodeId, Home] = {}
        self._homes: dict[Path, Home] = {}
        self._fold_norms = fold_norms
        graph = expand(graph)
        self._types = infer(graph)
        super().__init__(graph, generator)
        mixtures = [step for step in self._steps if isinstance(step, MixStep)]
        shares = list(dict.fromkeys(term for step in mixtures for term in step.factors))
        for step in mixtures:
            step.shares = tuple(shares.index(term) for term in step.factors)
        names = {name: _length(graph, name) for name in sorted({name for share in shares for name, _ in share})}
        self.add_module(_SHARES, Shares(names, shares))  # a name that no scope can have

    @property
    def names(self) -> dict[str, int]:
        """The names that weights are wanted by, and how many each has."""
        return self._shares.names

    @property
    def _shares(self) -> Shares:
        found = self._modules[_SHARES]
        assert isinstance(found, Shares)
        return found

    def _place(self, layers: Mapping[Path, Named]) -> dict[Path, Home]:
        self._homes = super()._place(layers)
        return self._homes

    def _step(self, graph: Graph, number: NodeId, home: Home | None) -> Step:
        op = graph[number].op
        together = graph.together.get(graph[number].scope)
        if home is not None and together is not None:
            homes = [self._homes[parts_of(scope)] for scope in together.scopes]
            return Step(in_parts(graph, number, Shared(homes) if together.same else Stacked(homes)))
        if isinstance(op, Slice) and (part := part_of(graph, number)) is not None:
            return Step(itemgetter(part))
        if isinstance(op, Mix):
            operands = graph.operands(number)
            shape = self._types[operands[0]].shape
            return MixStep(_factors(op), [self._norms.get(operand) for operand in operands], shape)
        if self._fold_norms and home is not None and isinstance(op, BatchNorm) and _mixed_alone(graph, number):
            self._norms[number] = home
            return Step(_Itself())
        return super()._step(graph, number, home)

    def forward(self, *inputs: Tensor, weights: Weights | None = None, active: Active | None = None) -> Any:
        """Run the network on a batch, its mixtures weighted by `weights`."""
        check_inputs(inputs, self._expected, self.open_sizes)
        shares = self._shares(weights or {}) if self.names else ()
        batch = inputs[0].shape[0] if inputs else 1
        if self.layout is not None:
            inputs = tuple(x.contiguous(memory_format=self.layout) if x.dim() == 4 else x for x in inputs)
        values: list[Any] = [*self._laid_out(inputs), *[None] * (self._slots - len(inputs))]
        for step in self._steps if active is None else self._needed(active):
            found = step.mixed(values, shares, active, batch) if isinstance(step, MixStep) else step.run(values, batch)
            values[step.writes] = settled(found) if step.settles else found
            for i in step.frees:
                values[i] = None
        return self._given(values)

    def use_kernels(self) -> None:
        """As of every network; sums of mixtures are kernels, too."""
        super().use_kernels()
        for step in self._steps:
            if isinstance(step, MixStep):
                step.compiled = True

    def _needed(self, active: Active) -> list[Step]:
        """The steps that outputs need where only some terms of mixtures have weights."""
        live = set(self._outputs)
        found: list[Step] = []
        for step in reversed(self._steps):
            if step.writes in live:
                found.append(step)
                live.update(step.running(active) if isinstance(step, MixStep) else step.reads)
        return found[::-1]


_SHARES = "weights of mixtures"


class Shares(nn.Module):
    """The weights of all terms of all mixtures, from the weights of choices, in a few operations."""

    def __init__(self, names: Mapping[str, int], shares: Sequence[Factors]) -> None:
        super().__init__()
        self.names = dict(names)
        offsets = dict(zip(names, accumulate(names.values(), initial=0), strict=False))
        factors = list(dict.fromkeys(factor for share in shares for factor in share))
        sums = torch.zeros(len(factors), sum(names.values()))
        for row, (name, positions) in enumerate(factors):
            sums[row, [offsets[name] + position for position in positions]] = 1
        most = max((len(share) for share in shares), default=1)
        products = torch.full((len(shares), max(1, most)), len(factors))  # the last one is 1
        for row, share in enumerate(shares):
            products[row, : len(share)] = torch.tensor([factors.index(factor) for factor in share])
        self.register_buffer("sums", sums, persistent=False)
        self.register_buffer("products", products, persistent=False)

    def forward(self, weights: Weights) -> tuple[Tensor, ...]:
        """The weight of each term, as numbers of no dimension, as precise as they come."""
        missing = [name for name in self.names if name not in weights]
        if missing:
            raise TypeError(f"the network needs the weights of {', '.join(missing)}")
        flat = torch.cat([weights[name] for name in self.names])
        sums = (self.sums.to(flat.dtype) * flat).sum(1)  # type: ignore[operator]  # autocast would round a product `@`
        factors = torch.cat([sums, flat.new_ones(1)])
        columns = factors[self.products].unbind(1)  # type: ignore[index]
        return reduce(mul, columns).unbind()  # the gradient of `prod` looks for zeros, and waits for the GPU


class MixStep(Step):
    """A weighted sum of tensors [batch, *shape]. `norms` say where the batch norms are that terms go through first."""

    __slots__ = ("compiled", "factors", "norms", "shape", "shares")

    def __init__(self, factors: Sequence[Factors], norms: Sequence[Home | None], shape: tuple[int, ...]) -> None:
        super().__init__(None)
        self.factors, self.norms, self.shape = factors, norms, shape
        self.shares: tuple[int, ...] = ()
        self.compiled = False

    def running(self, active: Active) -> list[int]:
        """The slots of the terms that have a weight."""
        return [slot for slot, factors in zip(self.reads, self.factors, strict=True) if _has_weight(factors, active)]

    def mixed(self, values: Sequence[Any], shares: Sequence[Tensor], active: Active | None, batch: int) -> Any:
        """The sum, rounded once where weights have more digits than tensors; zeros, if no term has a weight."""
        if self.compiled and self._suits(values, shares, active):
            return Sum(self._terms(values, shares, active))
        return self._plain([whole(x) for x in values], shares, active, batch)

    def _suits(self, values: Sequence[Any], shares: Sequence[Tensor], active: Active | None) -> bool:
        """Whether kernels can sum the terms up: asked before norms run, which take up what they see."""
        running = [
            (values[slot], shares[index] if factors else None)
            for slot, factors, index in zip(self.reads, self.factors, self.shares, strict=True)
            if active is None or _has_weight(factors, active)
        ]
        return bool(running) and suits(*(read_of(x) for x, _ in running), *(share for _, share in running))

    def _terms(self, values: Sequence[Any], shares: Sequence[Tensor], active: Active | None) -> tuple[Term, ...]:
        """The terms, for kernels."""
        found: list[Term] = []
        for slot, factors, index, home in zip(self.reads, self.factors, self.shares, self.norms, strict=True):
            if active is not None and not _has_weight(factors, active):
                continue
            x, share = values[slot], shares[index] if factors else None
            if home is not None:
                layer: Any = home[0]._modules[home[1]]
                x = called(layer, [x])
            found.append(term(x, share))
        return tuple(found)

    def _plain(self, values: Sequence[Any], shares: Sequence[Tensor], active: Active | None, batch: int) -> Tensor:
        total: Tensor | None = None
        ours = False
        """Whether the sum so far is a tensor that nobody else reads."""
        for slot, factors, index, home in zip(self.reads, self.factors, self.shares, self.norms, strict=True):
            if active is not None and not _has_weight(factors, active):
                continue
            x, share = values[slot], shares[index] if factors else None
            if home is not None:
                layer = home[0]._modules[home[1]]
                assert isinstance(layer, Layer)
                term = _normalised(layer, x, share)
                total, ours = (term if total is None else _added(total, term, ours)), True
            elif share is not None and share.dtype != x.dtype:
                term = x * share.view((1,) * x.dim())  # of no dimension, it would be rounded to the type of x first
                total, ours = (term if total is None else total + term), True
            elif total is None:
                total, ours = (x, False) if share is None else (x * share, True)
            elif share is None:
                total, ours = _added(total, x, ours), True
            else:
                total, ours = (total.addcmul_(x, share) if ours else torch.addcmul(total, x, share)), True
        return total.to(x.dtype) if total is not None else shares[0].new_zeros(batch, *self.shape)


def _added(total: Tensor, term: Tensor, ours: bool) -> Tensor:
    return total.add_(term) if ours else total + term


def _normalised(layer: Layer, x: Tensor, share: Tensor | None) -> Tensor:
    """A batch norm's result, times a weight."""
    parts = {name: getattr(layer, name) for name in layer.names}
    weight, bias = parts.get("weight"), parts.get("bias")
    if share is not None:
        mean = parts["running_mean"]
        # in memory: torch's gradient of norms of channels-last maps reads weights as if they had no strides
        weight = share.to(mean.dtype).repeat(mean.shape[0]) if weight is None else weight * share
        bias = None if bias is None else bias * share
    if bias is None and weight is not None:
        bias = torch.zeros_like(weight)
    settings = layer.attributes
    return layer.function(
        x, parts["running_mean"], parts["running_var"], weight, bias, **settings, training=layer.training
    )


class _Itself:
    """What stands where a norm is left to a sum."""

    takes_unwritten = True

    def __call__(self, x: Any) -> Any:
        return x


def _factors(op: Mix) -> list[Factors]:
    return [
        tuple((name, positions) for name, positions in zip(op.mixed, share, strict=True) if positions)
        for share in op.shares
    ]


def _has_weight(factors: Factors, active: Active) -> bool:
    return all(any(position in active.get(name, ()) for position in positions) for name, positions in factors)


def _mixed_alone(graph: Graph, number: NodeId) -> bool:
    """Whether mixtures alone read a node, and it is read once."""
    readers = graph.consumers(number)
    return len(readers) == 1 and isinstance(graph[readers[0]].op, Mix) and number not in graph.outputs.values()


def _length(graph: Graph, name: str) -> int:
    choice = graph.decisions[name.removesuffix("*")].choice
    return len(choice.alternatives) if name.endswith("*") else choice.outcomes


def lower_mixed(graph: Graph, *, generator: torch.Generator | None = None, fold_norms: bool = True) -> MixedNetwork:
    """The module of a relaxed graph; `fold_norms` puts the weights of batch norms' results into the norms.

    Raises ArchError (A0901, A0904) with everything that cannot be lowered.
    """
    problems = unlowered(graph, RULES, "torch", mixtures=True)
    if problems:
        raise ArchError(*problems)
    generator = generator if generator is not None else torch.Generator().manual_seed(0)
    return MixedNetwork(graph, generator, fold_norms=fold_norms)
