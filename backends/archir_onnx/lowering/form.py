"""What a model is like, beside what it computes: opset, precision, what its shapes leave open, what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import Diagnostic, fail, listed

OPSETS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13}
"""Opsets and the IR versions they come with; onnxruntime 1.31 refuses newer ones."""

Precision = Literal["float32", "float16", "bfloat16"]
Attention = Literal["auto", "decomposed", "standard", "fused"]
ATTENTIONS: tuple[Attention, ...] = get_args(Attention)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AXES = ("batch", "height", "width", "tokens")

_DTYPES: dict[Precision, type[Any]] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each channel of an input that the model normalises itself, numbers float32 as they come."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def whole(self) -> bool:
        """Whether there are finite numbers for as many channels, and none is divided by 0."""
        finite = bool(np.isfinite((*self.mean, *self.std)).all())
        return finite and len(self.mean) == len(self.std) and 0 not in self.std


class Pixels(Scale):
    """Those of images, whose pixels go from 0 to 1; as they come, they are uint8 [batch, H, W, C]."""


@dataclass(frozen=True)
class Form:
    """The form of a model.

    `precision` is that of weights and of what is computed; inputs and outputs stay float32. `dynamic` names the axes
    whose sizes are open, of `batch`, `height`, `width` and `tokens`; a batch that is not has `batch` samples. Inputs in
    `scales` are taken as they come, and normalised by the model itself.

    `attention` of all positions to all is `decomposed` (matrix products and a softmax), the `standard` operator, which
    opsets have from 23 on, or onnxruntime's own `fused` one, which runs nowhere else; `auto` takes whichever of the
    first two is faster on CPUs.
    """

    opset: int = 23
    precision: Precision = "float32"
    dynamic: tuple[str, ...] = ("batch",)
    batch: int = 1
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """By the names of inputs; that of "" is the only one's."""
    attention: Attention = "auto"

    @property
    def dtype(self) -> type[Any]:
        """The numpy type of weights."""
        return _DTYPES[self.precision]

    @property
    def resizable(self) -> bool:
        """Whether images, or texts, may have other sizes than the net says."""
        return not {*self.dynamic} <= {"batch"}

    def problems(self) -> list[Diagnostic]:
        """What of a form cannot be."""
        found = []
        if self.opset not in OPSETS:
            found.append(
                Diagnostic("A0911", f"opset {self.opset} is not supported; {min(OPSETS)} to {max(OPSETS)} are")
            )
        if self.precision not in PRECISIONS:
            found.append(Diagnostic("A0911", f"there is no precision `{self.precision}`: it is {listed(PRECISIONS)}"))
        if self.attention not in ATTENTIONS:
            found.append(Diagnostic("A0911", f"attention is {listed(ATTENTIONS)}, not `{self.attention}`"))
        elif self.attention == "standard" and self.opset < 23:
            found.append(Diagnostic("A0911", f"opset {self.opset} has no attention; opsets have from 23 on"))
        if unknown := [axis for axis in self.dynamic if axis not in AXES]:
            found.append(Diagnostic("A0911", f"there is no axis `{unknown[0]}`; {', '.join(AXES)} may be dynamic"))
        if self.batch < 1:
            found.append(Diagnostic("A0911", f"a batch has 1 sample at least, not {self.batch}"))
        if not all(scale.whole for scale in self.scales.values()):
            found.append(Diagnostic("A0911", "to normalise takes a mean and a deviation, not 0, for each channel"))
        return found

    def scale(self, name: str) -> Scale | None:
        """What the model normalises an input by, if it does."""
        return self.scales.get(name, self.scales.get(""))

    def cast(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A weight in the model's precision. Raises ArchError (A0931) if float16 does not reach so far."""
        if array.dtype.kind != "f" or array.dtype == self.dtype:
            return array
        with np.errstate(over="ignore"):
            made = array.astype(self.dtype)
        if not np.isfinite(made).all() and np.isfinite(array).all():
            text = f"`{name}` has numbers up to {np.abs(array).max():.3g}, more than float16 has"
            raise fail("A0931", text, None, "take bfloat16, or stay with float32")
        return made


PLAIN = Form()
"""Float32, for batches of any size."""


Means = tuple[Sequence[float], Sequence[float]]


def form_of(
    *, pixels: Means | Scale | None = None, scales: Mapping[str, Mapping[str, Any]] | None = None, **options: Any
) -> Form:  # fmt: skip
    """The form that options say; `pixels` are mean and deviation of the one image, `scales` those of inputs by name:
    what each is `of`, "pixels" or "numbers", with its `mean` and `std`."""
    kinds = {"pixels": Pixels, "numbers": Scale}
    given = {name: kinds[one["of"]](tuple(one["mean"]), tuple(one["std"])) for name, one in (scales or {}).items()}
    if pixels is not None:
        mean, std = (pixels.mean, pixels.std) if isinstance(pixels, Scale) else pixels
        given[""] = Pixels(tuple(mean), tuple(std))
    return Form(scales=given, **options)
