"""Saliency proxies, adapted from pruning: the influence of weights and channels on the loss or output.

Scores of weights are summed over trained tensors with two or more dimensions: weights of convolutions and linear
layers, and learned embeddings. `loss` is the mean cross-entropy of the first output, unless `Trial.criterion`
defines another loss. "Section" refers to Abdelfattah et al. 2021.
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
from archir.ops.conv import AffineOp
from archir.ops.norm import BatchNorm
from archir_torch.proxies.registry import proxy
from archir_torch.proxies.untrained import Trial, gradients_of, scored_weights


@proxy
def grad_norm(trial: Trial) -> float:
    """Return the sum over weight tensors of the Euclidean norm of the loss's gradient (section 3.2)."""
    return sum(float(gradient.double().norm()) for _, gradient in trial.weight_gradients)


@proxy
def snip(trial: Trial) -> float:
    """Return the sum over weights of |gradient of the loss * weight| (section 3.2; Lee et al. 2019)."""
    return sum(float((w.double() * g).abs().sum()) for w, g in trial.weight_gradients)


@proxy
def grasp(trial: Trial) -> float:
    """Return the sum over weights of -(Hessian of the loss @ its gradient) * weight (section 3.2; Wang et al. 2020).

    Raises ArchError (A1111) if an operation has no second derivative, such as local attention on large maps.
    """
    network = trial.rebuilt(_smooth).network()
    weights = list(scored_weights(network))
    with sdpa_kernel(SDPBackend.MATH):  # the only attention kernel that can be differentiated twice
        loss = trial.loss(trial.outputs(network)[0])
        gradients = gradients_of(loss, weights, create_graph=True)
        gradient_product = sum(((g * g.detach()).sum() for g in gradients), torch.zeros((), device=loss.device))
        try:
            if gradient_product.requires_grad:
                # `torch.autograd.grad` would silently leave out what passes an operation without second derivatives
                gradient_product.backward()
        except RuntimeError as error:
            if "once_differentiable" not in str(error):
                raise
            text = "`grasp` needs second derivatives, which `local_attention` to maps of this size does not have"
            raise fail("A1111", text) from None
    return -sum(float((w.detach().double() * w.grad).sum()) for w in weights if w.grad is not None)


def _smooth(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    """Rewrite step: replace hard sigmoids by operations that torch can differentiate twice."""
    if not isinstance(node.op, activation.HardSigmoid):
        return out.add(node, *operands)
    for op in (activation.Shift(3), activation.Relu6(), activation.Scale(1 / 6)):
        operands = (out.add(replace(node, op=op), *operands),)
    return operands[0]


@proxy
def synflow(trial: Trial) -> float:
    """Return the sum over weights of |weight * dR/dweight| (section 3.2; Tanaka et al. 2020, algorithm 1).

    R is the sum of the first output for an input of ones, with all weights replaced by their absolute values. R is
    computed in float64 and without batch norms, as in the reference implementation of section 3.2. Other norms are
    kept: they act on single samples, and without them the products in attention and gates overflow. Raises ArchError
    (A1111) if an input is an integer tensor.
    """
    network = trial.rebuilt(_without_batch_norm).network().double()
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            tensor.abs_()
    if not all(x.is_floating_point() for x in trial.inputs):
        raise fail("A1111", "`synflow` needs floating-point inputs, which it sets to one; tokens are integers")
    result = network(*(torch.ones_like(x[:1], dtype=torch.float64) for x in trial.inputs))
    total = (next(iter(result.values())) if isinstance(result, dict) else result).sum()
    weights = list(scored_weights(network))
    gradients = gradients_of(total, weights)
    return sum(float((w.detach() * g).abs().sum()) for w, g in zip(weights, gradients, strict=True))


def _without_batch_norm(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    """Rewrite step: replace batch norms by their operand."""
    return operands[0] if isinstance(node.op, BatchNorm) else out.add(node, *operands)


@proxy
def fisher(trial: Trial) -> float:
    """Return the Fisher information of channels, summed over all convolutions and linear layers.

    For a channel, the Fisher information is the mean over samples of (sum over positions of z * dloss/dz)^2 / 2,
    times the channel's number of weights, where z is the layer's result (section 3.2; Theis et al. 2018; Turner et
    al. 2020).

    The papers sum over channels, without the number of weights. The implementation of section 3.2, and with it
    published results, gives each weight the score of its channel and sums over weights.
    """
    tapped = trial.with_taps(lambda op: isinstance(op, AffineOp))
    logits, *results = tapped.outputs(tapped.network())
    _, *numbers = tapped.graph.outputs.values()
    types = infer(tapped.graph)
    gradients = gradients_of(trial.loss(logits), results)
    score = 0.0
    for number, z, g in zip(numbers, results, gradients, strict=True):
        product = (z.detach() * g).double()
        channels = product.flatten(2).sum(2) if z.dim() >= 4 else product.sum(1) if z.dim() == 3 else product
        score += float(channels.square().mean(0).sum()) / 2 * _weights_per_channel(tapped.graph, types, number)
    return score


def _weights_per_channel(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> int:
    """Return the number of weights per output channel of a convolution or linear layer, without the bias."""
    op = graph[number].op
    assert isinstance(op, AffineOp)
    return prod(op.weights(*(types[operand] for operand in graph.operands(number)))["weight"].shape) // op.channels
