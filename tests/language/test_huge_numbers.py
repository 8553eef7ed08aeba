"""Programs with numbers of any size at any place give a graph or diagnostics, never a crash or a hang."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import work_budget
from tests.soak import with_soak

PROGRAM = """
net n(width = 8) {
    input x: f32[3, 8, 8]
    a = 7
    require macs <= 900000
    require a < 8
    k = choose k(1, 3)
    x = x |> conv(a, 3, stride=2, padding=1, dilation=1, groups=1) |> max_pool(2, stride=1)
    x = x |> dropout(0.5) |> leaky_relu(0.1) |> pad(2) if k == 1 else x |> conv(7)
    x = x[0:4]
    repeat 2 { x = x |> conv(4, kernel=k) }
    l = [1, 2, 3]
    b = l[1] * 2 - 4 // 2 + 7 % 3
    output y = x |> global_avg_pool |> linear(b + width)
}
"""
NUMBERS = ["0", "(-1)", "9" * 26, "9" * 400, "(-10 ** 400)", "(10 ** 1200)", "9" * 5000, "(1 / 10 ** 400)"]
PLACES = [found.span() for found in re.finditer(r"(?<![\w.])\d+(?![\w.])", PROGRAM)]


@pytest.mark.parametrize("number", with_soak(NUMBERS, ["9" * 400]), ids=lambda text: text[:12])
def test_numbers_of_any_size_elaborate_or_raise_diagnostics(number: str) -> None:
    for start, end in PLACES:
        with work_budget(200_000), suppress(ArchError):
            space = archir.loads(PROGRAM[:start] + number + PROGRAM[end:])
            assert space.size >= 1
            space.account.extremes("macs")
            archir.cost(space.specialize(space.sample(0)))
