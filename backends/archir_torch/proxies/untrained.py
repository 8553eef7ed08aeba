"""What a zero-cost proxy looks at: an untrained network, its weights, and a minibatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, Step, keep, rebuild
from archir.ir.op import Op
from archir.ops.norm import BatchNorm
from archir.passes.expand import expand
from archir.passes.prune import prune
from archir_torch.data import Split
from archir_torch.lowering.module import Layer, Network, lower
from archir_torch.lowering.rules import RULES


@dataclass(frozen=True)
class Trial:
    """A network without choices, its weights by name, and a minibatch as its input takes it.

    `network` makes modules that share nothing with `weights` or with one another: what a proxy does to one of them
    (modes, running statistics, gradients, other weights) stays there.
    """

    graph: Graph
    weights: dict[str, Tensor]
    batch: Split
    criterion: Callable[[Tensor, Split], Tensor] | None = None
    """The loss of the first output, where it is not the cross-entropy of labels."""

    def network(self) -> Network:
        """The module, as in training: batch norms by the statistics of the minibatch, but without dropout.

        So nothing is random, and no generator but the one of the weights is drawn from.
        """
        made = lower(self.graph)
        made.load_state_dict(self.weights, strict=False)
        made.to(self.batch.images.device).eval()
        for layer in made.modules():
            if isinstance(layer, Layer) and layer.function is RULES[BatchNorm].function:
                layer.train()
        return made

    def rebuilt(self, step: Step) -> Trial:
        """The trial of a network whose nodes went through a step (see `archir.ir.graph.rebuild`)."""
        return replace(self, graph=rebuild(self.graph, step))

    def tapped(self, wanted: Callable[[Op], bool], operands: bool = False) -> Trial:
        """The trial of a network whose outputs are the first of before, and the results of the nodes with a wanted
        operation, or what each of these reads: what two of them read is there twice."""
        graph = rebuild(self.graph, keep)
        found = [number for number in graph if wanted(graph[number].op)]
        taps = [graph.operands(number)[0] if operands else number for number in found]
        graph.outputs = dict([next(iter(self.graph.outputs.items()))])
        graph.outputs |= {f"tap {i}": number for i, number in enumerate(taps)}
        return replace(self, graph=prune(graph))

    def outputs(self, network: Network) -> tuple[Tensor, ...]:
        """What a network makes of the images: its outputs, in order."""
        found = network(*self.inputs)
        return tuple(found.values()) if isinstance(found, dict) else (found,)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the network is given: all inputs of the minibatch, in order."""
        rows = torch.arange(len(self.batch), device=self.batch.images.device)
        return tuple(one[rows] for one in self.batch.inputs.values())

    @cached_property
    def slopes(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """The weights that proxies score, and the gradient of the loss for each: worked out once for all proxies."""
        network = self.network()
        weights = list(weighing(network))
        found = torch.autograd.grad(self.loss(self.outputs(network)[0]), weights, materialize_grads=True)
        return tuple((weight.detach(), slope) for weight, slope in zip(weights, found, strict=True))

    def loss(self, logits: Tensor) -> Tensor:
        """What is minimised: the objective's loss, or the mean cross-entropy of logits [batch, classes].

        Raises ArchError (A1108) if there are too few classes.
        """
        if self.criterion is not None:
            return self.criterion(logits, self.batch)
        if not self.batch.targets or self.batch.labels.is_floating_point() or self.batch.labels.dim() != 1:
            raise fail("A1111", "proxies that look at a loss need labels, or an objective in a recipe")
        classes = int(self.batch.labels.max()) + 1
        if logits.dim() != 2 or logits.shape[1] < classes:
            name = next(iter(self.graph.outputs))
            hint = f"try -p classes={classes}" if "classes" in self.graph.parameters else None
            shape = list(logits.shape[1:])
            raise fail("A1108", f"the data has {classes} classes, but the output `{name}` is {shape}", None, hint)
        return F.cross_entropy(logits, self.batch.labels)


def weighing(network: Network) -> Iterator[Tensor]:
    """The weights that proxies score: trained tensors of two and more dimensions, not biases and norms' scales."""
    return (weight for weight in network.parameters() if weight.dim() > 1)


def trial(graph: Graph, batch: Split, seed: int, criterion: Callable[[Tensor, Split], Tensor] | None = None) -> Trial:
    """A trial with weights drawn with a seed. Raises ArchError (A0901, A0904)."""
    network = lower(graph, generator=torch.Generator().manual_seed(seed))
    return Trial(expand(graph), network.state_dict(), batch, criterion)
