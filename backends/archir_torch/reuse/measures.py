"""How important the channels of a trained network are: measures by name."""

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
"""Of what a network predicts for the batch of this number; it is given the network."""


@dataclass(frozen=True)
class Trained:
    """A network with its weights, by the names of a state dict, and batches of what it was trained on, if there are
    any. `loss` is what it was trained to minimise."""

    graph: Graph
    weights: Mapping[str, Tensor]
    batches: Sequence[tuple[Tensor, ...]] = ()
    loss: Loss | None = None

    @cached_property
    def made(self) -> dict[NodeId, Tensor]:
        """By node that makes channels, such as a convolution or a linear map, what makes each: a row of numbers."""
        types, found = infer(self.graph), {}
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
                        found[number] = rows
        return found

    def seen(self, gradients: bool = False) -> dict[NodeId, list[tuple[Tensor, Tensor]]]:
        """By node that makes channels, for each batch what it makes and the loss's gradient of that [C, everything
        else]; the gradients are zeros if they are not asked for. Raises ArchError (A2221) without batches."""
        if not self.batches or (gradients and self.loss is None):
            raise fail("A2221", "this measure of importance needs samples, and there are none", None, "l1 needs none")
        types, names = infer(self.graph), {f"made_{number}": number for number in self.made}
        module = lower(expose(self.graph, {**self.graph.outputs, **names})).eval()
        module.load_state_dict({name: self.weights[name] for name in module.state_dict()})
        found: dict[NodeId, list[tuple[Tensor, Tensor]]] = {number: [] for number in self.made}
        for position, batch in enumerate(self.batches):
            kept: dict[str, Tensor] = {}

            def call(*inputs: Tensor, kept: dict[str, Tensor] = kept) -> object:
                whole: Mapping[str, Tensor] = module(*inputs)
                kept.update({name: whole[name] for name in names})
                outputs = {name: whole[name] for name in self.graph.outputs}
                return outputs if len(outputs) > 1 else next(iter(outputs.values()))

            with torch.set_grad_enabled(gradients):
                grads: Sequence[Tensor | None] = [None] * len(names)
                if gradients and self.loss is not None:
                    loss = self.loss(call, position)
                    grads = torch.autograd.grad(loss, [kept[name] for name in names], allow_unused=True)
                else:
                    call(*batch)
            for (name, number), grad in zip(names.items(), grads, strict=True):
                axis = 1 + types[number].channel_axis
                out = kept[name].detach()
                grad = torch.zeros_like(out) if grad is None else grad
                found[number].append((out.movedim(axis, 0).flatten(1), grad.movedim(axis, 0).flatten(1)))
        return found


Importance = Callable[[Trained], Mapping[NodeId, Tensor]]
"""By node, a number for each of its channels: the more, the more important."""

IMPORTANCES: Registry[str, Importance] = Registry("importance measure", "importance measures")
"""Every measure by its name."""


def importance(function: Importance) -> Importance:
    """Register a measure of importance by its function's name."""
    IMPORTANCES.register(function.__name__, function)
    return function


def measure_of(name: str) -> Importance:
    """The measure of a name. Raises ArchError (A2221)."""
    if name not in IMPORTANCES:
        raise fail("A2221", f"there is no importance measure `{name}`", None, IMPORTANCES.hint(name))
    return IMPORTANCES[name]


@importance
def l1(trained: Trained) -> Mapping[NodeId, Tensor]:
    """The mean magnitude of a channel's weights (Li et al. 2017)."""
    return {number: rows.abs().mean(1) for number, rows in trained.made.items()}


@importance
def l2(trained: Trained) -> Mapping[NodeId, Tensor]:
    """The root of the mean square of a channel's weights."""
    return {number: rows.square().mean(1).sqrt() for number, rows in trained.made.items()}


@importance
def activation(trained: Trained) -> Mapping[NodeId, Tensor]:
    """The mean magnitude of what a channel is, over samples."""
    seen = trained.seen().items()
    return {number: torch.stack([out.double().abs().mean(1) for out, _ in parts]).mean(0) for number, parts in seen}


@importance
def taylor(trained: Trained) -> Mapping[NodeId, Tensor]:
    """How much the loss changes without the channel, to first order (Molchanov et al. 2017)."""
    seen = trained.seen(gradients=True).items()
    return {
        number: torch.stack([(out.double() * grad).sum(1).abs() / out.shape[1] for out, grad in parts]).mean(0)
        for number, parts in seen
    }
