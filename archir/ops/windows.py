"""Sliding windows of convolutions and pooling: kernel size, stride, dilation and zero padding along each axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from archir.diagnostics.errors import require

Sizes = int | tuple[int, ...]
"""One number for all axes, or one number per axis."""
Padding = int | str | tuple[int, ...]
"""Zero padding: "same", "valid", a number of zeros for all sides, one number per axis, or one number per side."""

MAX_CACHED_WINDOWS = 1_024
"""Maximum number of cached results of `windows`; the layers of one network have only a few different windows."""
AXIS_NAMES = ("depth", "height", "width")
"""Names of the spatial axes in messages, outermost first; a tensor with fewer axes uses the last names."""


class Window(NamedTuple):
    """A sliding window along one axis: its size, stride and dilation, and the zeros added before and after the axis."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """Number of positions from the first to the last one in the window, both included: the dilated kernel size."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def is_symmetric(self) -> bool:
        """True if there are as many zeros before the axis as after it."""
        return self.before == self.after

    def output_size(self, size: int, axis_name: str) -> int:
        """Return the number of windows along an axis of `size` positions. `axis_name` is the axis's name in errors.

        Raises RuleError if no window fits, or if kernel, stride or dilation is below 1.
        """
        smallest = min(self.kernel, self.stride, self.dilation)
        require(smallest >= 1, "kernel, stride and dilation must be at least 1")
        result = (size + self.before + self.after - self.span) // self.stride + 1
        require(result >= 1, f"a window of {self.kernel} does not fit into a {axis_name} of {size}")
        return result


Windows = tuple[Window, ...]
"""The sliding windows of an operation, one per spatial axis, outermost axis first."""


@lru_cache(MAX_CACHED_WINDOWS)
def windows(axes: int, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes = 1) -> Windows:
    """Return the sliding window of each of `axes` axes.

    "same" padding gives ceil(size / stride) outputs; if the window's span is even, the extra zero goes after the axis.
    Raises RuleError if a setting has the wrong number of values, or if padding is negative.
    """
    settings = {"kernel": kernel, "stride": stride, "dilation": dilation}
    kernels, axis_strides, dilations = (per_axis(value, axes, name) for name, value in settings.items())
    if padding == "same":
        extents = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
        zeros = [(extent // 2, extent - extent // 2) for extent in extents]
    else:
        zeros = list(_explicit_zeros(padding, axes))
    parts = zip(kernels, axis_strides, dilations, zeros, strict=True)
    return tuple(Window(k, s, d, before, after) for k, s, d, (before, after) in parts)


def per_axis(value: Sizes, axes: int, name: str) -> tuple[int, ...]:
    """Return `value` expanded to one number per axis.

    Raises RuleError, which names the setting `name`, on a wrong length.
    """
    if isinstance(value, int):
        return (value,) * axes
    require(len(value) == axes, f"`{name}` is one number, or one for each of {axes} axes: {list(value)}")
    return value


def _explicit_zeros(padding: Padding, axes: int) -> Iterator[tuple[int, int]]:
    """Yield the number of zeros before and after each axis, for any padding except "same"."""
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


def pads_of(windows_: Windows) -> tuple[int, ...]:
    """Return the zeros before and after each axis, last axis first: left, right, top and bottom for a map."""
    return tuple(zeros for window in reversed(windows_) for zeros in (window.before, window.after))


def output_sizes(windows_: Windows, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the size of each spatial axis of the result, for operand axes of these sizes.

    Raises RuleError if a window does not fit.
    """
    names = ("sequence",) if len(sizes) == 1 else AXIS_NAMES[-len(sizes) :]
    return tuple(window.output_size(size, name) for window, size, name in zip(windows_, sizes, names, strict=True))


def collapse_sizes(value: Sizes) -> Sizes:
    """Return a single number if the sizes of all axes are equal, else the tuple unchanged."""
    return value[0] if isinstance(value, tuple) and len({*value}) == 1 else value
