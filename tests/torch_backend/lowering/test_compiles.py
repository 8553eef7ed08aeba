"""Networks of all examples are one graph to torch's compiler: nothing in them makes it stop and go back to Python."""

from __future__ import annotations

import pytest
import torch

from archir.backends.input_ranges import ranged_inputs
from archir.spaces.space import Space
from archir_torch.lowering.module import lower
from archir_torch.measuring.latency import random_input
from tests.examples import NETS, small_graph
from tests.soak import with_soak


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from torch's own modules
@pytest.mark.parametrize("net", with_soak(NETS, []))
@pytest.mark.parametrize("training", [False, True])
def test_examples_compile_to_one_graph(net: str, training: bool) -> None:
    space = Space(small_graph(net))
    graph = space.specialize(space.sample(1)) if space.choices else space.graph
    network = lower(graph, generator=torch.Generator().manual_seed(0)).train(training)
    generator = torch.Generator().manual_seed(1)
    inputs = [random_input(kind, 2, generator) for kind in ranged_inputs(graph).values()]
    torch._dynamo.reset()
    found = torch._dynamo.explain(network)(*inputs)
    assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons
