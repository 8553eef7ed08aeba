"""`archir open`: numbers in a network's text become choices, and the network is the largest architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.api import analysis, loading
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.language.elastic.choice_values import with_fractions, without_last_kind
from archir.language.elastic.elastic_space import ElasticSpace, make_elastic
from archir.passes.specialize import specialize

EXAMPLES = Path(__file__).parents[2] / "examples"
ALL = "widths,depths,heads,kernels,ratios"

RESIDUAL = """
# Two stages.
block unit(x, width, stride) {
    y = x |> conv(width, kernel=3, stride=stride) |> relu |> conv(width, kernel=3)  # two convolutions
    s = x if stride == 1 else x |> conv(width, kernel=1, stride=stride)
    return y + s |> relu
}

net full(classes = 10) {
    input image: f32[3, 16, 16]   # small

    x = image |> conv(32, kernel=5) |> batch_norm
    for width, stride, depth in zip([32, 64], [1, 2], [3, 1]) {
        for i in 0..depth { x = x |> unit(width, stride if i == 0 else 1) }
    }
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
OPENED = """
# Two stages.
block unit(x, width, stride) {
    y = x |> conv(choose ratio(1/4, 1/2, 3/4, 1) * width, kernel=3, stride=stride) |> relu |> conv(width, kernel=3)  # two convolutions
    s = x if stride == 1 else x |> conv(width, kernel=1, stride=stride)
    return y + s |> relu
}

net full(classes = 10) {
    input image: f32[3, 16, 16]   # small
    width_2 = choose width_2(8, 16, 24, 32)
    width_3 = choose width_3(16, 32, 48, 64)
    depth_2 = choose depth_2(1, 2, 3)

    x = image |> conv(width_2, kernel=choose kernel_2(3, 5)) |> batch_norm
    for width, stride, depth in zip([width_2, width_3], [1, 2], [depth_2, 1]) {
        for i in 0..depth { x = x |> unit(width, stride if i == 0 else 1) }
    }
    output logits = x |> global_avg_pool |> linear(classes)
}
"""  # noqa: E501  (what stands behind a statement stays there)


def test_residual_network_opens_with_tied_widths() -> None:
    found = make_elastic(RESIDUAL, ALL)
    assert found.text == OPENED
    assert {path for path in found.full if path.startswith("width")} == {"width_2", "width_3"}
    left = {(row.kind, row.places[0].text): row.reason for row in found.left}
    assert left["widths", "10"] == "it sets the size of the output `logits`"
    assert "shapes differ" in left["ratios", "width"]  # those that are added


TOKENS = """
import std.attention
import std.transformer

block layer(x) {
    x = x + (x |> layer_norm |> multi_head_attention(4))
    return x + (x |> layer_norm |> feed_forward)
}

net tokens {
    input image: f32[3, 8, 8]
    x = concat(parameter([1, 32]), image |> conv(32, kernel=4, stride=4, padding="valid") |> to_tokens, axis=0)
    x = x + parameter([5, 32])
    repeat 2 {
        x = x |> layer
    }
    output y = x |> slice(stop=1, axis=0) |> flatten |> linear(10)
}
"""


def test_opened_heads_scale_channels_and_shapes_follow_widths() -> None:
    found = make_elastic(TOKENS, ALL)
    assert "    heads = choose heads(1, 2, 3, 4)\n" in found.text
    assert "multi_head_attention(heads, channels=8 * heads)" in found.text
    assert "feed_forward(ratio=choose ratio(1, 2, 3, 4))" in found.text
    assert "parameter([1, width]), image |> conv(width," in found.text
    assert "parameter([5, width])" in found.text  # five tokens stay five
    assert "repeat depth {" in found.text


def of(body: str, choose: str = ALL, where: str | None = None, shape: str = "3, 16, 16") -> ElasticSpace:
    text = f"net n {{\n    input x: f32[{shape}]\n{body}\n    output y = x |> global_avg_pool |> linear(10)\n}}\n"
    return make_elastic(text, choose, where=where)


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        ("widths", "conv(width, kernel=7)"),
        ("widths=0.5,1", "choose width(32, 64)"),
        ("widths=0.5", "choose width(32, 64)"),
        ("kernels", "conv(64, kernel=choose kernel_2(3, 5, 7))"),
        ("kernels=5", "conv(64, kernel=choose kernel_2(5, 7))"),
        ("kernels=3,5,9,widths=0.75,1", "conv(width, kernel=choose kernel_2(3, 5, 7))"),
    ],
)
def test_open_applies_requested_kinds_and_values(choose: str, expected: str) -> None:
    assert expected in of("    x = x |> conv(64, kernel=7) |> relu", choose).text


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        ("width", "did you mean `widths`"),
        ("", "widths, depths"),
        ("widths=2", "fractions are above 0 and at most 1"),
        ("widths=0", "fractions are above 0 and at most 1"),
        ("widths=1/0", "fractions are above 0 and at most 1"),
        ("widths=1", "`widths=0.5,1`"),
        ("depths,ratios=1,1", "`ratios=0.5,1`"),
        ("kernels=4", "kernel sizes are odd"),
        ("widths,0.5", "widths=0.5,1"),
        ("widths,operators=none", "operators have no values"),
    ],
)
def test_rejects_invalid_choose_option(choose: str, expected: str) -> None:
    with pytest.raises(ArchError, match=expected) as error:
        of("    x = x |> conv(64)", choose)
    assert error.value.diagnostics[0].code == "A3211"


