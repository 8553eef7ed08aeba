"""Random small networks with all kinds of layers with weights, and with channels that are split, joined, grouped and
permuted."""

from __future__ import annotations

import random
from collections.abc import Callable

Step = tuple[list[str], str, int]
"""Lines of a program, the variable that holds the result, and its channels."""

WIDTHS = (4, 6, 8, 8, 12, 16, 16, 24)
BLOCKS = (
    "x |> {conv}(x.{channels}, groups=x.{channels}) |> batch_norm |> relu |> {mix}(width)",
    "x |> {mix}(width) |> relu |> {conv}(width, groups=width) |> {mix}(x.{channels})",
    "x + (x |> {mix}(2 * width) |> batch_norm |> relu |> {mix}(x.{channels}))",
    "concat(x, x |> {conv}(width) |> relu)",
    "x |> {mix}(width) |> own {mix}(width) |> relu",
    "x |> {mix}(x.{channels}) |> relu |> {conv}(x.{channels}, groups=2)",
    "gate(x |> {mix}(2 * width), width)",
    "concat(x[:2] |> {conv}(2), x[2:])",
)
SIMPLE = ("relu", "sigmoid", "silu", "prelu", "batch_norm", "instance_norm", "layer_norm", "rms_norm(true)")


class Networks:
    """Generates programs of one network each; with `series`, of tokens f32[6, 3] instead of maps f32[3, 8, 8]."""

    def __init__(self, seed: int, series: bool) -> None:
        self.rng, self.series = random.Random(seed), series
        self.names, self.blocks = 0, [""]
        self.words = {"conv": "conv", "mix": "conv1x1", "channels": "channels"}
        if series:
            self.words = {"conv": "conv1d", "mix": "linear", "channels": "features"}

    def program(self) -> str:
        """Return the text of a network."""
        shape, size = ("6, 3", self.rng.choice(WIDTHS)) if self.series else ("3, 8, 8", self.rng.choice(WIDTHS))
        lines, x, channels = [f"x0 = input_0 |> {self.layer(size)}"], "x0", size
        for _ in range(self.rng.randint(1, 4)):
            more, x, channels = self.step(x, channels, 0)
            lines += more
        last = self.rng.choice(["global_avg_pool |> linear(5)", "flatten |> linear(5)", self.layer(5)])
        body = "\n    ".join(lines)
        std = "import std.attention\nimport std.transformer\nimport std.recurrent\nimport std.experts\n"
        own = [
            "block conv1x1(x, width) {\n    return x |> conv(width, kernel=1)\n}",
            "block gate(x, width) {\n    return x[:width] * (x[width:] |> sigmoid)\n}",
        ]
        blocks = "\n".join([*own, *self.blocks])
        net = f"net n {{\n    input input_0: f32[{shape}]\n    {body}\n    output y = {x} |> {last}\n}}\n"
        return f"{std if self.series else ''}{blocks}\n{net}"

    def name(self, word: str) -> str:
        self.names += 1
        return f"{word}{self.names}"

    def layer(self, width: int | str, groups: int | str = 1) -> str:
        """Return a call with `width` output channels."""
        if groups == 1 and self.series and self.rng.random() < 0.5:
            return f"linear({width})"
        kernel = self.rng.choice([1, 3, 3, 5])
        return f"{self.words['conv']}({width}, kernel={kernel}{'' if groups == 1 else f', groups={groups}'})"

    def step(self, x: str, channels: int, depth: int) -> Step:
        """Return one or several statements that follow `x`."""
        kinds: list[Callable[[str, int, int], Step]] = [
            self.plain, self.plain, self.simple, self.depthwise, self.multiplied, self.grouped, self.cut, self.thirds,
            self.halves, self.halves, self.gated, self.scaled, self.moved, self.group_norm,
        ]  # fmt: skip
        if self.series:
            kinds += [self.attention, self.attention, self.grouped_queries, self.tokens]
        if depth < 2:
            kinds += [self.residual, self.residual, self.joined, self.joined, self.loop, self.block, self.block]
        return self.rng.choice(kinds)(x, channels, depth)

    def plain(self, x: str, _: int, __: int) -> Step:
        y, width = self.name("x"), self.rng.choice(WIDTHS)
        return [f"{y} = {x} |> {self.layer(width)}"], y, width

    def simple(self, x: str, channels: int, _: int) -> Step:
        y = self.name("x")
        return [f"{y} = {x} |> {self.rng.choice(SIMPLE)}"], y, channels

    def width_of(self, x: str, channels: int) -> int | str:
        """Return a width as a number, or as an expression of `x`."""
        return self.rng.choice([channels, f"{x}.{self.words['channels']}"])

    def depthwise(self, x: str, channels: int, _: int) -> Step:
        y, width = self.name("x"), self.width_of(x, channels)
        return [f"{y} = {x} |> {self.layer(width, width)}"], y, channels

    def multiplied(self, x: str, channels: int, _: int) -> Step:
        y, width = self.name("x"), self.width_of(x, channels)
        wide = 2 * channels if isinstance(width, int) else f"2 * {width}"
        return [f"{y} = {x} |> {self.layer(wide, width)}"], y, 2 * channels

    def grouped(self, x: str, channels: int, depth: int) -> Step:
        y, width = self.name("x"), f"{x}.{self.words['channels']}"
        if channels % 2:
            return self.simple(x, channels, depth)
        if self.rng.random() < 0.3:
            return [f"{y} = {x} |> {self.layer(width, f'{width} // 2')}"], y, channels
        groups = self.rng.choice([count for count in (2, 4) if channels % count == 0])
        wide = groups * self.rng.choice([1, 2, 4])
        return [f"{y} = {x} |> {self.layer(wide, groups)}"], y, wide

    def cut(self, x: str, channels: int, depth: int) -> Step:
        """Split into two parts of different width."""
        y, first = self.name("x"), self.rng.randint(1, channels - 1)
        parts = [
            self.rng.choice([f"{x}[:{first}] |> {self.layer(first)}", f"{x}[:{first}]"]),
            self.rng.choice([f"{x}[{first}:]", f"{x}[{first}:] |> {self.layer(4)}"]),
        ]
        return self.mixed(y, f"concat({', '.join(self.rng.sample(parts, 2))})")

    def mixed(self, y: str, joined: str) -> Step:
        width = self.rng.choice(WIDTHS)
        return [f"{y} = {joined} |> {self.layer(width)}"], y, width

    def thirds(self, x: str, channels: int, depth: int) -> Step:
        if channels % 4:
            return self.simple(x, channels, depth)
        y, part = self.name("x"), channels // 4
        middle = f"{x}[{part}:{2 * part}] |> {self.layer(4)}"
        return self.mixed(y, f"concat({middle}, {x}[:{part}], {x}[{2 * part}:])")

    def halves(self, x: str, channels: int, depth: int) -> Step:
        if channels % 2:
            return self.simple(x, channels, depth)
        y, half = self.name("x"), self.rng.choice([channels // 2, f"{x}.{self.words['channels']} / 2"])
        shuffle = "" if self.series else self.rng.choice(["", " |> channel_shuffle(2)"])
        return [f"{y} = concat({x}[:{half}], {x}[{half}:] |> {self.layer(channels // 2)}){shuffle}"], y, channels

    def gated(self, x: str, _: int, __: int) -> Step:
        y, width = self.name("x"), self.rng.choice(WIDTHS)
        form = self.rng.choice(["({a}) * ({b} |> sigmoid)", "({a}) + ({b})"])
        a, b = (f"{x} |> {self.layer(width)}" for _ in range(2))
        return [f"{y} = {form.format(a=a, b=b)}"], y, width

    def scaled(self, x: str, channels: int, _: int) -> Step:
        y = self.name("x")
        shape = f"[1, {channels}]" if self.series else f"[{channels}, 1, 1]"
        return [f"{y} = {x} {self.rng.choice('*+')} parameter({shape})"], y, channels

    def moved(self, x: str, channels: int, depth: int) -> Step:
        y, width = self.name("x"), self.rng.choice(WIDTHS)
        if self.series:
            inner = self.rng.choice(WIDTHS)
            return [f"{y} = {x} |> transpose |> linear({inner}) |> relu |> linear(6) |> transpose"], y, channels
        if channels % 4:
            return self.simple(x, channels, depth)
        half = self.rng.choice([channels // 2, f"{x}.channels / 2"])
        form = self.rng.choice(
            [
                f"channel_shuffle({self.rng.choice([2, 4])})",
                f"reshape([{half}, 16, 8]) |> max_pool([2, 1], [2, 1])",
                f"conv({4 * width}, kernel=1) |> pixel_shuffle(2) |> conv({channels}, kernel=3, stride=2)",
                f"pixel_unshuffle(2) |> conv({4 * width}, kernel=1) |> pixel_shuffle(2)",
                f"max_pool(2, 2) |> conv_transpose({width}, 2, 2)",
            ]
        )
        sizes = {"reshape": channels // 2, "pixel_unshuffle": width, "max_pool": width}
        return [f"{y} = {x} |> {form}"], y, sizes.get(form.split("(")[0], channels)

    def group_norm(self, x: str, channels: int, _: int) -> Step:
        y, groups = self.name("x"), self.rng.choice([count for count in (1, 2, 4) if channels % count == 0])
        norm = "layer_norm" if self.series else f"group_norm({groups})"
        return [f"{y} = {x} |> {norm}"], y, channels

    def residual(self, x: str, channels: int, depth: int) -> Step:
        lines, inner, _ = self.step(x, channels, depth + 1)
        y = self.name("x")
        return [*lines, f"{y} = {x} + ({inner} |> {self.layer(self.width_of(x, channels))})"], y, channels

    def joined(self, x: str, channels: int, depth: int) -> Step:
        first, a, width = self.step(x, channels, depth + 1)
        second, b, other = self.step(x, channels, depth + 1)
        y = self.name("x")
        return [*first, *second, f"{y} = concat({a}, {b})"], y, width + other

    def loop(self, x: str, channels: int, _: int) -> Step:
        y, inside = self.name("x"), self.rng.choice(WIDTHS)
        inner = self.rng.choice(
            [
                f"{y} + ({y} |> {self.layer(channels)} |> relu)",
                f"{y} |> {self.layer(channels)} |> batch_norm",
                f"{y} + ({y} |> {self.layer(inside)} |> relu |> {self.layer(self.width_of(y, channels))})",
            ]
        )
        return [f"{y} = {x}", f"for {self.name('i')} in 0..{self.rng.choice([2, 3])} {{ {y} = {inner} }}"], y, channels

    def block(self, x: str, _: int, __: int) -> Step:
        unit, y, width = self.name("unit"), self.name("x"), self.rng.choice(WIDTHS)
        form = self.rng.choice(BLOCKS).format(**self.words)
        self.blocks.append(f"block {unit}(x, width) {{\n    return {form}\n}}")
        calls = [f"{y} = {x} |> {unit}({self.rng.choice(WIDTHS)})"]
        calls += [f"{y} = {y} |> {unit}({self.rng.choice(WIDTHS)})"] * self.rng.randint(0, 1)
        return [*calls, f"{y} = {y} |> {self.layer(width)}"], y, width

    def attention(self, x: str, channels: int, depth: int) -> Step:
        if channels % 4:
            return self.simple(x, channels, depth)
        y = self.name("x")
        form = self.rng.choice(
            ["multi_head_attention(2)", "rotary_attention(2)", "feed_forward(2)", "convolution_heads(3, 2)"]
        )
        return [f"{y} = {x} + ({x} |> layer_norm |> {form})"], y, channels

    def grouped_queries(self, x: str, channels: int, _: int) -> Step:
        y, width = self.name("x"), self.rng.choice([8, 16])
        query, key = f"{x} |> linear({width})", f"{x} |> linear({width // 2})"
        lines = [f"{y} = attention({query}, {key}, {key}, 4, kv_heads=2) |> linear({self.width_of(x, channels)})"]
        return lines, y, channels

    def tokens(self, x: str, channels: int, _: int) -> Step:
        y = self.name("x")
        form = self.rng.choice(
            ["lstm({c})", "gru({c})", "mixture_of_experts(2, 1, 2)", "conv1d({c}, kernel=3, stride=1)"]
        )
        return [f"{y} = {x} |> {form.format(c=channels)}"], y, channels
