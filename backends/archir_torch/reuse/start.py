"""The weights that a phase starts from, in the order that it asks for, and with what was left out merged into them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from archir.diagnostics.errors import fail, listed
from archir.ir.graph import Graph, state_name
from archir.passes.specialize import specialize
from archir.recipes.training import Augment
from archir.spaces.partial import largest
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir_torch.lowering.module import lower
from archir_torch.reuse.measures import Trained
from archir_torch.reuse.merging import Merging
from archir_torch.reuse.order import ordered
from archir_torch.search.job import Job, whole
from archir_torch.search.task import Task
from archir_torch.supernet.network import SuperNetwork
from archir_torch.training.feed import Feed

BATCHES = 4
"""Batches that measures of importance may look at."""


def in_order(job: Job, graph: Graph, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights of a network whose channels stand as `start.order` says, if it says anything.

    Samples are those that the phase trains weights on. Raises ArchError (A2221) if the weights are not all there.
    """
    measure = job.phase.start.order
    if measure is None:
        return weights
    wanted = lower(graph).state_dict()
    unfit = [name for name, one in wanted.items() if name not in weights or weights[name].shape != one.shape]
    if unfit:
        whose = f"phase `{job.phase.name}` orders the channels of `{graph.name}`"
        text = f"{whose}, but starts without weights of it: {listed(unfit, 4)}"
        raise fail("A2221", text, None, "start.weights has all weights of the network, or of the largest of a space")
    return ordered(_sampled(job, graph, weights, BATCHES), measure)


def merging(job: Job, model: SuperNetwork) -> Merging | None:
    """What is merged into the weights of architectures that are taken out of a supernet, if `start.refit` says so.

    Raises ArchError (A2225) if that takes too much memory.
    """
    samples = job.phase.start.refit
    if samples is None:
        return None
    most = largest(Space(model.graph))
    graph, sharing = specialize(model.graph, most.outcomes), model.sharing
    varied = {
        state_name(model.graph[number].scope, name)
        for number in model.graph
        if number in sharing.types and sharing.depends_on(number)
        for name in sharing.parts(number, most.outcomes)
    }
    batches = math.ceil(samples / job.phase.training.batch)
    return Merging(_sampled(job, graph, model.weights(most), batches), varied)


def _sampled(job: Job, graph: Graph, weights: Mapping[str, Tensor], most: int) -> Trained:
    """A network with so many batches of samples, on the CPU."""
    task = Task(replace(job, device="cpu"), graph)
    data = job.data.train if whole(job.phase) else job.data.halves()[0]
    feed = Feed(data, job.phase.training.batch, seed=mixed(job.seed, "order"), augment=Augment(), device="cpu")
    batches = [feed.batch(number) for number in range(min(most, feed.steps))]
    return Trained(
        task.graph,
        {name: tensor.cpu() for name, tensor in weights.items()},
        [task.given(batch) for batch in batches],
        lambda call, number: task.loss(call, batches[number], number),
    )