def test_without_last_kind_drops_last_kind() -> None:
    assert without_last_kind("ratios=0.5,1,widths=0.25,1,depths") == "widths=1/4,1,depths"
    assert without_last_kind("kernels=3,5,heads") == "heads"
    assert without_last_kind("widths") is None


def test_depthwise_groups_follow_width() -> None:
    text = of("    x = x |> conv(32) |> conv(32, kernel=3, groups=32) |> conv(48, kernel=1)").text
    assert "conv(width) |> conv(width, kernel=3, groups=width) |> conv(width_2, kernel=1)" in text


def test_widths_that_are_multiples_stay_multiples() -> None:
    text = of("    a = x |> conv(32)\n    b = x |> conv(16)\n    x = concat(a, b) * (x |> conv(48))").text
    assert "conv(2 * width)" in text
    assert "conv(width)" in text
    assert "conv(3 * width)" in text


def test_parameters_are_opened_at_their_defaults() -> None:
    text = """net n(width = 32, depth = 3) {
    input x: f32[3, 8, 8]
    x = x |> conv(width)
    for i in 0..depth { x = x + (x |> conv(32, kernel=3)) }
    output y = x |> global_avg_pool |> linear(10)
}
"""
    found = make_elastic(text, ALL)
    assert "net n(width = choose width(8, 16, 24, 32), depth = choose depth(1, 2, 3)) {" in found.text
    assert "conv(width, kernel=3)" in found.text  # what is added to it


def test_stage_with_differing_block_shapes_keeps_its_depth() -> None:
    found = of("    for i in 0..2 { x = x |> conv(16) |> max_pool(kernel=2, stride=2) }")
    assert [row.reason for row in found.left if row.kind == "depths"] == [
        "its blocks have different output types: f32[16, 4, 4] and f32[16, 8, 8]"
    ]


def test_no_architecture_needs_weights_that_were_not_trained() -> None:
    """A shortcut that is only there where widths differ is none of the network, and no width makes one."""
    text = """import std.resnet

net n {
    input x: f32[3, 8, 8]
    output y = x |> conv(32) |> basic_block(32) |> global_avg_pool |> linear(10)
}
"""
    found = make_elastic(text, "widths")
    assert "conv(width) |> basic_block(width)" in found.text


def test_where_limits_changes_to_its_scope() -> None:
    body = "    for i in 0..2 { x = x |> conv(32, kernel=5) |> relu }\n    x = x |> conv(64, kernel=5)"
    assert of(body, "kernels").text.count("choose") == 2
    with pytest.raises(ArchError, match=r"`conv\[0\]` is not in conv\[1\]"):
        of(body, "kernels", where="conv[1]")  # the same text is conv[0]
    found = of(body, "kernels", where="conv_2")
    assert found.text.count("choose") == 1
    assert "conv(64, kernel=choose" in found.text


SCOPES = [("nothing", "there are `conv`, `relu`"), ("cnov", "did you mean `conv`")]


@pytest.mark.parametrize(("where", "hint"), SCOPES)
def test_a_scope_that_is_not_there_is_named(where: str, hint: str) -> None:
    with pytest.raises(ArchError, match=hint) as error:
        of("    x = x |> conv(32, kernel=5) |> relu |> conv(64)", where=where)
    assert error.value.diagnostics[0].code == "A3230"


