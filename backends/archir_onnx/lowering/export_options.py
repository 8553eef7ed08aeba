"""Export options of ONNX models: opset, precision, dynamic axes, and normalisation inside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import Diagnostic, fail, join_names

OPSETS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13}
"""IR version by supported opset; onnxruntime 1.31 rejects newer opsets."""

ATTENTION_OPSET = 23
"""First opset with an operator for attention."""
RUNTIMES: Mapping[str, int] = {"cpu": 23, "cuda": 21, "openvino": 21, "tensorrt": 21, "web": 21, "ncnn": 17}
"""Latest opset for which a runtime has kernels for all operators in exported models, by the name of the runtime.

`cpu` and `cuda` are providers of onnxruntime 1.31, `web` is onnxruntime-web. On CUDA, `MaxPool` has no kernel from
opset 22 on. tests/onnx_backend/lowering/test_runtimes.py loads models in the runtimes that are installed.
"""
PORTABLE_OPSET = min(limit for name, limit in RUNTIMES.items() if name != "ncnn")
"""Latest opset that a model gets if neither an opset nor a runtime is given."""

Precision = Literal["float32", "float16", "bfloat16"]
"""Data type of weights and of computations."""
Attention = Literal["auto", "decomposed", "standard", "fused"]
"""Form in which attention over all positions is exported; the values are explained in `ExportOptions`."""
ATTENTIONS: tuple[Attention, ...] = get_args(Attention)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AXES = ("batch", "height", "width", "tokens")
"""Names of the axes that can be exported with dynamic size."""

_DTYPES: dict[Precision, type[Any]] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class Normalization:
    """Normalisation of a raw float32 input inside the model, by a mean and a standard deviation per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_valid(self) -> bool:
        """True if mean and standard deviation have equal lengths and finite values, and no standard deviation is 0."""
        finite = bool(np.isfinite((*self.mean, *self.std)).all())
        return finite and len(self.mean) == len(self.std) and 0 not in self.std


class PixelNormalization(Normalization):
    """Normalisation of raw images, uint8 [batch, H, W, C].

    Mean and deviation refer to pixels rescaled from 0-255 to 0-1.
    """

    def divided(self) -> str:
        """Return mean and deviation of pixels from 0 to 255 as `MEAN/STD` of pixels scaled to 0..1."""
        return "/".join(",".join(f"{number / 255:.3g}" for number in part) for part in (self.mean, self.std))


