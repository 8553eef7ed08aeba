"""Tuning of relaxed graphs: measures which execution plan is fastest for a network, device and batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from archir.ir.graph import Graph
from archir.passes.batch import batch as batched
from archir.passes.cse import cse, merge_siblings
from archir_torch.lowering.depthwise import depthwise_conv
from archir_torch.lowering.module import Layer
from archir_torch.lowering.operations.conv import conv
from archir_torch.lowering.precision import autocast
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from archir_torch.supernet.step_timing import run_backward, time_in_turns

Layout = Literal["auto", "channels_last", "contiguous"]
Batch = Literal["auto"] | bool

_MAX_TIME_RATIO = 0.98
"""Maximum ratio of new to old time for which a change to the plan is kept.

The ratio is below 1, so that measurement noise alone does not make the plan more complex.
"""


@dataclass(frozen=True)
class Plan:
    """Execution plan for a relaxed graph. The results of all plans are the same up to rounding."""

    channels_last: bool = False
    """Whether maps are in channels-last memory format."""
    depthwise: bool = False
    """Whether gradients of depthwise convolutions are computed by fast convolutions (`depthwise_conv`)."""
    batch: bool = False
    """Whether sibling operations run as one wide operation (`archir.passes.batch`)."""

    def __str__(self) -> str:
        parts = [name.replace("_", " ") for name, is_on in asdict(self).items() if is_on]
        return ", ".join(parts) or "plain"


def lower_with_plan(
    graph: Graph, plan: Plan, *, dense: bool = True, generator: torch.Generator | None = None
) -> MixedNetwork:
    """Lower a relaxed graph to a module that follows a plan. Initial weights are the same for all plans.

    `dense` means that all alternatives run in every step; norms without weights are then merged
    (`archir.passes.cse`).
    """
    merged = merge_siblings(graph) if dense else cse(graph)
    network = lower_mixed(merged, generator=generator)
    if plan.batch and (wide := batched(merged)).merged_scopes != merged.merged_scopes:
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
    """Lower a relaxed graph to a module with the fastest plan; return the module and the plan.

    `inputs` are a batch of the usual size, on the device used for training. Plans are timed in the `precision` of
    training, so two calls may choose different plans: to continue training, pass the earlier plan as `plan`. `layout`
    and `batch` fix parts of the plan in advance. `say` is called with a line of text for each measurement.
    """
    if plan is None:
        with torch.random.fork_rng([inputs[0].device] if inputs[0].is_cuda else []):
            plan = _fastest(graph, inputs, dense, layout, batch, precision, rounds, say)
    return lower_with_plan(graph, plan, dense=dense, generator=generator).to(inputs[0].device), plan


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
    """Return the fastest plan by greedy search, which keeps a change if the plan becomes faster by it."""
    best = Plan(channels_last=layout == "channels_last", batch=batch is True)
    network = lower_with_plan(graph, best, dense=dense).to(inputs[0].device)
    for candidate in _changes(best, network, inputs, layout, batch):
        changed = lower_with_plan(graph, replace(best, **candidate), dense=dense).to(inputs[0].device)
        steps = [partial(_step, module, inputs, precision) for module in (network, changed)]
        seconds, changed_seconds = time_in_turns(steps, inputs[0].device, rounds)
        plan = replace(best, **candidate)
        say(f"{best}: {1000 * seconds:.0f} ms; {plan}: {1000 * changed_seconds:.0f} ms")
        if changed_seconds < _MAX_TIME_RATIO * seconds:
            best, network = plan, changed
    return best


def _changes(
    plan: Plan, network: MixedNetwork, inputs: Sequence[Tensor], layout: Layout, batch: Batch
) -> Iterator[dict[str, Any]]:
    """Yield the changes to a plan that can affect this network."""
    if any(isinstance(layer, Layer) and layer.function is conv for layer in network.modules()):
        yield {"depthwise": True}
    if layout == "auto" and any(x.dim() == 4 for x in inputs):
        yield {"channels_last": True}
    if batch == "auto":
        yield {"batch": True}


def _step(network: MixedNetwork, inputs: Sequence[Tensor], precision: str) -> None:
    """Run the forward and backward pass, with gradients for all weights."""
    parameter = next(network.parameters(), inputs[0])
    weights = {name: parameter.new_full((count,), 1 / count).requires_grad_() for name, count in network.names.items()}
    with autocast(precision, str(inputs[0].device)):
        result = network(*inputs, weights=weights)
    run_backward(result, [*network.parameters(), *weights.values()])
