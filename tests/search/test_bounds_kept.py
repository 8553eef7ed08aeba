"""Sampling under tight cost bounds, and from spaces whose sizes exceed floats."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import archir
from archir.costs.counting import joint_bounds as rooms
from archir.diagnostics.errors import ArchError
from archir.spaces import rows
from archir.spaces.space import Space

# bounds that are not ranges


def layers(require: str, count: int = 6) -> Space:
    return archir.loads(f"""
        net n() {{
            input x: f32[4, 6, 6]
            for i in 0..{count} {{ x = x |> choose op {{ wide: conv(8, kernel=1) |> conv(4, kernel=1), same: relu }} }}
            k = choose k(1, 3)
            {require}
            output y = x |> conv(4, kernel=k)
        }}
    """)


@pytest.mark.parametrize(
    ("require", "known"),
    [
        ("peak_bytes <= 1", "peak_bytes is from 1,152 to 1,728"),
        ("peak_bytes < 1152", "peak_bytes is from 1,152"),
        ("peak_bytes > 1728", "to 1,728"),
        ("peak_bytes >= 1729", "to 1,728"),
        ("peak_bytes == 5", "peak_bytes is from"),
        ("params <= (3 if k == 1 else 5)", "params is from 16 to"),
    ],
)
def test_unsatisfiable_bound_is_rejected_before_sampling(
    require: str, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = layers(f"require {require}")
    monkeypatch.setattr(Space, "_sample_unbounded", lambda *_: pytest.fail("architectures were sampled"))
    for draw in (lambda: space.sample(0), lambda: space.sample_codes(5, np.random.default_rng(0), "choices")):
        with pytest.raises(ArchError, match=f"A1603.*no architecture has .*\n(.*\n)*.*{known}"):
            draw()


def test_rejects_bound_excluding_constant_cost() -> None:
    space = archir.loads(
        "net n() { input x: f32[4, 6, 6]\nrequire peak_bytes != 1152\noutput y = x |> choose a { b: relu, c: gelu } }"
    )
    with pytest.raises(ArchError, match=r"A1603.*\n(.*\n)*.*peak_bytes is 1,152"):
        space.sample(0)


def test_limits_beyond_64_bits_bound_nothing_or_everything() -> None:
    huge = 10**23
    conditional = layers(f"require macs <= (5K if k == 1 else {huge})")
    assert conditional.sample(0) in set(conditional.enumerate())
    assert conditional.count()[0] == sum(
        one["k"] == 3 or conditional.cost(one)["macs"][0] <= 5_000 for one in layers("").enumerate()
    )
    assert layers("").where(f"macs >= {huge}").count() == (0, 0)
    assert layers("").where(f"macs >= {huge} and params < 5").count() == (0, 0)
    assert layers("").where(f"macs == -{huge}").count() == (0, 0)
    assert layers("").where(f"macs <= {huge} and macs > -{huge} and params != {huge}").count() == (128, 128)
    with pytest.raises(ArchError, match=f"A1603.*no architecture has macs > {huge}"):
        layers("").where(f"macs > {huge}").sample(0)


@pytest.mark.parametrize("n", [1, 3, 300])
def test_rejected_samples_are_counted_across_batches(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be seen beforehand: there is no peak of this many bytes."""
    space = layers("require peak_bytes == 1200")
    monkeypatch.setattr(rows, "MAX_REJECTIONS", 50_000)
    asked: list[int] = []
    keeping = Space.bounds_mask

    def counted(self: Space, codes: Any) -> Any:
        asked.append(len(codes))
        return keeping(self, codes)

    monkeypatch.setattr(Space, "bounds_mask", counted)
    with pytest.raises(ArchError, match=r"A1005.*[56]\d,\d{3} architectures in a row broke"):
        space.sample_codes(n, np.random.default_rng(0))
    assert 50_000 < sum(asked) < 60_000
    assert len(asked) < 30  # few calls: it is linear in the draws, and the draws are made together


def test_sampling_finds_rare_architectures() -> None:
    """One in 2^9 or so has no wide layer."""
    space = layers("require peak_bytes < 1700", count=8)
    rows = space.sample_codes(20, np.random.default_rng(0))
    assert (space.cost(rows, ["peak_bytes"])["peak_bytes"] < 1700).all()
    assert len(rows) == 20


def test_sampling_zero_codes_gives_empty_array() -> None:
    assert layers("require peak_bytes > 1200").sample_codes(0, np.random.default_rng(0)).shape == (0, 7)


# beyond floats


