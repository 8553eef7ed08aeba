"""Initial weights of a phase: channels reordered by importance (`start.order`), removed channels merged
(`start.refit`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from archir.diagnostics.errors import fail, join_names
from archir.ir.graph import Graph, state_name
from archir.passes.specialize import specialize
from archir.recipes.augmentation import Augment
from archir.spaces.completion import largest
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir_torch.lowering.module import lower
from archir_torch.reuse.measures import Trained
from archir_torch.search.job import Job, uses_all_samples
from archir_torch.search.task import Task
from archir_torch.supernet.network import SuperNetwork
from archir_torch.training.feed import Feed

if TYPE_CHECKING:  # imported where channels are merged
    from archir_torch.reuse.merging import Merging

MAX_BATCHES = 4
"""Maximum number of batches from which the importance of channels is computed."""


def order_start_weights(job: Job, graph: Graph, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the weights of a network with channels reordered by the measure `start.order`, if it is set.

    If `start.order` is not set, the weights are returned unchanged. The measure uses the samples that train weights
    in the phase. Raises ArchError (A2221) if weights are missing.
    """
    measure = job.phase.start.order
    if measure is None:
        return weights
    from archir_torch.reuse.order import order_channels

    expected = lower(graph).state_dict()
    missing = [name for name, tensor in expected.items() if name not in weights or weights[name].shape != tensor.shape]
    if missing:
        prefix = f"phase `{job.phase.name}` orders the channels of `{graph.name}`"
        text = f"{prefix}, but starts without weights of it: {join_names(missing, 4)}"
        raise fail("A2221", text, None, "start.weights must have all weights of the network, or of a space's largest")
    return order_channels(_with_samples(job, graph, weights, MAX_BATCHES), measure)


def make_merging(job: Job, model: SuperNetwork) -> Merging | None:
    """Return the object that merges removed channels for architectures extracted from a supernet.

    Returns None if `start.refit` is not set. Raises ArchError (A2225) if merging takes too much memory.
    """
    samples = job.phase.start.refit
    if samples is None:
        return None
    from archir_torch.reuse.merging import Merging

    largest_architecture = largest(Space(model.graph))
    graph, sharing = specialize(model.graph, largest_architecture.outcomes), model.sharing
    sliced_weights = {
        state_name(model.graph[number].scope, name)
        for number in model.graph
        if number in sharing.types and sharing.depends_on(number)
        for name in sharing.slices(number, largest_architecture.outcomes)
    }
    batches = math.ceil(samples / job.phase.training.batch)
    return Merging(_with_samples(job, graph, model.weights(largest_architecture), batches), sliced_weights)


def _with_samples(job: Job, graph: Graph, weights: Mapping[str, Tensor], max_batches: int) -> Trained:
    """Return a trained network with at most `max_batches` batches of samples, on the CPU."""
    task = Task(replace(job, device="cpu"), graph)
    data = job.data.train if uses_all_samples(job.phase) else job.data.halves()[0]
    feed = Feed(data, job.phase.training.batch, seed=derive_seed(job.seed, "order"), augment=Augment(), device="cpu")
    batches = [feed.batch(number) for number in range(min(max_batches, feed.steps))]
    return Trained(
        task.graph,
        {name: tensor.cpu() for name, tensor in weights.items()},
        [task.network_inputs(batch) for batch in batches],
        lambda call, number: task.loss(call, batches[number], number),
    )
