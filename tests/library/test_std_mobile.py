"""`std.mobile`: whole networks of its blocks have the published parameters and multiply-accumulates."""

from __future__ import annotations

import archir
from archir.passes.cost import Cost
from tests.conftest import EXAMPLES

MOBILENET = """
import std.mobile

net mobilenet(size = 224) {
    input image: f32[3, size, size]
    x = image |> conv_norm(32, stride=2) |> relu
    stages = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1),
              (512, 1), (1024, 2), (1024, 1)]
    for channels, stride in stages { x = x |> depthwise_separable(channels, stride=stride) }
    output logits = x |> global_avg_pool |> linear(1000)
}
"""
SHUFFLENET = """
import std.mobile

net shufflenet(size = 224) {
    input image: f32[3, size, size]
    x = image |> conv_norm(24, stride=2) |> relu |> max_pool(3, stride=2)
    for channels, depth in [(116, 4), (232, 8), (464, 4)] {
        for i in 0..depth { x = x |> shuffle_unit(channels, 2 if i == 0 else 1) }
    }
    output logits = x |> conv_norm(1024, 1) |> relu |> global_avg_pool |> linear(1000)
}
"""


def cost(text: str) -> Cost:
    return archir.cost(archir.loads(text).graph)


def test_mobilenet_counts_match_paper() -> None:
    """Howard et al. 2017, table 4: 4.2 M parameters, 569 M multiply-adds."""
    found = cost(MOBILENET)
    assert found.params == 4_231_976
    assert round(found.macs / 1e6) == 569


def test_shufflenet_v2_counts_match_paper() -> None:
    """Ma et al. 2018, table 8: 146 M multiply-adds at width 1.0; torchvision has 2,278,604 parameters."""
    found = cost(SHUFFLENET)
    assert found.params == 2_278_604
    assert abs(found.macs / 146e6 - 1) < 0.01


def test_mobilenet_v3_large_counts_match_paper() -> None:
    """Howard et al. 2019, table 3: 5.4 M parameters, 219 M multiply-adds; torchvision has 5,483,032 parameters."""
    found = archir.cost(archir.load(EXAMPLES / "mobilenet_v3_ofa" / "mobilenet_v3_large.arch").graph)
    assert (found.params, found.macs) == (5_483_032, 216_589_760)
    assert abs(found.macs / 219e6 - 1) < 0.02


def test_inverted_residual_adds_shortcut_only_if_shapes_match() -> None:
    """A shortcut is added at stride 1 and equal channels, and nothing is expanded that is wide enough."""
    text = """
    import std.mobile
    net one(channels = 8, inner = 16, stride = 1, excite = false) {
        input x: f32[8, 8, 8]
        output y = x |> inverted_residual(channels, inner, stride=stride, excite=excite)
    }
    """

    def operations(**parameters: object) -> list[str]:
        graph = archir.loads(text, **parameters).graph
        return [graph[number].op.name for number in graph]

    assert operations().count("add") == 1
    assert "add" not in operations(stride=2)
    assert "add" not in operations(channels=12)
    assert (operations().count("conv"), operations(inner=8).count("conv")) == (3, 2)
    assert "hard_sigmoid" in operations(excite=True)
    assert "hard_sigmoid" not in operations()
