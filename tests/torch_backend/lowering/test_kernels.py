"""The kernels that operations say they launch, against those that torch is seen to launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import archir
from archir.ir.graph import Graph, Node
from archir.ir.op import Op
from archir.ir.structure import Input
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.calibration import AsGate, AsKernel, Calibrate
from archir.ops.norm import RmsNorm
from archir.passes.cost import cost
from archir.passes.expand import expand
from archir_torch.lowering.local_attention import MAX_UNFOLDED
from archir_torch.lowering.module import Network, lower
from tests.architectures import image_of
from tests.conftest import EXAMPLES
from tests.op_cases import CASES, MAP, Case, graph_of, name_of
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak
from tests.torch_backend.lowering.test_lowering import inputs_of

MORE: list[Case] = [
    *((Attention(heads), ((4, 8), (n, 8), (n, d))) for heads in (1, 8) for n in (1, 5) for d in (8, 16)),
    *((Attention(2), ((8, *one), (8, *other), (8, *other))) for one in ((1, 1), (3, 2)) for other in ((1, 1), (1, 3))),
    *(
        (AxialAttention(axis, 8, relative), ((8, 1, 3),) * 3)
        for axis in ("height", "width")
        for relative in (False, True)
    ),
    *(
        (LocalAttention(kernel, 2, relative, 2.0), ((64, 16, 16),) * 3)
        for kernel in (3, 5)
        for relative in (False, True)
    ),
    *((LocalAttention(3, heads), ((size, size, size),) * 3) for size in (8, 16) for heads in (1, 8)),
    (RmsNorm(), ((3, 8),)),
]


class Launches(TorchDispatchMode):
    """Counts what computes or moves numbers: not views, not allocations, not copies that bring numbers in order."""

    count = 0

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = call._schema.name.removeprefix("aten::")
        self.count += not (call.is_view or name in ("_unsafe_view", "clone", "empty", "new_empty"))
        return call(*args, **(kwargs or {}))


def launched(network: Network, *inputs: torch.Tensor) -> int:
    with torch.no_grad(), Launches() as seen:
        network.eval()(*inputs)
    return seen.count


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=name_of)
def test_kernel_launches_of_operations_match_cost(case: Case) -> None:
    graph = graph_of(*case)
    assert launched(lower(graph), *inputs_of(graph)) == cost(graph).kernels


def test_cases_cover_both_local_attention_implementations() -> None:
    assert LocalAttention.MAX_UNFOLDED == MAX_UNFOLDED
    sizes = {dims[0][0] * dims[0][1] * dims[0][2] * op.kernel**2 for op, dims in MORE if isinstance(op, LocalAttention)}
    assert min(sizes) < MAX_UNFOLDED < max(sizes)


@pytest.mark.parametrize(
    ("kinds", "kernels"),
    [([], 0), ([AsGate], 2), ([AsKernel], 2), ([None, None, AsGate, AsGate, AsKernel, AsKernel], 1 + 3 + 2 * 2)],
    ids=["none", "gate", "kernel", "all"],
)
def test_kernel_launches_of_composites_match_cost(kinds: list[type[Op] | None], kernels: int) -> None:
    graph = Graph("one")
    operands = [graph.add(Node(Input("x", MAP)))]
    for i, kind in enumerate(kinds):
        x = graph.add(Node(Input(f"x{i}", (8, 3, 3) if kind is AsKernel else MAP)))
        operands.append(x if kind is None else graph.add(Node(kind()), x))
    graph.outputs["y"] = graph.add(Node(Calibrate()), *operands)
    assert cost(graph).kernels == cost(expand(graph)).kernels == launched(lower(graph), *inputs_of(graph)) == kernels


@pytest.mark.parametrize("name", ["resnet50", "deit_tiny", "mobilenet_v2"])
def test_kernel_launches_of_networks_match_cost(name: str) -> None:
    graph = archir.load(EXAMPLES / f"{name}.arch").graph
    assert launched(lower(graph), image_of(graph, 2)) == cost(graph).kernels


@pytest.mark.parametrize("name", with_soak(SPACES, ["full_attention", "darts", "autoformer", "mobilenet_v3_ofa"]))
def test_kernel_launches_of_architectures_match_cost(name: str) -> None:
    """Where operands come out of order, torch may add a bias apart, or find that an attention can be one kernel.

    In `nos`, what only an operand reads that `calibrate` has no use for is left out of the module.
    """
    space = space_of(name, **SPACES[name].small)
    architectures = [space.sample(seed) for seed in range(5)]
    for architecture, kernels in zip(architectures, space.cost(architectures, ["kernels"])["kernels"], strict=True):
        graph = space.specialize(architecture)
        network = lower(graph)
        in_order(network)
        assert launched(network, image_of(graph, 2)) == cost(expand(graph)).kernels
        assert kernels == cost(graph if name == "nos" else expand(graph)).kernels


def in_order(network: Network) -> None:
    """From now on, operands are brought in order before they are read."""
    for step in network._steps:
        run = step.function or step.parent._modules[step.name]
        step.function = lambda *operands, run=run, **more: run(*(x.contiguous() for x in operands), **more)
