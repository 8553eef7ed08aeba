"""Where the weights of smaller networks lie inside larger ones: heads, packed projections, kernels, sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import archir
from archir.ir.op import AliasMap, ChannelMap, GroupMap, RepeatMap, ShuffleMap, SplitMap
from archir.ir.typing import infer
from archir.passes.sharing import Sharing
from archir.passes.weight_slices import StridedIndices, WeightSlice, as_indices, merge_levels
from tests.examples import elaborated
from tests.op_cases import CASES, Case, graph_of, name_of

ATTENTION = """
net heads() {{
    input image: f32[3, 4, 4]
    width = choose width({widths})
    heads = choose heads({heads})
    q = image |> conv(width, kernel=1)
    k = image |> conv(width, kernel=1)
    v = image |> conv(width, kernel=1) |> batch_norm
    y = {attention} |> batch_norm |> relu
    output logits = y |> conv(5, kernel=3)
}}
"""


def heads_space(widths: list[int], heads: list[int], attention: str = "attention(q, k, v, heads)") -> archir.Space:
    text = ATTENTION.format(widths=", ".join(map(str, widths)), heads=", ".join(map(str, heads)), attention=attention)
    return archir.loads(text)


def placed(space: archir.Space, choices: dict[str, Any], by_head: bool = True) -> dict[tuple[str, str], WeightSlice]:
    """Where an architecture's weights lie, by scope and name."""
    sharing, outcomes = Sharing(space.graph, by_head), space.architecture(choices).outcomes
    return {
        (space.graph[number].scope, name): part
        for number in sharing.types
        for name, part in sharing.slices(number, outcomes).items()
    }


def rows(part: WeightSlice) -> list[int]:
    return part[0].positions()


def spans(*pairs: tuple[int, int]) -> list[int]:
    return [i for first, last in pairs for i in range(first, last + 1)]


@pytest.mark.parametrize(
    ("width", "heads", "wanted"),
    [
        (32, 4, spans((0, 7), (16, 23), (32, 39), (48, 55))),
        (32, 8, spans((0, 3), (8, 11), (16, 19), (24, 27), (32, 35), (40, 43), (48, 51), (56, 59))),
        (16, 4, spans((0, 3), (16, 19), (32, 35), (48, 51))),
        (64, 4, spans((0, 63))),
        (64, 8, spans((0, 63))),
    ],
)
def test_head_sharing_matches_trionet_algorithm(width: int, heads: int, wanted: list[int]) -> None:
    """64 channels at most, of which each head has its first ones (Pi et al. 2021, section 3.5, algorithm 1)."""
    space = heads_space([16, 32, 64], [4, 8])
    parts = placed(space, {"width": width, "heads": heads})
    for scope in ("conv", "conv_2", "conv_3"):
        assert rows(parts[scope, "weight"]) == wanted
    assert rows(parts["batch_norm", "running_var"]) == rows(parts["batch_norm_2", "weight"]) == wanted
    assert parts["conv_4", "weight"][1].positions() == wanted  # what reads the result reads the same channels
    naive = placed(space, {"width": width, "heads": heads}, by_head=False)
    assert rows(naive["conv_3", "weight"]) == list(range(width))


@given(st.data())
def test_no_channel_ever_changes_its_head(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3, unique=True))
    step = 24
    widths = [step * i for i in data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True))]
    space = heads_space(widths, counts, data.draw(st.sampled_from(FORMS)))
    sharing = Sharing(space.graph)
    homes: dict[tuple[int, int], set[int]] = {}
    for architecture in space.enumerate():
        heads = architecture.get("heads", counts[0])
        part = next(
            sharing.slices(n, architecture.outcomes)["weight"]
            for n in sharing.types
            if space.graph[n].scope == "conv_3"
        )
        positions = rows(part)
        assert len(set(positions)) == len(positions)
        for index, position in enumerate(positions):
            homes.setdefault((int(str(heads)), position), set()).add(index * int(str(heads)) // len(positions))
    assert all(len(heads) == 1 for heads in homes.values())


FORMS = [
    "attention(q, k, v, heads)",
    'axial_attention(q, k, v, "width", heads)',
    "local_attention(q, k, v, 3, heads, shared=true)",
]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.sampled_from([None, 1, 2, 3]))
def test_evenly_spaced_positions_become_strided_indices(places: list[int], step: int | None) -> None:
    if step is not None:
        places = [places[0] + step * i for i in range(len(places))]
    found = as_indices(np.array(places))
    assert found.positions() == places
    assert isinstance(found, StridedIndices) == (places == list(range(places[0], places[0] + len(places))))


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 6, 9])), min_size=1, max_size=4))
def test_merge_levels_keeps_positions_with_fewer_loops(levels: list[tuple[int, int]]) -> None:
    found = merge_levels(tuple(levels))
    assert StridedIndices(0, found).positions() == StridedIndices(0, tuple(levels)).positions()
    assert len(found) == 1 or all(count > 1 for count, _ in found)
    assert all(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(found))


