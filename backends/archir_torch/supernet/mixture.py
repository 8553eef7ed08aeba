"""Relaxed graphs as modules; the mixture weights are an argument of each call.

If a term of a mixture is the result of a batch norm, its mixture weight is multiplied into the scale of the norm.
Therefore the weighted result and the tensors for its gradient are neither computed nor saved. Sums are
accumulated in place.
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
from archir.ir.graph import Graph, NodeId, scope_path
from archir.ir.structure import Mix
from archir.ir.typing import infer
from archir.ops.norm import BatchNorm
from archir.ops.shape import Slice
from archir.passes.expand import expand
from archir_torch.lowering.inputs import check_inputs
from archir_torch.lowering.kernels.lazy import LazySum, as_term, make_shareable, materialize, representative
from archir_torch.lowering.kernels.library import has_kernels
from archir_torch.lowering.kernels.sums import Term
from archir_torch.lowering.module import ChildRef, Layer, Network, Path, Step, WeightHolder, call_layer
from archir_torch.lowering.rules import RULES
from archir_torch.supernet.merged_layers import IdenticalLayers, StackedLayers, chunk_if_sliced, chunk_index

Weights = Mapping[str, Tensor]
"""Mixture weights by name: `path` for the outcomes of a choice [n], `path*` for its alternatives [n]."""
Active = Mapping[str, Collection[int]]
"""Indices of the mixture weights that are not zero, by the names in `Weights`."""
Factors = tuple[tuple[str, tuple[int, ...]], ...]
"""Weight of a mixture term as a product of sums: for each name in `Weights`, the indices of the weights to add
up."""


class MixedNetwork(Network):
    """Network with mixtures: `forward(*inputs, weights=...)`.

    With `active`, the network skips terms with zero weight, and steps whose only consumers are such terms.
    """

    def __init__(self, graph: Graph, generator: torch.Generator | None = None, *, fold_norms: bool = True) -> None:
        self.layout: torch.memory_format | None = None
        """Memory format to which 4-d inputs are converted, and which later maps inherit.

        None leaves inputs unchanged.
        """
        self._norms: dict[NodeId, ChildRef] = {}
        self._refs: dict[Path, ChildRef] = {}
        self._fold_norms = fold_norms
        graph = expand(graph)
        self._types = infer(graph)
        super().__init__(graph, generator)
        mixtures = [step for step in self._steps if isinstance(step, MixStep)]
        terms = list(dict.fromkeys(term for step in mixtures for term in step.factors))
        for step in mixtures:
            step.term_indices = tuple(terms.index(term) for term in step.factors)
        names = {
            name: _weight_count(graph, name) for name in sorted({name for factors in terms for name, _ in factors})
        }
        self.add_module(_TERM_WEIGHTS, TermWeights(names, terms))  # scopes cannot have this name

    @property
    def names(self) -> dict[str, int]:
        """Names of the mixture weights that `forward` needs, each with its number of weights."""
        return self._term_weights.names

    @property
    def _term_weights(self) -> TermWeights:
        module = self._modules[_TERM_WEIGHTS]
        assert isinstance(module, TermWeights)
        return module

    def _attach(self, layers: Mapping[Path, WeightHolder]) -> dict[Path, ChildRef]:
        self._refs = super()._attach(layers)
        return self._refs

    def _step(self, graph: Graph, number: NodeId, ref: ChildRef | None) -> Step:
        op = graph[number].op
        merged = graph.merged_scopes.get(graph[number].scope)
        if ref is not None and merged is not None:
            refs = [self._refs[scope_path(scope)] for scope in merged.scopes]
            return Step(
                chunk_if_sliced(graph, number, IdenticalLayers(refs) if merged.is_shared else StackedLayers(refs))
            )
        if isinstance(op, Slice) and (chunk := chunk_index(graph, number)) is not None:
            return Step(itemgetter(chunk))
        if isinstance(op, Mix):
            operands = graph.operands(number)
            shape = self._types[operands[0]].shape
            return MixStep(_term_factors(op), [self._norms.get(operand) for operand in operands], shape)
        if self._fold_norms and ref is not None and isinstance(op, BatchNorm) and _is_read_by_one_mix(graph, number):
            self._norms[number] = ref
            return Step(_FoldedNorm())
        return super()._step(graph, number, ref)

    def forward(self, *inputs: Tensor, weights: Weights | None = None, active: Active | None = None) -> Any:
        """Run the network on a batch with these mixture weights."""
        check_inputs(inputs, self._expected, self.open_sizes)
        term_weights = self._term_weights(weights or {}) if self.names else ()
        batch = inputs[0].shape[0] if inputs else 1
        if self.layout is not None:
            inputs = tuple(x.contiguous(memory_format=self.layout) if x.dim() == 4 else x for x in inputs)
        values: list[Any] = [*self._prepare_inputs(inputs), *[None] * (self._slots - len(inputs))]
        for step in self._steps if active is None else self._active_steps(active):
            value = (
                step.run_mix(values, term_weights, active, batch)
                if isinstance(step, MixStep)
                else step.run(values, batch)
            )
            values[step.writes] = make_shareable(value) if step.is_shared else value
            for i in step.frees:
                values[i] = None
        return self._results(values)

    def use_kernels(self) -> None:
        """Use compiled kernels in training from now on, including for the weighted sums of mixtures."""
        super().use_kernels()
        for step in self._steps:
            if isinstance(step, MixStep):
                step.uses_kernels = True

    def _active_steps(self, active: Active) -> list[Step]:
        """Return the steps that the outputs depend on if all mixture weights except `active` are zero."""
        live = set(self._outputs)
        steps: list[Step] = []
        for step in reversed(self._steps):
            if step.writes in live:
                steps.append(step)
                live.update(step.active_slots(active) if isinstance(step, MixStep) else step.reads)
        return steps[::-1]


_TERM_WEIGHTS = "weights of mixtures"
"""Name of the submodule that computes the weights of mixture terms."""


class TermWeights(nn.Module):
    """Weights of all terms in all mixtures, computed from the weights of the choices in a few tensor operations."""

    def __init__(self, names: Mapping[str, int], terms: Sequence[Factors]) -> None:
        super().__init__()
        self.names = dict(names)
        offsets = dict(zip(names, accumulate(names.values(), initial=0), strict=False))
        factors = list(dict.fromkeys(factor for term in terms for factor in term))
        sums = torch.zeros(len(factors), sum(names.values()))
        for row, (name, positions) in enumerate(factors):
            sums[row, [offsets[name] + position for position in positions]] = 1
        max_factors = max((len(term) for term in terms), default=1)
        products = torch.full((len(terms), max(1, max_factors)), len(factors))  # index of the factor 1
        for row, term in enumerate(terms):
            products[row, : len(term)] = torch.tensor([factors.index(factor) for factor in term])
        self.register_buffer("sums", sums, persistent=False)
        self.register_buffer("products", products, persistent=False)

    def forward(self, weights: Weights) -> tuple[Tensor, ...]:
        """Return the weight of each term as a 0-d tensor with the dtype of `weights`."""
        missing = [name for name in self.names if name not in weights]
        if missing:
            raise TypeError(f"`weights` lacks {', '.join(missing)}: the network's `names` lists all of them")
        flat = torch.cat([weights[name] for name in self.names])
        sums = (self.sums.to(flat.dtype) * flat).sum(1)  # type: ignore[operator]  # autocast would round a product `@`
        factors = torch.cat([sums, flat.new_ones(1)])
        columns = factors[self.products].unbind(1)  # type: ignore[index]
        return reduce(mul, columns).unbind()  # not `prod`: its gradient searches for zeros, which waits for the GPU


class MixStep(Step):
    """Step that computes the weighted sum of tensors [batch, *shape].

    `norms` has, for each term, a reference to the batch norm that is applied before weighting; None if there is none.
    """

    __slots__ = ("factors", "norms", "shape", "term_indices", "uses_kernels")

    def __init__(self, factors: Sequence[Factors], norms: Sequence[ChildRef | None], shape: tuple[int, ...]) -> None:
        super().__init__(None)
        self.factors, self.norms, self.shape = factors, norms, shape
        self.term_indices: tuple[int, ...] = ()
        self.uses_kernels = False

    def active_slots(self, active: Active) -> list[int]:
        """Return the slots of the terms whose weight is not zero."""
        return [slot for slot, factors in zip(self.reads, self.factors, strict=True) if _has_weight(factors, active)]

    def run_mix(self, values: Sequence[Any], term_weights: Sequence[Tensor], active: Active | None, batch: int) -> Any:
        """Compute the sum; if no term has a weight, the sum is zero.

        If the weights have a higher precision than the tensors, the sum is rounded only once.
        """
        if self.uses_kernels and self._can_use_kernels(values, term_weights, active):
            return LazySum(self._lazy_terms(values, term_weights, active))
        return self._torch_sum([materialize(x) for x in values], term_weights, active, batch)

    def _can_use_kernels(self, values: Sequence[Any], term_weights: Sequence[Tensor], active: Active | None) -> bool:
        """Return True if kernels can sum up the terms.

        Must be called before the norms run, since running the norms updates their running statistics.
        """
        terms = [
            (values[slot], term_weights[index] if factors else None)
            for slot, factors, index in zip(self.reads, self.factors, self.term_indices, strict=True)
            if active is None or _has_weight(factors, active)
        ]
        return bool(terms) and has_kernels(*(representative(x) for x, _ in terms), *(weight for _, weight in terms))

    def _lazy_terms(
        self, values: Sequence[Any], term_weights: Sequence[Tensor], active: Active | None
    ) -> tuple[Term, ...]:
        """Return the terms with non-zero weight in the form that the kernel takes."""
        terms: list[Term] = []
        for slot, factors, index, ref in zip(self.reads, self.factors, self.term_indices, self.norms, strict=True):
            if active is not None and not _has_weight(factors, active):
                continue
            x, weight = values[slot], term_weights[index] if factors else None
            if ref is not None:
                layer: Any = ref[0]._modules[ref[1]]
                x = call_layer(layer, [x])
            terms.append(as_term(x, weight))
        return tuple(terms)

    def _torch_sum(
        self, values: Sequence[Any], term_weights: Sequence[Tensor], active: Active | None, batch: int
    ) -> Tensor:
        """Compute the sum with torch operations."""
        total: Tensor | None = None
        is_owned = False
        """Whether the sum so far is a new tensor, which may be overwritten."""
        for slot, factors, index, ref in zip(self.reads, self.factors, self.term_indices, self.norms, strict=True):
            if active is not None and not _has_weight(factors, active):
                continue
            x, weight = values[slot], term_weights[index] if factors else None
            if ref is not None:
                layer = ref[0]._modules[ref[1]]
                assert isinstance(layer, Layer)
                term = _scaled_norm(layer, x, weight)
                total, is_owned = (term if total is None else _accumulate(total, term, is_owned)), True
            elif weight is not None and weight.dtype != x.dtype:
                term = x * weight.view((1,) * x.dim())  # a 0-d weight would be rounded to the dtype of x first
                total, is_owned = (term if total is None else total + term), True
            elif total is None:
                total, is_owned = (x, False) if weight is None else (x * weight, True)
            elif weight is None:
                total, is_owned = _accumulate(total, x, is_owned), True
            else:
                total, is_owned = (total.addcmul_(x, weight) if is_owned else torch.addcmul(total, x, weight)), True
        return total.to(x.dtype) if total is not None else term_weights[0].new_zeros(batch, *self.shape)


def _accumulate(total: Tensor, term: Tensor, is_owned: bool) -> Tensor:
    """Add a term to a partial sum, in place if `is_owned`."""
    return total.add_(term) if is_owned else total + term


def _scaled_norm(layer: Layer, x: Tensor, factor: Tensor | None) -> Tensor:
    """Apply a batch norm whose weight and bias are multiplied by `factor`; None leaves them unchanged."""
    tensors = {name: getattr(layer, name) for name in layer.names}
    weight, bias = tensors.get("weight"), tensors.get("bias")
    if factor is not None:
        mean = tensors["running_mean"]
        # `repeat`, not `expand`: torch's gradient of norms of channels-last maps ignores the strides of weights
        weight = factor.to(mean.dtype).repeat(mean.shape[0]) if weight is None else weight * factor
        bias = None if bias is None else bias * factor
    if bias is None and weight is not None:
        bias = torch.zeros_like(weight)
    settings = layer.attributes
    return layer.function(
        x, tensors["running_mean"], tensors["running_var"], weight, bias, **settings, training=layer.training
    )


class _FoldedNorm:
    """Identity step in place of a batch norm that the weighted sum after it applies."""

    accepts_lazy = True
    """Marks that the operand may be lazy: it is returned unchanged."""

    def __call__(self, x: Any) -> Any:
        return x


def _term_factors(op: Mix) -> list[Factors]:
    """Return the factors of each term in a mixture, without names on which the term does not depend."""
    return [
        tuple((name, positions) for name, positions in zip(op.mixed, term, strict=True) if positions)
        for term in op.shares
    ]


def _has_weight(factors: Factors, active: Active) -> bool:
    """Return True if the weight of a term can be non-zero."""
    return all(any(position in active.get(name, ()) for position in positions) for name, positions in factors)


def _is_read_by_one_mix(graph: Graph, number: NodeId) -> bool:
    """Return True if the only consumer of a node is a mixture that reads the node once."""
    consumers = graph.consumers(number)
    return len(consumers) == 1 and isinstance(graph[consumers[0]].op, Mix) and number not in graph.outputs.values()


def _weight_count(graph: Graph, name: str) -> int:
    """Return the number of mixture weights under a name: one per alternative for `path*`, otherwise one per outcome."""
    choice = graph.decisions[name.removesuffix("*")].choice
    return len(choice.alternatives) if name.endswith("*") else choice.outcome_count


def lower_mixed(graph: Graph, *, generator: torch.Generator | None = None, fold_norms: bool = True) -> MixedNetwork:
    """Lower a relaxed graph to a module.

    With `fold_norms`, the weight of a mixture term is multiplied into the batch norm that computes the term. Raises
    ArchError (A0901, A0904) with a diagnostic for every node that cannot be lowered.
    """
    problems = unlowered(graph, RULES, "torch", mixtures=True)
    if problems:
        raise ArchError(*problems)
    generator = generator if generator is not None else torch.Generator().manual_seed(0)
    return MixedNetwork(graph, generator, fold_norms=fold_norms)
