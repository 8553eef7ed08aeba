"""Attention cores (softmax attention on given queries, keys and values) and rotary position embeddings.

The projections are ordinary `linear` and `conv` operations; `archir/language/std/attention.arch` adds them around the
cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, Free, Op, Role, Weight
from archir.ir.types import TensorType, is_map, is_tokens

UNFUSED_KERNELS = 5
"""Kernel launches of an attention that no fused kernel computes: two scales, two matrix products and a softmax."""
WINDOWS_HINT = (
    "a tensor with three axes is a map [C, H, W]; for windows of tokens [windows, N, D], "
    'transpose to [D, windows, N] and use `along="width"`'
)
"""Hint of errors about operands that are probably windows of tokens."""
SPATIAL_AXES = {3: ("height", "width"), 4: ("depth", "height", "width")}
"""Names of the axes after the feature axis, by the rank of the tensor: 3 for maps, 4 for volumes."""


def _check_heads(heads: int, *xs: TensorType, hint: str | None = None, name: str = "heads") -> None:
    """Raise RuleError unless the number of heads divides the number of channels of each tensor.

    In the message, the number of heads is called `name`.
    """
    require(heads >= 1, f"`{name}` must be at least 1, got {heads}")
    for x in xs:
        require(x.channels % heads == 0, f"{x.channels} channels do not split into {heads} {name}", hint)


def _looks_like_windows(x: TensorType, heads: int) -> bool:
    """Return whether the three axes of x are probably windows of tokens [windows, N, D], not a map [C, H, W].

    Windows are assumed if the last axis is divisible by the number of heads and the last two axes differ in size.
    """
    return x.rank == 3 and x.shape[1] != x.shape[2] and heads >= 1 and x.shape[2] % heads == 0


class _Attention(Op, abstract=True):
    """Base of softmax attention.

    In each head, queries and keys have the same channels, and values and the result have the same channels.
    """

    operands: ClassVar[tuple[str, ...]] = ("query", "key", "value")
    heads: int
    dropout: float

    @property
    def random(self) -> bool:
        """Whether weights of the attention are dropped in training."""
        return self.dropout > 0

    def _check_dropout(self) -> None:
        """Raise RuleError unless `dropout` is a probability below 1."""
        require(0 <= self.dropout < 1, f"`dropout` must be at least 0 and below 1, got {self.dropout}")

    def roles(self, *operands: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the axes of the tables of learned offsets.

        A smaller head uses the first channels of a table. A smaller table is the part of the larger table centred at
        offset 0.
        """
        return dict.fromkeys(self.weights(*operands), ("leading", "centred"))

    def ties(self, *operands: TensorType) -> tuple[ChannelMap, ...]:
        """Return channel maps by head.

        Queries and keys have the same channels, and values and the result have the same channels.
        """
        return AliasMap((0, 1), self.heads), AliasMap((2, None), self.heads)


