"""Verification of a model by the ONNX checker, and by comparing onnxruntime with a reference on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import defs

from archir.backends.comparison import Difference, random_input
from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.escaping import escape_to_line
from archir.ir.types import TensorType
from archir_onnx.lowering.export_options import (
    DEFAULT_OPTIONS,
    OPSETS,
    RUNTIMES,
    ExportOptions,
    PixelNormalization,
)
from archir_onnx.lowering.interface import denormalize_inputs, normalize_inputs
from archir_onnx.running.sessions import CPU, NO_KERNEL, available_providers, run, session


def required_opset(model: onnx.ModelProto, kind: str = "tensor(bfloat16)") -> tuple[int, list[str]]:
    """Return the lowest opset at which all of a model's operators support `kind`.

    Also returns the operators that need a newer opset than the model's own. Operators that never support `kind` are
    ignored. Returns 0 and no operators if the model's own opset suffices.
    """
    own_opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    first_opset = {
        name: next((opset for opset in OPSETS if opset >= own_opset and _accepts(name, opset, kind)), own_opset)
        for name in sorted({node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")})
    }
    unsupported = [name for name, opset in first_opset.items() if opset > own_opset]
    return max((first_opset[name] for name in unsupported), default=0), unsupported


def _accepts(operator: str, opset: int, kind: str) -> bool:
    """Return True if an operator accepts a type everywhere it accepts float32."""
    try:
        constraints = defs.get_schema(operator, opset, "").type_constraints
    except defs.SchemaError:
        return False
    return all(
        kind in constraint.allowed_type_strs
        for constraint in constraints
        if "tensor(float)" in constraint.allowed_type_strs
    )


Arrays = Mapping[str, NDArray[Any]]
Reference = Callable[[Arrays], Arrays]

TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Maximum difference from the reference, relative to the largest magnitude of an output, by precision."""
TOLERANCE = TOLERANCES["float32"]
_BATCHES = (1, 3)
"""Batch sizes that are tested if the batch axis is dynamic."""


@dataclass(frozen=True)
class Report:
    """Result of a verification: the largest differences over all outputs and inputs, and what was compared."""

    absolute: float
    relative: float
    batches: tuple[int, ...]
    providers: tuple[str, ...]
    nodes: int
    files: tuple[Path, ...] = ()
    tolerance: float = TOLERANCE
    real: int = 0
    """Number of real samples that were compared, in addition to random ones."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """Sizes that were compared in addition to the net's own: (height, width), or (number of tokens,)."""
    note: str = ""

    def __repr__(self) -> str:
        return escape_to_line(f"<Report: {self}>")

    def __str__(self) -> str:
        if not self.batches:
            return f"{self.nodes} nodes, checked, not compared{self.note and ': '}{self.note}"
        devices = " and ".join(provider.removesuffix("ExecutionProvider") for provider in self.providers)
        batches = ", ".join(map(str, self.batches))
        extra = f", on {self.real} samples of the data" if self.real else ""
        note = f"; {self.note}" if self.note else ""
        if self.sizes:
            *other_sizes, last_size = (" x ".join(map(str, size)) for size in self.sizes)
            extra += f", at {', '.join(other_sizes)} and {last_size}" if other_sizes else f", at {last_size}"
            extra += " tokens" * (len(self.sizes[0]) == 1)
        return (
            f"{self.nodes} nodes, checked; largest difference to torch {self.absolute:.1e} "
            f"({self.relative:.1e} relative) at batches of {batches}{extra} on onnxruntime {devices}{note}"
        )


def check(model: onnx.ModelProto | Path, runtime: str | None = None) -> None:
    """Run the ONNX checker with full shape inference.

    Raises ArchError: A0911 (a model in bfloat16 needs a newer opset, which `runtime` may lack), A0915 (any other
    problem).
    """
    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else str(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, UnicodeDecodeError) as error:
        proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model, load_external_data=False)
        opset, operators = required_opset(proto) if _in_bfloat16(proto) else (0, [])
        if operators:
            text = f"models in bfloat16 with {join_names(operators, 4)} need opset {opset}"
            if runtime is not None and RUNTIMES[runtime] < opset:
                text = f"{text}; the latest of {runtime} is {RUNTIMES[runtime]}"
                raise fail("A0911", text, None, "use --fp16") from None
            raise fail("A0911", text, None, f"--opset {opset}") from None
        raise fail("A0915", f"the ONNX checker rejects the model: {error}") from None


def _in_bfloat16(model: onnx.ModelProto) -> bool:
    return any(tensor.data_type == onnx.TensorProto.BFLOAT16 for tensor in model.graph.initializer)