@pytest.fixture(scope="module")
def enormous() -> Space:
    """16^260 architectures, which is above 10^313; of each layer, 1, 9, 0 or 0 parameters."""
    return archir.loads("""
        net enormous() {
            input x: f32[1, 4, 4]
            for i in 0..260 {
                x = x |> choose op { point: conv(1, kernel=1), map: conv(1, kernel=3), none: identity, act: relu }
                x = x |> choose act { hard: relu, soft: gelu, both: silu, none: identity }
            }
            output y = x
        }
    """)


def test_quantiles_are_exact_beyond_float_range(enormous: Space) -> None:
    account, size = enormous.account, enormous.size
    with pytest.raises(OverflowError):
        float(size)
    fractions = [0.1, 0.5, 1.0]
    found = account.quantiles("params", fractions)
    for tenths, least in zip((1, 5, 10), found, strict=True):
        assert 10 * account.count("params", 0, least)[0] >= tenths * size
        assert least == 0 or 10 * account.count("params", 0, least - 1)[1] < tenths * size
    assert found[-1] == 2340


@pytest.mark.parametrize("where", ["params <= 2300", "params <= 2300 and macs <= 37000"])
def test_draws_beyond_floats_are_uniform(enormous: Space, where: str) -> None:
    """Bounds that leave almost everything leave all alternatives as likely."""
    rows = enormous.where(where).sample_codes(200, np.random.default_rng(0))
    counts = np.bincount(rows.ravel(), minlength=4)
    assert ((counts - 26_000) ** 2 / 26_000).sum() < 22  # chi-square of 3 degrees: 1 in 10,000 is above
    for layer in (0, 260, 519):
        assert np.bincount(rows[:, layer], minlength=4).min() > 25


def test_tightly_bounded_samples_beyond_float_range_are_uniform(enormous: Space) -> None:
    """Nothing but zeros and one layer more: the one with the parameters is anywhere."""
    rows = enormous.where("params <= 1").sample_codes(400, np.random.default_rng(0))
    rows = rows[:, ["op" in choice.path for choice in enormous.choices]]
    assert set((rows <= 1).sum(axis=1).tolist()) <= {0, 1}
    assert not (rows == 1).any()
    places = np.flatnonzero((rows == 0).any(axis=0))
    assert len(places) > 150


def test_light_weights_are_drawn_with_their_probability() -> None:
    """Beside weights so heavy that sums of floats do not notice them."""

    class Low:
        """All points are as low as they can be; what is asked for then is random."""

        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def random(self, n: int) -> Any:
            return np.zeros(n) if n > 1 else self.rng.random(n)

        def integers(self, most: int) -> int:
            return int(self.rng.integers(most))

    n = 4_000
    mantissas = np.repeat(np.array([[0.5], [0.5], [0.0], [0.75], [0.5]]), n, axis=1)
    exponents = np.repeat(np.array([[2000], [2000], [-(2**30)], [1950], [-5000]]), n, axis=1)
    found = np.bincount(rooms._sample_rows(mantissas, exponents, Low()), minlength=5)  # type: ignore[arg-type]
    share = 0.75 * 2.0 ** (rooms.RARE_BITS - 50)
    assert found[[1, 2, 4]].tolist() == [0, 0, 0]
    assert abs(found[3] - n * share) < 5 * (n * share) ** 0.5
    usual = np.bincount(rooms._sample_rows(mantissas, exponents, np.random.default_rng(1)), minlength=5)
    assert abs(usual[0] - n / 2) < 200
    assert usual[0] + usual[1] == n


def test_relative_bounds_refer_to_unbounded_maximum() -> None:
    """They are of what choices allow, whatever other bounds there are."""
    space = archir.loads("net n {\n input x: f32[4]\n output y = linear(x, choose width(10, 20, 40), bias=false)\n}\n")
    for text, kept in (("macs <= 0.5x", 2), ("macs < 0.5x", 1), ("params > 0.25x and macs <= 1x", 2)):
        assert space.where(text).count() == (kept, kept), text
    assert space.where("macs <= 80").where("macs <= 0.5x").count() == (2, 2)
    with pytest.raises(ArchError, match=r"A1603.*macs <= 16"):
        space.where("macs <= 0.1x").check_bounds()


@pytest.mark.parametrize(
    "text",
    [f"macs <= 1.{'9' * 5_000}K", f"macs <= {'9' * 5_000}x", f"macs <= 0.{'9' * 5_000}x", "a" * 200_000 + " < 3"],
)
def test_overlong_bounds_are_rejected_quickly(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(ArchError, match=r"A0102|A0106|A0201"):
        archir.loads("net n { input x: f32[4]\n output y = x |> linear(choose w(2, 4)) }").where(text)
    assert time.process_time() - begin < 5
