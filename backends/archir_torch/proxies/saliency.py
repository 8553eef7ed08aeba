"""How much weights and channels matter to the loss, or to what comes out at all: proxies that come from pruning.

Scores of weights sum over trained tensors of two and more dimensions: those of convolutions and linear maps, and
learned embeddings. `loss` is the mean cross-entropy of the first output. "Section" is one of Abdelfattah et al. 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.ops import activation
from archir.ops.conv import Biased
from archir.ops.norm import BatchNorm
from archir_torch.proxies.registry import proxy
from archir_torch.proxies.untrained import Trial, weighing


@proxy
def grad_norm(trial: Trial) -> float:
    """The sum over tensors of weights of the Euclidean norm of the loss's gradient (section 3.2)."""
    return sum(float(gradient.double().norm()) for _, gradient in trial.slopes)


@proxy
def snip(trial: Trial) -> float:
    """The sum over weights of |gradient of the loss * weight| (section 3.2; Lee et al. 2019)."""
    return sum(float((w.double() * g).abs().sum()) for w, g in trial.slopes)


@proxy
def grasp(trial: Trial) -> float:
    """The sum over weights of -(Hessian of the loss @ its gradient) * weight (section 3.2; Wang et al. 2020).

    Raises ArchError (A1111) if an operation has no second derivatives here: local attention to large maps.
    """
    network = trial.rebuilt(_smooth).network()
    weights = list(weighing(network))
    with sdpa_kernel(SDPBackend.MATH):  # the only one that can be differentiated twice
        loss = trial.loss(trial.outputs(network)[0])
        gradients = torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True)
        slope = sum(((g * g.detach()).sum() for g in gradients), torch.zeros((), device=loss.device))
        try:
            if slope.requires_grad:
                slope.backward()  # `grad` would not go where an operation refuses, and leave its part out
        except RuntimeError as error:
            if "once_differentiable" not in str(error):
                raise
            text = "`grasp` needs second derivatives, which `local_attention` to maps of this size does not have"
            raise fail("A1111", text) from None
    return -sum(float((w.detach().double() * w.grad).sum()) for w in weights if w.grad is not None)


def _smooth(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    """Hard sigmoids in operations that torch can differentiate twice."""
    if not isinstance(node.op, activation.HardSigmoid):
        return out.add(node, *operands)
    for op in (activation.Shift(3), activation.Relu6(), activation.Scale(1 / 6)):
        operands = (out.add(replace(node, op=op), *operands),)
    return operands[0]


@proxy
def synflow(trial: Trial) -> float:
    """The sum over weights of |weight * dR/dweight|, R the sum of the first output for a single input of ones, with
    the absolute values of all weights (section 3.2; Tanaka et al. 2020, algorithm 1).

    In float64 and without batch norms, as in the reference of section 3.2. Other norms stay: they are of one sample,
    and without them the products of attention and gates grow beyond any number.
    """
    network = trial.rebuilt(_without_batch_norm).network().double()
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            tensor.abs_()
    if not all(one.is_floating_point() for one in trial.inputs):
        raise fail("A1111", "`synflow` gives a network ones, which tokens are not")
    found = network(*(torch.ones_like(one[:1], dtype=torch.float64) for one in trial.inputs))
    total = (next(iter(found.values())) if isinstance(found, dict) else found).sum()
    weights = list(weighing(network))
    if not total.requires_grad:  # a network that its weights do not matter to
        return 0.0
    gradients = torch.autograd.grad(total, weights, materialize_grads=True)
    return sum(float((w.detach() * g).abs().sum()) for w, g in zip(weights, gradients, strict=True))


def _without_batch_norm(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    return operands[0] if isinstance(node.op, BatchNorm) else out.add(node, *operands)


@proxy
def fisher(trial: Trial) -> float:
    """The sum over channels of convolutions' and linear maps' results z of the mean over samples of
    (sum over positions of z * dloss/dz)^2 / 2, times the weights that the channel has (section 3.2; Theis et al. 2018;
    Turner et al. 2020).

    The papers sum over channels alone; the program of section 3.2, and with it published figures, gives each weight the
    number of its channel and sums over weights.
    """
    tapped = trial.tapped(lambda op: isinstance(op, Biased))
    logits, *results = tapped.outputs(tapped.network())
    _, *numbers = tapped.graph.outputs.values()
    types = infer(tapped.graph)
    slopes = torch.autograd.grad(trial.loss(logits), results, materialize_grads=True)
    score = 0.0
    for number, z, g in zip(numbers, results, slopes, strict=True):
        product = (z.detach() * g).double()
        channels = product.flatten(2).sum(2) if z.dim() >= 4 else product.sum(1) if z.dim() == 3 else product
        score += float(channels.square().mean(0).sum()) / 2 * _weights_a_channel(tapped.graph, types, number)
    return score


def _weights_a_channel(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> int:
    """How many weights a channel of a convolution's or a linear map's result has, its bias aside."""
    op = graph[number].op
    assert isinstance(op, Biased)
    return prod(op.weights(*(types[one] for one in graph.operands(number)))["weight"].shape) // op.channels
