"""AutoLA's space against the figures of its paper and code; its searched modules, compiled and exported."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import archir
from archir.spaces.architecture import read_architecture
from archir.spaces.space import Space
from archir_torch.lowering.module import lower
from tests.conftest import EXAMPLES
from tests.soak import with_soak

FOLDER = EXAMPLES / "autola"
REPOSITORY = {"summary": "groups"}
"""The form in which the counts below were published: the summary goes through squeeze-and-excitation."""


@cache
def space(net: str = "autola.arch", **parameters: Any) -> Space:
    return archir.load(FOLDER / net, **parameters)


def written(name: str) -> dict[str, Any]:
    return dict(read_architecture((FOLDER / f"hoga_{name}.json").read_text("utf-8")).choices)


def params(choices: dict[str, Any] | str, net: str = "autola.arch", **parameters: Any) -> int:
    """Parameters of an architecture, or of the one with the same operation on each edge."""
    found = space(net, **REPOSITORY, **parameters)
    if isinstance(choices, str):
        choices = {choice.path: choices for choice in found.choices}
    return archir.cost(found.specialize(found.architecture(choices))).params


@pytest.mark.parametrize(
    ("order", "zero", "size"),
    [
        (4, True, 3_486_784_401),
        (4, False, 1_073_741_824),
        (2, True, 9**3),
        (2, False, 8**3),
        pytest.param(8, True, 9**36, marks=pytest.mark.soak),
    ],
)
def test_space_size_matches_paper(order: int, zero: bool, size: int) -> None:
    found = space(depth=8, order=order, zero=zero)
    assert found.size == found.satisfying == size
    assert len(found.choices) == order * (order + 1) // 2


PLUGGED = [("autola.arch", 8), ("autola.arch", 20), ("imagenet.arch", 18)]


@pytest.mark.parametrize(("net", "depth"), [*PLUGGED, pytest.param("imagenet.arch", 50, marks=pytest.mark.soak)])
def test_attention_module_has_one_set_of_choices_per_network(net: str, depth: int) -> None:
    paths = [f"hoga.edge[{k}][{j}].op" for k in range(4) for j in range(k + 1)]
    assert [choice.path for choice in space(net, depth=depth, size=32).choices] == paths


ON_CIFAR = {
    ("paper", (4, 16)): (328_523, 560_321, 1_023_917),
    ("paper", (8, 8)): (330_275 + 24, 563_241 + 40, 1_029_173 + 72),
    ("repo", (4, 16)): (331_955, 566_041, 1_034_213),
    ("repo", (8, 8)): (333_707 + 24, 568_961 + 40, 1_039_469 + 72),
}
FEW_ON_CIFAR = [("paper", (4, 16), 20), ("paper", (4, 16), 32), ("repo", (8, 8), 20)]


@pytest.mark.parametrize(
    "case", with_soak([(*module, depth) for module in ON_CIFAR for depth in (20, 32, 56)], FEW_ON_CIFAR), ids=str
)
def test_searched_module_parameters_on_cifar_match_paper(case: tuple[str, tuple[int, int], int]) -> None:
    """Where a hidden layer would have 4 // 8 = 0 units it has one: 8 parameters more in each block of stage one."""
    name, reductions, depth = case
    counts = dict(zip((20, 32, 56), ON_CIFAR[name, reductions], strict=True))
    assert params(written(name), depth=depth, reductions=reductions) == counts[depth]


@pytest.mark.parametrize(
    ("name", "reductions", "count"),
    [
        ("paper", (4, 16), 29_264_372),
        pytest.param("paper", (8, 8), 29_401_908, marks=pytest.mark.soak),
        ("repo", (8, 8), 29_579_092),
        pytest.param("repo", (4, 16), 29_441_556, marks=pytest.mark.soak),
    ],
)
def test_searched_module_parameters_in_resnet50_match_paper(name: str, reductions: tuple[int, int], count: int) -> None:
    assert params(written(name), "imagenet.arch", depth=50, reductions=reductions) == count


def test_single_operation_modules_have_published_parameters() -> None:
    """Table 6: HOG_SE has 0.32 M and 0.54 M parameters, HOG_CBAM 0.56 M in ResNet-32."""
    assert (params("channel", depth=20), params("channel", depth=32)) == (317_666, 542_226)
    assert (params("cbam", depth=20), params("cbam", depth=32)) == (327_716, 558_976)
    assert params("channel_v2", depth=20) == params("channel", depth=20)
    assert params("identity", depth=20, zero=True) == params("zero", depth=20, zero=True)


