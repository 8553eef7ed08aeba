"""The full-attention space matches its fact sheet: sizes and parameters of uniform networks."""

from __future__ import annotations

import pytest

import archir
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "full_attention"
LAYERS = 15


def space(name: str = "full_attention", **parameters: object) -> Space:
    return archir.load(FOLDER / f"{name}.arch", **parameters)


def uniform(space: Space, op: str) -> int:
    return archir.cost(space.specialize(space.architecture({choice.path: op for choice in space.choices}))).params


@pytest.mark.parametrize(("name", "size"), [("full_attention", 7**15), ("tied", 7**6), ("deep", 7**24)])
def test_space_size_matches_fact_sheet(name: str, size: int) -> None:
    assert space(name).size == space(name).satisfying == size
    assert 7**15 == 4_747_561_509_943


@pytest.mark.parametrize(
    ("channels", "classes", "all_nonlocal", "all_k3", "all_k7"),
    [
        (80, 10, 1_744_730, 1_749_410, 1_755_650),
        (96, 10, 2_511_466, 2_517_082, 2_524_570),
        (112, 1000, 3_861_976, 3_868_528, 3_877_264),
    ],
)
def test_uniform_network_parameters_match_fact_sheet(
    channels: int, classes: int, all_nonlocal: int, all_k3: int, all_k7: int
) -> None:
    found = space(channels=channels, classes=classes)
    assert uniform(found, "nonlocal") == all_nonlocal
    assert uniform(found, "local_k3_h4") == uniform(found, "local_k3_h8") == all_k3
    assert uniform(found, "local_k7_h4") == uniform(found, "local_k7_h8") == all_k7
    widths = [channels // 2] * 3 + [channels] * 6 + [2 * channels] * 6
    assert all_k7 == 272 * channels**2 + 9 * channels + classes * (4 * channels + 1) + 7 * sum(widths)


@pytest.mark.parametrize(("channels", "classes", "more"), [(80, 10, 11_440), (96, 10, 13_728), (112, 1000, 16_016)])
def test_affine_norms_add_parameters_of_fact_sheet(channels: int, classes: int, more: int) -> None:
    plain = space(channels=channels, classes=classes)
    affine = space(channels=channels, classes=classes, affine=True)
    assert uniform(affine, "nonlocal") - uniform(plain, "nonlocal") == more


def test_imagenet_stem_gives_four_million_parameters() -> None:
    small = uniform(space(channels=112, classes=1000), "local_k3_h4")
    large = uniform(space(channels=112, classes=1000, size=224, form="imagenet"), "local_k3_h4")
    convolutions = 9 * (3 * 56 + 56 * 112 + 112 * 112)
    norms = 2 * (56 + 112 + 112)
    assert large == small - 9 * 112 + convolutions + norms
    assert round(large / 1e6, 2) == 4.04


def test_tied_space_has_choices_of_two_cells() -> None:
    tied = space("tied")
    assert [choice.path for choice in tied.choices] == [
        f"{cell}.stage.layer[{i}].op" for cell in ("odd", "even") for i in range(3)
    ]
    graph = tied.specialize(tied.sample(3))
    kernels = [graph[n].op.attributes()["kernel"] for n in graph if graph[n].op.name == "local_attention"]
    assert len(kernels) >= 1
    free = space().specialize(space().sample(3))
    assert len(free) > 0
