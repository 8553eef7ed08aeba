"""Choices over a part of the channels (Xu et al. 2020, PC-DARTS)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.verify import verify
from archir.passes.partial import partial
from archir.passes.relax import relax
from archir_torch.supernet.mixture import lower_mixed
from tests.conftest import EXAMPLES

PROGRAM = """
net n() {
    input x: f32[8, 6, 6]
    output y = choose op {
        skip: x
        wide: x |> relu |> conv(8, kernel=3, groups=8) |> conv(8, kernel=1) |> batch_norm(affine=false)
        nothing: zero(x)
    }
}"""


def test_partial_channel_mixture_equals_handwritten_one() -> None:
    """A MixedOp of PC-DARTS: the mixture of x[:C/4], the rest beside it, channels shuffled."""
    graph = relax(partial(archir.loads(PROGRAM).graph, ["op"], 4))
    verify(graph)
    network = lower_mixed(graph)
    state = {name: tensor.double() for name, tensor in network.state_dict().items()}
    network = network.double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 8, 6, 6, dtype=torch.double, generator=generator, requires_grad=True)
    alphas = torch.randn(3, dtype=torch.double, generator=generator, requires_grad=True)

    def by_hand(x: Tensor, weights: Tensor) -> Tensor:
        part = x[:, :2]
        depthwise, pointwise = (tensor for name, tensor in state.items() if name.endswith("weight"))
        y = F.conv2d(F.conv2d(part.relu(), depthwise, padding=1, groups=2), pointwise)
        y = (y - y.mean((0, 2, 3), keepdim=True)) / (y.var((0, 2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
        mixed = weights[0] * part + weights[1] * y + weights[2] * 0
        whole = torch.cat([mixed, x[:, 2:]], 1)
        return whole.reshape(3, 4, 2, 6, 6).transpose(1, 2).reshape(3, 8, 6, 6)

    wanted = by_hand(x, alphas.softmax(0))
    found = network(x, weights={"op": alphas.softmax(0)})
    torch.testing.assert_close(found, wanted)
    direction = torch.randn(wanted.shape, dtype=torch.double, generator=generator)
    for one, other in zip(
        torch.autograd.grad(found, [x, alphas], direction),
        torch.autograd.grad(wanted, [x, alphas], direction),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_partial_darts_has_quarter_channels_in_inner_convolutions() -> None:
    """All edges of the published search network, the strided ones too."""
    space = archir.load(EXAMPLES / "darts" / "darts.arch:darts", channels=16, cells=3, affine=False, zero=True, size=16)
    narrow = partial(space.graph, [c.path for c in space.choices], 4)
    verify(narrow)
    network = lower_mixed(relax(narrow, edges="weighted"))
    whole = lower_mixed(relax(space.graph, edges="weighted"))
    name = "stacked_cells.normal.0.searched.edge.0.0.sep_conv_3x3.sep_conv.separable_unit.conv_2.weight"
    assert whole.state_dict()[name].shape == (16, 16, 1, 1)
    assert network.state_dict()[name].shape == (4, 4, 1, 1)
    weights = {name: torch.ones(length) / length for name, length in network.names.items()}
    assert network(torch.randn(2, 3, 16, 16), weights=weights).shape == (2, 10)


def test_rejects_choice_whose_nodes_are_read_outside() -> None:
    space = archir.loads("""
net n() {
    input x: f32[8, 6, 6]
    y = conv(x, 8)
    output z = choose op { one: x, two: y } + y
}""")
    with pytest.raises(
        ArchError, match="`op` cannot work on a part of the channels: a node outside of the choice reads"
    ):
        partial(space.graph, ["op"], 4)
    space = archir.load(EXAMPLES / "autola" / "autola.arch", depth=8)
    with pytest.raises(ArchError, match="A2004"):
        partial(space.graph, [c.path for c in space.choices], 3)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("choose op { one: x |> conv(4), two: x |> conv(4) }", "it turns f32[8, 6, 6] into f32[4, 6, 6]"),
        ("choose op { one: x |> to_tokens, two: x |> relu |> to_tokens }", "it turns f32[8, 6, 6] into f32[36, 8]"),
        (
            "x |> max_pool(2, stride=choose s(1, 2)) |> choose op { a: adaptive_avg_pool(2), b: adaptive_max_pool(2) }",
            "it turns f32[8, 6 or 3, 6 or 3] into f32[8, 2, 2]",
        ),
        ("choose op { one: x |> group_norm(8), two: x }", "2 channels do not split into 8 groups"),
    ],
)
def test_rejects_alternatives_unfit_for_part_of_channels(body: str, said: str) -> None:
    space = archir.loads(f"net n {{\n input x: f32[8, 6, 6]\n output y = {body}\n}}")
    with pytest.raises(ArchError) as caught:
        partial(space.graph, ["op"], 4)
    assert f"A2004]: `op` cannot work on a part of the channels: {said}" in str(caught.value)


def test_one_part_leaves_graph_unchanged() -> None:
    space = archir.loads(PROGRAM)
    assert archir.print_graph(partial(space.graph, ["op"], 1)) == archir.print_graph(space.graph)