def verify(
    path: Path,
    reference: Reference,
    inputs: Mapping[str, TensorType],
    options: ExportOptions = DEFAULT_OPTIONS,
    *,
    sizes: Mapping[tuple[int, ...], Mapping[str, TensorType]] = MappingProxyType({}),
    real: Arrays | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    providers: Sequence[str] | None = None,
) -> Report:
    """Check a model file and compare it with a reference, on random inputs and on those in `real`, if given.

    The model runs on `providers`, by default on all available ones that support it; float32 models must run on the
    CPU. `sizes` maps additional sizes to the input types at these sizes. Raises ArchError (A0913 to A0915).
    """
    check(path, options.runtime)
    tolerance = TOLERANCES[options.precision] if tolerance is None else tolerance
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    sessions, refusal = _sessions(path, options, providers)
    batches = _BATCHES if "batch" in options.dynamic else (options.batch,)
    input_types = [inputs, *sizes.values()]
    worst = Difference()
    for batch_inputs in _test_inputs(input_types, batches, options, real, seed) if sessions else ():
        expected = reference(normalize_inputs(batch_inputs, options))
        for runtime in sessions:
            for actual, value in zip(run(runtime, batch_inputs).values(), expected.values(), strict=True):
                worst |= Difference.of(actual, value)
    if not worst.relative <= tolerance:
        infinite = options.precision == "float16" and not np.isfinite(worst.relative)
        hint = "float16 overflows at 65504: use bfloat16 or float32" if infinite else None
        text = f"the model {path.name} differs from the network by {worst}, more than {tolerance:.0e}"
        raise fail("A0913", text, None, hint)
    if not sessions:
        return Report(float("nan"), float("nan"), (), (), nodes, tolerance=tolerance, note=refusal)
    used_providers = tuple(runtime.get_providers()[0] for runtime in sessions)
    return Report(
        worst.absolute,
        worst.relative,
        batches,
        used_providers,
        nodes,
        (),
        tolerance,
        _real_count(real, options),
        tuple(sizes),
        refusal,
    )


def _sessions(path: Path, options: ExportOptions, providers: Sequence[str] | None) -> tuple[list[Any], str]:
    """Return one session per provider, and a text that says why the remaining providers could not be used.

    If `providers` is None, all available ones that support the model are used.
    """
    if providers is not None:
        return [session(path, (name,)) for name in providers], ""
    sessions: list[Any] = []
    refusals: list[str] = []
    for name in available_providers():
        try:
            sessions.append(session(path, (name,)))
        except ArchError as error:
            if name == CPU and options.precision == "float32":
                raise
            device, message = name.removesuffix("ExecutionProvider"), error.diagnostics[0].message
            lacks_kernels = NO_KERNEL in message and options.precision != "float32"
            refusals.append(
                f"{device} has no kernels for {options.precision} models"
                if lacks_kernels
                else f"not on {device}: {message}"
            )
    return sessions, "; ".join(refusals)


def _test_inputs(
    kinds: Sequence[Mapping[str, TensorType]],
    batches: Sequence[int],
    options: ExportOptions,
    real: Arrays | None,
    seed: int,
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the inputs for the comparison: random ones at all batch sizes, then at additional sizes, then real ones."""
    rng = np.random.default_rng(seed)
    for position, inputs in enumerate(kinds):
        for batch in batches if position == 0 else batches[:1]:
            yield {name: _random_input(rng, batch, name, kind, options) for name, kind in inputs.items()}
    if real is not None:
        count = _real_count(real, options)
        step = max(count, 1) if "batch" in options.dynamic else options.batch
        for start in range(0, count, step):
            chunk = {name: array[start : start + step] for name, array in real.items()}
            yield denormalize_inputs(chunk, options)


def _real_count(real: Arrays | None, options: ExportOptions) -> int:
    """Return the number of real samples to compare; if the batch size is fixed, only whole batches are used."""
    count = 0 if real is None else len(next(iter(real.values())))
    return count if "batch" in options.dynamic else count - count % options.batch


def _random_input(
    rng: np.random.Generator, batch: int, name: str, kind: TensorType, options: ExportOptions
) -> NDArray[Any]:
    """Return a random input for the model: random pixels for raw images, otherwise normally distributed numbers.

    If the model normalises the input itself, the numbers are denormalised.
    """
    if not isinstance(options.normalization_of(name), PixelNormalization):
        return denormalize_inputs({name: random_input(rng, batch, kind)}, options)[name]
    channels, height, width = kind.shape
    return rng.integers(0, 256, (batch, height, width, channels), dtype=np.uint8)
