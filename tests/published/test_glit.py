"""GLiT: sizes of its three spaces, costs of published and random networks."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.ir.graph import Graph
from archir.passes.cost import Cost
from archir.spaces.architecture import read_architecture
from archir.spaces.space import Space
from tests.architectures import assert_works
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "glit"
TINY = (3, 0, 1, 3, 0, 1, 3, 1, 0, 3, 0, 3)
"""Global heads, of three, in the blocks of GLiT-Tiny."""


def space(net: str, **parameters: object) -> Space:
    return archir.load(f"{FOLDER}/{net}", **parameters)


def distributed(found: Space, globals_: tuple[int, ...]) -> Cost:
    """The cost of the network with these numbers of global heads."""
    return archir.cost(found.specialize(found.architecture({f"globals[{i}]": n for i, n in enumerate(globals_)})))


def tiny() -> Graph:
    found = space("search.arch:low")
    return found.specialize(found.architecture(read_architecture((FOLDER / "glit_tiny.json").read_text()).choices))


def test_space_sizes_match_paper() -> None:
    """As the paper counts; first level; second level for the distribution of GLiT-Tiny."""
    assert space("glit.arch").size == 324**12 == 1_338_258_845_052_394_702_439_737_982_976
    assert space("search.arch:high").size == 4**12 == 16_777_216
    assert space("search.arch:low").size == 9**12 == 282_429_536_481


def test_glit_tiny_costs_match_paper() -> None:
    """Table 3: 7.2 M parameters, 1.4 G; 1.33 G in the released code, which counts half of each gated convolution."""
    cost = archir.cost(tiny())
    assert (cost.params, cost.macs) == (7_264_456, 1_472_873_280)
    halves = sum(197 * expansion * width**2 for expansion, width in [(2, 192), (4, 192), (4, 192), (4, 192)])
    halves += sum(197 * 4 * 128**2 for _ in range(3))
    assert round((cost.macs - halves) / 1e6, 1) == 1332.5


def test_full_space_contains_glit_tiny() -> None:
    """With settings it has no use for chosen at will."""
    written = read_architecture((FOLDER / "glit_tiny.json").read_text()).choices
    whole = space("glit.arch")
    unused = {"kernel": 31, "expansion": 4, "key": 192, "ratio": 4}
    labels: dict[str, object] = {}
    for i, count in enumerate(TINY):
        labels |= {f"{name}[{i}]": value for name, value in unused.items()} | {f"globals[{i}]": count}
    found = archir.cost(whole.specialize(whole.architecture(labels | dict(written))))
    assert found == archir.cost(tiny())


@pytest.mark.parametrize(
    ("expansion", "params", "macs"),
    [(4, 7_256_104, 1_463_530_752), (2, 5_993_512, 1_217_069_568), (1, 5_362_216, 1_093_838_976)],
)
def test_first_level_results_have_expected_costs(expansion: int, params: int, macs: int) -> None:
    found = distributed(space("search.arch:high", expansion=expansion), TINY)
    assert (found.params, found.macs) == (params, macs)


@pytest.mark.parametrize(
    ("width", "heads", "params", "macs"),
    [
        (192, 3, 5_717_416, 1_253_683_200),
        (384, 6, 22_050_664, 4_598_882_304),
        (768, 12, 86_567_656, 17_563_828_224),
    ],
)
def test_network_of_global_heads_costs_same_as_deit(width: int, heads: int, params: int, macs: int) -> None:
    found = distributed(space("search.arch:high", width=width, heads=heads), (3,) * 12)
    assert (found.params, found.macs) == (params, macs)


@pytest.mark.parametrize(("globals_", "params"), [(3, 444_864), (0, 766_848), (1, 528_448), (2, 421_120)])
def test_block_adds_expected_parameters(globals_: int, params: int) -> None:
    """At width 192, ratio 4, kernel 31 and expansion 4: what a second block adds to a network of one."""
    one, two = (distributed(space("search.arch:high", depth=depth), (globals_,) * depth) for depth in (1, 2))
    assert two.params - one.params == params


def test_candidates_share_no_weights() -> None:
    """Four blocks of their own in each place of the first level, nine in the second."""
    for net, candidates in (("search.arch:high", 4), ("search.arch:low", 9)):
        graph = space(net).graph
        norms = [graph[n].scope for n in graph if graph[n].op.name == "layer_norm"]
        assert len(set(norms)) == len(norms) == 12 * 2 * candidates + 1


def test_tags_open_one_level() -> None:
    tags = [choice.tags for choice in space("glit.arch").choices]
    assert [sum(tag in found for found in tags) for tag in ("high", "low")] == [12, 48]


@pytest.mark.soak
def test_glit_tiny_trains_and_exports_at_full_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_works(tiny(), tmp_path, monkeypatch)