@pytest.mark.parametrize("bounds", [("MAX_ROUNDS",), ("MIN_ROUNDS", "MAX_NODES")], ids=["rounds", "nodes"])
def test_exhausted_open_search_reports_round_limit(monkeypatch: pytest.MonkeyPatch, bounds: tuple[str, ...]) -> None:
    for name in bounds:
        monkeypatch.setattr(f"archir.language.elastic.group_search.{name}", 1)
    with pytest.raises(ArchError, match="in 1 rounds") as error:
        make_elastic(RESIDUAL, ALL)
    assert error.value.diagnostics[0].code == "A3231"


def test_net_with_input_on_its_first_line_opens() -> None:
    text = "net a { input image: f32[3, 8, 8]\n    x = image |> conv(16, kernel=5) |> relu\n"
    text += "    output logits = x |> global_avg_pool |> linear(10) }\n"
    assert archir.loads(make_elastic(text, "kernels,widths").text).size > 1


def test_rejects_networks_that_cannot_be_opened() -> None:
    with pytest.raises(ArchError, match="has choices") as error:
        of("    x = x |> conv(choose w(8, 16))")
    assert error.value.diagnostics[0].code == "A3213"
    with pytest.raises(ArchError, match="nothing of `n` can be opened") as error:
        of("    x = x |> conv(64)", "kernels")
    assert error.value.diagnostics[0].code == "A3212"
    with pytest.raises(ArchError, match="no value below the trained one") as error:
        of("    x = x |> conv(64, kernel=3)", "kernels=3")
    assert error.value.diagnostics[0].code == "A3212"


