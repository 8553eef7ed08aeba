"""Measures of channel importance for a trained network, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId, state_name
from archir.ir.typing import infer
from archir.passes.expose import expose
from archir.plugins.registry import Registry
from archir_torch.lowering.module import lower

Loss = Callable[[Callable[..., object], int], Tensor]
"""Loss of a batch, as a function of the network (a callable) and the index of the batch."""


@dataclass(frozen=True)
class Trained:
    """Trained network: its graph, its weights by state-dict name, and optionally batches of its training data.

    `loss` is the training loss.
    """

    graph: Graph
    weights: Mapping[str, Tensor]
    batches: Sequence[tuple[Tensor, ...]] = ()
    loss: Loss | None = None

    @cached_property
    def made(self) -> dict[NodeId, Tensor]:
        """Weights of each output channel, [C, numbers], by node; nodes without such weights are missing.

        Nodes with such weights are, for example, convolutions and linear layers.
        """
        types, rows_by_node = infer(self.graph), {}
        for number in self.graph:
            node = self.graph[number]
            operands = [types[operand] for operand in self.graph.operands(number)]
            weights = node.op.weights(*operands)
            roles = node.op.roles(*operands) if weights else {}
            for name, weight in weights.items():
                if len(weight.shape) > 1 and "result" in roles[name] and not weight.buffer:
                    tensor = self.weights[state_name(node.scope, name)].detach()
                    rows = tensor.movedim(roles[name].index("result"), 0).flatten(1)
                    if len(rows) == types[number].channels:
                        rows_by_node[number] = rows
        return rows_by_node

    def seen(self, gradients: bool = False) -> dict[NodeId, list[tuple[Tensor, Tensor]]]:
        """Return activations and their loss gradients for each node in `made`, as one pair of tensors per batch.

        Both tensors have the shape [C, samples, everything else]. Without `gradients`, the gradients are zeros. Raises
        ArchError (A2221) if there are no batches, or no loss for the gradients.
        """
        if not self.batches or (gradients and self.loss is None):
            raise fail("A2221", "this measure of importance needs samples, and there are none", None, "`l1` needs none")
        types, names = infer(self.graph), {f"made_{number}": number for number in self.made}
        module = lower(expose(self.graph, {**self.graph.outputs, **names})).eval()
        module.load_state_dict({name: self.weights[name] for name in module.state_dict()})
        pairs_by_node: dict[NodeId, list[tuple[Tensor, Tensor]]] = {number: [] for number in self.made}
        for position, batch in enumerate(self.batches):
            values: dict[str, Tensor] = {}

            def call(*inputs: Tensor, values: dict[str, Tensor] = values) -> object:
                all_outputs: Mapping[str, Tensor] = module(*inputs)
                values.update({name: all_outputs[name] for name in names})
                outputs = {name: all_outputs[name] for name in self.graph.outputs}
                return outputs if len(outputs) > 1 else next(iter(outputs.values()))

            with torch.set_grad_enabled(gradients):
                grads: Sequence[Tensor | None] = [None] * len(names)
                if gradients and self.loss is not None:
                    loss = self.loss(call, position)
                    grads = torch.autograd.grad(loss, [values[name] for name in names], allow_unused=True)
                else:
                    call(*batch)
            for (name, number), grad in zip(names.items(), grads, strict=True):
                axis = 1 + types[number].channel_axis
                out = values[name].detach()
                grad = torch.zeros_like(out) if grad is None else grad
                shape = out.shape[axis], out.shape[0], -1
                pairs_by_node[number].append(
                    (out.movedim(axis, 0).reshape(shape), grad.movedim(axis, 0).reshape(shape))
                )
        return pairs_by_node


Importance = Callable[[Trained], Mapping[NodeId, Tensor]]
"""Measure of importance: it returns one number per channel for each node; larger is more important."""

IMPORTANCES: Registry[str, Importance] = Registry(
    "importance measure", "importance measures", "archir_torch.reuse.merging"
)
"""Registry of the measures of importance, by name."""


def importance(function: Importance) -> Importance:
    """Decorator that registers a measure of importance under the function's name."""
    IMPORTANCES.register(function.__name__, function)
    return function


def measure_of(name: str) -> Importance:
    """Return the measure of importance with this name. Raises ArchError (A2221) if there is no such measure."""
    measure = IMPORTANCES.find(name)
    if measure is None:
        raise fail("A2221", f"there is no importance measure `{name}`", None, IMPORTANCES.hint(name))
    return measure


@importance
def l1(trained: Trained) -> Mapping[NodeId, Tensor]:
    """Return the mean absolute weight of each channel (Li et al. 2017)."""
    return {number: rows.abs().mean(1) for number, rows in trained.made.items()}


@importance
def l2(trained: Trained) -> Mapping[NodeId, Tensor]:
    """Return the root mean square of each channel's weights."""
    return {number: rows.square().mean(1).sqrt() for number, rows in trained.made.items()}


@importance
def activation(trained: Trained) -> Mapping[NodeId, Tensor]:
    """Return the mean absolute activation of each channel over samples."""
    seen = trained.seen().items()
    return {number: torch.cat([out.double().abs().mean(2) for out, _ in parts], 1).mean(1) for number, parts in seen}


@importance
def taylor(trained: Trained) -> Mapping[NodeId, Tensor]:
    """Return the first-order estimate of how much the loss changes if a channel is removed.

    The magnitude is that of each sample, averaged over samples (Molchanov et al. 2017, section 2.2, eq. 8).
    """
    seen = trained.seen(gradients=True).items()
    return {  # the loss is a mean over the samples of a batch
        number: torch.cat([(out.double() * grad).mean(2).abs() * out.shape[1] for out, grad in parts], 1).mean(1)
        for number, parts in seen
    }
