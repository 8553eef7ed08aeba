"""The weights that a phase starts from, in the order that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from archir.base.errors import fail, listed
from archir.ir.graph import Graph
from archir.search.recipes.training import Augment
from archir.search.seeds import mixed
from archir_torch.lowering.module import lower
from archir_torch.search.job import Job, whole
from archir_torch.search.ordering.measures import Trained
from archir_torch.search.ordering.order import ordered
from archir_torch.search.task import Task
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
    here = replace(job, device="cpu")
    task = Task(here, graph)
    data = job.data.train if whole(job.phase) else job.data.halves()[0]
    feed = Feed(data, job.phase.training.batch, seed=mixed(job.seed, "order"), augment=Augment(), device="cpu")
    batches = [feed.batch(number) for number in range(min(BATCHES, feed.steps))]
    trained = Trained(
        task.graph,
        {name: tensor.cpu() for name, tensor in weights.items()},
        [task.given(batch) for batch in batches],
        lambda call, number: task.loss(call, batches[number], number),
    )
    return ordered(trained, measure)