@pytest.mark.parametrize(
    "name",
    [
        "deit_tiny.arch",
        "shrink/cifar.arch:full",
        pytest.param("mobilenet_v2.arch", marks=pytest.mark.soak),
        pytest.param("resnet50.arch", marks=pytest.mark.soak),
    ],
)
def test_example_network_is_largest_of_its_opened_space(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / name
    found = archir.open_network(path)
    full = found.space.specialize(found.full)
    assert canonical_hash(full) == canonical_hash(archir.load(path).graph)
    assert found.space.size > 1
    beside = found.save(tmp_path / "space.arch")
    space = archir.load(f"{tmp_path / 'space.arch'}:{found.space.name}")
    assert space.size == found.space.size
    assert beside.name == "space.full.json"
    assert space.architecture(loading.architecture(beside).choices) == found.full


def test_a_space_that_was_opened_has_no_warnings(tmp_path: Path) -> None:
    for text in (RESIDUAL, TOKENS):
        (tmp_path / "space.arch").write_text(make_elastic(text, ALL).text)
        _, warnings = analysis.linted(tmp_path / "space.arch")
        assert not warnings


def test_many_plain_blocks_take_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of forty blocks are one width: not one round each."""
    monkeypatch.setattr("archir.language.elastic.group_search.MAX_ROUNDS", 5)
    block = "    x = x + (x |> conv(32, kernel=3) |> relu |> conv(32, kernel=3))\n"
    start = "net plain {\n    input image: f32[3, 8, 8]\n    x = image |> conv(32, kernel=3)\n"
    text = f"{start}{block * 40}    output y = x |> global_avg_pool |> linear(5)\n}}\n"
    found = make_elastic(text, "widths")
    assert len(found.opened) == 41


def test_with_fractions_changes_only_its_kind() -> None:
    assert with_fractions("widths,depths", "widths", "0.5, 1") == "widths=1/2,1,depths"
    assert with_fractions("kernels=3", "widths", "0.5,1") == "kernels=3,widths=1/2,1"
    fractions = "fractions are above 0 and at most 1"
    for parts, hint in (("0.5,x", fractions), ("1", "--widths 0.5,1"), ("kernels", fractions)):
        with pytest.raises(ArchError, match=hint):
            with_fractions("widths", "widths", parts)


def test_added_alternatives_keep_trained_operation_weights() -> None:
    """As docs/opening.md says: the network is still the largest architecture, with all names of its weights."""
    text = "net full {{\ninput image: f32[3, 8, 8]\nx = image |> conv(16)\n{}y = y |> conv(5)\noutput z = y\n}}\n"
    network = archir.loads(text.format("y = x |> conv(16)\n"))
    beside = "cheap: x |> own conv(16, kernel=3, groups=16) |> own conv(16, kernel=1)"
    space = archir.loads(text.format(f"y = x |> conv(16)\ny = choose op {{ kept: y, none: x, {beside} }}\n"))
    found = archir.membership(space, network)
    assert found.largest
    assert dict(found.architecture or {}) == {"op": "kept"}
    graphs = network.graph, space.specialize(space.architecture({"op": "kept"}))
    convs = [{graph[n].scope for n in graph if graph[n].op.name == "conv"} for graph in graphs]
    assert convs[0] == convs[1] == {"conv", "conv_2", "conv_3"}


OPERATORS = """
import std.resnet
import std.transformer

block unit(x, width, stride = 1) {
    y = x |> conv(width, kernel=3, stride=stride) |> relu
    y = y |> conv(width, kernel=3)
    return y + x if stride == 1 else y
}

net full {
    input image: f32[3, 8, 8]
    x = image |> conv_bn(8, 3) |> relu
    for i in 0..2 { x = x |> unit(8) }
    for stride in [1, 2] {
        x = x |> unit(8, stride)
    }
    x = x |> conv(8, kernel=1) |> relu |> unit(8)
    x = x + (x |> conv(8, kernel=3))
    output y = x |> global_avg_pool |> linear(10)
}
"""


def test_operators_add_alternatives_to_trained_operation() -> None:
    found = make_elastic(OPERATORS, "operators")
    text = found.text
    assert "    after = image |> conv_bn(8, 3)\n" in text
    assert "separable: image |> own conv_bn(image.channels, kernel=3, groups=image.channels) |> own" in text
    assert "for i in 0..2 { x = x |> unit(8) }" in text  # not on a line of its own
    assert "x = x + (x |> conv(8, kernel=3))" in text
    opened = {row.places[0].text: row.values for row in found.opened}
    assert opened["conv_bn(8, 3)"] == ("separable", "kept")  # three channels are not eight
    assert opened["conv(8, kernel=1)"] == ("none", "kept")
    assert opened["conv(width, kernel=3)"] == ("none", "separable", "kept")
    assert opened["conv(width, kernel=3, stride=stride)"] == ("separable", "kept")  # of one call, the stride is 2
    assert opened["unit(8)"] == ("none", "kept")
    left = {row.places[0].text: row.reason for row in found.left}
    assert "shapes differ" in left["unit(8, stride)"]
    assert "f32[8] and f32[10]" in left["linear(10)"]
    most = specialize(found.graph, found.full)
    assert canonical_hash(most) == canonical_hash(found.network)
    assert {most[n].scope for n in most} == {found.network[n].scope for n in found.network}


def test_operators_keep_comments() -> None:
    pipe = "x  # the stem\n        |> conv(8, 3)  # wide\n        |> relu"
    body = f"    y = {pipe}  # once\n    z = y |> conv(8, 3)  # again\n    x = z"
    found = of(body, "operators", shape="8, 16, 16")
    assert pipe in found.text
    assert all(comment in found.text for comment in ("# once", "# again"))
    assert len(found.opened) == 1
    reasons = [row.reason for row in found.left if row.places[0].text == "conv(8, 3)"]
    assert [reason.count("comments inside the pipe") for reason in reasons] == [2]


def test_operators_combine_with_widths_and_where() -> None:
    both = make_elastic(OPERATORS, "widths,operators")
    assert {row.kind for row in both.opened} == {"widths", "operators"}
    where = make_elastic(OPERATORS, "operators", where="conv_bn")
    assert [row.places[0].text for row in where.opened] == ["conv_bn(8, 3)"]
    for choose, said in (("operators=none", "no values"), ("operatrs", "operatrs")):
        with pytest.raises(ArchError, match=said):
            make_elastic(OPERATORS, choose)
    with pytest.raises(ArchError) as error:
        make_elastic(OPERATORS, "operators", where="linear")
    assert error.value.diagnostics[0].code == "A3212"


def test_open_reports_invalid_parameter_shape() -> None:
    with pytest.raises(archir.ArchError, match="A0401"):
        make_elastic("net n { input x: f32[4]\n output y = x + parameter([-1]) }", "widths")


def test_open_network_rejects_space_instead_of_path() -> None:
    with pytest.raises(TypeError, match="path of a program"):
        archir.open_network(archir.loads("net n { input x: f32[4]\n output y = x |> relu }"))  # type: ignore[arg-type]
