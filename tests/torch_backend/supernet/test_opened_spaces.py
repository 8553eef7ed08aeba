"""A space that was opened holds the network's weights and no others, and each architecture a part of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.diagnostics.errors import ArchError
from benchmarks.opening import compare
from tests.language.networks import Networks
from tests.soak import with_soak

CASES = {
    "depthwise, as wide as its input": (
        "block head(x) {\n return x |> conv(x.channels, groups=x.channels) |> conv(24, kernel=1)\n}\n",
        "x = image |> conv(16) |> batch_norm |> relu |> head",
    ),
    "depthwise, in the net": ("", "x = image |> conv(16)\nx = x |> conv(x.channels, groups=x.channels) |> conv(8)"),
    "groups that do not divide": ("", "x = image |> conv(4)\nx = x |> conv(x.channels, groups=x.channels // 2)"),
    "groups that become depthwise": (
        "block unit(x) {\n return x |> conv(x.channels, kernel=1) |> relu |> conv(x.channels, groups=2)\n}\n",
        "x = image |> conv(6) |> unit",
    ),
    "multiplier behind a concatenation": (
        "",
        "a = image |> conv(8)\nx = concat(a, image |> conv(8))\nx = x |> conv(2 * x.channels, groups=x.channels)",
    ),
    "unlike parts": (
        "block partial(x, k) {\n return concat(x[:k] |> conv(k), x[k:]) |> conv(32, kernel=1)\n}\n",
        "x = image |> conv(20) |> batch_norm |> partial(5)",
    ),
    "three parts": ("", "x = image |> conv(24)\nx = concat(x[6:12] |> conv(16), x[:6], x[12:]) |> conv(8)"),
    "halves of groups": (
        "",
        "x = image |> conv(24) |> conv(48, groups=24)\nx = concat(x[:24], x[24:] |> conv(24))",
    ),
    "joined in pairs": (
        "",
        "x = image |> conv(12)\nx = concat(image |> conv(4), concat(x[:6], x[6:] |> conv(6)) |> channel_shuffle(4))\n"
        "x = x |> reshape([x.channels / 2, 16, 8])",
    ),
    "joined from many widths": (
        "block inception(x) {\n return concat(x |> conv(16, kernel=1), x |> conv(8, kernel=1) |> conv(24), "
        "x |> conv(12, kernel=1) |> conv(12))\n}\n",
        "x = image |> conv(52)\nrepeat 7 {\nx = x |> inception\n}",
    ),
}
FEW = (0, 2, 5)


def assert_holds(text: str, path: Path, seed: int) -> None:
    path.write_text(text)
    network = archir.load(path).graph
    try:
        found = archir.open_network(path)
    except ArchError as error:
        if error.diagnostics[0].code == "A3212":  # nothing is opened
            return
        raise
    row = compare("network", network, found, 3, seed)
    assert row.holds, row


@pytest.mark.parametrize("seed", with_soak(range(2), [0]))
@pytest.mark.parametrize("name", CASES)
def test_opened_space_architectures_use_network_weights(name: str, seed: int, tmp_path: Path) -> None:
    blocks, body = CASES[name]
    net = f"{blocks}net n {{\ninput image: f32[3, 8, 8]\n{body}\noutput y = x |> conv(5, kernel=1)\n}}\n"
    assert_holds(net, tmp_path / "net.arch", seed)


@pytest.mark.parametrize("series", [False, True], ids=["maps", "series"])
@pytest.mark.parametrize("seed", with_soak(range(150), FEW))
def test_opened_random_network_architectures_use_its_weights(seed: int, series: bool, tmp_path: Path) -> None:
    assert_holds(Networks(seed, series).program(), tmp_path / "net.arch", seed)
