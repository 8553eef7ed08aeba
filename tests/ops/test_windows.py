"""Non-square convolution and pooling windows: in the language, in supernets, in stored graphs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import archir
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.ir.serial import to_json
from archir.ir.typing import infer
from archir.passes.sharing import Sharing
from archir_torch.lowering.module import lower
from archir_torch.supernet.network import SuperNetwork, extract


def net(body: str, takes: str = "f32[4, 9, 12]") -> archir.Space:
    return archir.loads(f"net n {{\n input x: {takes}\n{body}\n}}")


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("conv(8, kernel=[3, 1])", (8, 9, 12)),
        ("conv(8, kernel=(1, 7), stride=(1, 2))", (8, 9, 6)),
        ("conv(8, 3, padding=[0, 1], dilation=[2, 1])", (8, 5, 12)),
        ("conv(8, 3, padding=[0, 1, 2, 3])", (8, 12, 11)),
        ("max_pool([3, 2], stride=[3, 2], padding=\"valid\")", (4, 3, 6)),
        ("avg_pool([1, 4], stride=[1, 4])", (4, 9, 3)),
    ],
)  # fmt: skip
def test_2d_window_operations_have_expected_output_size(call: str, shape: tuple[int, ...]) -> None:
    graph = net(f"output y = x |> {call}").graph
    assert infer(graph)[graph.outputs["y"]].shape == shape
    assert lower(graph)(torch.randn(2, 4, 9, 12)).shape == (2, *shape)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("conv1d(6, kernel=5, stride=2)", (10, 6)),
        ("conv1d(6, 3, padding=[4, 0], dilation=2)", (20, 6)),
        ("max_pool1d(2, stride=2)", (10, 4)),
        ('avg_pool1d(3, padding="valid")', (18, 4)),
    ],
)
def test_1d_window_operations_have_expected_output_size(call: str, shape: tuple[int, ...]) -> None:
    graph = net(f"output y = x |> {call}", "f32[20, 4]").graph
    assert infer(graph)[graph.outputs["y"]].shape == shape
    assert lower(graph)(torch.randn(2, 20, 4)).shape == (2, *shape)


def test_a_causal_convolution_sees_no_later_token() -> None:
    network = lower(net("output y = x |> conv1d(4, 3, padding=[4, 0], dilation=2)", "f32[20, 4]").graph)
    x = torch.randn(1, 20, 4)
    later = x.clone()
    later[:, 11:] += 1
    assert torch.equal(network(x)[:, :11], network(later)[:, :11])
    assert not torch.equal(network(x)[:, 11:], network(later)[:, 11:])


def test_rows_and_columns_are_not_mixed_up() -> None:
    network = lower(net("output y = x |> conv(2, [3, 1], [1, 2], [2, 0], [2, 1])").graph)
    x, weight = torch.randn(1, 4, 9, 12), network.state_dict()["conv.weight"]
    torch.testing.assert_close(network(x), F.conv2d(x, weight, None, (1, 2), (2, 0), (2, 1)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("conv(8, kernel=[3, 1, 1])", r"`kernel` is one number, or one for each of 2 axes: \[3, 1, 1\]"),
        ("conv(8, padding=[1, 1, 1])", "`padding` is one number, one for each of 2 axes, or two"),
        ('max_pool(3, padding="some")', '`padding` is "same", "valid" or numbers of zeros'),
        ("max_pool([4, 2], padding=[2, 2])", "padding 2 is more than half of the window of 2"),
        ("conv(8, kernel=[11, 1], padding=0)", "a window of 11 does not fit into a height of 9"),
        ("conv(8, stride=[1, 0])", "kernel, stride and dilation must be at least 1"),
    ],
)
def test_rejects_invalid_window_arguments(call: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        net(f"output y = x |> {call}")


def test_kernel_choices_share_weights_at_kernel_center() -> None:
    space = net("output y = x |> conv(4, kernel=choose k([1, 5], [5, 1], [3, 3]))")
    sharing = Sharing(space.graph)
    assert sharing.elements == 4 * 4 * 5 * 5
    (number,) = (n for n in sharing.types if space.graph[n].op.name == "conv")
    found = [sharing.slices(number, architecture.outcomes)["weight"] for architecture in space.enumerate()]
    assert [[along.positions() for along in part[2:]] for part in found] == [
        [[2], [0, 1, 2, 3, 4]],
        [[0, 1, 2, 3, 4], [2]],
        [[1, 2, 3], [1, 2, 3]],
    ]
    macs = {archir.cost(space.specialize(architecture)).macs for architecture in space.enumerate()}
    assert macs == {4 * 4 * kernel * 9 * 12 for kernel in (5, 9)}


def test_supernet_equals_extracted_networks() -> None:
    space = net("y = x |> conv(4, choose k([1, 5], 3), choose s([1, 2], [2, 1]))\noutput z = y |> global_avg_pool")
    supernet, x = SuperNetwork(space.graph).eval(), torch.randn(2, 4, 9, 12)
    for architecture in space.enumerate():
        torch.testing.assert_close(supernet(x, architecture), extract(supernet, architecture)(x))


def test_scalar_and_equal_list_arguments_hash_equally() -> None:
    one = net("y = x |> conv(8, 3, 2, 1)\noutput z = y |> avg_pool(2) |> max_pool(3, 2)").graph
    two = net("y = x |> conv(8, [3, 3], [2, 2], [1, 1, 1, 1])\noutput z = y |> avg_pool([2, 2]) |> max_pool(3, [2, 2])")
    assert canonical_hash(one) == canonical_hash(two.graph)
    assert canonical_hash(one) != canonical_hash(net("output z = x |> conv(8, [3, 2], 2, 1)").graph)


def test_files_and_tables_have_all_attributes() -> None:
    series = net("y = x |> conv1d(8, 3)\noutput z = y |> conv1d(4, 5, bias=true)", "f32[12, 8]").graph
    assert (
        next(iter(space_workloads(series)))
        == 'conv1d(f32[12, 8], channels=8, kernel=3, padding="same", groups=1, bias=false, stride=1, dilation=1)'
    )
    assert to_json(series)["nodes"][1]["attributes"] == {
        "channels": 8, "kernel": 3, "padding": "same", "groups": 1, "bias": False, "stride": 1, "dilation": 1
    }  # fmt: skip