@dataclass(frozen=True)
class Attention(_Attention):
    """Softmax attention of all positions to all (Vaswani et al. 2017, eq. 1).

    It takes tokens f32[N, D] or maps f32[C, H, W]. An operand with three axes is always a map. With `along`, each
    position of a map or of a volume f32[C, D, H, W] attends only to the positions on the same line along that axis:
    "depth", "height" or "width". This also serves tokens with additional axes: video tokens f32[C, frames, N] attend
    within their frame with along="width", and over time with along="height". Project such tokens with `conv(channels,
    kernel=1)` instead of `linear`.

    Channels are head-major. `scale` multiplies the logits; the default is 1 / sqrt(query channels per head), and
    scale=1 gives the embedded Gaussian of non-local networks (Wang et al. 2018, eq. 4).

    A `mask` has shape [N, M] or [heads, N, M] for N queries and M keys; any of these sizes may be 1. A floating-point
    mask is added to the logits. A boolean mask excludes the keys where it is false; if it is false for all keys of a
    query, all keys have equal weight. With `causal`, a position does not attend to later positions; with a `window`,
    only to positions less than `window` away. With `kv_heads`, keys and values have that many heads, each shared by
    equally many consecutive query heads (Ainslie et al. 2023).

    In training, each attention weight is set to 0 with probability `dropout`, and the others are multiplied by 1 / (1 -
    dropout). This holds for all attention operations.
    """

    operands: ClassVar[tuple[str, ...]] = ("query", "key", "value", "mask")
    optional: ClassVar[int] = 1
    any_element: ClassVar[bool] = True
    heads: int = 1
    scale: float | None = None
    causal: bool = False
    window: int | None = None
    kv_heads: int | None = None
    along: Literal["all", "depth", "height", "width"] = "all"
    dropout: float = 0.0

    @property
    def groups(self) -> int:
        """Number of heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def infer(
        self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None
    ) -> TensorType:
        """The positions of the queries, with the channels of one value head for each query head."""
        for x in (query, key, value):
            require(x.is_floating, f"expected floating-point numbers, got {x}", code="A0408")
        self._check_axes(query)
        require(query.rank == key.rank == value.rank, f"ranks differ: {query}, {key} and {value}", code="A0402")
        hint = WINDOWS_HINT if _looks_like_windows(query, self.heads) else None
        _check_heads(self.heads, query, hint=hint)
        _check_heads(self.groups, key, value, hint=hint, name="heads" if self.kv_heads is None else "kv_heads")
        require(self.heads % self.groups == 0, f"{self.heads} heads are not a multiple of {self.groups} `kv_heads`")
        same = query.channels // self.heads == key.channels // self.groups
        require(same, f"queries {query} and keys {key} differ in channels" + " of a head" * (self.kv_heads is not None))
        if self.along != "all":
            message = f"queries {query} and keys {key} differ in axes other than the {self.along}"
            require(self._other_sizes(query) == self._other_sizes(key) and key.spatial == value.spatial, message)
        require(_position_count(key) == _position_count(value), f"keys {key} and values {value} differ in positions")
        if self.causal or self.window is not None:
            require(
                _position_count(query) == _position_count(key), f"queries {query} and keys {key} differ in positions"
            )
        self._check_dropout()
        require(self.window is None or self.window >= 1, f"`window` must be at least 1, got {self.window}")
        if mask is not None:
            self._check_mask(mask, self.span(query), self.span(key))
        return query.with_spatial(self.heads * (value.channels // self.groups), *query.spatial)

    def _check_axes(self, query: TensorType) -> None:
        """Raise RuleError (A0402) unless the queries have the axes that the attention needs, such as the one in
        `along`."""
        if self.along == "all":
            hint = 'attention along one axis of a volume is along="width", for example' if query.rank == 4 else None
            require(query.rank in (2, 3), f"expected tokens [N, D] or a map [C, H, W], got {query}", hint, "A0402")
            return
        axes = SPATIAL_AXES.get(query.rank, ())
        expected = "a volume [C, D, H, W]" if self.along == "depth" else "a map [C, H, W] or a volume [C, D, H, W]"
        require(self.along in axes, f'expected {expected} with along="{self.along}", got {query}', code="A0402")

    def axis(self, x: TensorType) -> int:
        """Return the index of the axis of x that `along` names."""
        return 1 + SPATIAL_AXES[x.rank].index(self.along)

    def span(self, x: TensorType) -> int:
        """Return the number of positions that each position attends to, ignoring masks."""
        return _position_count(x) if self.along == "all" else x.shape[self.axis(x)]

    def _other_sizes(self, x: TensorType) -> tuple[int, ...]:
        """Return the sizes of the spatial axes except the one that `along` names."""
        return tuple([size for axis, size in enumerate(x.shape) if axis not in (0, self.axis(x))])

    def _check_mask(self, mask: TensorType, queries: int, keys: int) -> None:
        """Raise RuleError (A0408, A0402) unless the mask has shape [queries, keys] or [heads, queries, keys].

        Sizes may be 1.
        """
        require(mask.is_floating or mask.dtype == "bool", f"expected numbers or truth values, got {mask}", code="A0408")
        expected = (self.heads, queries, keys)[-mask.rank :] if mask.rank in (2, 3) else ()
        is_valid = bool(expected) and all(size in (1, full) for size, full in zip(mask.shape, expected, strict=True))
        shapes = f"[{queries}, {keys}] or [{self.heads}, {queries}, {keys}]"
        require(is_valid, f"a mask must be {shapes}, where any size may be 1, got {mask}", code="A0402")

    def ties(self, *operands: TensorType) -> tuple[ChannelMap, ...]:
        """Return channel maps by head.

        Queries and keys have the same channels, and values and the result have the same channels. With fewer `kv_heads`
        than `heads`, the four tensors are only split into heads, without sharing channels.
        """
        if self.groups == self.heads:
            return super().ties(*operands)
        return (
            AliasMap((0,), self.heads),
            AliasMap((1,), self.groups),
            AliasMap((2,), self.groups),
            AliasMap((None,), self.heads),
        )

    def macs(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> int:
        """Multiply-accumulates of both matrix products, for all pairs of a query and a key, including masked pairs."""
        return _position_count(query) * self.span(key) * (query.channels + self.heads * (value.channels // self.groups))

    def kernels(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> int:
        """1 kernel launch if fused, else 5: two matrix products, a softmax and two scales. Masking adds up to 9.

        An attention is fused if its queries have as many channels as its values, and if it works on tokens, on maps of
        one pixel or along an axis.
        """
        in_order = query.rank == 2 or self.along != "all" or _position_count(query) == _position_count(key) == 1
        unfused = not (in_order and query.channels * self.groups == value.channels * self.heads)
        if mask is None and self.window is None:
            masking = 6 if self.causal and unfused else 0
        else:
            masking = 1 if mask is None else 3 * (not mask.is_floating)
            masking += 6 if self.causal or self.window is not None else 0
            masking += unfused
        return masking + (UNFUSED_KERNELS if unfused else 1)


def _position_count(x: TensorType) -> int:
    """Return the number of positions of a tensor: its elements per channel."""
    return x.elements // x.channels


@dataclass(frozen=True)
class LocalAttention(_Attention):
    """Softmax attention of each position of a map to the window around it (Ramachandran et al. 2019).

    The window has kernel x kernel positions. Positions in the zero padding are attended to, with key and value 0. With
    `relative`, logits are query . (key + r), where r is a learned embedding of the offset from query to key, the same
    at all positions. The first half of the embedding's channels encodes the row offset, the second half the column
    offset; only then are the channels split into heads. With `shared`, the channels of each head are halved in this way
    instead, and all heads share the embeddings. `scale` multiplies the logits; the default is 1, as in the paper.
    """

    kernel: int
    heads: int = 1
    relative: bool = True
    scale: float = 1.0
    shared: bool = False
    dropout: float = 0.0
    MAX_UNFOLDED: ClassVar[int] = 32_768
    """Maximum number of key elements per sample, over all window positions, that torch copies (unfold)."""

    def infer(self, query: TensorType, key: TensorType, value: TensorType) -> TensorType:
        """Type f32[value channels, H, W]."""
        for x in (query, key, value):
            is_map(x)
        self._check_dropout()
        require(self.kernel >= 1 and self.kernel % 2 == 1, f"`kernel` must be odd, got {self.kernel}")
        _check_heads(self.heads, query, value)
        require(query == key, f"queries {query} and keys {key} differ")
        require(query.shape[1:] == value.shape[1:], f"queries {query} and values {value} differ in size")
        return value

    def weights(self, query: TensorType, key: TensorType, value: TensorType) -> dict[str, Weight]:
        """If `relative`, the embeddings `rows` [C // 2, kernel] and `columns` [C - C // 2, kernel].

        C is the number of query channels or, if `shared`, of query channels per head.
        """
        if not self.relative:
            return {}
        channels = query.channels // self.heads if self.shared else query.channels
        half = channels // 2
        shapes = {"rows": (half, self.kernel), "columns": (channels - half, self.kernel)}
        return {name: Weight(shape, "token") for name, shape in shapes.items()}

    def macs(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """Multiply-accumulates per position: logits and weighted values over the window, queries times embeddings."""
        relative = query.channels * self.kernel if self.relative else 0
        return _position_count(query) * (self.kernel**2 * (query.channels + value.channels) + relative)

    def kernels(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """7 kernel launches on small maps; on larger maps 4, plus 4 per window position.

        `relative` adds 9 launches, and `scale` adds 1.
        """
        small = query.elements * self.kernel**2 <= self.MAX_UNFOLDED
        return (7 if small else 4 + 4 * self.kernel**2) + 9 * self.relative + (self.scale != 1)


@dataclass(frozen=True)
class AxialAttention(_Attention):
    """Softmax attention of each position of a map to all positions of its column or row.

    `axis="height"` attends to the column, `axis="width"` to the row (Wang et al. 2020, Axial-DeepLab, section 3.2).
    Channels are head-major. With `relative`, logits are query . (key + r), where r is a learned embedding of the offset
    from query to key, shared by all heads. `scale` multiplies the logits; the default is 1.
    """

    axis: Literal["height", "width"]
    heads: int = 1
    relative: bool = True
    scale: float = 1.0
    dropout: float = 0.0

    def infer(self, query: TensorType, key: TensorType, value: TensorType) -> TensorType:
        """Type f32[value channels, H, W]."""
        for x in (query, key, value):
            is_map(x)
        self._check_dropout()
        require(self.axis in ("height", "width"), f'`axis` is "height" or "width", got "{self.axis}"')
        _check_heads(self.heads, query, value)
        require(query == key, f"queries {query} and keys {key} differ")
        require(query.shape[1:] == value.shape[1:], f"queries {query} and values {value} differ in size")
        return value

    def span(self, x: TensorType) -> int:
        """Return the number of positions along the axis."""
        return x.shape[1 if self.axis == "height" else 2]

    def weights(self, query: TensorType, key: TensorType, value: TensorType) -> dict[str, Weight]:
        """If `relative`, the embedding `offsets` [C / heads, 2 * span - 1], where C is the number of query channels."""
        if not self.relative:
            return {}
        return {"offsets": Weight((query.channels // self.heads, 2 * self.span(query) - 1), "token")}

    def macs(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """Multiply-accumulates per position: logits and weighted values over the span, queries times embeddings."""
        relative = query.channels if self.relative else 0
        return _position_count(query) * self.span(query) * (query.channels + value.channels + relative)

    def kernels(self, query: TensorType, key: TensorType, value: TensorType) -> int:
        """5 kernel launches: two scales, two matrix products and a softmax; 8 more if relative."""
        return UNFUSED_KERNELS + 8 * self.relative


@dataclass(frozen=True)
class Rotary(Free):
    """Rotary position embedding of queries or keys f32[N, D] at positions n (Su et al. 2021, eq. 34).

    In each head of width c, features i and i + c / 2 (in the paper, neighbours) are a point in the plane, which is
    rotated by the angle n / base^(2 i / c). With `width`, only the first `width` features of each head are rotated, and
    c is `width`.
    """

    linear: ClassVar[bool] = True
    heads: int = 1
    base: float = 10000.0
    width: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        is_tokens(x)
        _check_heads(self.heads, x)
        head = x.channels // self.heads
        require(self.rotated_features(x) % 2 == 0, f"heads of odd width {self.rotated_features(x)} cannot be halved")
        fits = 2 <= self.rotated_features(x) <= head
        require(fits, f"`width` must be between 2 and {head}, the features of a head, got {self.rotated_features(x)}")
        require(self.base > 0, f"`base` must be positive, got {self.base}")
        return x

    def rotated_features(self, x: TensorType) -> int:
        """Return the number of features of each head that are rotated."""
        return x.channels // self.heads if self.width is None else self.width

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel map by head: operand and result have the same channels."""
        return (AliasMap((0, None), self.heads),)

    def kernels(self, x: TensorType) -> int:
        """14 kernel launches: 6 for the angles, 2 for sines and cosines, 6 to rotate and concatenate both halves."""
        return 14