def test_fewer_heads_of_fixed_width_use_first_heads() -> None:
    """Where an architecture has more or fewer heads of one width, it has the first of them."""
    space = archir.loads("""
        import std.attention
        net tokens() {
            input x: f32[5, 48]
            heads = choose heads(2, 3)
            output y = x |> multi_head_attention(heads, channels=16 * heads)
        }
    """)
    parts = placed(space, {"heads": 2})
    packed = [part for (scope, name), part in parts.items() if name == "weight" and rows(part)[-1] > 47]
    assert rows(packed[0]) == spans((0, 31), (48, 79), (96, 127))  # of queries, keys and values


def test_concatenated_parts_of_unequal_widths_share_widest_channels() -> None:
    """Only parts of equal width are one stream: of others, the sum would be wider than any network is."""
    space = archir.loads("""
        net joined() {
            input image: f32[3, 4, 4]
            wa = choose wa(2, 4, 8)
            wb = choose wb(2, 4, 8)
            a = image |> conv(wa, kernel=1)
            b = image |> conv(wb, kernel=1)
            wider_a = image |> conv(wa + 2, kernel=1)
            wider_b = image |> conv(wb + 2, kernel=1)
            x = choose how { one: concat(a, wider_b), other: concat(wider_a, b) }
            output y = x |> conv(5, kernel=1)
        }
    """)
    assert Sharing(space.graph).shapes["conv_5"]["weight"][1] == 8 + 10


def test_packed_projections_keep_their_pieces_and_heads() -> None:
    space = archir.loads("""
        import std.attention
        net tokens() {
            input x: f32[5, 8]
            width = choose width(8, 16)
            output y = x |> multi_head_attention(2, channels=width)
        }
    """)
    sharing = Sharing(space.graph)
    small = placed(space, {"width": 8})
    packed = next(part for (scope, name), part in small.items() if name == "weight" and part[0].end > 20)
    assert rows(packed) == [16 * piece + 8 * head + i for piece in range(3) for head in range(2) for i in range(4)]
    last = next(
        part for (scope, name), part in small.items() if name == "weight" and part[1].size == 8 and part[1].end > 8
    )
    assert last[1].positions() == spans((0, 3), (8, 11))
    assert sharing.elements == 16 * 3 * 8 + 16 * 3 + 8 * 16 + 8


def test_weight_after_packed_projection_has_only_used_columns() -> None:
    sharing = Sharing(elaborated("glit/glit.arch", depth=2).graph)
    assert sharing.largest["token_classifier.linear"]["weight"].shape == (1000, 192)


def test_gates_keep_their_halves() -> None:
    space = archir.loads("""
        import std.transformer
        net tokens() {
            input x: f32[5, 4]
            inner = choose inner(4, 6)
            output y = x |> linear(2 * inner) |> gated_unit |> linear(4)
        }
    """)
    parts = placed(space, {"inner": 4})
    assert rows(parts["linear", "weight"]) == spans((0, 3), (6, 9))


def test_smaller_kernels_and_offsets_are_centered() -> None:
    space = archir.loads("""
        net maps() {
            input image: f32[4, 9, 9]
            kernel = choose kernel(3, 5, 7)
            x = image |> conv(4, kernel)
            output y = local_attention(x, x, x, kernel)
        }
    """)
    parts = placed(space, {"kernel": 3})
    assert [along.positions() for along in parts["conv", "weight"]] == [[*range(4)], [*range(4)], [2, 3, 4], [2, 3, 4]]
    assert [along.positions() for along in parts["local_attention", "rows"]] == [[0, 1], [2, 3, 4]]


def test_added_operands_share_channel_positions() -> None:
    """A head's channels are asked for at one end of a sum, and found at the others."""
    space = archir.loads("""
        net sums() {
            input image: f32[3, 4, 4]
            width = choose width(4, 8)
            x = image |> conv(width, kernel=1)
            x = x + (x |> conv(width, kernel=3, groups=width) |> relu)
            output y = attention(x, x, x, 2) |> global_avg_pool |> linear(3)
        }
    """)
    parts = placed(space, {"width": 4})
    wanted = spans((0, 1), (4, 5))
    assert rows(parts["conv", "weight"]) == rows(parts["conv_2", "weight"]) == wanted
    assert parts["linear", "weight"][1].positions() == wanted


def test_own_weights_are_not_shared() -> None:
    space = archir.loads("""
        net separate() {
            input image: f32[3, 4, 4]
            output y = image |> own conv(4, kernel=choose kernel(1, 3))
        }
    """)
    sharing = Sharing(space.graph)
    assert sharing.elements == 4 * 3 + 4 * 3 * 9


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_weight_declares_roles_of_its_axes(case: Case) -> None:
    graph = graph_of(*case)
    types = infer(graph)
    for number in types:
        op, operands = graph[number].op, [types[operand] for operand in graph.operands(number)]
        ranks = {name: len(weight.shape) for name, weight in op.weights(*operands).items()}
        assert ranks == ({name: len(roles) for name, roles in op.roles(*operands).items()} if ranks else {})
        assert all(member is None or 0 <= member < len(operands) for member in members(op.ties(*operands)))


def members(ties: tuple[ChannelMap, ...]) -> Iterator[int | None]:
    for tie in ties:
        if isinstance(tie, RepeatMap | GroupMap | ShuffleMap):
            yield tie.operand
        elif isinstance(tie, SplitMap):
            yield from (tie.source, tie.part)
        else:
            yield from tie.tensors if isinstance(tie, AliasMap) else tie.operands
