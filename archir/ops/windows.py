"""Windows that slide along the axes of a tensor: how large, how far apart, and the zeros around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from archir.diagnostics.errors import require

Sizes = int | tuple[int, ...]
"""One number for all axes, or one for each."""
Padding = int | str | tuple[int, ...]

MOST_KNOWN = 1_024
"""Windows that are remembered: networks have few that differ."""
AXES = ("depth", "height", "width")
"""What the last axes of a tensor are called."""


class Window(NamedTuple):
    """A window along one axis, and the zeros before and after it."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """From its first position to its last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def even(self) -> bool:
        """Whether there are as many zeros before as after."""
        return self.before == self.after

    def outputs(self, size: int, what: str) -> int:
        """How many there are along an axis of so many positions."""
        least = min(self.kernel, self.stride, self.dilation)
        require(least >= 1, "kernel, stride and dilation must be at least 1")
        result = (size + self.before + self.after - self.span) // self.stride + 1
        require(result >= 1, f"a window of {self.kernel} does not fit into a {what} of {size}")
        return result


Windows = tuple[Window, ...]
"""One for each axis, in their order."""


@lru_cache(MOST_KNOWN)
def windows(axes: int, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes = 1) -> Windows:
    """The windows along so many axes. `"same"` gives ceil(size / stride) outputs; with an even span the extra zero goes
    after."""
    named = {"kernel": kernel, "stride": stride, "dilation": dilation}
    kernels, strides, dilations = (each(value, axes, name) for name, value in named.items())
    if padding == "same":
        extents = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
        zeros = [(extent // 2, extent - extent // 2) for extent in extents]
    else:
        zeros = list(_zeros(padding, axes))
    parts = zip(kernels, strides, dilations, zeros, strict=True)
    return tuple(Window(k, s, d, before, after) for k, s, d, (before, after) in parts)


def each(value: Sizes, axes: int, name: str) -> tuple[int, ...]:
    """The numbers of all axes."""
    if isinstance(value, int):
        return (value,) * axes
    require(len(value) == axes, f"`{name}` is one number, or one for each of {axes} axes: {list(value)}")
    return value


def _zeros(padding: Padding, axes: int) -> Iterator[tuple[int, int]]:
    require(padding == "valid" or not isinstance(padding, str), '`padding` is "same", "valid" or numbers of zeros')
    numbers = 0 if isinstance(padding, str) else padding
    if isinstance(numbers, int):
        numbers = (numbers,) * axes
    require(
        len(numbers) in (axes, 2 * axes),
        f"`padding` is one number, one for each of {axes} axes, or two: {list(numbers)}",
    )
    require(min(numbers) >= 0, "`padding` must not be negative")
    for axis in range(axes):
        last = 2 * (axes - 1 - axis)
        before, after = (numbers[axis],) * 2 if len(numbers) == axes else numbers[last : last + 2]
        yield before, after


def pads_of(found: Windows) -> tuple[int, ...]:
    """Zeros before and after, the last axis first: at the left, right, top and bottom of a map."""
    return tuple(zeros for one in reversed(found) for zeros in (one.before, one.after))


def slid(found: Windows, sizes: Sequence[int]) -> tuple[int, ...]:
    """How many outputs there are along axes of these sizes."""
    names = ("sequence",) if len(sizes) == 1 else AXES[-len(sizes) :]
    return tuple(one.outputs(size, name) for one, size, name in zip(found, sizes, names, strict=True))


def alike(value: Sizes) -> Sizes:
    """One number, where all axes have the same."""
    return value[0] if isinstance(value, tuple) and len({*value}) == 1 else value
