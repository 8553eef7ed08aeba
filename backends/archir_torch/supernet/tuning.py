"""The way to run a relaxed graph that is fastest for this network, on this device, at this batch: it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from archir.ir.graph import Graph
from archir.passes.batch import batch as batched
from archir.passes.cse import cse
from archir.passes.shared_norms import share
from archir_torch.lowering.depthwise import depthwise_conv
from archir_torch.lowering.module import Layer
from archir_torch.lowering.operations.conv import conv
from archir_torch.lowering.precision import autocast
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from archir_torch.supernet.turns import backward, in_turns

Layout = Literal["auto", "channels_last", "contiguous"]
Batch = Literal["auto"] | bool

_WORTH = 0.98
"""What a change must bring the time down to, so that noise alone does not decide for what is less plain."""


@dataclass(frozen=True)
class Plan:
    """How a relaxed graph is run. None of it changes what is computed, but for rounding."""

    channels_last: bool = False
    """Maps lie in memory pixel by pixel."""
    depthwise: bool = False
    """Gradients of depthwise convolutions are made of fast convolutions (`depthwise_conv`)."""
    batch: bool = False
    """Siblings run as one wide operation (`archir.passes.batch`)."""

    def __str__(self) -> str:
        parts = [name.replace("_", " ") for name, taken in asdict(self).items() if taken]
        return ", ".join(parts) or "plain"


def planned(graph: Graph, plan: Plan, *, dense: bool = True, generator: torch.Generator | None = None) -> MixedNetwork:
    """The module of a relaxed graph, run as planned; weights start the same under every plan.

    `dense` says that all alternatives run in every step; then norms without weights are shared (`share`).
    """
    merged = share(graph) if dense else cse(graph)
    network = lower_mixed(merged, generator=generator)
    if plan.batch and (wide := batched(merged)).together != merged.together:
        plain = network
        network = lower_mixed(wide)
        network.load_state_dict(plain.state_dict())
    if plan.channels_last:
        network.layout = torch.channels_last
    if plan.depthwise:
        for layer in network.modules():
            if isinstance(layer, Layer) and layer.function is conv:
                layer.function = depthwise_conv
    return network


def tuned(
    graph: Graph,
    inputs: Sequence[Tensor],
    *,
    dense: bool = True,
    plan: Plan | None = None,
    layout: Layout = "auto",
    batch: Batch = "auto",
    precision: str = "float32",
    generator: torch.Generator | None = None,
    rounds: int = 3,
    say: Callable[[str], object] = lambda text: None,
) -> tuple[MixedNetwork, Plan]:
    """The module of a relaxed graph on the device of `inputs`, a batch as it will see many, run in the fastest way.

    What is tried is measured, in the `precision` of training, so two calls may decide otherwise: whoever goes on later
    keeps the plan and gives it back as `plan`. `layout` and `batch` settle parts of it beforehand; `say` is told what
    was measured.
    """
    if plan is None:
        with torch.random.fork_rng([inputs[0].device] if inputs[0].is_cuda else []):
            plan = _fastest(graph, inputs, dense, layout, batch, precision, rounds, say)
    return planned(graph, plan, dense=dense, generator=generator).to(inputs[0].device), plan


def _fastest(
    graph: Graph,
    inputs: Sequence[Tensor],
    dense: bool,
    layout: Layout,
    batch: Batch,
    precision: str,
    rounds: int,
    say: Callable[[str], object],
) -> Plan:
    """One thing after the other: what makes the best plan so far faster, is taken."""
    best = Plan(channels_last=layout == "channels_last", batch=batch is True)
    network = planned(graph, best, dense=dense).to(inputs[0].device)
    for candidate in _changes(best, network, inputs, layout, batch):
        other = planned(graph, replace(best, **candidate), dense=dense).to(inputs[0].device)
        steps = [partial(_step, one, inputs, precision) for one in (network, other)]
        now, then = in_turns(steps, inputs[0].device, rounds)
        plan = replace(best, **candidate)
        say(f"{best}: {1000 * now:.0f} ms; {plan}: {1000 * then:.0f} ms")
        if then < _WORTH * now:
            best, network = plan, other
    return best


def _changes(
    plan: Plan, network: MixedNetwork, inputs: Sequence[Tensor], layout: Layout, batch: Batch
) -> Iterator[dict[str, Any]]:
    """What there is to try."""
    if any(isinstance(layer, Layer) and layer.function is conv for layer in network.modules()):
        yield {"depthwise": True}
    if layout == "auto" and any(x.dim() == 4 for x in inputs):
        yield {"channels_last": True}
    if batch == "auto":
        yield {"batch": True}


def _step(network: MixedNetwork, inputs: Sequence[Tensor], precision: str) -> None:
    """Forwards and backwards, with gradients of all weights."""
    like = next(network.parameters(), inputs[0])
    weights = {name: like.new_full((count,), 1 / count).requires_grad_() for name, count in network.names.items()}
    with autocast(precision, str(inputs[0].device)):
        result = network(*inputs, weights=weights)
    backward(result, [*network.parameters(), *weights.values()])