@dataclass(frozen=True)
class ExportOptions:
    """Export options, which are independent of the network.

    `precision` is the data type of weights and computations; inputs and outputs stay float32. `dynamic` names the
    axes that are exported with dynamic size, out of `batch`, `height`, `width` and `tokens`; if `dynamic` does not
    contain `batch`, the batch size is fixed to the field `batch`. Inputs in `scales` are passed to the model raw, and
    the model normalises them.

    `attention` selects the form of attention over all positions: matrix products and a softmax (`decomposed`), the
    `standard` operator of opset 23 and later, or onnxruntime's own `fused` operator, which no other runtime has.
    `auto` selects `decomposed` or `standard`, whichever is faster on CPUs.
    """

    opset: int | None = None
    """Version of the operators; None: the lowest that suits the network and the runtime (see `with_opset`)."""
    runtime: str | None = None
    """Runtime for which the opset is chosen, a key of RUNTIMES; None: all but ncnn."""
    precision: Precision = "float32"
    dynamic: tuple[str, ...] = ("batch",)
    batch: int = 1
    scales: Mapping[str, Normalization] = field(default_factory=dict)
    """Normalisation by input name; the key "" stands for a model's only input."""
    attention: Attention = "auto"

    @property
    def dtype(self) -> type[Any]:
        """Numpy data type of the weights."""
        return _DTYPES[self.precision]

    @property
    def has_open_sizes(self) -> bool:
        """True if height, width or the number of tokens is dynamic, so that actual sizes may differ from the net's."""
        return not {*self.dynamic} <= {"batch"}

    def problems(self) -> list[Diagnostic]:
        """Return a diagnostic (A0911) for each invalid option."""
        diagnostics = []
        if self.opset is not None and self.opset not in OPSETS:
            diagnostics.append(
                Diagnostic("A0911", f"opset {self.opset} is not supported; {min(OPSETS)} to {max(OPSETS)} are")
            )
        if self.precision not in PRECISIONS:
            diagnostics.append(
                Diagnostic("A0911", f"there is no precision `{self.precision}`: use {join_names(PRECISIONS)}")
            )
        if self.attention not in ATTENTIONS:
            diagnostics.append(
                Diagnostic("A0911", f"attention must be {join_names(ATTENTIONS)}, not `{self.attention}`")
            )
        elif self.attention == "standard" and self.opset is not None and self.opset < ATTENTION_OPSET:
            diagnostics.append(
                Diagnostic(
                    "A0911", f"opset {self.opset} has no attention operator; use opset {ATTENTION_OPSET} or later"
                )
            )
        if self.runtime is not None:
            diagnostics += self._problems_of_runtime(self.runtime)
        if unknown := [axis for axis in self.dynamic if axis not in AXES]:
            diagnostics.append(
                Diagnostic("A0911", f"there is no axis `{unknown[0]}`; {', '.join(AXES)} may be dynamic")
            )
        if self.batch < 1:
            diagnostics.append(Diagnostic("A0911", f"the batch size must be at least 1, not {self.batch}"))
        if not all(scale.is_valid for scale in self.scales.values()):
            diagnostics.append(
                Diagnostic("A0911", "normalisation needs a mean and a nonzero deviation for each channel")
            )
        for scale in self.scales.values():
            if isinstance(scale, PixelNormalization) and scale.is_valid and max(*scale.mean, *scale.std) > 1:
                text = "means and deviations are those of pixels scaled to 0..1"
                hint = f"numbers of pixels from 0 to 255 are divided by 255: {scale.divided()}"
                diagnostics.append(
                    Diagnostic("A0911", f"{text}: {max(*scale.mean, *scale.std):g} is above 1", hint=hint)
                )
        return diagnostics

    def _problems_of_runtime(self, runtime: str) -> list[Diagnostic]:
        """Return a diagnostic (A0911) for each option that excludes the runtime."""
        if runtime not in RUNTIMES:
            return [Diagnostic("A0911", f"there is no runtime `{runtime}`: use {join_names([*RUNTIMES])}")]
        limit, diagnostics = RUNTIMES[runtime], []
        if self.opset is not None and self.opset > limit:
            text = f"{runtime} lacks kernels of opset {self.opset}; its latest is {limit}"
            diagnostics.append(Diagnostic("A0911", text))
        if self.attention == "standard" and limit < ATTENTION_OPSET:
            text = f"the standard attention operator needs opset {ATTENTION_OPSET}; the latest of {runtime} is {limit}"
            diagnostics.append(Diagnostic("A0911", text, hint="--attention decomposed runs everywhere"))
        if self.attention == "fused" and runtime not in ("cpu", "cuda", "web"):
            text = f"the fused attention operator is one of onnxruntime, which {runtime} does not have"
            diagnostics.append(Diagnostic("A0911", text, hint="--attention decomposed runs everywhere"))
        return diagnostics

    def normalization_of(self, name: str) -> Normalization | None:
        """Return the normalisation that the model applies to an input, or None if the input is already normalised."""
        return self.scales.get(name, self.scales.get(""))

    def cast(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Convert a weight to the model's precision. Raises ArchError (A0931) if the weight overflows float16."""
        if array.dtype.kind != "f" or array.dtype == self.dtype:
            return array
        with np.errstate(over="ignore"):
            converted = array.astype(self.dtype)
        if not np.isfinite(converted).all() and np.isfinite(array).all():
            text = f"`{name}` has values up to {np.abs(array).max():.3g}, which overflow float16"
            raise fail("A0931", text, None, "use bfloat16 or float32")
        return converted


DEFAULT_OPTIONS = ExportOptions()
"""Default export options: float32, with a dynamic batch size."""


MeanAndStd = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation per channel."""


def make_options(
    *, pixels: MeanAndStd | Normalization | None = None, scales: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any
) -> ExportOptions:  # fmt: skip
    """Create export options.

    `pixels` is the mean and standard deviation of the only input, an image. `scales` maps input names to
    descriptions: `of` is "pixels" or "numbers", and `mean` and `std` are lists of numbers.
    """
    classes = {"pixels": PixelNormalization, "numbers": Normalization}
    normalizations = {
        name: classes[description["of"]](tuple(description["mean"]), tuple(description["std"]))
        for name, description in (scales or {}).items()
    }
    if pixels is not None:
        mean, std = (pixels.mean, pixels.std) if isinstance(pixels, Normalization) else pixels
        normalizations[""] = PixelNormalization(tuple(mean), tuple(std))
    return ExportOptions(scales=normalizations, **options)
