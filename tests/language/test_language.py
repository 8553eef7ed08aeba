"""What every construct of the language means, seen in the graph that it makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ir.structure import Input
from archir.ir.typing import infer


def space(body: str, before: str = "", **parameters: object) -> archir.Space:
    return archir.loads(
        f"{before}\nnet n(size = 2, flag = false) {{\ninput image: f32[4, 6, 6]\n{body}\n}}", **parameters
    )


def channels(value: str, statements: str = "", before: str = "", **parameters: object) -> int:
    """A value of the language, as the number of channels that it gives a convolution."""
    graph = space(f"{statements}\noutput y = image |> conv({value}, kernel=1)", before, **parameters).graph
    return int(infer(graph)[graph.outputs["y"]].shape[0])


def operations(graph: Graph) -> list[str]:
    return [graph[number].op.name for number in graph if not isinstance(graph[number].op, Input)]


def scopes(graph: Graph) -> list[str]:
    return [graph[number].scope for number in graph if not isinstance(graph[number].op, Input)]


VALUES = {
    "1/8 * 64": 8,
    "7 // 2": 3,
    "7 % 4": 3,
    "2 ** 5": 32,
    "2 ** -1 * 6": 3,
    "-3 + 5": 2,
    "- -3": 3,
    "2 + 3 * 4": 14,
    "(2 + 3) * 4": 20,
    "10 - 2 - 3": 5,
    "2K": 2000,
    "1/2 * 1K": 500,
    "0.5 * 8 == 4.0 and 7 or 9": None,
    "7 if 0.5 * 8 == 4.0 else 9": 7,
    "7 if true and not false else 9": 7,
    "7 if false or 3 > 4 else 9": 9,
    "7 if 1 < 2 else 1 / 0": 7,
    "7 if false and 1 / 0 == 1 else 9": 9,
    "7 if 3 in [1, 2, 3] else 9": 7,
    "7 if 3 not in 0..3 else 9": 7,
    "7 if 'a' == 'a' and 'a' != 'b' else 9": 7,
    "7 if none == none else 9": 7,
    "len([1, 2, 3])": 3,
    "sum([1, 2, 3])": 6,
    "sum(0..4)": 6,
    "sum([2 * w for w in [1, 2, 3] if w > 1])": 10,
    "sum([a * b for a, b in [(1, 2), (3, 4)]])": 14,
    "sum([i * w for i, w in enumerate([5, 6, 7])])": 20,
    "sum([a * b for a, b in zip([1, 2], [3, 4])])": 11,
    "min(4, 2, 9) + max([4, 2, 9])": 11,
    "[5, 6, 7][1]": 6,
    "[5, 6, 7][-1]": 7,
    "sum([5, 6, 7][1:])": 13,
    "sum([5, 6, 7][:2])": 11,
    "(0..10)[3]": 3,
    "len(0..10)": 10,
    "sum(reversed([1, 2])[:1])": 2,
    "sorted([3, 1, 2])[0]": 1,
    "len([1] + [2, 3])": 3,
    "abs(-3)": 3,
    "floor(7/2) + ceil(7/2) + round(7/4)": 9,
    "round_to(37, 8)": 40,
    "ceil(sqrt(17))": 5,
    "ceil(log2(9))": 4,
    "len(str(12345))": 5,
    "len(list(0..3))": 3,
    "7 if any([false, true]) and all([true, true]) else 9": 7,
    "image.channels": 4,
    "image.height * image.width": 36,
    "sum(image.shape)": 16,
    "image.rank": 3,
    "size + 1": 3,
}


@pytest.mark.parametrize("value", [value for value, wanted in VALUES.items() if wanted is not None])
def test_expression_evaluates_to_expected_value(value: str) -> None:
    assert channels(value.replace("'", '"')) == VALUES[value]


def test_thirds_are_exact() -> None:
    assert channels("sum([1/3, 1/3, 1/3]) * 5") == 5
    assert channels("7 if 0.1 + 0.2 == 0.3 else 9") in (7, 9)
    assert channels("(1/10 + 2/10) * 10") == 3


def test_constants_and_parameters_set_values() -> None:
    assert channels("WIDTH * size", before="const BASE = 3\nconst WIDTH = BASE + 1") == 8
    assert channels("WIDTH * size", before="const WIDTH = 3", size=5) == 15
    assert channels("8 if flag else 4", flag=True) == 8
    with pytest.raises(ArchError, match="A0"):
        channels("4", nothing=3)


def test_assignments_rebind() -> None:
    assert channels("a", "a = 1\na = a + 1\na = a * 5") == 10
    assert channels("a + b", "a, b = (3, 4)\na, b = (b, a + b)") == 11


def test_for_loop_carries_values_and_numbers_scopes() -> None:
    assert channels("total", "total = 0\nfor a, b in [(1, 2), (3, 4)] {\ntotal = total + a * b\n}") == 14
    graph = space("x = image\nfor i in 0..2 {\nfor j in 0..2 {\nx = x |> conv(4, kernel=1)\n}\n}\noutput y = x").graph
    assert len(set(scopes(graph))) == 4
    assert all("[1]" in scope or "[0]" in scope for scope in scopes(graph))


def test_repeat_runs_body_given_number_of_times() -> None:
    assert operations(space("x = image\nrepeat 3 as i {\nx = x |> relu\n}\noutput y = x").graph) == ["relu"] * 3
    assert channels("total", "total = 0\nrepeat 4 as i {\ntotal = total + i\n}") == 6
    assert operations(space("x = image\nrepeat 0 {\nx = x |> relu\n}\noutput y = x").graph) == []


def test_repeat_accepts_chosen_depth() -> None:
    found = space("x = image\nrepeat choose depth(1, 3) as i {\nx = x |> conv(4 + i, kernel=1)\n}\noutput y = x")
    shapes = {}
    for architecture in found.enumerate():
        graph = found.specialize(architecture)
        shapes[architecture["depth"]] = (operations(graph), infer(graph)[graph.outputs["y"]].shape)
    assert [*shapes.values()] == [(["conv"], (4, 6, 6)), (["conv"] * 3, (6, 6, 6))]


def test_if_and_match_are_decided_at_elaboration() -> None:
    body = (
        "x = image\nif {} {{\nx = x |> relu\n}} else if {} {{\nx = x |> gelu\n}} else {{\nx = x |> silu\n}}\n"
        "output y = x"
    )
    assert operations(space(body.format("size == 2", "true")).graph) == ["relu"]
    assert operations(space(body.format("size == 3", "true")).graph) == ["gelu"]
    assert operations(space(body.format("size == 3", "false")).graph) == ["silu"]
    match = "output y = match size {{ 1 => image, {} => image |> relu, else => image |> gelu }}"
    assert operations(space(match.format("2")).graph) == ["relu"]
    assert operations(space(match.format("3")).graph) == ["gelu"]
    assert operations(space('output y = image |> match "b" { "a" => relu, "b" => conv(4) |> silu }').graph) == [
        "conv",
        "silu",
    ]


def test_if_on_chosen_value_builds_both_branches() -> None:
    found = space("k = choose k(1, 3)\nx = image\nif k > 1 {\nx = x |> relu\n} else {\nx = x |> gelu\n}\noutput y = x")
    assert [operations(found.specialize(one)) for one in found.enumerate()] == [["gelu"], ["relu"]]


def test_pipes_over_lines_feed_the_first_argument() -> None:
    graph = space("output y = image\n |> conv(8,\n  kernel = 1)\n |> relu").graph
    assert operations(graph) == ["conv", "relu"]
    graph = space("output y = image |> f(2)", "block f(x, n) {\nreturn x |> conv(n)\n}").graph
    assert infer(graph)[graph.outputs["y"]].shape[0] == 2


def test_tensor_operators_give_expected_shapes() -> None:
    def result(value: str) -> tuple[list[str], tuple[int, ...]]:
        graph = space(f"output y = {value}").graph
        return operations(graph), tuple(infer(graph)[graph.outputs["y"]].shape)

    assert result("image + image") == (["add"], (4, 6, 6))
    assert result("image * (image |> global_avg_pool(keep=true))")[1] == (4, 6, 6)
    assert result("image[0:3]")[1] == (3, 6, 6)
    assert result("image[1:]")[1] == (3, 6, 6)
    assert result("sum([image, image, image])")[1] == (4, 6, 6)
    assert result("concat([image, image])")[1] == (8, 6, 6)
    assert result("2 * image - 1")[1] == (4, 6, 6)


def test_blocks_take_blocks_and_operations() -> None:
    before = (
        "block twice(x, f, act = relu) {\nreturn x |> f |> act |> f\n}\n"
        "block narrow(x, n = 3) {\nreturn x |> conv(n, kernel=1)\n}\n"
    )
    graph = space("output y = image |> twice(narrow)", before).graph
    assert operations(graph) == ["conv", "relu", "conv"]
    assert infer(graph)[graph.outputs["y"]].shape == (3, 6, 6)
    assert operations(space("output y = image |> twice(gelu, act=silu)", before).graph) == ["gelu", "silu", "gelu"]


def test_each_call_of_a_block_has_its_own_weights_and_choices() -> None:
    before = "block f(x) {\nreturn x |> conv(4, kernel=choose k(1, 3))\n}\n"
    found = space("a = image |> f\nb = a |> f\noutput y = b", before)
    assert found.size == 4
    assert len(set(scopes(found.graph))) == 2
    assert len(found.graph.decisions) == 2


def test_a_cell_chooses_once_with_weights_per_call() -> None:
    before = "cell f(x) {\nreturn x |> conv(4, kernel=choose k(1, 3))\n}\n"
    found = space("output y = image |> f |> f |> f", before)
    assert found.size == 2
    assert [*found.graph.decisions] == ["f.k"]
    assert len(set(scopes(found.graph))) == 3
    for architecture in found.enumerate():
        kernels = {found.specialize(architecture)[n].op.kernel for n in found.specialize(architecture) if n > 0}
        assert len(kernels) == 1


def test_nested_cells_share_choices_and_blocks_in_cells_do_not() -> None:
    before = (
        "cell inner(x) {\nreturn x |> choose a { r: relu, g: gelu }\n}\n"
        "block part(x) {\nreturn x |> choose b { r: relu, g: gelu }\n}\n"
        "cell outer(x) {\nreturn x |> inner |> part |> part |> inner\n}\n"
    )
    found = space("output y = image |> outer |> inner |> outer", before)
    inner = [path for path in found.graph.decisions if path.endswith(".a")]
    assert len(inner) == 1
    assert len([path for path in found.graph.decisions if path.endswith(".b")]) == 2
    assert found.size == 8


def test_cell_passed_to_block_chooses_once() -> None:
    before = (
        "cell gate(x) {\nreturn x |> choose g { r: relu, g: gelu }\n}\n"
        "block backbone(x, attention) {\nreturn x |> attention |> conv(4) |> attention\n}\n"
    )
    assert space("output y = image |> backbone(gate)", before).size == 2


def test_net_may_have_several_inputs_and_outputs() -> None:
    text = (
        "net two(n = 3) {\ninput image: f32[4, 6, 6]\ninput extra: f32[n, 6, 6]\n"
        "x = concat([image, extra])\noutput features = x |> relu\noutput logits = x |> global_avg_pool |> linear(5)\n}"
    )
    graph = archir.loads(text, n=2).graph
    types = infer(graph)
    assert {name: types[number].shape for name, number in graph.inputs.items()} == {
        "image": (4, 6, 6),
        "extra": (2, 6, 6),
    }
    assert {name: types[number].shape for name, number in graph.outputs.items()} == {
        "features": (6, 6, 6),
        "logits": (5,),
    }


def test_net_of_multi_net_file_is_selected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "nets.arch"
    one = "net {} {{\ninput image: f32[4, 6, 6]\noutput y = image |> {}\n}}\n"
    path.write_text(one.format("first", "relu") + one.format("second", "gelu"))
    assert operations(archir.load(f"{path}:second").graph) == ["gelu"]
    assert operations(archir.load(f"{path}:first").graph) == ["relu"]
    with pytest.raises(ArchError, match="first"):
        archir.load(path)


def test_imports_resolve_relative_to_importing_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "blocks.arch").write_text(
        'import "deep.arch" as deep\nconst WIDTH = 6\nblock f(x) {\nreturn x |> conv(WIDTH) |> deep.f\n}\n'
    )
    (tmp_path / "parts" / "deep.arch").write_text("block f(x) {\nreturn x |> gelu\n}\n")
    main = tmp_path / "main.arch"
    net = "net n {\ninput image: f32[4, 6, 6]\noutput y = image |> %s\n}\n"
    main.write_text('import "parts/blocks.arch"\n' + net % "f |> conv(WIDTH)")
    assert operations(archir.load(main).graph) == ["conv", "gelu", "conv"]
    main.write_text('import "parts/blocks.arch" as blocks\n' + net % "blocks.f |> conv(blocks.WIDTH)")
    assert operations(archir.load(main).graph) == ["conv", "gelu", "conv"]


def test_undecodable_file_does_not_suppress_import_hint(tmp_path: Path) -> None:
    (tmp_path / "bad.arch").write_bytes(b"\xff")
    (tmp_path / "parts.arch").write_text("block mine(x) {\nreturn x |> gelu\n}\n")
    (tmp_path / "main.arch").write_text("net n {\ninput image: f32[4, 6, 6]\noutput y = image |> mine\n}\n")
    with pytest.raises(ArchError, match=r'import "parts\.arch"'):
        archir.load(tmp_path / "main.arch")


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need rights on other systems")
def test_import_rejects_symlink_outside_root(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.arch").write_text("block f(x) {\nreturn x |> gelu\n}\n")
    (inside / "link.arch").symlink_to(tmp_path / "secret.arch")
    (inside / "main.arch").write_text(
        'import "link.arch"\nnet n {\ninput image: f32[4, 6, 6]\noutput y = image |> f\n}\n'
    )
    with pytest.raises(ArchError, match="root"):
        archir.load(inside / "main.arch")
    assert operations(archir.load(inside / "main.arch", root=tmp_path).graph) == ["gelu"]


def test_choose_takes_value_block_and_subset_forms() -> None:
    value = space("output y = image |> conv(choose width(2, 4, 8))")
    assert (value.size, [*value.graph.decisions]) == (3, ["width"])
    expression = space("op = image |> choose { a: relu, b: conv(4) |> gelu, c: identity }\noutput y = op")
    assert (expression.size, [*expression.graph.decisions]) == (3, ["op"])
    subset = space("xs = choose 2 of [image, image |> relu, image |> gelu]\noutput y = concat(xs)")
    assert (subset.size, [*subset.graph.decisions]) == (3, ["xs"])


def test_a_subset_keeps_the_order_of_the_list() -> None:
    found = space("ws = choose ws 2 of [2, 3, 4]\noutput y = image |> conv(ws[0], kernel=1) |> conv(ws[1], kernel=1)")
    widths = set()
    for architecture in found.enumerate():
        graph = found.specialize(architecture)
        widths.add(tuple(infer(graph)[n].shape[0] for n in graph if not isinstance(graph[n].op, Input)))
    assert widths == {(2, 3), (2, 4), (3, 4)}


def test_tags_are_kept() -> None:
    found = space("x = image |> choose op @operator @first { a: relu, b: gelu }\noutput y = x")
    assert set(found.graph.decisions["op"].choice.tags) == {"operator", "first"}


def test_a_shape_may_depend_on_choices() -> None:
    found = space("w = choose w(2, 4)\na = image |> conv(w)\nb = image |> conv(w * 2) |> conv(w)\noutput y = a + b")
    assert {infer(g)[g.outputs["y"]].shape[0] for g in map(found.specialize, found.enumerate())} == {2, 4}


def test_own_gives_each_alternative_separate_weights() -> None:
    def names(own: str) -> list[set[str]]:
        found = space(f"k = choose k(1, 3)\noutput y = {own} conv(image, 4, k)")
        return [set(scopes(found.specialize(one))) for one in found.enumerate()]

    shared, apart = names(""), names("own")
    assert shared[0] == shared[1]
    assert not apart[0] & apart[1]


def test_own_block_has_separate_weights_per_alternative() -> None:
    before = "own block f(x, k) {\nreturn x |> conv(4, k)\n}\n"
    found = space("k = choose k(1, 3)\noutput y = image |> f(k)", before)
    one, two = (set(scopes(found.specialize(each))) for each in found.enumerate())
    assert not one & two


def test_own_copies_depend_only_on_choices_of_that_call() -> None:
    """What is piped from one call into the next depends on choices, too; that keeps no further weights apart."""

    def layers(depth: int) -> Graph:
        body = f"x = image\nrepeat {depth} as i {{\na = choose a(1, 3)\nb = choose b(1, 2)\nx = x |> own f(a, b)\n}}"
        return space(f"{body}\noutput y = x", "block f(x, k, d) {\nreturn x |> conv(4, k, dilation=d)\n}\n").graph

    sizes = [sum(graph[n].op.name == "conv" for n in graph) for graph in map(layers, (1, 2, 6))]
    assert sizes == [4, 8, 24]
