"""Input of zero-cost proxies: an untrained network, its weights and a minibatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Network without choices, with its weights by name and a minibatch of inputs.

    `network` creates modules that share no state with `weights` or with each other. A proxy may therefore change a
    module (modes, running statistics, gradients, weights) without affecting other proxies.
    """

    graph: Graph
    weights: dict[str, Tensor]
    batch: Split
    criterion: Callable[[Tensor, Split], Tensor] | None = None
    """Loss as a function of the first output and the minibatch; None for the cross-entropy with the labels."""

    def network(self) -> Network:
        """Return a new module. Batch norms use the statistics of the minibatch, as in training; dropout is off.

        The module is therefore deterministic: random numbers are used for the initial weights only.
        """
        module = lower(self.graph)
        module.load_state_dict(self.weights, strict=False)
        module.to(self.batch.images.device).eval()
        for layer in module.modules():
            if isinstance(layer, Layer) and layer.function is RULES[BatchNorm].function:
                layer.train()
        return module

    def rebuilt(self, step: Step) -> Trial:
        """Return the trial of the network that a rewrite step on each node produces (see `archir.ir.graph.rebuild`)."""
        return replace(self, graph=rebuild(self.graph, step))

    def with_taps(self, wanted: Callable[[Op], bool], operands: bool = False) -> Trial:
        """Return the trial of a network with additional outputs.

        These are the results of all operations for which `wanted` is True. With `operands`, the first operands of these
        operations are the additional outputs instead. The outputs are then the first output of the network and the
        additional ones; all other outputs are dropped. A value that several of the operations read appears several
        times.
        """
        graph = rebuild(self.graph, copy_node)
        nodes = [number for number in graph if wanted(graph[number].op)]
        taps = [graph.operands(number)[0] if operands else number for number in nodes]
        graph.outputs = dict([next(iter(self.graph.outputs.items()))])
        graph.outputs |= {f"tap {i}": number for i, number in enumerate(taps)}
        return replace(self, graph=prune(graph))

    def outputs(self, network: Network) -> tuple[Tensor, ...]:
        """Return the network's outputs for the minibatch, in the order of the net."""
        result = network(*self.inputs)
        return tuple(result.values()) if isinstance(result, dict) else (result,)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs in the minibatch, in the order of the net."""
        rows = torch.arange(len(self.batch), device=self.batch.images.device)
        return tuple(column[rows] for column in self.batch.inputs.values())

    @cached_property
    def weight_gradients(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Pairs of a scored weight and the gradient of the loss with respect to this weight.

        The gradients are computed once for all proxies.
        """
        network = self.network()
        weights = list(scored_weights(network))
        gradients = gradients_of(self.loss(self.outputs(network)[0]), weights)
        return tuple((weight.detach(), gradient) for weight, gradient in zip(weights, gradients, strict=True))

    def loss(self, logits: Tensor) -> Tensor:
        """Return the loss: `criterion`, or by default the mean cross-entropy of logits [batch, classes].

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


def gradients_of(value: Tensor, tensors: Sequence[Tensor], *, create_graph: bool = False) -> Sequence[Tensor]:
    """Return the gradients of a value with respect to tensors; zeros for those on which it does not depend."""
    if not tensors or not value.requires_grad:
        return [torch.zeros_like(tensor) for tensor in tensors]
    return torch.autograd.grad(value, tensors, create_graph=create_graph, materialize_grads=True)


def scored_weights(network: Network) -> Iterator[Tensor]:
    """Yield the weights that proxies score: trained tensors with two or more dimensions, so no biases or norm
    scales."""
    return (weight for weight in network.parameters() if weight.dim() > 1)


def make_trial(
    graph: Graph, batch: Split, seed: int, criterion: Callable[[Tensor, Split], Tensor] | None = None
) -> Trial:
    """Return a trial with weights initialised from a seed.

    Raises ArchError (A0901, A0904) if the network cannot be lowered to torch.
    """
    network = lower(graph, generator=torch.Generator().manual_seed(seed))
    return Trial(expand(graph), network.state_dict(), batch, criterion)
