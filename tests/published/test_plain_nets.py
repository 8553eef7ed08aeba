"""Well-known networks without choices have their published costs."""

from __future__ import annotations

import archir
from tests.conftest import EXAMPLES


def test_resnet50_costs_match_published_ones() -> None:
    cost = archir.cost(archir.load(EXAMPLES / "resnet50.arch").graph)
    assert (cost.params, cost.macs) == (25_557_032, 4_089_184_256)


def test_deit_tiny_costs_match_published_ones() -> None:
    cost = archir.cost(archir.load(EXAMPLES / "deit_tiny.arch").graph)
    assert cost.params == 5_717_416
    assert abs(cost.macs / 1.26e9 - 1) < 0.01
    assert cost.macs == 1_253_683_200  # 1.2537 G with both matrix products of the attention


def test_mobilenet_v2_costs_match_published_ones() -> None:
    cost = archir.cost(archir.load(EXAMPLES / "mobilenet_v2.arch").graph)
    assert (cost.params, cost.macs) == (3_504_872, 300_774_272)


def test_nets_without_choices_have_one_architecture() -> None:
    assert all(archir.load(EXAMPLES / f"{name}.arch").size == 1 for name in ("resnet50", "deit_tiny", "mobilenet_v2"))
