"""Values: the same for architectures that compute the same, whatever law makes them, and hardly ever for others."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

import archir
from archir.search.multi.proposals import Proposals
from archir.search.spaces.likeness.steps import function
from archir.search.spaces.space import Space
from tests.examples import NETS, elaborated
from tests.portions import portion
from tests.search.test_marks import SMALL, TRICKY, tricky

FORMS = {
    "pointwise before tokens": ("y |> silu |> to_tokens", "y |> to_tokens |> silu"),
    "pointwise before slices": ("(y |> gelu)[0:2]", "y[0:2] |> gelu"),
    "slices of slices": ("y[0:3][1:3]", "y[1:3]"),
    "slices side by side": ("concat(y[0:2], y[2:4])", "y"),
    "slices of sums": ("(y + z)[1:3]", "y[1:3] + z[1:3]"),
    "pointwise side by side": ("concat(y |> tanh, z |> tanh)", "concat(y, z) |> tanh"),
    "side by side": ("concat(concat(y, z), y)", "concat(y, concat(z, y))"),
    "sums": ("(y + z) + y", "(y |> scale(2.0)) + z"),
    "products": ("(y * z) * y", "y * (y * z)"),
    "factors": ("(y |> scale(0.5)) * z", "(y * z) |> scale(0.5)"),
    "halves": ("(y |> scale(0.25)) + (y |> scale(0.75))", "y"),
    "zeros": ("y + (z |> zero)", "y"),
    "zeros of zeros": ("y + (z |> zero |> avg_pool(3) |> relu)", "y"),
    "nothing": ("y |> dropout(0.0) |> identity |> avg_pool(1)", "y"),
    "again": ("y |> relu |> relu", "y |> relu"),
    "shuffles": ("y |> relu |> channel_shuffle(2)", "y |> channel_shuffle(2) |> relu"),
    "shapes": ("y |> flatten |> reshape([36, 4])", "y |> reshape([36, 4])"),
    "biases": ("y |> conv(4, bias=true) |> batch_norm", "y |> conv(4) |> batch_norm"),
    "constants": ("y |> shift(1.0) |> batch_norm", "y |> batch_norm"),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_law_keeps_values(name: str) -> None:
    """Both forms have one hash, and so they must have one value."""
    one, other = FORMS[name]
    space = archir.loads(f"""net forms(c = 4) {{
        input x: f32[4, 6, 6]
        y = x |> conv(c, 3)
        z = x |> conv(c, 3) |> batch_norm
        form = choose form(1, 2)
        output y = match form {{ 1 => {one}, 2 => {other} }}
    }}""")
    first, second = space.enumerate()
    assert space.canonical(first) == space.canonical(second)
    assert space.likeness.mark(first) == space.likeness.mark(second)
    assert space.likeness.value(first) == space.likeness.value(second)


def follow(space: Space, several: list[archir.Architecture]) -> int:
    """What is equal stays equal; how many values there are."""
    hashes, valued, settled = defaultdict(set), defaultdict(set), defaultdict(set)
    for one in several:
        name = space.canonical(one)
        hashes[name].add(space.likeness.value(one))
        valued[space.likeness.value(one)].add(name)
        settled[space.likeness.settled(one)].add(name)
    assert all(len(values) == 1 for values in hashes.values())
    assert all(len(names) == 1 for names in settled.values())
    return len(valued)


@pytest.mark.parametrize("name", TRICKY)
def test_values_follow_the_laws(name: str) -> None:
    space = tricky(TRICKY[name])
    several = list(space.enumerate())
    assert 1 < follow(space, several) <= len({space.canonical(one) for one in several})


@pytest.mark.parametrize("path", portion([one for one in NETS if "/" in one], SMALL))
def test_values_of_published_spaces(path: str) -> None:
    """Each with a neighbour, which is the same network where what was changed does not matter."""
    space = elaborated(path, **NETS[path])
    rng = random.Random(0)
    several = [space.sample(seed) for seed in range(6)]
    several += [space.mutate(one, rng) for one in several if space.size > 1]
    follow(space, several)


CELLS = """net cells(depth = 3) {
    input x: f32[4, 6, 6]
    x = x |> conv(8, 3)
    for stage in 0..2 {
        repeat depth { x = x |> searched }
        x = x |> conv(2 * x.channels, 3, stride=2) |> batch_norm
    }
    output y = x |> global_avg_pool |> linear(3)
}
block edge(x) { return x |> choose op { zero: zero, skip: identity, conv: conv(x.channels, 3), pool: max_pool(3) } }
cell searched(x) {
    y = x |> edge
    z = (x |> edge) + (y |> edge)
    return (x |> conv(x.channels, 1)) + z + (y |> edge)
}"""


def test_values_tell_apart_what_marks_do_not() -> None:
    """Cells with as many operations of each kind, in other places; what is left over has one hash."""
    space = archir.loads(CELLS)
    several = list(space.enumerate())
    hashes = {space.canonical(one) for one in several}
    values = follow(space, several)
    assert len({space.likeness.mark(one) for one in several}) < values / 2
    assert values > 0.9 * len(hashes)


def test_apart_nothing_is_told_by_marks_or_values() -> None:
    space = archir.apart(archir.loads(CELLS))
    several = list(space.enumerate())
    found = Proposals(space, 0).first(iter(several), len(several))
    assert [one.architecture for one in found] == several


def test_of_equal_cells_one_is_valued() -> None:
    """What values look at does not grow with the number of cells one after the other."""
    plain = CELLS.replace("(x |> conv(x.channels, 1)) + ", "")
    short, long = (archir.loads(plain.replace("depth = 3", f"depth = {depth}")) for depth in (2, 6))
    sizes = []
    for space in (short, long):
        assert space.likeness._values is not None
        sizes.append(len(space.likeness._values.of.__code__.co_code))
    assert sizes[0] == sizes[1]
    follow(long, list(long.enumerate())[::5])


def test_few_hashes_are_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in a space of cells hashes what has the value of another, and hardly anything else."""
    space = archir.loads(CELLS)
    hashed: list[archir.Architecture] = []
    usual = Space.canonical
    monkeypatch.setattr(Space, "canonical", lambda self, one: (hashed.append(one), usual(self, one))[1])
    several = list(space.enumerate())
    found = Proposals(space, 0).first(iter(several), len(several))
    monkeypatch.undo()
    assert len({one.codes for one in hashed}) < len(several) / 2
    assert [one.architecture for one in found] == list(space.unique(several))


@pytest.mark.parametrize(
    "line",
    [
        " return open",
        " return c.__class__",
        " return 'text'",
        " import os",
        " return c[0]; x = 1",
        " return `c`",
        " # c",
    ],
)
def test_functions_are_made_of_numbers(line: str) -> None:
    with pytest.raises(ValueError, match="made of numbers"):
        function([line], {})
    assert function([" return c[0] * 3 + n0[1]"], {"n0": [4, 5]})([2]) == 11


def test_names_of_programs_are_in_no_function() -> None:
    """Choices and nets may be called what the writer's own names are."""
    space = archir.loads("""net exec(c = 4) {
        input value: f32[4, 6, 6]
        a = value |> choose __import__ { rng: conv(c, 3), drawn: conv(c, 1), d: identity }
        output b = a |> choose n0 { exec: conv(choose powers(2, 4), 3) |> relu, zero: avg_pool(3) }
    }""")
    several = list(space.enumerate())
    follow(space, several)
    assert [space.near(one.codes, random.Random(0)) for one in several] == several
