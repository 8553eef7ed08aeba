"""Spaces against brute force: sizes, uniform draws, mutation, encoding; on small programs with every kind of choice."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Choice, value_at
from archir.language.elaboration import calls
from archir.spaces.architecture import Architecture, read_architecture
from archir.spaces.space import Space
from archir.utils.counts import round_count
from tests.conftest import EXAMPLES, ROOT


def net(body: str, before: str = "") -> Space:
    return archir.loads(f"{before}\nnet small {{\n input image: f32[4, 6, 6]\n{body}\n}}\n")


PROGRAMS = {
    "independent": net("k = choose k(1, 3, 5)\nw = choose w(4, 8)\noutput y = image |> conv(w, k)"),
    "conditional": net(
        "x = image |> choose op {\n conv: conv(4, kernel=choose kernel(1, 3, 5))\n"
        " act: choose act { a: relu, b: gelu }\n"
        " skip: identity\n}\noutput y = x"
    ),
    "nested": net(
        "x = image |> choose a { one: choose b { two: conv(4, kernel=choose c(1, 3)), three: relu }, four: identity }\n"
        "output y = x"
    ),
    "depth": net(
        "depth = choose depth(1, 2, 3)\nx = image\nrepeat depth { x = x |> choose op { a: relu, b: gelu, c: silu } }\n"
        "output y = x"
    ),
    "subset": net("xs = choose picks 2 of [image, image |> relu, image |> gelu, image |> silu]\noutput y = sum(xs)"),
    "subset with inner choices": net(
        "xs = choose picks 2 of [image |> choose e { a: relu, b: gelu } for i in 0..3]\noutput y = sum(xs)"
    ),
    "subset with where": net(
        "ks = choose ks 2 of [choose w(1, 2, 3) for i in 0..3] where sum(ks) >= 4\noutput y = image |> conv(sum(ks))"
    ),
    "tied": net(
        "x = image |> pair |> pair\noutput y = x",
        "cell pair(x) {\n return x |> choose p { a: relu, b: gelu } |> choose q { c: relu, d: identity }\n}",
    ),
    "require": net(
        "a = choose a(1, 2, 3)\nb = choose b(1, 2, 3)\nrequire a + b <= 4\nrequire a != 2\n"
        "output y = image |> conv(a) |> conv(b)"
    ),
    "require on conditionals": net(
        "d = choose d(1, 2)\nx = image\nks = [choose k(1, 3) if i < d else 0 for i in 0..2]\nrequire sum(ks) >= 2\n"
        "output y = image |> conv(sum(ks))"
    ),
    "control flow": net(
        'op = choose op("conv", "pool", "none")\nx = match op {\n "conv" => image |> conv(4, choose k(1, 3))\n'
        ' "pool" => image |> max_pool(3)\n else => image\n}\n'
        'if op == "conv" {\n x = x |> choose act { a: relu, b: gelu }\n}\noutput y = x'
    ),
    "cost": net(
        "a = choose a(1, 2, 3, 4)\nb = choose b(1, 2, 3)\nrequire params <= 150\noutput y = image |> conv(a) |> conv(b)"
    ),
    "cells under conditions": net(
        "k = choose k(1, 2, 3)\nx = image\nif k > 1 {\n x = x |> step\n}\nif k > 2 {\n x = x |> step\n}\noutput y = x",
        "cell step(x) {\n return x |> choose s { a: relu, b: gelu, c: silu }\n}",
    ),
}


def brute(space: Space, words: tuple[str, ...]) -> set[tuple[tuple[str, int], ...]]:
    """Every assignment of the active choices that satisfies the constraints, from all combinations of outcomes."""
    found = set()
    decisions = list(space.graph.decisions.values())
    for outcomes in product(*(range(d.choice.outcome_count) for d in decisions)):
        full = {d.choice.path: o for d, o in zip(decisions, outcomes, strict=True)}
        active: dict[str, int] = {}
        for decision in space.order:
            if value_at(decision.active, active) is True:
                active[decision.choice.path] = full[decision.choice.path]
        if all(value_at(c.condition, active) for c in space.graph.constraints if c.keyword in words and c.cost is None):
            found.add(tuple(sorted(active.items())))
    return found


def key(architecture: Architecture) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(architecture.outcomes.items()))


def wanted(space: Space) -> set[tuple[tuple[str, int], ...]]:
    whole = brute(space, ("where", "require"))
    if not space.has_cost_bounds:
        return whole
    return {one for one in whole if space.within(space.decode([dict(one).get(c.path, -1) for c in space.choices]))}


@pytest.fixture(params=PROGRAMS, ids=str)
def space(request: pytest.FixtureRequest) -> Space:
    return PROGRAMS[request.param]


def test_space_sizes_equal_brute_force(space: Space) -> None:
    assert space.size == len(brute(space, ("where",)))
    assert space.satisfying == len(brute(space, ("where", "require")))


def test_space_sizes_equal_known_values() -> None:
    sizes = {name: (space.size, space.satisfying) for name, space in PROGRAMS.items()}
    assert sizes["conditional"] == (6, 6)
    assert sizes["depth"] == (3 + 9 + 27,) * 2
    assert sizes["subset with inner choices"] == (12, 12)
    assert sizes["tied"] == (4, 4)
    assert sizes["require"] == (9, 4)
    assert sizes["cells under conditions"] == (1 + 3 + 3,) * 2


def test_enumeration_equals_brute_force(space: Space) -> None:
    found = [key(one) for one in space.enumerate()]
    assert len(found) == len(set(found))
    assert set(found) == wanted(space)
    assert len(list(space.enumerate(most=space.satisfying))) == len(found)
    with pytest.raises(ArchError, match="A1007"):
        list(space.enumerate(most=space.satisfying - 1))


def chi_square(
    counts: Counter[tuple[tuple[str, int], ...]], expected: dict[tuple[tuple[str, int], ...], float]
) -> float:
    assert set(counts) <= set(expected)
    return sum((counts[one] - n) ** 2 / n for one, n in expected.items())


def bound(degrees: int) -> float:
    """The 0.999 quantile of chi-square, by Wilson and Hilferty."""
    return degrees * (1 - 2 / (9 * degrees) + 3.09 * (2 / (9 * degrees)) ** 0.5) ** 3


def test_sampling_is_uniform(space: Space) -> None:
    n = 3000
    expected = dict.fromkeys(wanted(space), n / len(wanted(space)))
    rng = random.Random(5)
    one_by_one = Counter(key(space.sample(rng)) for _ in range(n))
    rows = space.sample_codes(n, np.random.default_rng(7))
    at_once = Counter(key(space.decode(row)) for row in rows)
    limit = bound(len(expected) - 1)
    assert chi_square(one_by_one, expected) < limit
    assert chi_square(at_once, expected) < limit


def test_choices_policy_samples_alternatives_uniformly() -> None:
    space, n = PROGRAMS["conditional"], 6000
    alternatives = {"op": 3, "op.conv.kernel": 3, "op.act.act": 2}
    expected = {}
    for one in wanted(space):
        probability = 1.0
        for path, _ in one:
            probability /= alternatives[path]
        expected[one] = n * probability
    rows = space.sample_codes(n, np.random.default_rng(1), policy="choices")
    assert chi_square(Counter(key(space.decode(row)) for row in rows), expected) < bound(len(expected) - 1)
    rng = random.Random(2)
    assert chi_square(Counter(key(space.sample(rng, "choices")) for _ in range(n)), expected) < bound(len(expected) - 1)


def test_mutants_are_valid_architectures(space: Space) -> None:
    allowed = wanted(space)
    rng = random.Random(3)
    architecture = space.sample(rng)
    seen = set()
    for _ in range(300):
        try:
            mutant = space.mutate(architecture, rng)
        except ArchError:
            assert not list(space.neighbors(architecture))
            return
        assert key(mutant) in allowed
        assert mutant != architecture
        seen.add(key(mutant))
        architecture = mutant
    assert len(seen) > 1


def test_mutation_changes_exactly_one_choice() -> None:
    space = PROGRAMS["independent"]
    architecture = space.sample(0)
    for seed in range(20):
        mutant = space.mutate(architecture, seed)
        assert sum(architecture[path] != mutant[path] for path in architecture) == 1


def test_neighbors_are_valid_and_distinct(space: Space) -> None:
    allowed = wanted(space)
    for one in list(space.enumerate())[:20]:
        found = [key(other) for other in space.neighbors(one)]
        assert len(found) == len(set(found))
        assert key(one) not in found
        assert set(found) <= allowed


def test_codes_labels_and_json_convert_back(space: Space) -> None:
    for architecture in list(space.enumerate())[:30]:
        row = space.encode(dict(architecture))
        assert tuple(row) == architecture.codes
        assert space.decode(row) == architecture
        written = read_architecture(architecture.to_json({"a": 1}))
        assert space.architecture(written.choices) == architecture


def test_samples_do_not_depend_on_hash_seed() -> None:
    """That of this process is drawn, unless the environment says it."""
    path = EXAMPLES / "full_attention" / "full_attention.arch"
    program = (
        "import archir, numpy as np\n"
        f"s = archir.load({str(path)!r})\n"
        "print(s.sample(11).codes, s.mutate(s.sample(1), 2).codes)\n"
        "print(s.sample_codes(2, np.random.default_rng(0)).tolist())"
    )
    paths = ":".join(str(ROOT / name) for name in ("", "backends", "grammar"))
    other = "0" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    space = archir.load(path)
    codes = [space.sample(11).codes, space.mutate(space.sample(1), 2).codes]
    assert found == f"{codes[0]} {codes[1]}\n{space.sample_codes(2, np.random.default_rng(0)).tolist()}\n"


def test_global_random_state_is_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    space = PROGRAMS["conditional"]
    space.mutate(space.sample(3), 4)
    space.sample_codes(5, np.random.default_rng(0))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_an_architecture_of_another_space_is_refused_naming_every_difference() -> None:
    space = PROGRAMS["conditional"]
    with pytest.raises(ArchError) as caught:
        space.architecture({"op": "conv", "op.conv.kernl": 3, "op.act.act": "a", "op.conv.kernel": 9})
    assert str(caught.value) == (
        "error[A1002]: `small` has no choice `op.conv.kernl`\n  hint: did you mean `op.conv.kernel`?\n"
        "error[A1003]: `op.conv.kernel` is 9, but must be one of 1, 3, 5\n"
        "error[A1004]: `op.act.act` is given, but the other choices leave it inactive"
    )
    with pytest.raises(ArchError, match=r"A1004.*`op.conv.kernel` is missing"):
        space.architecture({"op": "conv"})


def test_an_architecture_of_quite_another_space_is_one_error() -> None:
    space = PROGRAMS["conditional"]
    with pytest.raises(ArchError) as caught:
        space.architecture({f"layer[{i}].op": "conv" for i in range(19)} | {"op": "con"})
    assert str(caught.value) == (
        "error[A1002]: this is not an architecture of `small`: "
        "`small` has no choice `layer[0].op`, `layer[1].op`, `layer[2].op` and 16 more; "
        "invalid labels are given for `op`; `op.conv.kernel` must be given"
    )


def test_an_architecture_that_breaks_a_requirement_is_refused() -> None:
    with pytest.raises(ArchError, match=r"A1008.*breaks `require a != 2`"):
        PROGRAMS["require"].architecture({"a": 2, "b": 1})
    with pytest.raises(ArchError, match=r"A1008.*bound on its cost: `params <= 150`"):
        PROGRAMS["cost"].architecture({"a": 4, "b": 3})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"choices": []}', '{"archir": 2, "choices": {}}', "[" * 100_000])
def test_rejects_malformed_architecture_file(text: str) -> None:
    with pytest.raises(ArchError, match="A1001"):
        read_architecture(text)


def test_enumeration_checks_bounds_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    space = net("x = image\nfor i in 0..6 { x = x |> conv(choose w(2, 4)) }\noutput y = x").where("params <= 400")
    looked: list[int] = []
    keeping = Space.bounds_mask
    monkeypatch.setattr(Space, "bounds_mask", lambda self, codes: (looked.append(len(codes)), keeping(self, codes))[1])
    found = list(space.enumerate())
    assert 0 < len(found) < 64 == sum(looked)
    assert looked[0] == 1
    assert len(looked) <= 8
    assert found == [one for one in space.enumerate() if space.within(one)]


def test_enumeration_is_not_limited_by_recursion() -> None:
    space = net("for i in 0..1100 {\n k = choose k(1, 3)\n require k == 1\n}\noutput y = relu(image)")
    assert [set(one.values()) for one in space.enumerate()] == [{1}]


def test_displayed_counts_are_rounded_to_the_nearest_power() -> None:
    powers = {2**84: 25, 10**12: 12, 3 * 10**12: 12, 4 * 10**12: 13, 2**40_000: 12_041}
    assert {number: round_count(number) for number in powers} == {
        number: f"about 10^{power}" for number, power in powers.items()
    }


def test_enumeration_rejects_huge_space() -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    with pytest.raises(ArchError, match=r"A1007.*4,747,561,509,943"):
        next(space.enumerate())


def test_rejects_contradictory_requirements() -> None:
    space = net(
        "a = choose a(1, 2)\nb = choose b(1, 2)\nrequire a > b\nrequire b > a\noutput y = image |> conv(a) |> conv(b)"
    )
    with pytest.raises(ArchError, match="A0510"):
        space.sample(0)


def test_architecture_lists_its_choices_once_and_is_pickled_without_lookups() -> None:
    space = PROGRAMS["conditional"]
    listed = []

    class Choices(list[Choice]):
        def __iter__(self) -> Iterator[Choice]:
            listed.append(1)
            return super().__iter__()

    for codes in [one.codes for one in space.enumerate()]:
        architecture = Architecture(Choices(space.choices), codes)
        labels = {
            choice.path: choice.label(code) for choice, code in zip(space.choices, codes, strict=True) if code >= 0
        }
        listed.clear()
        assert dict(architecture) == labels
        assert len(architecture) == len(labels)
        assert listed == [1]
        inactive = next(choice.path for choice, code in zip(space.choices, codes, strict=True) if code < 0)
        with pytest.raises(KeyError, match=inactive):
            architecture[inactive]
        used = space.decode(codes)
        assert dict(used) == labels
        assert pickle.dumps(used) == pickle.dumps(space.decode(codes))


def test_architecture_json_is_plain() -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch", channels=32)
    data = json.loads(space.sample(0).to_json(space.graph.parameters))
    assert data["space"] == "full_attention"
    assert data["parameters"]["channels"] == 32
    assert data["parameters"]["ratio"] == "1/2"
    assert len(data["choices"]) == 15


@pytest.mark.parametrize("name", PROGRAMS)
def test_space_types_equal_types_of_its_networks(name: str) -> None:
    """What is inferred for the whole space, at an architecture, is what is inferred for that architecture alone."""
    from archir.ir.typing import infer

    space = PROGRAMS[name]
    whole = infer(space.graph)
    by_scope = {space.graph[n].scope: n for n in whole if space.graph[n].op.name != "select"}
    for architecture in list(space.enumerate())[:12]:
        graph = space.specialize(architecture)
        assert not any(graph[n].op.varying_attributes or graph[n].op.name == "select" for n in graph)
        alone = infer(graph)
        for number in graph:
            dims = whole[by_scope[graph[number].scope]].dims
            assert tuple(value_at(dim, architecture.outcomes) for dim in dims) == alone[number].dims


CELLS = """
cell pick(x, width, affine) {
    y = x |> choose op { wide: conv(width, kernel=choose kernel(1, 3)) |> batch_norm(affine), same: conv(width) }
    z = part(y)
    return [y, z]
}
block part(x) { return x |> relu |> conv(x.channels, kernel=1) }
net stacked {
    input image: f32[4, 8, 8]
    x = image
    for width in [4, 4, 8, 8, 8] {
        x, y = pick(x, width, width == 8)
        a, b = pick(x, width, true)
        x = a + b + y
    }
    output y = x
}
"""


CHOSEN = """
cell pick(x, y) {
    n = choose n(0, 1, 2)
    ways = [x, y]
    repeat n { ways = ways + [ways[len(ways) - 1] |> conv(4, choose k(1, 3))] }
    if n == 1 { return ways[2], x }
    return ways[len(ways) - 1] |> relu, ways[choose way(0, 1)]
}
net chosen {
    input image: f32[4, 8, 8]
    x, y = pick(image, image)
    for i in 0..3 { x, y = pick(x, y) }
    z = pick(x, x |> relu)
    out = x |> conv(4)
    x, y = pick(x, y)
    for i in 0..2 { x, y = pick(x, z[0]) }
    output sum = x + y + out
}
"""
"""Cells whose arguments depend on choices, among them their own."""


@pytest.mark.parametrize(("text", "often"), [(CELLS, 5), (CHOSEN, 4)], ids=["stacked", "chosen"])
def test_replayed_calls_equal_fresh_elaboration(text: str, often: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []

    def counting(*arguments: object) -> object:
        copies.append(arguments)
        return replay(*arguments)  # type: ignore[arg-type]

    replay = calls.replay
    monkeypatch.setattr(calls, "replay", counting)
    fast = archir.loads(text).graph
    assert len(copies) == often
    monkeypatch.setattr(calls, "call_key", lambda *_: None)
    slow = archir.loads(text).graph
    assert archir.print_graph(fast) == archir.print_graph(slow)


def test_several_requirements_on_one_choice_all_count() -> None:
    others = "\n".join(f"o{i} = choose o{i}(1, 2, 3)\nrequire o{i} <= c" for i in range(3))
    space = net(f"c = choose c(1, 2, 3)\n{others}\noutput y = image |> conv(c + o0 + o1 + o2)")
    assert space.satisfying == len(wanted(space)) == 1 + 8 + 27


def test_specialize_and_cost_accept_labels_or_explain() -> None:
    """Labels for an architecture, one architecture for many, a net without choices for its graph."""
    space = archir.loads("net n() {\n input x: f32[4]\n output y = x |> choose op { a: linear(3), b: linear(3) }\n}\n")
    one = space.sample(0)
    assert archir.print_graph(space.specialize(dict(one))) == archir.print_graph(space.specialize(one))
    assert space.cost(one)["params"].tolist() == space.cost([one])["params"].tolist() == [15]
    with pytest.raises(ArchError, match=r"A1003.*`op` is \"c\", but must be one of a, b"):
        space.specialize({"op": "c"})
    with pytest.raises(TypeError, match=r"takes an architecture, such as `space.sample\(0\)`, or its labels by path"):
        space.specialize("a.json")  # type: ignore[arg-type]
    with pytest.raises(ArchError, match=r"A0901.*a space has no single cost"):
        archir.cost(space)
    with pytest.raises(ArchError, match=r"A0901.*`op` must be chosen"):
        archir.compile(space)
    fixed = archir.loads("net n() {\n input x: f32[4]\n output y = x |> linear(3)\n}\n")
    assert archir.cost(fixed) == archir.cost(fixed.graph)
    assert archir.compile(fixed).state_dict().keys() == archir.compile(fixed.graph).state_dict().keys()
