"""The input of zero-cost proxies: an untrained network, its weights, and a minibatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, Step, copy_node, rebuild
from archir.ir.op import Op
from archir.ops.norm import BatchNorm
from archir.passes.expand import expand
from archir.passes.prune import prune
from archir_torch.data import Split
from archir_torch.lowering.module import Layer, Network, lower
from archir_torch.lowering.rules import RULES


@dataclass(frozen=True)
class Trial:
    """A network without choices, its weights by name, and a minibatch of its inputs.

    `network` creates modules that share nothing with `weights` or with each other: changes that a proxy makes to one of
    them (modes, running statistics, gradients, weights) do not affect the others.
    """

    graph: Graph
    weights: dict[str, Tensor]
    batch: Split
    criterion: Callable[[Tensor, Split], Tensor] | None = None
    """Loss of the first output; None for the cross-entropy with labels."""

    def network(self) -> Network:
        """Return a new module. Batch norms use the statistics of the minibatch, as in training; dropout is off.

        So nothing is random, and no generator but that of the weights is used.
        """
        module = lower(self.graph)
        module.load_state_dict(self.weights, strict=False)
        module.to(self.batch.images.device).eval()
        for layer in module.modules():
            if isinstance(layer, Layer) and layer.function is RULES[BatchNorm].function:
                layer.train()
        return module

    def rebuilt(self, step: Step) -> Trial:
        """Return the trial of the network after a rewrite step on its nodes (see `archir.ir.graph.rebuild`)."""
        return replace(self, graph=rebuild(self.graph, step))

    def with_taps(self, wanted: Callable[[Op], bool], operands: bool = False) -> Trial:
        """Return the trial of a network whose outputs are the first output and the results of all nodes with a `wanted`
        operation, or, with `operands`, the first operand of these nodes. A value that two of them read appears twice.
        """
        graph = rebuild(self.graph, copy_node)
        nodes = [number for number in graph if wanted(graph[number].op)]
        taps = [graph.operands(number)[0] if operands else number for number in nodes]
        graph.outputs = dict([next(iter(self.graph.outputs.items()))])
        graph.outputs |= {f"tap {i}": number for i, number in enumerate(taps)}
        return replace(self, graph=prune(graph))

    def outputs(self, network: Network) -> tuple[Tensor, ...]:
        """Return the network's outputs for the minibatch, in order."""
        result = network(*self.inputs)
        return tuple(result.values()) if isinstance(result, dict) else (result,)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All inputs of the minibatch, in order."""
        rows = torch.arange(len(self.batch), device=self.batch.images.device)
        return tuple(column[rows] for column in self.batch.inputs.values())

    @cached_property
    def weight_gradients(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Pairs of a scored weight and the gradient of the loss for it; computed once for all proxies."""
        network = self.network()
        weights = list(scored_weights(network))
        gradients = torch.autograd.grad(self.loss(self.outputs(network)[0]), weights, materialize_grads=True)
        return tuple((weight.detach(), gradient) for weight, gradient in zip(weights, gradients, strict=True))

    def loss(self, logits: Tensor) -> Tensor:
        """Return the loss: `criterion`, or the mean cross-entropy of logits [batch, classes].

        Raises ArchError: A1108 (too few classes), A1111 (the data have no labels).
        """
        if self.criterion is not None:
            return self.criterion(logits, self.batch)
        if not self.batch.targets or self.batch.labels.is_floating_point() or self.batch.labels.dim() != 1:
            raise fail("A1111", "proxies that use a loss need data with labels, or an objective in a recipe")
        classes = int(self.batch.labels.max()) + 1
        if logits.dim() != 2 or logits.shape[1] < classes:
            name = next(iter(self.graph.outputs))
            hint = f"try -p classes={classes}" if "classes" in self.graph.parameters else None
            shape = list(logits.shape[1:])
            raise fail("A1108", f"the data has {classes} classes, but the output `{name}` is {shape}", None, hint)
        return F.cross_entropy(logits, self.batch.labels)


def scored_weights(network: Network) -> Iterator[Tensor]:
    """Yield the weights that proxies score: trained tensors of two and more dimensions, not biases and scales of
    norms."""
    return (weight for weight in network.parameters() if weight.dim() > 1)


def make_trial(
    graph: Graph, batch: Split, seed: int, criterion: Callable[[Tensor, Split], Tensor] | None = None
) -> Trial:
    """Return a trial with weights initialised from a seed. Raises ArchError (A0901, A0904)."""
    network = lower(graph, generator=torch.Generator().manual_seed(seed))
    return Trial(expand(graph), network.state_dict(), batch, criterion)
