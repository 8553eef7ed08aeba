"""Attention cores: from queries, keys and values to the attended values. Projections are ordinary `linear`s and
`conv`s, put around them in `archir/language/std/attention.arch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from archir.diagnostics.errors import require
from archir.ir.op import Free, Op, Role, Tie, Tied, Weight
from archir.ir.types import TensorType, is_map, is_tokens

APART = 5
"""Kernels of an attention that is not one kernel: two scales, two matrix products, a softmax."""
WINDOWS = (
    "three axes are a map [C, H, W]; for windows of tokens [windows, N, D], "
    'transpose to [D, windows, N] and say `along="width"`'
)
AXES = {3: ("height", "width"), 4: ("depth", "height", "width")}
"""Names of the axes of maps and volumes besides that of the features."""


def _heads_split(heads: int, *xs: TensorType, hint: str | None = None, name: str = "heads") -> None:
    require(heads >= 1, f"`{name}` must be at least 1, got {heads}")
    for x in xs:
        require(x.channels % heads == 0, f"{x.channels} channels do not split into {heads} {name}", hint)


def _looks_like_windows(x: TensorType, heads: int) -> bool:
    """Whether three axes may be meant as [windows, N, D]: heads split the last one, and this is no square map."""
    return x.rank == 3 and x.shape[1] != x.shape[2] and heads >= 1 and x.shape[2] % heads == 0


class _Attention(Op, abstract=True):
    """Softmax attention. Queries have the channels of keys, the result those of values, head by head."""

    operands: ClassVar[tuple[str, ...]] = ("query", "key", "value")
    heads: int

    def roles(self, *operands: TensorType) -> dict[str, tuple[Role, ...]]:
        """Of tables of offsets: a head has its first channels; the offset 0 is in the middle."""
        return dict.fromkeys(self.weights(*operands), ("leading", "centred"))

    def ties(self, *operands: TensorType) -> tuple[Tie, ...]:
        """As the class says."""
        return Tied((0, 1), self.heads), Tied((2, None), self.heads)


@dataclass(frozen=True)
class Attention(_Attention):
    """Softmax attention of all positions to all (Vaswani et al. 2017, eq. 1), on tokens f32[N, D] or maps f32[C, H, W].

    Three axes are always a map. With `along`, positions of a map or a volume f32[C, D, H, W] attend to those that
    differ from them along that axis alone: "depth", "height" or "width". So tokens may have further axes: those of a
    film f32[C, frames, N] attend to their frame with along="width", and over time with along="height". What is a
    `linear` of tokens is a `conv(channels, kernel=1)` of these.

    Channels are head-major. `scale` multiplies the logits; the default is 1 / sqrt(query channels per head), and
    scale=1 gives the embedded Gaussian of non-local networks (Wang et al. 2018, eq. 4).

    A `mask` [N, M], or [heads, N, M], of queries by keys, or with a 1 for either: numbers are added to the logits; of
    truth values, keys that are false are left out; where all are, all count alike. With `causal`, a position attends to
    none after it; with a `window`, to those less than that far away. With `kv_heads`, keys and values have so many
    heads, each for as many heads of the queries that follow each other (Ainslie et al. 2023).
    """

    operands: ClassVar[tuple[str, ...]] = ("query", "key", "value", "mask")
    optional: ClassVar[int] = 1
    any_element: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("causal", "window", "kv_heads", "along")
    heads: int = 1
    scale: float | None = None
    causal: bool = False
    window: int | None = None
    kv_heads: int | None = None
    along: Literal["all", "depth", "height", "width"] = "all"

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def infer(
        self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None
    ) -> TensorType:
        """The positions of the queries, the channels of the values for each of their heads."""
        for x in (query, key, value):
            require(x.numeric, f"expected floating-point numbers, got {x}", code="A0408")
        self._placed(query)
        require(query.rank == key.rank == value.rank, f"ranks differ: {query}, {key} and {value}", code="A0402")
        hint = WINDOWS if _looks_like_windows(query, self.heads) else None
        _heads_split(self.heads, query, hint=hint)
        _heads_split(self.groups, key, value, hint=hint, name="heads" if self.kv_heads is None else "kv_heads")
        require(self.heads % self.groups == 0, f"{self.heads} heads are not a multiple of {self.groups} `kv_heads`")
        same = query.channels // self.heads == key.channels // self.groups
        require(same, f"queries {query} and keys {key} differ in channels" + " of a head" * (self.kv_heads is not None))
        if self.along != "all":
            others = f"queries {query} and keys {key} differ in other axes than the {self.along}"
            require(self._lines(query) == self._lines(key) and key.spatial == value.spatial, others)
        require(_positions(key) == _positions(value), f"keys {key} and values {value} differ in positions")
        if self.causal or self.window is not None:
            require(_positions(query) == _positions(key), f"queries {query} and keys {key} differ in positions")
        require(self.window is None or self.window >= 1, f"`window` must be at least 1, got {self.window}")
        if mask is not None:
            self._masked(mask, self.span(query), self.span(key))
        return query.with_spatial(self.heads * (value.channels // self.groups), *query.spatial)

    def _placed(self, query: TensorType) -> None:
        """Whether queries have the axes that positions are on."""
        if self.along == "all":
            hint = 'attention along one axis of a volume is along="width", for example' if query.rank == 4 else None
            require(query.rank in (2, 3), f"expected tokens [N, D] or a map [C, H, W], got {query}", hint, "A0402")
            return
        known = AXES.get(query.rank, ())
        wanted = "a volume [C, D, H, W]" if self.along == "depth" else "a map [C, H, W] or a volume [C, D, H, W]"
        require(self.along in known, f'expected {wanted} with along="{self.along}", got {query}', code="A0402")

    def axis(self, x: TensorType) -> int:
        """The axis that positions differ along, of one of several."""
        return 1 + AXES[x.rank].index(self.along)

    def span(self, x: TensorType) -> int:
        """Positions that attend to each other."""
        return _positions(x) if self.along == "all" else x.shape[self.axis(x)]

    def _lines(self, x: TensorType) -> tuple[int, ...]:
        """Sizes of the axes along which nothing attends."""
        return tuple([size for axis, size in enumerate(x.shape) if axis not in (0, self.axis(x))])

    def _masked(self, mask: TensorType, queries: int, keys: int) -> None:
        require(mask.numeric or mask.dtype == "bool", f"expected numbers or truth values, got {mask}", code="A0408")
        wanted = (self.heads, queries, keys)[-mask.rank :] if mask.rank in (2, 3) else ()
        fits = bool(wanted) and all(size in (1, whole) for size, whole in zip(mask.shape, wanted, strict=True))
        shapes = f"[{queries}, {keys}] or [{self.heads}, {queries}, {keys}]"
        require(fits, f"a mask is {shapes}, with 1 for any of these, not {mask}", code="A0402")

    def ties(self, *operands: TensorType) -> tuple[Tie, ...]:
        """As the class says; heads that others share have channels of their own."""
        if self.groups == self.heads:
            return super().ties(*operands)
        return Tied((0,), self.heads), Tied((1,), self.groups), Tied((2,), self.groups), Tied((None,), self.heads)

    def macs(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> int:
        """Both matrix products, of all queries and keys: those that are left out are computed, too."""
        return _positions(query) * self.span(key) * (query.channels + self.heads * (value.channels // self.groups))

    def kernels(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> int:
        """One, of tokens (or maps of one pixel, or along an axis) with as many query as value channels; else one for
        each product, one for the softmax and two that scale. What hides positions takes up to 9 more."""
        in_order = query.rank == 2 or self.along != "all" or _positions(query) == _positions(key) == 1
        apart = not (in_order and query.channels * self.groups == value.channels * self.heads)
        if mask is None and self.window is None:
            hiding = 6 if self.causal and apart else 0
        else:
            hiding = 1 if mask is None else 3 * (not mask.numeric)
            hiding += 6 if self.causal or self.window is not None else 0
            hiding += apart
        return hiding + (APART if apart else 1)


def _positions(x: TensorType) -> int:
    return x.elements // x.channels


@dataclass(frozen=True)
class LocalAttention(_Attention):
    """Softmax attention of each position of a map to the kernel x kernel window around it (Ramachandran et al. 2019).

    Zero padding takes part with key and value 0. With `relative`, logits are query . (key + r): the first half of the
    channels carries a learned row offset, the other a column offset, shared by all positions; the heads split the
    channels after that. With `shared`, each head's channels are halved like that, and all heads have the same offsets.
    The default `scale` of the logits is 1, as in the paper.
    """

    kernel: int
    heads: int = 1
    relative: bool = True
    scale: float = 1.0
    shared: bool = False
    unfolded: ClassVar[int] = 32_768
    """Numbers of a sample's keys, copied for every position of the window, up to which torch copies them."""

    def infer(self, query: TensorType, key: TensorType, value: TensorType) -> TensorType:
        """f32[value channels, H, W]."""
        for x in (query, key, value):
            is_map(x)
        require(self.kernel >= 1 and self.kernel % 2 == 1, f"`kernel` must be odd, got {self.kernel}")
        _heads_split(self.heads, query, value)
        require(query == key, f"queries {query} and keys {key} differ")
        require(query.shape[1:] == value.shape[1:], f"queries {query} and values {value} differ in size")
        return value

    def weights(self, query: TensorType, key: TensorType, value: TensorType) -> dict[str, Weight]:
        """`rows` [C // 2, kernel] and `columns` [C - C // 2, kernel] if relative, C the query channels, or those of
        one head if shared."""
        if not self.relative:
            return {}
        channels = query.channels // self.heads if self.shared else query.channels
        half = channels // 2
        shapes = {"rows": (half, self.kernel), "columns": (channels - half, self.kernel)}
        return {name: Weight(shape, "token") for name, shape in shapes.items()}

    def macs(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """Per position: query . key and weights . value over the whole window, and the query against the tables."""
        relative = query.channels * self.kernel if self.relative else 0
        return _positions(query) * (self.kernel**2 * (query.channels + value.channels) + relative)

    def kernels(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """7 on small maps, on others 4 and 4 for each position of the window; 9 more if relative, 1 more to scale."""
        small = query.elements * self.kernel**2 <= self.unfolded
        return (7 if small else 4 + 4 * self.kernel**2) + 9 * self.relative + (self.scale != 1)


@dataclass(frozen=True)
class AxialAttention(_Attention):
    """Softmax attention of each position of a map to all positions of its column (`axis="height"`) or its row
    (`axis="width"`) (Wang et al. 2020, Axial-DeepLab, section 3.2).

    Channels are head-major. With `relative`, logits are query . (key + r), r a learned embedding of the offset that all
    heads share. The default `scale` of the logits is 1.
    """

    axis: Literal["height", "width"]
    heads: int = 1
    relative: bool = True
    scale: float = 1.0

    def infer(self, query: TensorType, key: TensorType, value: TensorType) -> TensorType:
        """f32[value channels, H, W]."""
        for x in (query, key, value):
            is_map(x)
        require(self.axis in ("height", "width"), f'`axis` is "height" or "width", got "{self.axis}"')
        _heads_split(self.heads, query, value)
        require(query == key, f"queries {query} and keys {key} differ")
        require(query.shape[1:] == value.shape[1:], f"queries {query} and values {value} differ in size")
        return value

    def span(self, x: TensorType) -> int:
        """Positions along the axis."""
        return x.shape[1 if self.axis == "height" else 2]

    def weights(self, query: TensorType, key: TensorType, value: TensorType) -> dict[str, Weight]:
        """`offsets` [C / heads, 2 * span - 1] if relative, C the query channels."""
        if not self.relative:
            return {}
        return {"offsets": Weight((query.channels // self.heads, 2 * self.span(query) - 1), "token")}

    def macs(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """Per position, over the whole span: query . key, weights . value, and the query against the offsets."""
        relative = query.channels if self.relative else 0
        return _positions(query) * self.span(query) * (query.channels + value.channels + relative)

    def kernels(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """Two scales, two matrix products and a softmax; 8 more if relative."""
        return APART + 8 * self.relative


@dataclass(frozen=True)
class Rotary(Free):
    """Queries or keys f32[N, D] turned by their position n (Su et al. 2021, eq. 34, but in halves).

    In each head of width c, features i and i + c / 2 are a point in the plane, turned by the angle n / base^(2 i / c):
    a rotary position embedding. With a `width`, so many features of each head are turned, its first, and c is `width`.
    """

    linear: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("width",)
    heads: int = 1
    base: float = 10000.0
    width: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        is_tokens(x)
        _heads_split(self.heads, x)
        head = x.channels // self.heads
        require(self.turned(x) % 2 == 0, f"heads of odd width {self.turned(x)} have no halves")
        require(2 <= self.turned(x) <= head, f"`width` is {self.turned(x)}, and heads have {head} features")
        require(self.base > 0, f"`base` must be positive, got {self.base}")
        return x

    def turned(self, x: TensorType) -> int:
        """Features of each head that are turned."""
        return x.channels // self.heads if self.width is None else self.width

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """The same channels, in heads."""
        return (Tied((0, None), self.heads),)

    def kernels(self, x: TensorType) -> int:
        """6 for the angles, 2 for their cosines and sines, 6 that turn both halves and join them."""
        return 14