def test_group_summary_adds_two_layers_to_paper_version() -> None:
    found = space()
    paper = archir.cost(found.specialize(found.architecture(written("paper")))).params
    assert params(written("paper")) - paper == 3 * sum(2 * c * max(1, c // 4) for c in (4, 8, 16))


def test_non_affine_norms_remove_expected_parameters() -> None:
    """As in the search: of the 10 edges' norms, those of normalization attention have 2c numbers each."""
    more = params("norm_d2", depth=8) - params("norm_d2", depth=8, affine=False)
    assert more == 10 * sum(2 * c for c in (4, 8, 16))


@pytest.mark.parametrize("summary", ["nodes", "groups"])
@pytest.mark.parametrize("residual", [True, False])
def test_module_equals_handwritten_computation(summary: str, residual: bool, tmp_path: Path) -> None:
    """Order 3 with edges that pass on or drop: nodes are F0, F0 + F1, and F1 + F2 + F0."""
    text = (
        'import "hoga.arch"\nnet n {\n input x: f32[24, 6, 6]\n'
        f' output y = hoga(x, (3, true, (4, 8), "{summary}", {str(residual).lower()}, true))\n}}\n'
    )
    (tmp_path / "hoga.arch").write_text((FOLDER / "hoga.arch").read_text("utf-8"))
    (tmp_path / "n.arch").write_text(text)
    found = archir.load(tmp_path / "n.arch")
    labels = dict.fromkeys((choice.path for choice in found.choices), "identity")
    labels["hoga.edge[2][0].op"] = "zero"
    torch.manual_seed(0)
    module = lower(found.specialize(found.architecture(labels))).eval()
    x = torch.randn(2, 24, 6, 6)
    values = [v for v in module.state_dict().values() if v.dim() == 4]
    squeezes, (first, second) = values[:-4] + values[-2:], values[-4:-2]

    def se(x: Tensor, one: Tensor, two: Tensor) -> Tensor:
        hidden = (x.mean((2, 3)) @ one[:, :, 0, 0].T).relu()
        return x * torch.sigmoid(hidden @ two[:, :, 0, 0].T)[:, :, None, None]

    def mixed(x: Tensor, weight: Tensor) -> Tensor:
        return torch.einsum("nchw,dc->ndhw", x, weight[:, :, 0, 0]) / (1 + 1e-5) ** 0.5

    a, b, c = x.split(8, 1)
    nodes = [a, a + b, c + a + b]
    last = sum(nodes) if summary == "nodes" else se(a + b + c, *squeezes[:2])
    y = mixed(mixed(torch.cat([*nodes, last], 1), first).relu(), second)
    wanted = se(y + x if residual else y, *squeezes[-2:])
    with torch.no_grad():
        torch.testing.assert_close(module(x), wanted)


@pytest.mark.parametrize("name", with_soak(["paper", "repo"], ["paper"]))
@pytest.mark.parametrize(
    ("net", "depth", "size"), [("autola.arch", 20, 16), pytest.param("imagenet.arch", 50, 32, marks=pytest.mark.soak)]
)
def test_searched_modules_compile_and_export(name: str, net: str, depth: int, size: int, tmp_path: Path) -> None:
    file = read_architecture((FOLDER / f"hoga_{name}.json").read_text("utf-8"))
    found = space(net, depth=depth, size=size, classes=10, **file.parameters)
    graph = found.specialize(found.architecture(file.choices))
    module = lower(graph).eval()
    assert sum(p.numel() for p in module.parameters()) == archir.cost(graph).params
    assert archir.export(graph, tmp_path / "net.onnx", module).relative <= 1e-4


@pytest.mark.parametrize("seed", [0, 5, *(pytest.param(s, marks=pytest.mark.soak) for s in (1, 2, 3, 4, 6, 7))])
def test_random_architectures_train(seed: int, tmp_path: Path) -> None:
    found = space(depth=8, size=8, zero=True, order=(2, 4)[seed % 2], summary=("nodes", "groups")[seed // 4])
    graph = found.specialize(found.sample(seed))
    module = lower(graph)
    module.train()(torch.randn(4, 3, 8, 8)).square().sum().backward()
    gradients = [p.grad for p in module.parameters()]
    assert all(g is not None and bool(g.isfinite().all()) for g in gradients)
    assert archir.export(graph, tmp_path / "net.onnx", module.eval()).relative <= 1e-4
